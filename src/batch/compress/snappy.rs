//! Snappy in the xerial framing that Java clients write, and the raw form that some others do.
//!
//! A xerial stream is a 16-byte header and chunks, each an i32 length (big endian) and that many bytes of
//! raw snappy; streams joined end to end repeat the header. Source: snappy-java, SnappyOutputStream.

use std::io;

use snap::raw::{Decoder, Encoder, decompress_len};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// Version of the framing and the oldest one that can read it, behind the magic.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// How much is compressed into one chunk, as in snappy-java.
const CHUNK_BYTES: usize = 32 << 10;
/// Raw snappy grows at most so much: its densest element copies 64 bytes and takes three.
const RATIO_MAX: usize = 22;

pub(super) fn compress(block: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let mut out = [MAGIC, VERSIONS].concat();
    for chunk in block.chunks(CHUNK_BYTES) {
        let chunk = encoder.compress_vec(chunk)?;
        let length = i32::try_from(chunk.len()).expect("a chunk of 32 KiB stays far below 2 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&chunk);
    }
    Ok(out)
}

pub(super) fn decompress(payload: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if !payload.starts_with(&MAGIC) {
        append(payload, &mut out, bytes_max)?;
        return Ok(out);
    }
    let mut rest = payload;
    while !rest.is_empty() {
        // As a length the magic would be negative, so it is none.
        if let Some(versions) = rest.strip_prefix(&MAGIC) {
            rest = versions.get(VERSIONS.len()..).ok_or_else(cut)?;
            continue;
        }
        let (length, chunks) = rest.split_first_chunk().ok_or_else(cut)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| cut())?;
        let (chunk, after) = chunks.split_at_checked(length).ok_or_else(cut)?;
        append(chunk, &mut out, bytes_max)?;
        rest = after;
    }
    Ok(out)
}

/// Decompresses raw snappy to the end of `out`. The size is the sender's word, so it is checked first.
fn append(raw: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> io::Result<()> {
    let size = decompress_len(raw)?;
    if size > raw.len().saturating_mul(RATIO_MAX) {
        return Err(malformed("its size is more than snappy can pack"));
    }
    if size > bytes_max.saturating_sub(out.len()) {
        return Err(super::too_large(bytes_max));
    }
    let start = out.len();
    out.resize(start + size, 0);
    Decoder::new().decompress(raw, &mut out[start..])?;
    Ok(())
}

fn cut() -> io::Error {
    malformed("a chunk ends after the batch")
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
