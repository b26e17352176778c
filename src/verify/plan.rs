//! Divides the work so that it fits in memory: rounds of partitions for the census, passes over what differed in it.

use super::error::VerifyError;
use super::record::RecordHash;
use crate::limits::{
    BUCKETS_PER_PARTITION_MAX, BUCKETS_PER_ROUND_MAX, PASSES_MAX, RECORDS_PER_BUCKET, RECORDS_PER_PASS_MAX,
};

/// Offsets from `low` up to, not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) low: i64,
    pub(super) end: i64,
}

impl Span {
    /// Offsets in the span: at least as many as records, since some are markers or were cleaned away.
    pub(super) fn len(self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.low)).unwrap_or(0)
    }
}

/// A partition on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) partition: i32,
    /// Source, then target.
    pub(super) spans: [Span; 2],
    /// Which sides have the partition; the span of another is empty.
    pub(super) exists: [bool; 2],
}

impl Pair {
    /// Offsets on both sides together.
    pub(super) fn len(self) -> u64 {
        self.spans[0].len().saturating_add(self.spans[1].len())
    }

    /// Offsets on the longer side.
    fn longest(self) -> u64 {
        self.spans[0].len().max(self.spans[1].len())
    }

    /// Into how many buckets its records are divided on each side.
    pub(super) fn bucket_count(self) -> u32 {
        let wanted = self.longest().div_ceil(RECORDS_PER_BUCKET);
        wanted.clamp(1, BUCKETS_PER_PARTITION_MAX.into()) as u32
    }

    /// All of its buckets, where no census can tell which of them differ.
    pub(super) fn all_buckets(self) -> Vec<Crowd> {
        let count = self.bucket_count();
        let record_count = self.longest().div_ceil(count.into());
        (0..count).map(|bucket| Crowd { bucket, record_count }).collect()
    }
}

/// The partitions of a topic in groups whose buckets fit in memory together.
pub(super) fn rounds(pairs: impl Iterator<Item = Pair>) -> Vec<Vec<Pair>> {
    let mut rounds: Vec<Vec<Pair>> = Vec::new();
    let mut room = 0;
    for pair in pairs {
        let count = pair.bucket_count();
        if room < count {
            rounds.push(Vec::new());
            room = BUCKETS_PER_ROUND_MAX;
        }
        room -= count;
        rounds.last_mut().expect("the first pair opens a round").push(pair);
    }
    rounds
}

/// A bucket whose records are to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowd {
    pub(super) bucket: u32,
    /// Records in it, on the side that has more.
    pub(super) record_count: u64,
}

/// Some buckets of a partition.
#[derive(Debug)]
pub(super) struct Selection {
    pair: Pair,
    /// By bucket.
    chosen: Vec<bool>,
    record_count: u64,
}

impl Selection {
    fn new(pair: Pair) -> Selection {
        Selection { pair, chosen: vec![false; pair.bucket_count() as usize], record_count: 0 }
    }

    pub(super) fn pair(&self) -> Pair {
        self.pair
    }

    /// Does a record with this hash belong to it?
    pub(super) fn contains(&self, hash: RecordHash) -> bool {
        self.chosen[hash.bucket(self.chosen.len() as u32)]
    }

    /// Most records of one side to take memory for at once.
    pub(super) fn capacity(&self) -> usize {
        self.record_count.min(RECORDS_PER_PASS_MAX) as usize
    }

    fn add(&mut self, crowd: Crowd) {
        self.chosen[crowd.bucket as usize] = true;
        self.record_count = self.record_count.saturating_add(crowd.record_count);
    }
}

/// The crowds of some partitions in passes that fit in memory. A crowd that is too large by itself has its own pass: it
/// fits if its records are copies of few.
///
/// Errors: [`VerifyError::TooLarge`] where that takes more than [`PASSES_MAX`].
pub(super) fn passes(topic: &str, crowded: &[(Pair, Vec<Crowd>)]) -> Result<Vec<Vec<Selection>>, VerifyError> {
    let mut passes: Vec<Vec<Selection>> = Vec::new();
    let mut room = 0;
    for (pair, crowds) in crowded {
        let mut open: Option<Selection> = None;
        for crowd in crowds {
            if room < crowd.record_count || passes.is_empty() {
                close(&mut passes, open.take());
                if passes.len() == PASSES_MAX {
                    return Err(VerifyError::TooLarge { topic: topic.to_owned(), partition: pair.partition });
                }
                passes.push(Vec::new());
                room = RECORDS_PER_PASS_MAX;
            }
            room = room.saturating_sub(crowd.record_count);
            open.get_or_insert_with(|| Selection::new(*pair)).add(*crowd);
        }
        close(&mut passes, open);
    }
    Ok(passes)
}

fn close(passes: &mut [Vec<Selection>], selection: Option<Selection>) {
    if let Some(pass) = passes.last_mut() {
        pass.extend(selection);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn pair(partition: i32, source: u64, target: u64) -> Pair {
        let span = |len: u64| Span { low: 5, end: 5 + len as i64 };
        Pair { partition, spans: [span(source), span(target)], exists: [true; 2] }
    }

    proptest! {
        #[test]
        fn rounds_hold_every_partition_once_and_fit(lens in vec((0u64..1 << 30, 0u64..1 << 30), 0..200)) {
            let pairs: Vec<Pair> = (0..).zip(&lens).map(|(number, lens)| pair(number, lens.0, lens.1)).collect();
            let rounds = rounds(pairs.iter().copied());
            for round in &rounds {
                let buckets: u32 = round.iter().map(|pair| pair.bucket_count()).sum();
                prop_assert!(!round.is_empty() && buckets <= BUCKETS_PER_ROUND_MAX);
            }
            prop_assert_eq!(rounds.concat(), pairs);
        }

        #[test]
        fn passes_hold_every_crowd_once_and_fit(
            sizes in vec(vec(1..RECORDS_PER_PASS_MAX + 2, 0..20), 0..10),
        ) {
            let crowded: Vec<(Pair, Vec<Crowd>)> = (0..).zip(&sizes).map(|(number, sizes)| {
                let crowds = (0..).zip(sizes).map(|(bucket, size)| Crowd { bucket, record_count: *size });
                (pair(number, 20 * RECORDS_PER_BUCKET, 0), crowds.collect())
            }).collect();
            let passes = passes("orders", &crowded).unwrap();
            let mut found = BTreeSet::new();
            for pass in &passes {
                let mut crowd_count = 0;
                for selection in pass {
                    let chosen = (0..).zip(&selection.chosen).filter(|(_, chosen)| **chosen);
                    for (bucket, _) in chosen {
                        crowd_count += 1;
                        prop_assert!(found.insert((selection.pair().partition as usize, bucket)));
                    }
                }
                let record_count: u64 = pass.iter().map(|selection| selection.record_count).sum();
                prop_assert!(record_count <= RECORDS_PER_PASS_MAX || crowd_count == 1);
                prop_assert!(crowd_count > 0);
            }
            let expected = sizes.iter().enumerate().flat_map(|(number, sizes)| (0..sizes.len()).map(move |b| (number, b)));
            prop_assert_eq!(found, expected.collect());
        }
    }

    #[test]
    fn ten_million_records_need_one_round_and_few_records_are_read_again() {
        let large = pair(0, 10_000_000, 10_000_000);
        assert_eq!(large.bucket_count(), BUCKETS_PER_PARTITION_MAX);
        assert!(large.all_buckets()[0].record_count < 64);
        assert_eq!(rounds([large].into_iter()).len(), 1);
        assert_eq!(passes("orders", &[(large, large.all_buckets())]).unwrap().len(), 6);
    }

    #[test]
    fn a_selection_contains_the_hashes_of_its_buckets() {
        let mut selection = Selection::new(pair(0, 4 * RECORDS_PER_BUCKET, 0));
        selection.add(Crowd { bucket: 2, record_count: 1 });
        let contained = [0u64, 1, 2, 3]
            .map(|quarter| selection.contains(RecordHash { identity: (quarter << 62) + 1, content: u64::MAX }));
        assert_eq!(contained, [false, false, true, false]);
    }

    #[test]
    fn an_absurd_offset_is_refused_before_memory_is_taken() {
        let absurd = pair(0, i64::MAX as u64 - 5, 0);
        let error = passes("orders", &[(absurd, absurd.all_buckets())]).unwrap_err();
        assert!(matches!(error, VerifyError::TooLarge { partition: 0, .. }));
    }
}
