//! The records of a batch, for whoever wants to look into it: decompressed once, and read where they lie.

use std::borrow::Cow;

use bytes::Bytes;

use super::records::{Body, Header, Records};
use super::{BatchError, RecordBatch, TimestampType};
use crate::limits::{DECOMPRESSED_BYTES_MAX, RECORDS_PER_BATCH_MAX};

/// A batch with its records decompressed.
#[derive(Debug, Clone)]
pub struct Unpacked<'a> {
    batch: &'a RecordBatch,
    block: Bytes,
}

/// A record as a consumer of the source sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset at the source.
    pub offset: i64,
    /// Milliseconds since 1970; -1 is none.
    pub timestamp: i64,
    /// The key's bytes; `None` is null, which is not empty.
    pub key: Option<&'a [u8]>,
    /// The value's bytes; `None` is null, which a compacted topic takes for a deletion.
    pub value: Option<&'a [u8]>,
    body: Body<'a>,
    /// Base offset of its batch, and its position there, for errors.
    place: (i64, u32),
}

impl<'a> Record<'a> {
    /// Name and value of each header, in their order; names may repeat, values may be null.
    ///
    /// Errors: a header that cannot be read, which ends them.
    pub fn headers(&self) -> impl Iterator<Item = Result<Header<'a>, BatchError>> + use<'a> {
        let (base_offset, index) = self.place;
        self.body.headers().map(move |header| header.map_err(|why| BatchError::Record { base_offset, index, why }))
    }
}

/// A record whose key, value and headers are left as they stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walked<'a> {
    /// Its position in the batch, from 0.
    pub(super) index: u32,
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) body: &'a [u8],
}

impl RecordBatch {
    /// Decompresses the records of a batch whose checksum was [verified](RecordBatch::check), within bounds. A control batch has none.
    ///
    /// Errors: a codec that Kafka does not define, or that fails; more than may be unpacked.
    pub fn unpack(&self) -> Result<Unpacked<'_>, BatchError> {
        let (base_offset, count) = (self.base_offset(), self.record_count());
        if self.is_control() || count == 0 {
            return Ok(Unpacked { batch: self, block: Bytes::new() });
        }
        if count > RECORDS_PER_BATCH_MAX {
            return Err(BatchError::TooManyRecords { base_offset, count, count_max: RECORDS_PER_BATCH_MAX });
        }
        let codec = self.codec()?;
        let payload = self.payload();
        let block = codec.decompress(&payload, DECOMPRESSED_BYTES_MAX).map_err(|source| BatchError::Compression {
            base_offset,
            codec,
            source,
        })?;
        let block = match block {
            Cow::Borrowed(block) => payload.slice_ref(block),
            Cow::Owned(block) => block.into(),
        };
        Ok(Unpacked { batch: self, block })
    }
}

impl Unpacked<'_> {
    /// The records, decompressed.
    pub(super) fn block(&self) -> &Bytes {
        &self.block
    }

    /// All records in their order, so that a malformed one is found wherever it is. An error ends them.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>, BatchError>> {
        self.walk().map(|walked| {
            let Walked { index, offset, timestamp, body } = walked?;
            let body = Body::read(body).map_err(|why| self.malformed(index, why))?;
            let place = (self.batch.base_offset(), index);
            Ok(Record { offset, timestamp, key: body.key, value: body.value(), body, place })
        })
    }

    /// The same with their bodies unread. Errors: a record that is malformed, or whose offset is not behind the one before it.
    pub(super) fn walk(&self) -> impl Iterator<Item = Result<Walked<'_>, BatchError>> {
        let count = if self.block.is_empty() { 0 } else { self.batch.record_count() };
        let mut delta_before = -1;
        (0..).zip(Records::new(&self.block, count)).map(move |(index, record)| {
            let record = record.map_err(|why| self.malformed(index, why))?;
            let delta = record.offset_delta;
            if delta <= delta_before || delta > self.batch.last_offset_delta() {
                return Err(self.malformed(index, "its offset is not after the one before it and within the batch"));
            }
            delta_before = delta;
            let timestamp = match self.batch.timestamp_type() {
                TimestampType::LogAppendTime => self.batch.max_timestamp(),
                // Wraps as in Java, where readers add and writers subtract in 64 bits.
                TimestampType::CreateTime => self.batch.base_timestamp().wrapping_add(record.timestamp_delta),
            };
            let offset = self.batch.base_offset() + i64::from(delta);
            Ok(Walked { index, offset, timestamp, body: record.body })
        })
    }

    /// What is wrong with a record.
    pub(super) fn malformed(&self, index: u32, why: &'static str) -> BatchError {
        BatchError::Record { base_offset: self.batch.base_offset(), index, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, Codec};

    #[test]
    fn records_are_read_as_they_were_written_whatever_the_codec() {
        let headers: [Header<'_>; 3] = [(b"a", None), (b"a", Some(b"")), (b"b", Some(b"\xff"))];
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::default();
            builder.push((7, 1_000), (Some(b"k"), None), headers.iter().copied());
            builder.push((9, -1), (None, Some(b"")), [].into_iter());
            let batch = builder.finish(codec).unwrap();
            let unpacked = batch.unpack().unwrap();
            let records: Vec<Record<'_>> = unpacked.records().collect::<Result<_, _>>().unwrap();
            assert_eq!(
                (records[0].offset, records[0].timestamp, records[0].key, records[0].value),
                (7, 1_000, Some(&b"k"[..]), None)
            );
            assert_eq!(records[0].headers().collect::<Result<Vec<_>, _>>().unwrap(), headers);
            assert_eq!(
                (records[1].offset, records[1].timestamp, records[1].key, records[1].value),
                (9, -1, None, Some(&b""[..]))
            );
            assert_eq!(records.len(), 2);
        }
    }
}
