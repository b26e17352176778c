//! Forwarding: a batch goes to the target with a new header and its payload untouched.

use std::fmt;

use bytes::Bytes;

use super::header::{self, Header};
use super::records::Records;
use super::{Codec, OffsetRange, RecordBatch, TimestampType};

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
        })
    }
}

/// Says why `batch` cannot be forwarded; `None` if it can.
///
/// `acquired`: ascending and disjoint. `size_max`: the target's `max.message.bytes`. The batch's checksum
/// is taken as verified. Records are looked at only if uncompressed: there a broker trusts their offset
/// deltas, while it numbers compressed ones anew.
pub fn why_not_forwardable(batch: &RecordBatch, acquired: &[OffsetRange], size_max: usize) -> Option<Reason> {
    let count = batch.record_count();
    if batch.is_control() {
        return Some(Reason::Control);
    }
    if count == 0 {
        return Some(Reason::NoRecords);
    }
    if !batch.offsets().is_covered_by(acquired) {
        return Some(Reason::PartlyAcquired);
    }
    if i64::from(count) <= batch.last_offset_delta().into() {
        return Some(Reason::Holes);
    }
    if batch.timestamp_type() == TimestampType::LogAppendTime {
        return Some(Reason::LogAppendTime);
    }
    if batch.size_bytes() > size_max {
        return Some(Reason::TooLarge);
    }
    match batch.codec() {
        Err(_) => Some(Reason::UnknownCodec),
        Ok(Codec::Uncompressed) if !is_numbered_from_zero(batch) => Some(Reason::Deltas),
        Ok(_) => None,
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

/// Puts the target's stamp on a batch that [`why_not_forwardable`] has nothing against and whose checksum
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
