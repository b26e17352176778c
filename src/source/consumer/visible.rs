//! What a fetch has brought of a partition: whole record batches, and the committed offsets in them. By headers alone, and pure.

use bytes::Bytes;

use crate::batch::{Aborted, BatchError, OffsetRange, RecordBatch, Transactions, append};

/// See the module.
#[derive(Debug)]
pub struct Visible {
    /// The record batches that are whole and in order, as they came.
    pub records: Bytes,
    /// Where reading goes on: behind the last of them, or where it stood.
    pub next: i64,
    /// The offsets from `from` on, below `next`, that hold committed records: ascending, neighbours joined.
    pub ranges: Vec<OffsetRange>,
    /// Leader epochs of the batches, each with the first offset that it was seen at; neighbours differ.
    pub epochs: Vec<(i32, i64)>,
    /// The batch at which reading had to stop.
    pub fault: Option<BatchError>,
}

/// Reads what a fetch from offset `from` on has brought. The first batch may begin below, and the last one may be cut.
///
/// `aborted`: the transactions that the broker names with it, in any order.
pub fn visible(mut records: Bytes, aborted: Vec<Aborted>, from: i64) -> Visible {
    let mut transactions = Transactions::new(aborted);
    let (mut size, mut end, mut next) = (0, 0, from);
    let (mut ranges, mut epochs, mut fault) = (vec![], vec![], None);
    for batch in RecordBatch::split(records.clone()) {
        let batch = match batch.and_then(|batch| behind(end, batch)) {
            Ok(batch) => batch,
            Err(error) => {
                fault = Some(error);
                break;
            }
        };
        let OffsetRange { first, last } = batch.offsets();
        let shows = transactions.shows(&batch) && batch.record_count() > 0;
        if shows && last >= from {
            append(&mut ranges, OffsetRange { first: first.max(from), last });
        }
        if epochs.last().is_none_or(|(epoch, _)| *epoch != batch.leader_epoch()) {
            epochs.push((batch.leader_epoch(), first));
        }
        size += batch.size_bytes();
        end = last + 1;
        next = next.max(end);
    }
    records.truncate(size);
    Visible { records, next, ranges, epochs, fault }
}

/// A batch, if it comes behind what ends at `end`.
fn behind(end: i64, batch: RecordBatch) -> Result<RecordBatch, BatchError> {
    let OffsetRange { first, last } = batch.offsets();
    let fits = first >= end && last < i64::MAX;
    fits.then_some(batch).ok_or(BatchError::Order { base_offset: first, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample::{self, Sample};
    use proptest::prelude::*;

    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;

    fn transactional(base_offset: i64, records: i32, producer_id: i64) -> Bytes {
        Sample { producer_id, ..Sample::of(base_offset, 0..records).with_attributes(TRANSACTIONAL) }.bytes()
    }

    fn marker(base_offset: i64, producer_id: i64) -> Bytes {
        Sample { producer_id, ..Sample::of(base_offset, [0]).with_attributes(TRANSACTIONAL | CONTROL) }.bytes()
    }

    fn read(batches: &[Bytes], aborted: &[(i64, i64)], from: i64) -> (Vec<(i64, i64)>, i64) {
        let aborted = aborted.iter().map(|&(producer_id, first_offset)| Aborted { producer_id, first_offset });
        let read = visible(batches.concat().into(), aborted.collect(), from);
        assert!(read.fault.is_none(), "{:?}", read.fault);
        (read.ranges.iter().map(|range| (range.first, range.last)).collect(), read.next)
    }

    /// One producer commits, aborts and commits; another one writes in between.
    fn c27() -> Vec<Bytes> {
        let (one, other) = (7, 8);
        vec![
            transactional(0, 3, one),
            marker(3, one),
            transactional(4, 3, one),
            transactional(7, 2, other),
            marker(9, one),
            transactional(10, 3, one),
            marker(13, one),
            marker(14, other),
        ]
    }

    #[test]
    fn c27_committed_records_between_aborted_ones_stay_wherever_reading_begins() {
        let log = c27();
        assert_eq!(read(&log, &[(7, 4)], 0), (vec![(0, 2), (7, 8), (10, 12)], 15));
        // From the middle of a batch, of the aborted transaction, and from its marker on: the broker names it as long as it reaches in.
        assert_eq!(read(&log, &[(7, 4)], 1), (vec![(1, 2), (7, 8), (10, 12)], 15));
        assert_eq!(read(&log[2..], &[(7, 4)], 5), (vec![(7, 8), (10, 12)], 15));
        assert_eq!(read(&log[3..], &[(7, 4)], 8), (vec![(8, 8), (10, 12)], 15));
        assert_eq!(read(&log[4..], &[(7, 4)], 9), (vec![(10, 12)], 15));
        assert_eq!(read(&log[5..], &[], 11), (vec![(11, 12)], 15));
    }

    #[test]
    fn a_producer_that_aborts_twice_is_heard_in_between() {
        assert_eq!(read(&c27(), &[(7, 10), (7, 0)], 0), (vec![(4, 8)], 15));
        assert_eq!(read(&c27(), &[(8, 7), (7, 4)], 0), (vec![(0, 2), (10, 12)], 15));
    }

    #[test]
    fn what_nobody_may_see_moves_the_position_all_the_same() {
        assert_eq!(read(&[transactional(5, 3, 7), marker(8, 7)], &[(7, 2)], 6), (vec![], 9));
        let empty = Sample { record_count: 0, last_offset_delta: 4, ..Sample::of(10, []) };
        assert_eq!(read(&[empty.bytes()], &[], 10), (vec![], 15));
    }

    #[test]
    fn a_cut_batch_is_left_out_and_holes_are_not() {
        let whole = [Sample::of(0, 0..3).bytes(), Sample::of(5, [1, 4]).bytes()].concat();
        let cut = [&whole[..], &Sample::of(10, 0..3).bytes()[..30]].concat();
        let read = visible(cut.into(), vec![], 0);
        assert_eq!((&read.records[..], read.next), (&whole[..], 10));
        assert_eq!(read.ranges, [OffsetRange { first: 0, last: 2 }, OffsetRange { first: 5, last: 9 }]);
        let nothing = visible(Sample::of(10, 0..3).bytes().slice(..40), vec![], 10);
        assert!(nothing.records.is_empty() && nothing.next == 10 && nothing.fault.is_none());
    }

    #[test]
    fn epochs_are_told_where_they_begin() {
        let epoch = |base, leader_epoch| Sample { leader_epoch, ..Sample::of(base, 0..5) }.bytes();
        let read = visible([epoch(0, 1), epoch(5, 1), epoch(10, 4)].concat().into(), vec![], 2);
        assert_eq!(read.epochs, [(1, 0), (4, 10)]);
    }

    #[test]
    fn reading_stops_before_a_batch_that_makes_no_sense() {
        let good = Sample::of(0, 0..3).bytes();
        let mut old = Sample::of(3, 0..3).bytes().to_vec();
        old[16] = 1;
        let backwards = Sample::of(2, 0..3).bytes().to_vec();
        let endless = Sample { last_offset_delta: 0, ..Sample::of(i64::MAX, [0]) }.bytes().to_vec();
        for (wrong, word) in [(old, "magic 1"), (backwards, "stands behind"), (endless, "stands behind")] {
            let read = visible([&good[..], &wrong, &Sample::of(6, 0..3).bytes()].concat().into(), vec![], 0);
            assert_eq!((&read.records, read.next), (&good, 3));
            assert!(read.fault.unwrap().to_string().contains(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn nonsense_never_panics_and_ranges_ascend(
            bytes: Vec<u8>, place: prop::sample::Index, byte: u8, from in 0..40i64, aborted in prop::collection::vec((6..9i64, 0..20i64), 0..5)
        ) {
            let aborted: Vec<Aborted> =
                aborted.into_iter().map(|(producer_id, first_offset)| Aborted { producer_id, first_offset }).collect();
            visible(bytes.into(), aborted.clone(), from);
            let mut log = [c27().concat(), sample::batches(15, &[3, 4]).to_vec()].concat();
            let place = place.index(log.len());
            log[place] = byte;
            let read = visible(log.into(), aborted, from);
            let mut floor = from;
            for range in read.ranges {
                prop_assert!(range.first >= floor && range.last >= range.first && range.last < read.next);
                floor = range.last + 2;
            }
        }
    }
}
