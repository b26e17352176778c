//! Carving: the acquired records of a batch that cannot be forwarded become new batches that can.
//!
//! Key, value and headers of a record are copied as bytes and never decoded, so nothing in them can change.

use super::header::{self, Header};
use super::records::{Records, put_varint};
use super::{BatchError, Codec, OffsetRange, RecordBatch, TimestampType};
use crate::limits::{DECOMPRESSED_BYTES_MAX, RECORDS_PER_BATCH_MAX};

/// What [`carve`] took out of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carved {
    /// Batches to forward, in the order of the source: base offset 0, no producer, deltas 0, 1, 2...
    pub batches: Vec<RecordBatch>,
    /// The source offsets of their records, ascending, as few ranges as can be. Whatever else was acquired
    /// of the batch's offsets holds no data: gaps of compaction, or markers.
    pub offsets: Vec<OffsetRange>,
}

/// Takes the acquired records out of `batch`, whose checksum must be verified.
///
/// `acquired`: ascending and disjoint. `size_max`: the target's `max.message.bytes`; it decides how many
/// batches come out, all with the codec of the source. Timestamps become CreateTime with the value that a
/// consumer of the source sees. A control batch and one without records give nothing.
/// Errors: records that cannot be read within bounds; [`BatchError::RecordTooLarge`] if one does not fit
/// alone, then carve again without its offset.
pub fn carve(batch: &RecordBatch, acquired: &[OffsetRange], size_max: usize) -> Result<Carved, BatchError> {
    let base_offset = batch.base_offset();
    let count = batch.record_count();
    if batch.is_control() || count == 0 {
        return Ok(Carved::default());
    }
    if count > RECORDS_PER_BATCH_MAX {
        return Err(BatchError::TooManyRecords { base_offset, count, count_max: RECORDS_PER_BATCH_MAX });
    }
    let codec = batch.codec()?;
    let block = codec
        .decompress(batch.at(header::SIZE), DECOMPRESSED_BYTES_MAX)
        .map_err(|source| BatchError::Compression { base_offset, codec, source })?;
    let records = select(batch, &block, acquired)?;
    let mut carver = Carver { source: batch, codec, size_max, batches: Vec::new() };
    carver.pack(&records)?;
    Ok(Carved { batches: carver.batches, offsets: join(records.iter().map(|record| record.offset)) })
}

/// A record with what a consumer of the source sees.
struct Selected<'a> {
    offset: i64,
    timestamp: i64,
    body: &'a [u8],
}

/// Walks all records, so that a malformed one is found wherever it is, and keeps those in `acquired`.
fn select<'a>(batch: &RecordBatch, block: &'a [u8], acquired: &[OffsetRange]) -> Result<Vec<Selected<'a>>, BatchError> {
    let malformed = |(index, why)| BatchError::Record { base_offset: batch.base_offset(), index, why };
    let mut acquired = acquired.iter().peekable();
    let mut selected = Vec::new();
    let mut delta_before = -1;
    for (index, record) in (0..).zip(Records::new(block, batch.record_count())) {
        let record = record.map_err(|why| malformed((index, why)))?;
        let delta = record.offset_delta;
        if delta <= delta_before || delta > batch.last_offset_delta() {
            return Err(malformed((index, "its offset is not after the one before it and within the batch")));
        }
        delta_before = delta;
        let offset = batch.base_offset() + i64::from(delta);
        while acquired.next_if(|range| range.last < offset).is_some() {}
        if acquired.peek().is_some_and(|range| range.first <= offset) {
            let timestamp = match batch.timestamp_type() {
                TimestampType::LogAppendTime => batch.max_timestamp(),
                // Wraps as in Java, where readers add and writers subtract in 64 bits.
                TimestampType::CreateTime => batch.base_timestamp().wrapping_add(record.timestamp_delta),
            };
            selected.push(Selected { offset, timestamp, body: record.body });
        }
    }
    Ok(selected)
}

/// Joins ascending offsets into ranges.
fn join(offsets: impl Iterator<Item = i64>) -> Vec<OffsetRange> {
    let mut ranges: Vec<OffsetRange> = Vec::new();
    for offset in offsets {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == offset => range.last = offset,
            _ => ranges.push(OffsetRange { first: offset, last: offset }),
        }
    }
    ranges
}

struct Carver<'a> {
    source: &'a RecordBatch,
    codec: Codec,
    size_max: usize,
    batches: Vec<RecordBatch>,
}

impl Carver<'_> {
    /// Makes one batch of the records, or halves them until each half fits: how well they compress is only
    /// known afterwards.
    fn pack(&mut self, records: &[Selected<'_>]) -> Result<(), BatchError> {
        let Some((first, others)) = records.split_first() else {
            return Ok(());
        };
        let batch = self.encode(records)?;
        if batch.size_bytes() <= self.size_max {
            self.batches.push(batch);
            return Ok(());
        }
        if others.is_empty() {
            return Err(BatchError::RecordTooLarge {
                offset: first.offset,
                size: batch.size_bytes(),
                size_max: self.size_max,
            });
        }
        let (front, back) = records.split_at(records.len() / 2);
        self.pack(front)?;
        self.pack(back)
    }

    fn encode(&self, records: &[Selected<'_>]) -> Result<RecordBatch, BatchError> {
        let base_timestamp = records.first().map_or(-1, |record| record.timestamp);
        let max_timestamp = records.iter().map(|record| record.timestamp).max();
        let count = i32::try_from(records.len()).expect("RECORDS_PER_BATCH_MAX is below 2^31");
        let block = encode_block(records, base_timestamp);
        let payload = self.codec.compress(block).map_err(|source| BatchError::Compression {
            base_offset: self.source.base_offset(),
            codec: self.codec,
            source,
        })?;
        let length = i32::try_from(header::SIZE - header::LENGTH_END + payload.len())
            .expect("the bounds on bytes and records keep a batch below 2 GiB");
        let codec = self.source.attributes() & header::CODEC_MASK;
        let mut header = Header::of(&self.source.bytes);
        header
            .set(header::BASE_OFFSET, 0i64.to_be_bytes())
            .set(header::LENGTH, length.to_be_bytes())
            .set(header::LEADER_EPOCH, header::NO_LEADER_EPOCH.to_be_bytes())
            .set(header::ATTRIBUTES, codec.to_be_bytes())
            .set(header::LAST_OFFSET_DELTA, (count - 1).to_be_bytes())
            .set(header::BASE_TIMESTAMP, base_timestamp.to_be_bytes())
            .set(header::MAX_TIMESTAMP, max_timestamp.unwrap_or(-1).to_be_bytes())
            .set(header::PRODUCER_ID, (-1i64).to_be_bytes())
            .set(header::PRODUCER_EPOCH, (-1i16).to_be_bytes())
            .set(header::BASE_SEQUENCE, (-1i32).to_be_bytes())
            .set(header::RECORD_COUNT, count.to_be_bytes());
        RecordBatch::parse([&header.seal(&payload)[..], &payload].concat().into())
    }
}

/// Writes the records one after another with fresh deltas.
fn encode_block(records: &[Selected<'_>], base_timestamp: i64) -> Vec<u8> {
    let mut block = Vec::new();
    let mut fields = Vec::new();
    for (delta, record) in (0..).zip(records) {
        fields.clear();
        fields.push(0);
        put_varint(&mut fields, record.timestamp.wrapping_sub(base_timestamp));
        put_varint(&mut fields, delta);
        let length = fields.len() + record.body.len();
        put_varint(&mut block, i64::try_from(length).expect("a length fits 63 bits"));
        block.extend_from_slice(&fields);
        block.extend_from_slice(record.body);
    }
    block
}

#[cfg(test)]
mod tests;
