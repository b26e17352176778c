use std::io::ErrorKind;

use proptest::prelude::*;

use super::*;
use crate::batch::sample::CODECS;

const BYTES_MAX: usize = 1 << 20;

fn text(size: usize) -> Vec<u8> {
    (0..size).map(|i| b"{\"order\": 1234}\n"[(i % 16) ^ (i / 4096 % 16)]).collect()
}

fn decompress(codec: Codec, payload: &[u8]) -> Vec<u8> {
    codec.decompress(payload, BYTES_MAX).unwrap().into_owned()
}

#[test]
fn every_codec_reads_what_it_writes() {
    for (codec, _) in CODECS {
        for size in [0, 1, 1000, 32 << 10, (32 << 10) + 1, 300_000] {
            let block = text(size);
            let payload = codec.compress(block.clone()).unwrap();
            assert!(decompress(codec, &payload) == block, "{codec}, {size} bytes");
        }
    }
}

#[test]
fn gzip_of_several_members() {
    let parts = [text(1000), text(2000)].map(|part| Codec::Gzip.compress(part).unwrap());
    let block = decompress(Codec::Gzip, &parts.concat());
    assert_eq!(block, [text(1000), text(2000)].concat());
}

#[test]
fn snappy_raw_and_in_joined_xerial_streams() {
    let raw = snap::raw::Encoder::new().compress_vec(&text(100_000)).unwrap();
    assert_eq!(decompress(Codec::Snappy, &raw), text(100_000));
    let parts = [text(1000), text(40_000)].map(|part| Codec::Snappy.compress(part).unwrap());
    let block = decompress(Codec::Snappy, &parts.concat());
    assert_eq!(block, [text(1000), text(40_000)].concat());
}

/// The framing as snappy-java writes it, byte by byte.
#[test]
fn snappy_is_written_in_xerial_framing() {
    let payload = Codec::Snappy.compress(b"abc".to_vec()).unwrap();
    let (head, chunk) = payload.split_at(20);
    assert_eq!(head, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x05");
    assert_eq!(chunk, b"\x03\x08abc");
}

#[test]
fn snappy_does_not_believe_sizes() {
    // Five bytes that promise 4 GiB, and 40 that promise 1000.
    let promises = [vec![0xff, 0xff, 0xff, 0xff, 0x0f], [&[0xe8, 0x07][..], &[0; 38]].concat()];
    for raw in promises {
        let error = Codec::Snappy.decompress(&raw, usize::MAX).unwrap_err();
        assert_eq!(error.to_string(), "its size is more than snappy can pack");
    }
    let negative = [&b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..], &[0xff; 4]].concat();
    assert!(Codec::Snappy.decompress(&negative, BYTES_MAX).is_err());
}

#[test]
fn lz4_with_checksums_sizes_and_linked_blocks() {
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        let info = FrameInfo::new()
            .block_mode(mode)
            .block_size(BlockSize::Max64KB)
            .block_checksums(true)
            .content_checksum(true)
            .content_size(Some(200_000));
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(&text(200_000)).unwrap();
        let payload = encoder.finish().unwrap();
        assert_eq!(decompress(Codec::Lz4, &payload), text(200_000));
    }
}

#[test]
fn lz4_is_written_in_independent_blocks() {
    let payload = Codec::Lz4.compress(text(200_000)).unwrap();
    assert_eq!(payload[..4], 0x184d_2204u32.to_le_bytes());
    // Version 01 and "block independence" alone: no checksums, no content size, no dictionary.
    assert_eq!(payload[4], 0b0110_0000);
    assert_eq!(payload[5], 4 << 4, "blocks of at most 64 KiB");
}

#[test]
fn zstd_of_several_frames_without_sizes() {
    let parts = [text(1000), text(2000)].map(|part| zstd::stream::encode_all(&part[..], 1).unwrap());
    let block = decompress(Codec::Zstd, &parts.concat());
    assert_eq!(block, [text(1000), text(2000)].concat());
}

#[test]
fn no_codec_exceeds_the_bound() {
    for (codec, _) in CODECS {
        let payload = codec.compress(vec![0; BYTES_MAX]).unwrap();
        assert_eq!(decompress(codec, &payload).len(), BYTES_MAX);
        let error = codec.decompress(&payload, BYTES_MAX - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{codec}: {error}");
    }
}

/// Chunks that fit one by one must not add up to more than the bound.
#[test]
fn snappy_counts_all_chunks() {
    let payload = Codec::Snappy.compress(text(100_000)).unwrap();
    assert!(snappy::decompress(&payload, 100_000).is_ok());
    let error = snappy::decompress(&payload, 99_999).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
}

proptest! {
    #[test]
    fn damaged_payloads_never_panic(
        (codec, _) in prop::sample::select(CODECS.to_vec()),
        size in 0..3000usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = codec.compress(text(size)).unwrap();
        payload.truncate(cut.index(payload.len() + 1));
        for (at, byte) in damage {
            if !payload.is_empty() {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
        }
        if let Ok(block) = codec.decompress(&payload, 2000) {
            prop_assert!(block.len() <= 2000);
        }
    }
}
