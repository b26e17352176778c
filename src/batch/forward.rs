//! Forwarding: a batch goes to the target with a new header and its payload untouched.

use std::fmt;

use bytes::Bytes;

use super::header::{self, Header};
use super::records::Records;
use super::{Codec, OffsetRange, Placement, Recipe, RecordBatch, TimestampType};

/// Why a batch cannot be forwarded as it is and has to be carved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Some of its offsets are not acquired.
    PartlyAcquired,
    /// It is a transaction marker of the source, not data.
    Control,
    /// Compaction removed all of its records.
    NoRecords,
    /// Compaction removed some of its records; a broker takes no batch with holes.
    Holes,
    /// Its times stand only in the header, where the target's broker would overlook them.
    LogAppendTime,
    /// Its codec is not one that Kafka defines.
    UnknownCodec,
    /// It is larger than the target allows.
    TooLarge,
    /// Its records are not numbered 0, 1, 2...; a broker would store them at wrong offsets.
    Deltas,
    /// The flow wants another codec: `compression.type`.
    CompressionType,
    /// The flow spreads records by their keys: `sink.partition.mapping`.
    ByKey,
    /// Records get a header: `sink.hop.header.enable`.
    HopHeader,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::PartlyAcquired => "partly acquired",
            Reason::Control => "control batch",
            Reason::NoRecords => "no records",
            Reason::Holes => "holes",
            Reason::LogAppendTime => "log append time",
            Reason::UnknownCodec => "unknown codec",
            Reason::TooLarge => "too large",
            Reason::Deltas => "offset deltas",
            Reason::CompressionType => "compression type",
            Reason::ByKey => "by key",
            Reason::HopHeader => "hop header",
        })
    }
}

/// The partition to which `batch` can be forwarded as it is, or why it cannot.
///
/// `acquired`: ascending and disjoint. The batch's checksum is taken as verified. Records are looked at only if uncompressed: there a
/// broker trusts their offset deltas, while it numbers compressed ones anew.
pub fn forwardable_to(batch: &RecordBatch, acquired: &[OffsetRange], recipe: &Recipe) -> Result<i32, Reason> {
    let count = batch.record_count();
    if batch.is_control() {
        return Err(Reason::Control);
    }
    if count == 0 {
        return Err(Reason::NoRecords);
    }
    if recipe.hop.is_some() {
        return Err(Reason::HopHeader);
    }
    let Placement::Whole(partition) = recipe.placement else {
        return Err(Reason::ByKey);
    };
    if !batch.offsets().is_covered_by(acquired) {
        return Err(Reason::PartlyAcquired);
    }
    if i64::from(count) <= batch.last_offset_delta().into() {
        return Err(Reason::Holes);
    }
    if batch.timestamp_type() == TimestampType::LogAppendTime {
        return Err(Reason::LogAppendTime);
    }
    if batch.size_bytes() > recipe.size_max {
        return Err(Reason::TooLarge);
    }
    match batch.codec() {
        Err(_) => Err(Reason::UnknownCodec),
        Ok(codec) if recipe.codec.is_some_and(|wanted| wanted != codec) => Err(Reason::CompressionType),
        Ok(Codec::Uncompressed) if !is_numbered_from_zero(batch) => Err(Reason::Deltas),
        Ok(_) => Ok(partition),
    }
}

fn is_numbered_from_zero(batch: &RecordBatch) -> bool {
    let records = Records::new(batch.at(header::SIZE), batch.record_count());
    (0..).zip(records).all(|(delta, record)| record.is_ok_and(|record| record.offset_delta == delta))
}

/// What the target's producer, which is a transactional one, writes over the source's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Id of the producer on the target.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence number of the batch's first record in the target partition.
    pub base_sequence: i32,
}

/// A batch for a Produce request, in two parts to be written in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The 61-byte header, with a fresh checksum.
    pub header: Bytes,
    /// The records, sharing the source batch's bytes.
    pub payload: Bytes,
}

/// Puts the target's stamp on a batch that [`forwardable_to`] has nothing against and whose checksum
/// is verified. Record times, counts and deltas stay; the source's producer, epochs and the delete horizon go.
pub fn forward(batch: &RecordBatch, stamp: Stamp) -> Forwarded {
    let payload = batch.payload();
    let attributes = batch.attributes() & header::CODEC_MASK | header::TRANSACTIONAL;
    let mut header = Header::of(&batch.bytes);
    header
        .set(header::BASE_OFFSET, 0i64.to_be_bytes())
        .set(header::LEADER_EPOCH, header::NO_LEADER_EPOCH.to_be_bytes())
        .set(header::ATTRIBUTES, attributes.to_be_bytes())
        .set(header::PRODUCER_ID, stamp.producer_id.to_be_bytes())
        .set(header::PRODUCER_EPOCH, stamp.producer_epoch.to_be_bytes())
        .set(header::BASE_SEQUENCE, stamp.base_sequence.to_be_bytes());
    Forwarded { header: Bytes::copy_from_slice(header.seal(&payload)), payload }
}

#[cfg(test)]
mod tests;
