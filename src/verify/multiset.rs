//! Multisets of record hashes and their comparison.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::digest::Digest;

/// Collects the hashes of one partition, in any order.
pub(super) struct Collector {
    hashes: Vec<u128>,
    /// Copies beyond the first of hashes that occur several times, as far as they were folded.
    surplus: HashMap<u128, u64>,
    fold_at: usize,
    digest: Digest,
}

impl Collector {
    /// `expected`: the number of hashes to take memory for. More may come: repeated ones are folded then, so that
    /// memory grows with the distinct hashes only.
    pub(super) fn with_capacity(expected: usize) -> Collector {
        Collector {
            hashes: Vec::with_capacity(expected),
            surplus: HashMap::new(),
            fold_at: expected.max(1),
            digest: Digest::default(),
        }
    }

    /// Adds one copy of a hash.
    pub(super) fn push(&mut self, hash: u128) {
        if self.hashes.len() >= self.fold_at {
            self.fold();
            // Doubling keeps the cost of folding linear where all hashes are distinct.
            self.fold_at = self.fold_at.max(2 * self.hashes.len());
        }
        self.hashes.push(hash);
        self.digest.add(hash);
    }

    /// Sorts what was collected.
    pub(super) fn finish(mut self) -> Multiset {
        self.fold();
        Multiset {
            record_count: self.hashes.len() as u64 + self.surplus.values().sum::<u64>(),
            distinct: self.hashes,
            surplus: self.surplus,
            digest: self.digest,
        }
    }

    fn fold(&mut self) {
        self.hashes.sort_unstable();
        let surplus = &mut self.surplus;
        self.hashes.dedup_by(|later, first| {
            let repeated = later == first;
            if repeated {
                *surplus.entry(*first).or_default() += 1;
            }
            repeated
        });
    }
}

/// The record hashes of one side of a partition, with their multiplicity.
#[derive(Default)]
pub(super) struct Multiset {
    /// Ascending, without repetition.
    distinct: Vec<u128>,
    /// Copies beyond the first.
    surplus: HashMap<u128, u64>,
    record_count: u64,
    digest: Digest,
}

impl Multiset {
    /// Records, copies included.
    pub(super) fn record_count(&self) -> u64 {
        self.record_count
    }

    /// Digest over all records, copies included.
    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// How a target differs from this source.
    pub(super) fn compare(&self, target: &Multiset) -> Difference {
        let mut difference = Difference::default();
        let (mut ours, mut theirs) = (self.runs().peekable(), target.runs().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return difference,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(source), Some(target)) => source.hash.cmp(&target.hash),
            };
            let source = ours.next_if(|_| order != Ordering::Greater);
            let target = theirs.next_if(|_| order != Ordering::Less);
            let copies = |run: Option<Run>| run.map_or(0, |run| run.copies);
            difference.count(copies(source), copies(target));
        }
    }

    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.distinct.iter().map(|hash| Run { hash: *hash, copies: 1 + self.surplus.get(hash).copied().unwrap_or(0) })
    }
}

struct Run {
    hash: u128,
    copies: u64,
}

/// How the target's records differ from the source's.
///
/// target records = source records - missing + extra + duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Copies that the source has and the target lacks.
    pub(super) missing: u64,
    /// Records on the target that the source does not have at all.
    pub(super) extra: u64,
    /// Copies on the target beyond the number on the source, of records that the source has.
    pub(super) duplicates: u64,
}

impl Difference {
    fn count(&mut self, source_copies: u64, target_copies: u64) {
        if source_copies == 0 {
            self.extra += target_copies;
        } else {
            self.missing += source_copies.saturating_sub(target_copies);
            self.duplicates += target_copies.saturating_sub(source_copies);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn multiset(hashes: &[u128], expected: usize) -> Multiset {
        let mut collector = Collector::with_capacity(expected);
        hashes.iter().for_each(|hash| collector.push(*hash));
        collector.finish()
    }

    /// The same by one map and no cleverness.
    fn model(source: &[u128], target: &[u128]) -> Difference {
        let mut copies: HashMap<u128, (u64, u64)> = HashMap::new();
        source.iter().for_each(|hash| copies.entry(*hash).or_default().0 += 1);
        target.iter().for_each(|hash| copies.entry(*hash).or_default().1 += 1);
        let mut difference = Difference::default();
        for (source, target) in copies.into_values() {
            match (source, target) {
                (0, extra) => difference.extra += extra,
                (s, t) if s > t => difference.missing += s - t,
                (s, t) => difference.duplicates += t - s,
            }
        }
        difference
    }

    proptest! {
        #[test]
        fn comparing_agrees_with_a_plain_count(
            source in vec(0u128..12, 0..60),
            target in vec(0u128..12, 0..60),
            expected in 0usize..40,
        ) {
            let (left, right) = (multiset(&source, expected), multiset(&target, expected));
            let difference = left.compare(&right);
            prop_assert_eq!(difference, model(&source, &target));
            prop_assert_eq!(left.record_count(), source.len() as u64);
            prop_assert_eq!(
                right.record_count() + difference.missing,
                left.record_count() + difference.extra + difference.duplicates
            );
            let same = difference == Difference::default();
            prop_assert_eq!(same, {
                let (mut s, mut t) = (source, target);
                s.sort_unstable();
                t.sort_unstable();
                s == t
            });
        }
    }

    #[test]
    fn copies_of_one_record_take_no_memory() {
        let mut collector = Collector::with_capacity(4);
        for _ in 0..10_000 {
            collector.push(7);
        }
        assert!(collector.hashes.capacity() < 16);
        let multiset = collector.finish();
        assert_eq!(multiset.record_count(), 10_000);
        assert_eq!(multiset.compare(&Multiset::default()).missing, 10_000);
    }
}
