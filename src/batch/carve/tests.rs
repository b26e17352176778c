use proptest::prelude::*;

use super::*;
use crate::batch::TimestampType;
use crate::batch::header;
use crate::batch::records::Records;
use crate::batch::records::put_varint;
use crate::batch::sample::{CODECS, Sample, SampleRecord};
use crate::batch::{Hop, Placement, forwardable_to, partitioner};
use crate::limits::{DECOMPRESSED_BYTES_MAX, RECORDS_PER_BATCH_MAX};

const SIZE_MAX: usize = 1 << 20;

/// All that came out of one batch.
#[derive(Debug, Default, PartialEq, Eq)]
struct Carved {
    batches: Vec<RecordBatch>,
    offsets: Vec<OffsetRange>,
}

fn carve(batch: &RecordBatch, acquired: &[OffsetRange], size_max: usize) -> Result<Carved, BatchError> {
    let recipe = Recipe::plain(size_max, 0);
    let mut carver = Carver::new(&recipe);
    let offsets = carver.take(batch, acquired)?.offsets;
    let batches = carver.finish()?.into_iter().map(|(_, batch)| batch).collect();
    Ok(Carved { batches, offsets })
}

const ALL: OffsetRange = OffsetRange { first: 0, last: i64::MAX };

/// Timestamp and body of every record, and the checks that any carved batch must pass.
fn records_of(batch: &RecordBatch, size_max: usize) -> Vec<(i64, Vec<u8>)> {
    batch.check().unwrap();
    assert_eq!(forwardable_to(batch, &[batch.offsets()], &Recipe::plain(size_max, 0)), Ok(0));
    assert_eq!((batch.base_offset(), batch.producer_id()), (0, -1));
    assert!(!batch.is_transactional());
    let block = batch.codec().unwrap().decompress(batch.at(header::SIZE), DECOMPRESSED_BYTES_MAX).unwrap();
    let records: Vec<_> = (0..)
        .zip(Records::new(&block, batch.record_count()))
        .map(|(delta, record)| {
            let record = record.unwrap();
            assert_eq!(record.offset_delta, delta);
            let timestamp = batch.base_timestamp().wrapping_add(record.timestamp_delta);
            (timestamp, record.body.to_vec())
        })
        .collect();
    let max_timestamp = records.iter().map(|(timestamp, _)| *timestamp).max();
    assert_eq!(max_timestamp, Some(batch.max_timestamp()));
    records
}

fn timestamps(sample: &Sample) -> Vec<i64> {
    let carved = carve(&sample.batch(), &[ALL], SIZE_MAX).unwrap();
    let records = records_of(&carved.batches[0], SIZE_MAX);
    records.into_iter().map(|(timestamp, _)| timestamp).collect()
}

fn malformed(sample: &Sample) -> (u32, &'static str) {
    match carve(&sample.batch(), &[ALL], SIZE_MAX) {
        Err(BatchError::Record { index, why, .. }) => (index, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn holes_are_closed_and_their_offsets_not_listed() {
    let batch = Sample::of(100, [0, 1, 5, 7]).batch();
    let acquired = OffsetRange { first: 101, last: 107 };
    let carved = carve(&batch, &[acquired], SIZE_MAX).unwrap();
    let range = |first, last| OffsetRange { first, last };
    assert_eq!(carved.offsets, [range(101, 101), range(105, 105), range(107, 107)]);
    assert_eq!(carved.batches.len(), 1);
    let values: Vec<_> = records_of(&carved.batches[0], SIZE_MAX).into_iter().map(|(_, body)| body).collect();
    let expected = [1, 5, 7].map(|i| SampleRecord::new(0, format!("value {i}").as_bytes()).body);
    assert_eq!(values, expected);
}

#[test]
fn nothing_comes_of_markers_empty_batches_and_foreign_offsets() {
    let control = Sample::of(10, 0..1).with_attributes(1 << 5).batch();
    let empty = Sample::of(10, []).batch();
    for batch in [control, empty] {
        assert_eq!(carve(&batch, &[ALL], SIZE_MAX).unwrap(), Carved::default());
    }
    let batch = Sample::of(10, 0..5).batch();
    let foreign = [(0, 9), (15, 20)].map(|(first, last)| OffsetRange { first, last });
    assert_eq!(carve(&batch, &foreign, SIZE_MAX).unwrap(), Carved::default());
}

#[test]
fn log_append_time_is_what_consumers_see() {
    let sample = Sample::of(10, 0..3).with_attributes(1 << 3);
    assert_eq!(timestamps(&sample), [sample.max_timestamp; 3]);
}

/// With the delete horizon in place of the base timestamp, deltas run far into the negative.
#[test]
fn timestamps_survive_a_delete_horizon_and_absence() {
    let mut sample = Sample::of(10, 0..4).with_attributes(1 << 6);
    let expected = [-1, 5, i64::MAX, i64::MIN];
    for (record, timestamp) in sample.records.iter_mut().zip(expected) {
        record.timestamp_delta = i64::wrapping_sub(timestamp, sample.base_timestamp);
    }
    assert_eq!(timestamps(&sample), expected);
}

#[test]
fn batches_are_split_only_past_the_size_allowed() {
    let batch = Sample::of(10, 0..4).batch();
    let counts = |size_max| -> Vec<u32> {
        let carved = carve(&batch, &[ALL], size_max).unwrap();
        carved.batches.iter().map(RecordBatch::record_count).collect()
    };
    let size = batch.size_bytes();
    assert_eq!(counts(size), [4]);
    assert_eq!(counts(size - 1), [2, 2]);
}

#[test]
fn a_record_too_large_is_named_and_the_others_go_without_it() {
    let mut sample = Sample::of(10, 0..3);
    sample.records[1] = SampleRecord::new(1, &[b'x'; 500]);
    let batch = sample.batch();
    let error = carve(&batch, &[ALL], 200).unwrap_err();
    assert!(matches!(
        error,
        BatchError::RecordTooLarge { offset: 11, size_max: 200, size } if size > 560
    ));
    let others = [(0, 10), (12, 20)].map(|(first, last)| OffsetRange { first, last });
    let carved = carve(&batch, &others, 200).unwrap();
    assert_eq!(carved.batches[0].record_count(), 2);
}

#[test]
fn malformed_records_are_named() {
    let mut trailing = Sample::of(10, 0..3);
    (trailing.record_count, trailing.last_offset_delta) = (2, 2);
    assert_eq!(malformed(&trailing), (2, "bytes follow the last record"));

    let mut missing = Sample::of(10, 0..3);
    missing.records.pop();
    assert_eq!(malformed(&missing), (2, "its length is no varint"));

    let mut twice = Sample::of(10, 0..3);
    twice.records[2].offset_delta = 1;
    assert_eq!(malformed(&twice).0, 2);

    let mut beyond = Sample::of(10, 0..3);
    beyond.records[2].offset_delta = 3;
    assert_eq!(malformed(&beyond).0, 2);

    let mut before = Sample::of(10, 0..3);
    before.records[0].offset_delta = -1;
    assert_eq!(malformed(&before).0, 0);
}

#[test]
fn a_count_beyond_the_bound_is_refused() {
    let mut sample = Sample::of(10, 0..3);
    sample.record_count = RECORDS_PER_BATCH_MAX.cast_signed() + 1;
    sample.last_offset_delta = RECORDS_PER_BATCH_MAX.cast_signed();
    let error = carve(&sample.batch(), &[ALL], SIZE_MAX).unwrap_err();
    assert!(matches!(error, BatchError::TooManyRecords { .. }));
}

fn any_timestamp_delta() -> impl Strategy<Value = i64> {
    prop_oneof![-5000..5000i64, any::<i64>()]
}

prop_compose! {
    /// A batch with holes, any codec and timestamp type, bodies that no decoder would take.
    fn any_sample()(
        records in prop::collection::vec(
            (1..4i32, any_timestamp_delta(), prop::collection::vec(any::<u8>(), 0..200)),
            1..40,
        ),
        (_, codec) in prop::sample::select(CODECS.to_vec()),
        log_append_time in any::<bool>(),
        flags in prop::sample::select(vec![0, 1 << 4, 1 << 6]),
        last_hole in 0..3i32,
    ) -> Sample {
        let mut sample = Sample::of(1000, []);
        let mut next = 0;
        for (step, timestamp_delta, body) in records {
            let offset_delta = next + step - 1;
            next = offset_delta + 1;
            sample.records.push(SampleRecord { timestamp_delta, offset_delta, body });
        }
        sample.record_count = sample.records.len() as i32;
        sample.last_offset_delta = next - 1 + last_hole;
        sample.attributes = codec | flags | if log_append_time { header::LOG_APPEND_TIME } else { 0 };
        sample
    }
}

/// Ascending, disjoint, sometimes adjacent ranges around the offsets of [`any_sample`].
fn any_acquired() -> impl Strategy<Value = Vec<OffsetRange>> {
    prop::collection::vec((0..10i64, 0..30i64), 0..10).prop_map(|steps| {
        let mut next = 990;
        let mut ranges = Vec::new();
        for (gap, length) in steps {
            let first = next + gap;
            let last = first + length;
            ranges.push(OffsetRange { first, last });
            next = last + 1;
        }
        ranges
    })
}

fn keyed(base_offset: i64, keys: &[Option<&str>]) -> Sample {
    let mut sample = Sample::of(base_offset, 0..keys.len() as i32);
    for (record, key) in sample.records.iter_mut().zip(keys) {
        record.body = body(*key, &[]);
    }
    sample
}

fn body(key: Option<&str>, hops: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    put_varint(&mut body, key.map_or(-1, |key| key.len() as i64));
    body.extend_from_slice(key.unwrap_or_default().as_bytes());
    put_varint(&mut body, -1);
    put_varint(&mut body, hops.len() as i64);
    for part in hops.iter().flat_map(|hop| [crate::batch::HOP_HEADER, hop]) {
        put_varint(&mut body, part.len() as i64);
        body.extend_from_slice(part.as_bytes());
    }
    body
}

fn bodies(batch: &RecordBatch) -> Vec<Vec<u8>> {
    records_of(batch, SIZE_MAX).into_iter().map(|(_, body)| body).collect()
}

#[test]
fn records_go_where_their_keys_belong_in_their_order() {
    let recipe = Recipe { placement: Placement::ByKey { count: 4, keyless: 3 }, ..Recipe::plain(SIZE_MAX, 0) };
    let mut carver = Carver::new(&recipe);
    let keys = ["a", "b", "c", "d", "e", "f"].map(Some);
    for base_offset in [0, 7] {
        let sample = keyed(base_offset, &[&keys[..], &[None]].concat());
        assert_eq!(carver.take(&sample.batch(), &[ALL]).unwrap().offsets, [sample.batch().offsets()]);
    }
    let batches = carver.finish().unwrap();
    let mut expected: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
    for key in keys.into_iter().chain([None]).chain(keys).chain([None]) {
        let partition = key.map_or(3, |key| partitioner::partition_of(key.as_bytes(), 4));
        expected.entry(partition).or_default().push(body(key, &[]));
    }
    let found: BTreeMap<i32, Vec<Vec<u8>>> =
        batches.iter().map(|(partition, batch)| (*partition, bodies(batch))).collect();
    assert_eq!(found, expected);
    assert!(found.len() > 2 && batches.len() == found.len(), "one batch for each partition");
}

#[test]
fn another_codec_is_taken_and_small_batches_become_one() {
    for (wanted, _) in CODECS {
        let recipe = Recipe { codec: Some(wanted), ..Recipe::plain(SIZE_MAX, 0) };
        let mut carver = Carver::new(&recipe);
        for (base_offset, (_, attributes)) in (0..).step_by(3).zip(CODECS) {
            let sample = Sample::of(base_offset, 0..3).with_attributes(attributes);
            carver.take(&sample.batch(), &[ALL]).unwrap();
        }
        let batches = carver.finish().unwrap();
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].1.codec().unwrap(), wanted);
        assert_eq!(records_of(&batches[0].1, SIZE_MAX).len(), 15);
    }
}

#[test]
fn what_is_carved_together_is_bounded() {
    let recipe = Recipe { codec: Some(Codec::Lz4), ..Recipe::plain(usize::MAX, 0) };
    let mut carver = Carver::new(&recipe);
    let mut sample = Sample::of(0, 0..1);
    sample.records[0] = SampleRecord::new(0, &vec![b'x'; CARVED_TOGETHER_BYTES / 2]);
    for _ in 0..6 {
        carver.take(&sample.batch(), &[ALL]).unwrap();
        assert!(carver.pending_bytes < 2 * CARVED_TOGETHER_BYTES);
    }
    let counts: Vec<u32> = carver.finish().unwrap().iter().map(|(_, batch)| batch.record_count()).collect();
    assert_eq!(counts, [2, 2, 2]);
}

#[test]
fn a_hop_is_added_and_who_has_been_there_stays_behind() {
    let hop = Hop { from: "A".into(), to: "B".into() };
    let recipe = Recipe { hop: Some(hop), ..Recipe::plain(SIZE_MAX, 0) };
    let mut carver = Carver::new(&recipe);
    let mut sample = Sample::of(10, 0..4);
    let before: [&[&str]; 4] = [&[], &["B"], &["C"], &["C", "B", "D"]];
    for (record, hops) in sample.records.iter_mut().zip(before) {
        record.body = body(Some("k"), hops);
    }
    let taken = carver.take(&sample.batch(), &[ALL]).unwrap();
    assert_eq!((taken.offsets, taken.looped), (vec![OffsetRange { first: 10, last: 13 }], 2));
    let batches = carver.finish().unwrap();
    assert_eq!(bodies(&batches[0].1), [body(Some("k"), &["A"]), body(Some("k"), &["C", "A"])]);

    sample.records[3].body.truncate(20);
    assert!(matches!(carver.take(&sample.batch(), &[ALL]), Err(BatchError::Record { index: 3, .. })));
}

proptest! {
    #[test]
    fn exactly_the_acquired_records_come_out_unchanged(
        sample in any_sample(),
        acquired in any_acquired(),
        // The largest body and the overhead of every codec fit the smallest.
        size_max in 350..3000usize,
    ) {
        let batch = sample.batch();
        let mut offsets = Vec::new();
        let mut expected = Vec::new();
        for record in &sample.records {
            let offset = sample.base_offset + i64::from(record.offset_delta);
            if acquired.iter().any(|range| range.first <= offset && offset <= range.last) {
                let timestamp = match batch.timestamp_type() {
                    TimestampType::CreateTime => sample.base_timestamp.wrapping_add(record.timestamp_delta),
                    TimestampType::LogAppendTime => sample.max_timestamp,
                };
                offsets.push(offset);
                expected.push((timestamp, record.body.clone()));
            }
        }
        let carved = carve(&batch, &acquired, size_max).unwrap();
        let records: Vec<_> = carved
            .batches
            .iter()
            .flat_map(|batch| records_of(batch, size_max))
            .collect();
        prop_assert_eq!(records, expected);
        let listed: Vec<i64> = carved.offsets.iter().flat_map(|range| range.first..=range.last).collect();
        prop_assert_eq!(listed, offsets);
        prop_assert!(carved.offsets.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
    }

    #[test]
    fn damaged_batches_never_panic(
        sample in any_sample(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = sample.bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for batch in RecordBatch::split(bytes.into()).flatten() {
            if let Ok(carved) = carve(&batch, &[ALL], SIZE_MAX) {
                for batch in &carved.batches {
                    records_of(batch, SIZE_MAX);
                }
            }
        }
    }
}
