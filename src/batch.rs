//! Record batches (magic 2) as Kafka stores and sends them.
//!
//! Pure: bytes in, bytes out, no I/O and no clock. A batch is a view of the bytes that arrived; its records
//! stay compressed unless a part of it must be carved out.

mod builder;
mod carve;
mod committed;
mod compress;
mod error;
mod forward;
mod header;
mod offsets;
mod partitioner;
mod recipe;
mod records;
#[cfg(test)]
pub(crate) mod sample;
mod unpack;

use bytes::{Buf, Bytes};

pub use builder::BatchBuilder;
pub use carve::{Carver, Taken};
pub use committed::{Aborted, Transactions, committed};
pub use compress::Codec;
pub use error::BatchError;
pub use forward::{Forwarded, Reason, Stamp, forward, forwardable_to};
pub use offsets::{OffsetRange, append, within, without};
pub use recipe::{HOP_HEADER, Hop, Placement, Recipe};
pub use records::Header;
pub use unpack::{Record, Unpacked};

/// Where the timestamps of a batch come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// Set by the producer: each record carries its own.
    CreateTime,
    /// Set by the broker: the batch's maximum timestamp counts for every record.
    LogAppendTime,
}

/// One whole record batch of magic 2, as it arrived.
///
/// Its header is plausible (see [`RecordBatch::parse`]); its checksum is not verified until
/// [`RecordBatch::check`]. A clone shares the bytes.
/// Source: Kafka's message format, "Record Batch".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordBatch {
    bytes: Bytes,
}

impl RecordBatch {
    /// Splits the `records` field of a fetch reply into its batches, without copying.
    ///
    /// A fetch may end in a cut batch, which is left out: offsets that no yielded batch spans were *not
    /// seen*, so they are no gaps. A batch with a bad header is an error and the next one follows; after an
    /// impossible length nothing follows, as the next batch cannot be found.
    pub fn split(mut records: Bytes) -> impl Iterator<Item = Result<RecordBatch, BatchError>> {
        std::iter::from_fn(move || {
            if records.len() < header::LENGTH_END {
                return None;
            }
            let base_offset = (&records[header::BASE_OFFSET..]).get_i64();
            let length = (&records[header::LENGTH..]).get_i32();
            let Some(size) = batch_size(length) else {
                records.clear();
                return Some(Err(BatchError::Length { base_offset, length }));
            };
            if size > records.len() {
                return None;
            }
            Some(Self::parse(records.split_to(size)))
        })
    }

    /// Reads exactly one batch.
    ///
    /// Errors: another magic than 2, a length that is not that of `bytes`, or offsets and counts that no
    /// batch can have.
    pub fn parse(bytes: Bytes) -> Result<RecordBatch, BatchError> {
        if bytes.len() <= header::MAGIC {
            return Err(BatchError::Cut { size: bytes.len() });
        }
        let batch = RecordBatch { bytes };
        let base_offset = batch.base_offset();
        let magic = batch.at(header::MAGIC).get_i8();
        if magic != header::MAGIC_V2 {
            return Err(BatchError::Magic { base_offset, magic });
        }
        let length = batch.at(header::LENGTH).get_i32();
        let size = batch.bytes.len();
        if size < header::SIZE || batch_size(length) != Some(size) {
            return Err(BatchError::Length { base_offset, length });
        }
        let last_delta = batch.last_offset_delta();
        let count = batch.at(header::RECORD_COUNT).get_i32();
        let offsets_fit = base_offset >= 0 && base_offset.checked_add(last_delta.into()).is_some();
        let count_fits = count >= 0 && i64::from(count) <= i64::from(last_delta) + 1;
        if last_delta < 0 || !offsets_fit || !count_fits {
            return Err(BatchError::Header { base_offset, last_delta, count });
        }
        Ok(batch)
    }

    /// Verifies the stored CRC-32C. Call it once for each batch that arrives: a rewritten batch gets a fresh
    /// checksum, which would hide the damage.
    pub fn check(&self) -> Result<(), BatchError> {
        let stored = self.at(header::CRC).get_u32();
        let computed = header::crc32c(&[self.at(header::ATTRIBUTES)]);
        if stored == computed {
            return Ok(());
        }
        Err(BatchError::Crc { base_offset: self.base_offset(), stored, computed })
    }

    /// The offset that record deltas count from; after compaction it may hold no record.
    pub fn base_offset(&self) -> i64 {
        self.at(header::BASE_OFFSET).get_i64()
    }

    /// The last offset that the batch spans; after compaction it may hold no record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset() + i64::from(self.last_offset_delta())
    }

    /// Every offset that the batch spans, with or without a record.
    pub fn offsets(&self) -> OffsetRange {
        OffsetRange { first: self.base_offset(), last: self.last_offset() }
    }

    /// Epoch of the partition leader that appended the batch.
    pub fn leader_epoch(&self) -> i32 {
        self.at(header::LEADER_EPOCH).get_i32()
    }

    /// How the records are compressed. Errors: a number that Kafka does not define.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        let number = self.attributes() & header::CODEC_MASK;
        Codec::from_number(number).ok_or(BatchError::UnknownCodec { base_offset: self.base_offset(), number })
    }

    /// Whether the timestamps are the producer's or the broker's.
    pub fn timestamp_type(&self) -> TimestampType {
        match self.attributes() & header::LOG_APPEND_TIME {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    /// Whether a transaction wrote the batch.
    pub fn is_transactional(&self) -> bool {
        self.attributes() & header::TRANSACTIONAL != 0
    }

    /// Whether the batch holds a transaction marker instead of data.
    pub fn is_control(&self) -> bool {
        self.attributes() & header::CONTROL != 0
    }

    /// The timestamp that record deltas count from, in ms since 1970; -1 is none.
    pub fn base_timestamp(&self) -> i64 {
        self.at(header::BASE_TIMESTAMP).get_i64()
    }

    /// The greatest timestamp of the records, in ms since 1970; -1 is none.
    pub fn max_timestamp(&self) -> i64 {
        self.at(header::MAX_TIMESTAMP).get_i64()
    }

    /// The producer that wrote the batch; -1 is none.
    pub fn producer_id(&self) -> i64 {
        self.at(header::PRODUCER_ID).get_i64()
    }

    /// Epoch of the producer; -1 is none.
    pub fn producer_epoch(&self) -> i16 {
        self.at(header::PRODUCER_EPOCH).get_i16()
    }

    /// Sequence number of the first record; -1 is none.
    pub fn base_sequence(&self) -> i32 {
        self.at(header::BASE_SEQUENCE).get_i32()
    }

    /// How many records the header promises; fewer than the offsets spanned after compaction, even 0.
    pub fn record_count(&self) -> u32 {
        self.at(header::RECORD_COUNT).get_u32()
    }

    /// Size of the batch with its header, which `max.message.bytes` limits.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The whole batch.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The records after the header, compressed by [`RecordBatch::codec`]; shares the batch's bytes.
    fn payload(&self) -> Bytes {
        self.bytes.slice(header::SIZE..)
    }

    fn last_offset_delta(&self) -> i32 {
        self.at(header::LAST_OFFSET_DELTA).get_i32()
    }

    fn attributes(&self) -> i16 {
        self.at(header::ATTRIBUTES).get_i16()
    }

    fn at(&self, position: usize) -> &[u8] {
        &self.bytes[position..]
    }
}

/// Size of a batch whose length field is `length`; `None` if it ends before its magic.
fn batch_size(length: i32) -> Option<usize> {
    let size = usize::try_from(length).ok()? + header::LENGTH_END;
    (size > header::MAGIC).then_some(size)
}

#[cfg(test)]
mod tests;
