//! Compression of the records in a batch.

use std::fmt;

/// How the records of a batch are compressed, as one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// `none`: not compressed.
    Uncompressed,
    /// `gzip`
    Gzip,
    /// `snappy`
    Snappy,
    /// `lz4`
    Lz4,
    /// `zstd`
    Zstd,
}

impl Codec {
    /// The codec with this number in the batch attributes.
    pub(super) fn from_number(number: i16) -> Option<Codec> {
        match number {
            0 => Some(Codec::Uncompressed),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

/// The name that Kafka's `compression.type` uses.
impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::Uncompressed => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        })
    }
}
