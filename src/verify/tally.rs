//! What is taken from each record that was read, by the kind of topic.

use std::collections::HashMap;

use super::digest::{Fields, RecordHasher, key_hash};
use super::multiset::{Collector, Multiset};

/// Which records of a topic are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Every record, with its multiplicity.
    EveryRecord,
    /// The last record of each key, because the topic is compacted on a side. A key whose last record is a tombstone
    /// equals an absent key, and records without a key do not count: the log cleaner removes both in its own time.
    LastPerKey,
}

/// The part of all hashes that one round looks at; `index` of `count` equal ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) index: u32,
    pub(super) count: u32,
}

impl Slice {
    /// All hashes.
    pub(super) const WHOLE: Slice = Slice { index: 0, count: 1 };

    /// Every hash is in exactly one of the `count` slices.
    pub(super) fn contains(self, hash: u128) -> bool {
        let range = ((hash >> 64) * u128::from(self.count)) >> 64;
        range == u128::from(self.index)
    }
}

/// Collects one side of a partition, record by record in the order of offsets.
pub(super) struct Tally {
    slice: Slice,
    hasher: RecordHasher,
    seen: Seen,
}

enum Seen {
    Every(Collector),
    /// Hash of the key to hash of the record.
    Last(HashMap<u128, u128>),
}

impl Tally {
    /// `expected`: at most how many records are likely to fall into the slice.
    pub(super) fn new(basis: Basis, slice: Slice, expected: usize) -> Tally {
        Tally {
            slice,
            hasher: RecordHasher::default(),
            seen: match basis {
                Basis::EveryRecord => Seen::Every(Collector::with_capacity(expected)),
                Basis::LastPerKey => Seen::Last(HashMap::new()),
            },
        }
    }

    /// Takes note of the next record.
    pub(super) fn add(&mut self, fields: &Fields<'_>) {
        match &mut self.seen {
            Seen::Every(collector) => {
                let hash = self.hasher.hash(fields);
                if self.slice.contains(hash) {
                    collector.push(hash);
                }
            }
            Seen::Last(records) => {
                let Some(key) = fields.key.map(key_hash) else {
                    return;
                };
                if !self.slice.contains(key) {
                    return;
                }
                if fields.value.is_some() {
                    records.insert(key, self.hasher.hash(fields));
                } else {
                    records.remove(&key);
                }
            }
        }
    }

    /// The hashes to compare.
    pub(super) fn finish(self) -> Multiset {
        match self.seen {
            Seen::Every(collector) => collector.finish(),
            Seen::Last(records) => {
                let mut collector = Collector::with_capacity(records.len());
                records.into_values().for_each(|hash| collector.push(hash));
                collector.finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(basis: Basis, slice: Slice, records: &[(Option<u8>, Option<u8>)]) -> Multiset {
        let mut tally = Tally::new(basis, slice, 4);
        for (key, value) in records {
            tally.add(&Fields {
                key: key.as_ref().map(std::slice::from_ref),
                value: value.as_ref().map(std::slice::from_ref),
                ..Fields::default()
            });
        }
        tally.finish()
    }

    proptest! {
        #[test]
        fn every_hash_is_in_exactly_one_slice(hash: u128, count in 1u32..100) {
            let slices = (0..count).map(|index| Slice { index, count });
            prop_assert_eq!(slices.filter(|slice| slice.contains(hash)).count(), 1);
        }

        #[test]
        fn slices_add_up_to_the_whole(
            records: Vec<(Option<u8>, Option<u8>)>,
            count in 1u32..5,
            compacted: bool,
        ) {
            let basis = if compacted { Basis::LastPerKey } else { Basis::EveryRecord };
            let whole = tally(basis, Slice::WHOLE, &records);
            let (mut record_count, mut digest) = (0, crate::verify::Digest::default());
            for index in 0..count {
                let part = tally(basis, Slice { index, count }, &records);
                record_count += part.record_count();
                digest.merge(part.digest());
            }
            prop_assert_eq!((record_count, digest), (whole.record_count(), whole.digest()));
        }
    }

    #[test]
    fn c24_compaction_changes_nothing_that_counts() {
        let dirty = [(Some(1), Some(1)), (Some(2), Some(1)), (Some(1), None), (Some(2), Some(2)), (None, Some(9))];
        let clean = [(Some(2), Some(2))];
        let altered = [(Some(2), Some(3))];
        let of = |records: &[_]| tally(Basis::LastPerKey, Slice::WHOLE, records);
        assert_eq!(of(&dirty).compare(&of(&clean)), Default::default());
        let difference = of(&dirty).compare(&of(&altered));
        assert_eq!((difference.missing, difference.extra), (1, 1));
    }
}
