//! Writing record batches: records go in one after another, an uncompressed block or a compressed one comes out under a fresh header.

use super::header::{self, Header};
use super::records::{self, put_varint};
use super::{BatchError, Codec, RecordBatch};

/// A batch under construction: CreateTime, no producer, no leader epoch.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    /// Offset and timestamp of the first record, from which the others are counted.
    base: (i64, i64),
    last_offset: i64,
    max_timestamp: i64,
    count: u32,
    /// The records so far, uncompressed.
    block: Vec<u8>,
    /// Room for the numbers of one record, and for the rest of it.
    fields: Vec<u8>,
    body: Vec<u8>,
}

impl BatchBuilder {
    /// Records so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of the records so far, uncompressed.
    pub fn size_bytes(&self) -> usize {
        self.block.len()
    }

    /// Whether a record of this offset may be the next one of the batch: it comes behind the others, and not too far.
    pub fn takes(&self, offset: i64) -> bool {
        let delta = offset.checked_sub(self.base.0);
        self.count == 0 || (offset > self.last_offset && delta.is_some_and(|delta| i32::try_from(delta).is_ok()))
    }

    /// Appends a record with its key, its value and its headers in their order.
    ///
    /// `offset`: one that the batch [`takes`](Self::takes). `timestamp`: milliseconds since 1970, -1 for none.
    pub fn push<'a>(
        &mut self,
        (offset, timestamp): (i64, i64),
        (key, value): (Option<&[u8]>, Option<&[u8]>),
        headers: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        records::put_body(&mut body, (key, value), headers);
        self.push_body((offset, timestamp), &body);
        self.body = body;
    }

    /// The same with key, value and headers as they stand in a batch.
    pub(super) fn push_body(&mut self, (offset, timestamp): (i64, i64), body: &[u8]) {
        debug_assert!(self.takes(offset), "{offset} does not follow {}", self.last_offset);
        if self.count == 0 {
            (self.base, self.max_timestamp) = ((offset, timestamp), timestamp);
        }
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        self.fields.clear();
        self.fields.push(0);
        // Wraps as in Java, where readers add and writers subtract in 64 bits.
        put_varint(&mut self.fields, timestamp.wrapping_sub(self.base.1));
        put_varint(&mut self.fields, offset - self.base.0);
        let length = self.fields.len() + body.len();
        put_varint(&mut self.block, i64::try_from(length).expect("a length fits 63 bits"));
        self.block.extend_from_slice(&self.fields);
        self.block.extend_from_slice(body);
    }

    /// The batch of what was pushed, at least one record.
    ///
    /// Errors: the codec's, or more bytes than a batch can have.
    pub fn finish(self, codec: Codec) -> Result<RecordBatch, BatchError> {
        let (base_offset, base_timestamp) = self.base;
        let count = i32::try_from(self.count).expect("every record has an offset delta of 31 bits");
        let last_delta =
            i32::try_from(self.last_offset - base_offset).expect("no record came too far behind the first");
        let payload =
            codec.compress(self.block).map_err(|source| BatchError::Compression { base_offset, codec, source })?;
        let length = i32::try_from(header::SIZE - header::LENGTH_END + payload.len())
            .expect("the bounds on bytes and records keep a batch below 2 GiB");
        let mut header = Header::of(&[0; header::SIZE]);
        header
            .set(header::BASE_OFFSET, base_offset.to_be_bytes())
            .set(header::LENGTH, length.to_be_bytes())
            .set(header::LEADER_EPOCH, header::NO_LEADER_EPOCH.to_be_bytes())
            .set(header::MAGIC, header::MAGIC_V2.to_be_bytes())
            .set(header::ATTRIBUTES, codec.number().to_be_bytes())
            .set(header::LAST_OFFSET_DELTA, last_delta.to_be_bytes())
            .set(header::BASE_TIMESTAMP, base_timestamp.to_be_bytes())
            .set(header::MAX_TIMESTAMP, self.max_timestamp.to_be_bytes())
            .set(header::PRODUCER_ID, (-1i64).to_be_bytes())
            .set(header::PRODUCER_EPOCH, (-1i16).to_be_bytes())
            .set(header::BASE_SEQUENCE, (-1i32).to_be_bytes())
            .set(header::RECORD_COUNT, count.to_be_bytes());
        RecordBatch::parse([&header.seal(&payload)[..], &payload].concat().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::records::{Body, Records};
    use crate::batch::{OffsetRange, TimestampType};
    use proptest::prelude::*;

    type Parts = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

    fn parts() -> impl Strategy<Value = Parts> {
        let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
        (bytes(), bytes(), prop::collection::vec((".{0,5}", bytes()), 0..4))
    }

    /// Reads a batch back: offset, timestamp and parts of each record.
    fn read(batch: &RecordBatch) -> Vec<(i64, i64, Parts)> {
        batch.check().unwrap();
        let block = batch.payload();
        let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
        let read = |record: Result<crate::batch::records::Record<'_>, &str>| {
            let record = record.unwrap();
            let body = Body::read(record.body).unwrap();
            let headers = body.headers().map(|header| header.unwrap());
            let headers = headers.map(|(name, value)| (String::from_utf8(name.to_vec()).unwrap(), owned(value)));
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            let timestamp = batch.base_timestamp().wrapping_add(record.timestamp_delta);
            (offset, timestamp, (owned(body.key), owned(body.value()), headers.collect()))
        };
        Records::new(&block, batch.record_count()).map(read).collect()
    }

    proptest! {
        /// Whatever records there are, gaps between their offsets and times out of order included, they are read back as they were.
        #[test]
        fn what_was_pushed_is_read_back(
            first in 0i64..1 << 40,
            records in prop::collection::vec((1i64..1_000, any::<i64>(), parts()), 1..20),
        ) {
            let mut builder = BatchBuilder::default();
            let (mut offset, mut pushed) = (first, vec![]);
            for (step, timestamp, parts) in records {
                offset += step;
                let headers = parts.2.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
                builder.push((offset, timestamp), (parts.0.as_deref(), parts.1.as_deref()), headers);
                pushed.push((offset, timestamp, parts));
            }
            let batch = builder.finish(Codec::Uncompressed).unwrap();
            prop_assert_eq!(batch.offsets(), OffsetRange { first: pushed[0].0, last: offset });
            prop_assert_eq!(batch.timestamp_type(), TimestampType::CreateTime);
            prop_assert_eq!(Some(batch.max_timestamp()), pushed.iter().map(|(_, timestamp, _)| *timestamp).max());
            prop_assert_eq!(read(&batch), pushed);
        }
    }

    #[test]
    fn a_batch_takes_what_its_deltas_reach() {
        let mut builder = BatchBuilder::default();
        assert!(builder.takes(7));
        builder.push((7, -1), (None, None), [].into_iter());
        assert!(builder.takes(8) && builder.takes(7 + i64::from(i32::MAX)));
        assert!(!builder.takes(7) && !builder.takes(6) && !builder.takes(8 + i64::from(i32::MAX)));
    }
}
