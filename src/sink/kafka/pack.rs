//! From a parcel to record batches that the target takes (pure).

use crate::batch::{Carver, OffsetRange, Reason, Recipe, RecordBatch, append, forwardable_to, within};
use crate::sink::PartitionFault;
use crate::source::Parcel;

/// A parcel made ready to be written.
#[derive(Debug, Default)]
pub struct Packed {
    /// What the parcel held.
    pub held: Vec<OffsetRange>,
    /// Whole batches where nothing speaks against it, carved ones elsewhere, each with its partition on the target; each can be
    /// forwarded.
    pub batches: Vec<(i32, RecordBatch)>,
    /// The offsets that hold records: ascending.
    pub offsets: Vec<OffsetRange>,
    /// How many of these records have been on the target before, and are left out.
    pub looped: u64,
    /// Why batches had to be taken apart.
    pub carved: Vec<Reason>,
}

/// Packs what a parcel holds now. Every checksum is verified, once.
///
/// Errors: a corrupt or unreadable batch; a record over the limit; acquired offsets beyond what was delivered.
pub fn pack(parcel: &Parcel, recipe: &Recipe) -> Result<Packed, PartitionFault> {
    let mut packed = Packed { held: parcel.held(), ..Packed::default() };
    let mut carver = Carver::new(recipe);
    let mut delivered: Option<OffsetRange> = None;
    for batch in RecordBatch::split(parcel.records.clone()) {
        let batch = batch?;
        let span = batch.offsets();
        delivered = Some(delivered.map_or(span, |seen| OffsetRange { last: span.last, ..seen }));
        if within(&packed.held, span).is_empty() {
            continue;
        }
        batch.check()?;
        match forwardable_to(&batch, &packed.held, recipe) {
            Ok(partition) => {
                packed.batches.extend(carver.finish()?);
                append(&mut packed.offsets, span);
                packed.batches.push((partition, batch));
            }
            Err(reason) => {
                let taken = carver.take(&batch, &packed.held)?;
                taken.offsets.into_iter().for_each(|range| append(&mut packed.offsets, range));
                packed.looped += taken.looped;
                packed.carved.push(reason);
            }
        }
    }
    packed.batches.extend(carver.finish()?);
    // Offsets without a batch between two batches were compacted away; outside of all batches, nobody knows what they hold.
    match packed.held.iter().find(|range| delivered.is_none_or(|d| range.first < d.first || range.last > d.last)) {
        Some(range) => Err(PartitionFault::Undelivered(*range)),
        None => Ok(packed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample;
    use crate::source::{Hold, TopicPartition};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    fn far_off() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn pack(parcel: &Parcel) -> Result<Packed, PartitionFault> {
        super::pack(parcel, &Recipe::plain(1 << 20, 7))
    }

    fn parcel(records: bytes::Bytes, held: &[(i64, i64)]) -> Parcel {
        let ranges = held.iter().map(|&(first, last)| OffsetRange { first, last }).collect();
        Parcel {
            at: TopicPartition { topic: "t".into(), partition: 0 },
            topic_id: uuid::Uuid::nil(),
            leader: 1,
            records,
            hold: Arc::new(Hold::new(ranges, far_off())),
            span: OffsetRange { first: 0, last: i64::MAX },
            delivery_count: 1,
            fragile: false,
            fetched_at: Instant::now(),
        }
    }

    #[test]
    fn whole_batches_share_the_bytes_that_came() {
        let records = sample::batches(10, &[5, 5]);
        let packed = pack(&parcel(records.clone(), &[(10, 19)])).unwrap();
        assert_eq!(packed.offsets, [OffsetRange { first: 10, last: 19 }]);
        assert_eq!(packed.batches[0].1.bytes().as_ptr(), records.as_ptr());
        assert_eq!(packed.batches.len(), 2);
    }

    #[test]
    fn what_is_not_ours_is_left_out() {
        let records = sample::batches(10, &[5, 5, 5]);
        let packed = pack(&parcel(records, &[(12, 16)])).unwrap();
        assert_eq!(packed.offsets, [OffsetRange { first: 12, last: 16 }]);
        let counts: Vec<_> = packed.batches.iter().map(|(to, batch)| (*to, batch.record_count())).collect();
        assert_eq!(counts, [(7, 5)]);
        assert_eq!(packed.carved, [Reason::PartlyAcquired; 2]);
    }

    #[test]
    fn carved_and_whole_batches_keep_their_order() {
        let packed = pack(&parcel(sample::batches(0, &[5, 5, 5]), &[(1, 9), (11, 14)])).unwrap();
        let counts: Vec<_> = packed.batches.iter().map(|(_, batch)| batch.record_count()).collect();
        assert_eq!((counts, packed.carved.len()), (vec![4, 5, 4], 2));
    }

    #[test]
    fn offsets_that_were_not_delivered_are_never_taken_for_gaps() {
        let records = sample::batches(10, &[5]);
        for held in [(8, 14), (10, 15)] {
            let error = pack(&parcel(records.clone(), &[held])).unwrap_err();
            assert!(matches!(error, PartitionFault::Undelivered(_)), "{error}");
        }
        assert!(pack(&parcel(bytes::Bytes::new(), &[(0, 0)])).is_err());
    }

    #[test]
    fn a_part_that_begins_in_a_hole_has_its_witness() {
        let records = [sample::batches(0, &[10, 10]), sample::batches(30, &[10, 10])].concat();
        let whole = parcel(records.into(), &[(0, 49)]);
        let (left, right) = whole.split().unwrap();
        let offsets = |part| pack(part).unwrap().offsets;
        assert_eq!(offsets(&left), [OffsetRange { first: 0, last: 19 }]);
        assert_eq!(offsets(&right), [OffsetRange { first: 30, last: 49 }]);
        assert_eq!(right.held(), [OffsetRange { first: 20, last: 49 }]);
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let mut records = sample::batches(10, &[5]).to_vec();
        *records.last_mut().unwrap() ^= 1;
        let error = pack(&parcel(records.into(), &[(10, 14)])).unwrap_err();
        assert!(error.to_string().contains("offset 10"), "{error}");
    }
}
