//! Compression of the records in a batch.

mod snappy;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

/// Kafka's default for `compression.zstd.level`.
const ZSTD_LEVEL: i32 = 3;

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
    /// Every codec, in the order of their numbers in the batch attributes.
    pub const ALL: [Codec; 5] = [Codec::Uncompressed, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The codec with this number in the batch attributes.
    pub(super) fn from_number(number: i16) -> Option<Codec> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Its number in the batch attributes.
    pub(super) fn number(self) -> i16 {
        self as i16
    }

    /// Decompresses a whole payload to at most `bytes_max` bytes; memory grows with what really comes out.
    ///
    /// Reads what any Kafka client writes: gzip of several members, snappy with and without xerial framing,
    /// lz4 frames with or without checksums, zstd of several frames without their sizes.
    /// Errors: malformed or cut input, or more than `bytes_max`.
    pub(super) fn decompress(self, payload: &[u8], bytes_max: usize) -> io::Result<Cow<'_, [u8]>> {
        let block: Cow<'_, [u8]> = match self {
            Codec::Uncompressed => payload.into(),
            Codec::Gzip => read_bounded(MultiGzDecoder::new(payload), bytes_max)?.into(),
            Codec::Snappy => snappy::decompress(payload, bytes_max)?.into(),
            Codec::Lz4 => read_bounded(FrameDecoder::new(payload), bytes_max)?.into(),
            Codec::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(payload)?;
                read_bounded(decoder, bytes_max)?.into()
            }
        };
        if block.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        Ok(block)
    }

    /// Compresses a whole block in the form that Kafka's own clients write.
    pub(super) fn compress(self, block: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Codec::Uncompressed => Ok(block),
            Codec::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&block)?;
                encoder.finish()
            }
            Codec::Snappy => snappy::compress(&block),
            Codec::Lz4 => {
                // Kafka's reader refuses blocks that depend on each other.
                let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&block)?;
                Ok(encoder.finish()?)
            }
            Codec::Zstd => zstd::bulk::compress(&block, ZSTD_LEVEL),
        }
    }
}

/// Reads to the end, or one byte past `bytes_max` so that the caller sees that it is too much.
fn read_bounded(reader: impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut block = Vec::new();
    let limit = u64::try_from(bytes_max).map_or(u64::MAX, |max| max.saturating_add(1));
    reader.take(limit).read_to_end(&mut block)?;
    Ok(block)
}

fn too_large(bytes_max: usize) -> io::Error {
    let message = format!("it decompresses to more than {bytes_max} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
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

#[cfg(test)]
mod tests;
