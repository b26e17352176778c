use proptest::prelude::*;

use super::*;
use crate::batch::BatchError;
use crate::batch::sample::Sample;

const SIZE_MAX: usize = 1 << 20;
const STAMP: Stamp = Stamp { producer_id: 99, producer_epoch: 5, base_sequence: 1234 };

fn reason(sample: &Sample) -> Option<Reason> {
    let all = OffsetRange { first: 0, last: i64::MAX };
    forwardable_to(&sample.batch(), &[all], &Recipe::plain(SIZE_MAX, 0)).err()
}

fn joined(forwarded: &Forwarded) -> RecordBatch {
    let bytes = [&forwarded.header[..], &forwarded.payload[..]].concat();
    RecordBatch::parse(bytes.into()).unwrap()
}

#[test]
fn a_sound_batch_is_forwardable() {
    assert_eq!(reason(&Sample::of(10, 0..5)), None);
    // Bit 6 is the delete horizon: it goes, and the record times stay.
    assert_eq!(reason(&Sample::of(10, 0..5).with_attributes(1 << 6)), None);
}

#[test]
fn each_reason_is_found() {
    let sound = Sample::of(10, 0..5);
    let with = |attributes| reason(&sound.clone().with_attributes(attributes));
    assert_eq!(with(1 << 5), Some(Reason::Control));
    assert_eq!(with(1 << 3), Some(Reason::LogAppendTime));
    assert_eq!(with(6), Some(Reason::UnknownCodec));
    assert_eq!(reason(&Sample::of(10, [])), Some(Reason::NoRecords));
    assert_eq!(reason(&Sample::of(10, [0, 2])), Some(Reason::Holes));

    let batch = sound.batch();
    let all = [OffsetRange { first: 10, last: 14 }];
    let size = batch.size_bytes();
    let recipe = Recipe::plain(size, 7);
    assert_eq!(forwardable_to(&batch, &all, &recipe), Ok(7));
    assert_eq!(forwardable_to(&batch, &all, &Recipe::plain(size - 1, 7)), Err(Reason::TooLarge));
    let some = [OffsetRange { first: 10, last: 13 }];
    assert_eq!(forwardable_to(&batch, &some, &recipe), Err(Reason::PartlyAcquired));

    let codec = |codec| forwardable_to(&batch, &all, &Recipe { codec: Some(codec), ..recipe.clone() });
    assert_eq!(codec(Codec::Zstd), Err(Reason::CompressionType));
    assert_eq!(codec(Codec::Uncompressed), Ok(7));
    let placement = Placement::ByKey { count: 2, keyless: 0 };
    assert_eq!(forwardable_to(&batch, &all, &Recipe { placement, ..recipe.clone() }), Err(Reason::ByKey));
    let hop = Some(crate::batch::Hop { from: "A".into(), to: "B".into() });
    assert_eq!(forwardable_to(&batch, &all, &Recipe { hop, ..recipe }), Err(Reason::HopHeader));
}

/// A broker stores wrong deltas of an uncompressed batch, and readers then miss records.
#[test]
fn uncompressed_records_out_of_order_or_malformed_are_not_forwarded() {
    let mut swapped = Sample::of(10, 0..5);
    swapped.records.swap(1, 2);
    assert_eq!(reason(&swapped), Some(Reason::Deltas));
    let mut fewer = Sample::of(10, 0..5);
    fewer.records.pop();
    assert_eq!(reason(&fewer), Some(Reason::Deltas));
    let mut more = Sample::of(10, 0..6);
    (more.record_count, more.last_offset_delta) = (5, 4);
    assert_eq!(reason(&more), Some(Reason::Deltas));
}

#[test]
fn the_stamp_replaces_the_source_and_nothing_else() {
    let source = Sample::of(10, 0..5).with_attributes(0b101_0000 | 4).batch();
    let forwarded = forward(&source, STAMP);
    assert_eq!(forwarded.payload.as_ptr(), source.payload().as_ptr());
    let target = joined(&forwarded);
    target.check().unwrap();
    assert_eq!(target.base_offset(), 0);
    assert_eq!(target.leader_epoch(), -1);
    assert_eq!(target.attributes(), 0b1_0000 | 4);
    assert_eq!(target.producer_id(), 99);
    assert_eq!(target.producer_epoch(), 5);
    assert_eq!(target.base_sequence(), 1234);
    assert_eq!(target.last_offset(), 4);
    assert_eq!(target.record_count(), 5);
    assert_eq!(target.base_timestamp(), source.base_timestamp());
    assert_eq!(target.max_timestamp(), source.max_timestamp());
}

proptest! {
    #[test]
    fn the_payload_stays_and_the_checksum_fits(
        payload in prop::collection::vec(any::<u8>(), 0..5000),
        attributes in any::<i16>(),
        stamp in (any::<i64>(), any::<i16>(), any::<i32>()),
    ) {
        let (producer_id, producer_epoch, base_sequence) = stamp;
        let stamp = Stamp { producer_id, producer_epoch, base_sequence };
        let bytes = Sample::of(10, 0..5).with_attributes(attributes).around(&payload);
        let target = joined(&forward(&RecordBatch::parse(bytes).unwrap(), stamp));
        prop_assert_eq!(&target.payload()[..], &payload[..]);
        prop_assert!(target.check().is_ok());
        prop_assert!(target.is_transactional());
    }

    #[test]
    fn hostile_payloads_never_panic(payload in prop::collection::vec(any::<u8>(), 0..500)) {
        let bytes = Sample::of(10, 0..5).around(&payload);
        let split: Vec<Result<RecordBatch, BatchError>> = RecordBatch::split(bytes).collect();
        let batch = split[0].as_ref().unwrap();
        let all = [batch.offsets()];
        let reason = forwardable_to(batch, &all, &Recipe::plain(SIZE_MAX, 0)).err();
        prop_assert!(matches!(reason, None | Some(Reason::Deltas)));
    }
}
