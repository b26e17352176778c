//! Which offsets of a classic fetch hold committed records (pure).
//!
//! A `read_committed` Fetch returns all that lies below the last stable offset, together with a list of the aborted transactions in
//! it: leaving their records out is the reader's part. Source: FetchResponse.json, KIP-98.

use std::collections::HashSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use super::{OffsetRange, RecordBatch};

/// A transaction that was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted {
    /// Who wrote it.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
}

/// The offsets of `batches`, which are in the order of their log, without markers and without the transactions in `aborted`.
pub fn committed(batches: &[RecordBatch], aborted: &[Aborted]) -> Vec<OffsetRange> {
    let mut transactions = Transactions::new(aborted.to_vec());
    batches.iter().filter(|batch| transactions.shows(batch)).map(RecordBatch::offsets).collect()
}

/// Follows the transactions of a log from batch to batch.
#[derive(Debug)]
pub struct Transactions {
    /// Aborted ones that begin later.
    begins: Peekable<IntoIter<Aborted>>,
    /// Producers inside of an aborted one.
    open: HashSet<i64>,
}

impl Transactions {
    /// At the beginning of what a fetch has brought, with all aborted transactions in it, in any order.
    pub fn new(mut aborted: Vec<Aborted>) -> Self {
        aborted.sort_unstable_by_key(|transaction| transaction.first_offset);
        Self { begins: aborted.into_iter().peekable(), open: HashSet::new() }
    }

    /// Whether the records of a batch are committed. Batches come in the order of their log, each once.
    pub fn shows(&mut self, batch: &RecordBatch) -> bool {
        while let Some(begun) = self.begins.next_if(|transaction| transaction.first_offset <= batch.last_offset()) {
            self.open.insert(begun.producer_id);
        }
        if batch.is_control() {
            self.open.remove(&batch.producer_id());
            return false;
        }
        !(batch.is_transactional() && self.open.contains(&batch.producer_id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::header::{CONTROL, TRANSACTIONAL};
    use crate::batch::sample::{self, Sample};

    fn transactional(base_offset: i64, records: i32, producer_id: i64) -> RecordBatch {
        Sample { producer_id, ..Sample::of(base_offset, 0..records).with_attributes(TRANSACTIONAL) }.batch()
    }

    fn marker(base_offset: i64, producer_id: i64) -> RecordBatch {
        Sample { producer_id, ..Sample::of(base_offset, [0]).with_attributes(TRANSACTIONAL | CONTROL) }.batch()
    }

    fn ranges(batches: &[RecordBatch], aborted: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let aborted: Vec<Aborted> =
            aborted.iter().map(|&(producer_id, first_offset)| Aborted { producer_id, first_offset }).collect();
        committed(batches, &aborted).into_iter().map(|range| (range.first, range.last)).collect()
    }

    #[test]
    fn c27_committed_records_between_aborted_ones_stay() {
        let (one, other) = (7, 8);
        let batches = [
            transactional(0, 2, one),
            marker(2, one),
            transactional(3, 2, one),
            transactional(5, 2, other),
            marker(7, one),
            transactional(8, 2, one),
            marker(10, one),
            marker(11, other),
        ];
        assert_eq!(ranges(&batches, &[(one, 3)]), [(0, 1), (5, 6), (8, 9)]);
        assert_eq!(ranges(&batches, &[(other, 5), (one, 3)]), [(0, 1), (8, 9)]);
        assert_eq!(ranges(&batches, &[]), [(0, 1), (3, 4), (5, 6), (8, 9)]);
    }

    #[test]
    fn a_transaction_that_began_before_the_fetch_is_left_out() {
        assert_eq!(ranges(&[transactional(50, 2, 7), marker(52, 7)], &[(7, 10)]), []);
    }

    #[test]
    fn records_outside_of_transactions_are_committed() {
        let batches: Vec<RecordBatch> = RecordBatch::split(sample::batches(0, &[3, 2])).map(Result::unwrap).collect();
        assert_eq!(ranges(&batches, &[(-1, 0)]), [(0, 2), (3, 4)]);
    }
}
