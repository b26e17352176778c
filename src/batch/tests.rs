use proptest::prelude::*;

use super::sample::{CODECS, Sample};
use super::*;

fn split(records: impl Into<Bytes>) -> Vec<Result<RecordBatch, BatchError>> {
    RecordBatch::split(records.into()).collect()
}

#[test]
fn header_fields_are_read_from_their_places() {
    let batch = Sample::of(1000, [0, 1, 4]).with_attributes(0b1_1100).batch();
    assert_eq!(batch.base_offset(), 1000);
    assert_eq!(batch.last_offset(), 1004);
    assert_eq!(batch.leader_epoch(), 7);
    assert_eq!(batch.codec().unwrap(), Codec::Zstd);
    assert_eq!(batch.timestamp_type(), TimestampType::LogAppendTime);
    assert!(batch.is_transactional());
    assert!(!batch.is_control());
    assert_eq!(batch.base_timestamp(), 1_700_000_000_000);
    assert_eq!(batch.max_timestamp(), 1_700_000_000_003);
    assert_eq!(batch.producer_id(), 4711);
    assert_eq!(batch.producer_epoch(), 3);
    assert_eq!(batch.base_sequence(), 42);
    assert_eq!(batch.record_count(), 3);
    assert_eq!(batch.size_bytes(), batch.bytes().len());
    assert!(Sample::of(0, [0]).with_attributes(1 << 5).batch().is_control());
}

#[test]
fn codecs_have_kafkas_numbers_and_others_are_refused() {
    for (codec, number) in CODECS {
        let batch = Sample::of(0, [0]).with_attributes(number).batch();
        assert_eq!(batch.codec().unwrap(), codec);
    }
    let batch = Sample::of(9, [0]).with_attributes(5).batch();
    assert!(matches!(batch.codec(), Err(BatchError::UnknownCodec { base_offset: 9, number: 5 })));
}

/// The CRC-32C check value of the catalogue of CRC algorithms.
#[test]
fn checksum_is_crc_32c() {
    assert_eq!(header::crc32c(&[b"1234", b"56789"]), 0xe306_9283);
}

#[test]
fn split_shares_the_bytes_and_leaves_out_a_cut_last_batch() {
    let (first, second) = (Sample::of(5, 0..3).bytes(), Sample::of(8, 0..2).bytes());
    let both: Bytes = [&first[..], &second[..]].concat().into();
    for cut in first.len()..both.len() {
        let batches = split(both.slice(..cut));
        assert_eq!(batches.len(), 1, "cut at {cut}");
        let batch = batches[0].as_ref().unwrap();
        assert_eq!(batch.bytes(), &first);
        assert_eq!(batch.bytes().as_ptr(), both.as_ptr());
    }
    let offsets: Vec<_> = split(both).into_iter().map(|batch| batch.unwrap().offsets()).collect();
    assert_eq!(offsets, [OffsetRange { first: 5, last: 7 }, OffsetRange { first: 8, last: 9 }]);
}

#[test]
fn split_reports_a_bad_header_and_goes_on() {
    let mut old = Sample::of(5, 0..3).bytes().to_vec();
    old[header::MAGIC] = 1;
    let batches = split([&old[..], &Sample::of(8, 0..2).bytes()].concat());
    assert!(matches!(batches[..], [Err(BatchError::Magic { base_offset: 5, magic: 1 }), Ok(_)]));
}

#[test]
fn split_ends_at_an_impossible_length() {
    for length in [i32::MIN, -1, 0, 4] {
        let mut bytes = Sample::of(5, 0..3).bytes().to_vec();
        bytes[header::LENGTH..header::LENGTH_END].copy_from_slice(&length.to_be_bytes());
        let batches = split(bytes);
        assert!(matches!(batches[..], [Err(BatchError::Length { base_offset: 5, .. })]), "{length}: {batches:?}");
    }
}

#[test]
fn impossible_offsets_and_counts_are_refused() {
    let sound = Sample::of(5, 0..3);
    let wrong = [
        Sample { base_offset: -1, ..sound.clone() },
        Sample { base_offset: i64::MAX, ..sound.clone() },
        Sample { last_offset_delta: -1, ..sound.clone() },
        Sample { last_offset_delta: 1, ..sound.clone() },
        Sample { record_count: -1, ..sound.clone() },
        Sample { record_count: i32::MAX, ..sound },
    ];
    for sample in wrong {
        let batches = split(sample.bytes());
        assert!(matches!(batches[..], [Err(BatchError::Header { .. })]), "{sample:?}");
    }
}

proptest! {
    #[test]
    fn check_finds_every_flipped_bit(at in header::CRC..100usize, bit in 0..8u32) {
        let mut bytes = Sample::of(5, 0..10).bytes().to_vec();
        RecordBatch { bytes: bytes.clone().into() }.check().unwrap();
        bytes[at] ^= 1 << bit;
        let damaged = RecordBatch { bytes: bytes.into() };
        let is_crc_error = matches!(damaged.check(), Err(BatchError::Crc { base_offset: 5, .. }));
        prop_assert!(is_crc_error);
    }

    #[test]
    fn hostile_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        length in -70..300i32,
        magic in 1..4u8,
    ) {
        if bytes.len() > header::MAGIC {
            bytes[header::LENGTH..header::LENGTH_END].copy_from_slice(&length.to_be_bytes());
            bytes[header::MAGIC] = magic;
        }
        for batch in split(bytes).into_iter().flatten() {
            let _ = (batch.check(), batch.codec());
            prop_assert!(batch.offsets().first <= batch.offsets().last);
            prop_assert!(i64::from(batch.record_count()) <= batch.last_offset() - batch.base_offset() + 1);
        }
    }
}
