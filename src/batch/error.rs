//! What can be wrong with a record batch.

use super::Codec;

/// A batch that cannot be used. Offsets are those of the source partition.
///
/// None of these heals by itself: the same bytes come again on the next fetch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// Too few bytes to be a batch at all.
    #[error("{size} bytes are no record batch: too short for a header")]
    Cut {
        /// How many bytes there were.
        size: usize,
    },
    /// A format from before Kafka 0.11, or garbage.
    #[error(
        "batch at offset {base_offset} has magic {magic}, only 2 is supported: \
         it was written before Kafka 0.11 or under an old log.message.format.version: \
         let the broker rewrite old segments or skip these offsets"
    )]
    Magic {
        /// Where the batch starts.
        base_offset: i64,
        /// The magic found.
        magic: i8,
    },
    /// The length field is impossible.
    #[error("batch at offset {base_offset} has length {length}, which no batch of magic 2 can have")]
    Length {
        /// Where the batch claims to start.
        base_offset: i64,
        /// The length field.
        length: i32,
    },
    /// Offsets or counts in the header contradict each other.
    #[error("batch at offset {base_offset} is malformed: last offset delta {last_delta}, {count} records")]
    Header {
        /// Where the batch claims to start.
        base_offset: i64,
        /// Its last offset delta.
        last_delta: i32,
        /// Its record count.
        count: i32,
    },
    /// A batch that does not come behind the one before it.
    #[error(
        "batch at offset {base_offset} stands behind offset {end}, which no log has: check the source broker's disk"
    )]
    Order {
        /// Where the batch claims to start.
        base_offset: i64,
        /// Where the one before it ends.
        end: i64,
    },
    /// The bytes were damaged, on the source's disk or on the way.
    #[error(
        "batch at offset {base_offset} is corrupt: checksum {computed:#010x}, stored {stored:#010x}; \
         check the source broker's disk"
    )]
    Crc {
        /// Where the batch claims to start.
        base_offset: i64,
        /// The CRC-32C in the header.
        stored: u32,
        /// The CRC-32C of the bytes.
        computed: u32,
    },
    /// A compression that this version of Kafka does not define.
    #[error("batch at offset {base_offset} uses unknown compression codec {number}")]
    UnknownCodec {
        /// Where the batch starts.
        base_offset: i64,
        /// The codec's number in the attributes.
        number: i16,
    },
    /// A record does not end where its length says, or the batch not after its last record.
    #[error("batch at offset {base_offset}: record {index} of the batch is malformed: {why}")]
    Record {
        /// Where the batch starts.
        base_offset: i64,
        /// The record's position in the batch, from 0.
        index: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// More records than [`RECORDS_PER_BATCH_MAX`](crate::limits::RECORDS_PER_BATCH_MAX).
    #[error("batch at offset {base_offset} has {count} records, more than the {count_max} that can be carved")]
    TooManyRecords {
        /// Where the batch starts.
        base_offset: i64,
        /// The record count in its header.
        count: u32,
        /// The bound.
        count_max: u32,
    },
    /// The payload cannot be decompressed within bounds, or its records not be compressed again.
    #[error("batch at offset {base_offset}: its {codec} compression failed")]
    Compression {
        /// Where the batch starts.
        base_offset: i64,
        /// The codec of the batch.
        codec: Codec,
        /// What the codec says.
        source: std::io::Error,
    },
    /// A record does not fit the target even alone. The others do if this offset is left out.
    #[error(
        "record at offset {offset} takes a batch of {size} bytes, the target allows {size_max}: \
         raise max.message.bytes of the target topic, or reject the record"
    )]
    RecordTooLarge {
        /// The record's offset.
        offset: i64,
        /// Size of a batch with this record alone, compressed.
        size: usize,
        /// The target's `max.message.bytes`.
        size_max: usize,
    },
}

impl BatchError {
    /// Whether it is not even known where the batch begins and ends.
    pub fn is_of_framing(&self) -> bool {
        matches!(
            self,
            Self::Cut { .. } | Self::Magic { .. } | Self::Length { .. } | Self::Header { .. } | Self::Order { .. }
        )
    }

    /// What kind of error it is, in one word.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Cut { .. } | Self::Length { .. } | Self::Header { .. } | Self::Order { .. } => "BatchMalformed",
            Self::Magic { .. } => "BatchTooOld",
            Self::Crc { .. } => "BatchCorrupt",
            Self::UnknownCodec { .. } => "CodecUnknown",
            Self::Record { .. } => "RecordMalformed",
            Self::TooManyRecords { .. } => "BatchTooLarge",
            Self::Compression { .. } => "CompressionFailed",
            Self::RecordTooLarge { .. } => "RecordTooLarge",
        }
    }
}
