//! The first pass: how many records a side holds, and in which buckets of the hash space the sides differ.

use super::digest::Digest;
use super::plan::Crowd;
use super::reader::{Tally, TooMany};
use super::record::{Basis, Fields, RecordHasher};
use super::report::Content;

/// One side of a partition in fixed memory, whatever the number of its records.
pub(super) struct Census {
    hasher: RecordHasher,
    buckets: Vec<Bucket>,
    record_count: u64,
    digest: Digest,
}

/// Stands for the records of one range of identities: buckets of equal records are equal.
///
/// That unequal ones are equal too takes a coincidence in all 64 bits of the sum, and of the exclusive or as well unless
/// all identities agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    record_count: u64,
    /// Of the contents, wrapping.
    sum: u64,
    /// Of the identities, by exclusive or.
    xor: u64,
}

impl Census {
    pub(super) fn new(bucket_count: u32) -> Census {
        Census {
            hasher: RecordHasher::new(Basis::EveryRecord),
            buckets: vec![Bucket::default(); bucket_count as usize],
            record_count: 0,
            digest: Digest::default(),
        }
    }

    /// What was counted.
    pub(super) fn content(&self) -> Content {
        Content { record_count: self.record_count, digest: self.digest, ..Content::default() }
    }

    /// The buckets in which a target with as many buckets differs from this source, ascending.
    pub(super) fn differing(&self, target: &Census) -> Vec<Crowd> {
        let pairs = (0..).zip(self.buckets.iter().zip(&target.buckets));
        let differing = pairs.filter(|(_, (source, target))| source != target);
        let crowds = differing.map(|(bucket, (source, target))| Crowd {
            bucket,
            record_count: source.record_count.max(target.record_count),
        });
        crowds.collect()
    }
}

impl Tally for Census {
    fn add(&mut self, _offset: i64, fields: &Fields<'_>) -> Result<(), TooMany> {
        let hash = self.hasher.hash(fields);
        let index = hash.bucket(self.buckets.len() as u32);
        let bucket = &mut self.buckets[index];
        bucket.record_count += 1;
        bucket.sum = bucket.sum.wrapping_add(hash.content);
        bucket.xor ^= hash.identity;
        self.record_count += 1;
        self.digest.add(hash);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Record = (Option<u8>, u8);

    fn fields((key, value): &Record) -> Fields<'_> {
        let value = Some(std::slice::from_ref(value));
        Fields { key: key.as_ref().map(std::slice::from_ref), value, ..Fields::default() }
    }

    fn census(records: &[Record], bucket_count: u32) -> Census {
        let mut census = Census::new(bucket_count);
        records.iter().for_each(|record| census.add(0, &fields(record)).unwrap());
        census
    }

    proptest! {
        #[test]
        fn exactly_the_buckets_with_a_difference_differ(
            shared in vec(any::<Record>(), 0..50),
            source in vec(any::<Record>(), 0..4),
            target in vec(any::<Record>(), 0..4),
            bucket_count in 1u32..40,
        ) {
            let side = |own: &[Record]| [&shared[..], own].concat();
            let of = |records: &[Record], bucket: usize| {
                let mut hasher = RecordHasher::new(Basis::EveryRecord);
                let inside = records.iter().filter(|record| hasher.hash(&fields(record)).bucket(bucket_count) == bucket);
                let mut inside: Vec<Record> = inside.copied().collect();
                inside.sort_unstable();
                inside
            };
            let (source, mut target) = (side(&source), side(&target));
            target.reverse();
            let found = census(&source, bucket_count).differing(&census(&target, bucket_count));
            let found: BTreeSet<(u32, u64)> = found.iter().map(|crowd| (crowd.bucket, crowd.record_count)).collect();
            let expected = (0..bucket_count).filter_map(|bucket| {
                let (source, target) = (of(&source, bucket as usize), of(&target, bucket as usize));
                (source != target).then(|| (bucket, source.len().max(target.len()) as u64))
            });
            prop_assert_eq!(found, expected.collect());
        }
    }

    #[test]
    fn a_census_counts_records_and_digests_them() {
        let (one, two) = (census(&[(Some(1), 1), (None, 2)], 3), census(&[(None, 2), (Some(1), 1)], 7));
        assert_eq!(one.content().record_count, 2);
        assert_eq!(one.content(), two.content());
    }
}
