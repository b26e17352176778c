//! Record batches written and read by hand, for what well-behaved clients don't write and don't show. Source: KIP-98, and Kafka's
//! message format.

use std::io::{Read, Write};

use bytes::{BufMut, Bytes, BytesMut};
use lz4_flex::frame::{BlockMode, FrameDecoder, FrameEncoder, FrameInfo};

/// How the header of a xerial stream begins, and how long it is.
const XERIAL: (&[u8], usize) = (b"\x82SNAPPY\0", 16);

/// A record, to the last byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RawRecord {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What the records of a batch go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    /// In the framing of Java clients.
    Snappy,
    /// Without it, as some others write.
    RawSnappy,
    Lz4,
    Zstd,
}

impl Packing {
    pub(crate) const ALL: [Self; 6] = [Self::None, Self::Gzip, Self::Snappy, Self::RawSnappy, Self::Lz4, Self::Zstd];

    /// As in the attributes of a batch.
    pub(crate) fn codec(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy | Self::RawSnappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    fn pack(self, block: &[u8]) -> Vec<u8> {
        match self {
            Self::None => block.to_vec(),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
                encoder.write_all(block).unwrap();
                encoder.finish().unwrap()
            }
            Self::Snappy => {
                let chunk = Self::RawSnappy.pack(block);
                [XERIAL.0, &[0, 0, 0, 1, 0, 0, 0, 1], &(chunk.len() as u32).to_be_bytes(), &chunk].concat()
            }
            Self::RawSnappy => snap::raw::Encoder::new().compress_vec(block).unwrap(),
            Self::Lz4 => {
                let info = FrameInfo::new().block_mode(BlockMode::Independent);
                let mut encoder = FrameEncoder::with_frame_info(info, vec![]);
                encoder.write_all(block).unwrap();
                encoder.finish().unwrap()
            }
            Self::Zstd => zstd::encode_all(block, 0).unwrap(),
        }
    }
}

fn unpack(codec: u16, payload: &[u8]) -> Vec<u8> {
    let mut block = vec![];
    match codec {
        0 => block.extend_from_slice(payload),
        1 => drop(flate2::read::MultiGzDecoder::new(payload).read_to_end(&mut block).unwrap()),
        2 => {
            let mut decoder = snap::raw::Decoder::new();
            if !payload.starts_with(XERIAL.0) {
                return decoder.decompress_vec(payload).unwrap();
            }
            let mut rest = &payload[XERIAL.1..];
            while let Some((length, chunks)) = rest.split_first_chunk::<4>() {
                let (chunk, after) = chunks.split_at(u32::from_be_bytes(*length) as usize);
                block.extend(decoder.decompress_vec(chunk).unwrap());
                rest = after;
            }
        }
        3 => drop(FrameDecoder::new(payload).read_to_end(&mut block).unwrap()),
        4 => block = zstd::decode_all(payload).unwrap(),
        _ => panic!("codec {codec}"),
    }
    block
}

/// A record batch v2 whose timestamps count from that of its first record.
pub(crate) fn batch(packing: Packing, records: &[RawRecord]) -> Bytes {
    let base = records[0].timestamp;
    let mut block = vec![];
    for (delta, record) in (0..).zip(records) {
        let mut body = vec![0];
        put(&mut body, record.timestamp.wrapping_sub(base));
        put(&mut body, delta);
        put_bytes(&mut body, record.key.as_deref());
        put_bytes(&mut body, record.value.as_deref());
        put(&mut body, record.headers.len() as i64);
        for (key, value) in &record.headers {
            put_bytes(&mut body, Some(key));
            put_bytes(&mut body, value.as_deref());
        }
        put_bytes(&mut block, Some(&body));
    }
    let mut covered = BytesMut::new();
    covered.put_u16(packing.codec());
    covered.put_i32(records.len() as i32 - 1); // last offset delta
    covered.put_i64(base);
    covered.put_i64(records.iter().map(|record| record.timestamp).max().unwrap());
    covered.put_i64(-1); // producer id
    covered.put_i16(-1); // producer epoch
    covered.put_i32(-1); // base sequence
    covered.put_i32(records.len() as i32);
    covered.extend_from_slice(&packing.pack(&block));

    let mut batch = BytesMut::new();
    batch.put_i64(0); // base offset
    batch.put_i32(4 + 1 + 4 + covered.len() as i32); // length of what follows
    batch.put_i32(-1); // partition leader epoch
    batch.put_i8(2); // magic
    batch.put_u32(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &covered) as u32);
    batch.extend_from_slice(&covered);
    batch.freeze()
}

/// The records of a batch, from its payload.
pub(crate) fn records(codec: u16, base_timestamp: i64, payload: &[u8]) -> Vec<RawRecord> {
    let block = unpack(codec, payload);
    let (mut block, mut records) = (&block[..], vec![]);
    while !block.is_empty() {
        let body = take_bytes(&mut block).unwrap();
        let mut rest = &body[1..];
        let timestamp = base_timestamp.wrapping_add(take(&mut rest));
        let _offset_delta = take(&mut rest);
        let (key, value) = (take_bytes(&mut rest), take_bytes(&mut rest));
        let headers = (0..take(&mut rest)).map(|_| (take_bytes(&mut rest).unwrap(), take_bytes(&mut rest))).collect();
        assert!(rest.is_empty(), "bytes follow a record");
        records.push(RawRecord { timestamp, key, value, headers });
    }
    records
}

/// A zigzag varint.
fn put(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn take(from: &mut &[u8]) -> i64 {
    let mut zigzag = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().unwrap();
        *from = rest;
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
}

fn take_bytes(from: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take(from)).ok()?;
    let (bytes, rest) = from.split_at(length);
    *from = rest;
    Some(bytes.to_vec())
}
