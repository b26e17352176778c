//! What one transaction takes (pure).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pack::Packed;
use crate::batch::RecordBatch;
use crate::sink::{PartitionFault, SinkError, Written};
use crate::source::TopicPartition;
use crate::wire::WireError;

/// A fault of a topic partition of the target.
pub type Fault = (TopicPartition, WireError);

/// Batches by topic partition of the target.
#[derive(Debug, Default)]
pub struct Load {
    shares: BTreeMap<TopicPartition, Share>,
}

/// Batches for one topic partition, in their order, and where at the source they come from.
#[derive(Debug, Default)]
struct Share {
    batches: Vec<RecordBatch>,
    origins: BTreeSet<TopicPartition>,
}

impl Load {
    /// Adds a parcel of a topic partition of the source, packed for a topic of the target.
    pub fn add(&mut self, from: &TopicPartition, topic: &Arc<str>, packed: Packed) -> Written {
        let Packed { held, batches, offsets, looped, carved } = packed;
        let bytes = batches.iter().map(|(_, batch)| batch.size_bytes() as u64).sum();
        for (partition, batch) in batches {
            let share = self.shares.entry(TopicPartition { topic: topic.clone(), partition }).or_default();
            share.batches.push(batch);
            share.origins.insert(from.clone());
        }
        Written { held, offsets, refused: vec![], looped, bytes, carved }
    }

    /// Topic partitions of the target that get something, with their batches.
    pub fn shares(&self) -> impl Iterator<Item = (&TopicPartition, &[RecordBatch])> {
        self.shares.iter().map(|(at, share)| (at, &share.batches[..]))
    }

    /// Topic partitions of the target that get something.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.shares.keys()
    }

    /// Faults of the target as faults of the source: of a partition from which anything was on its way to one that failed.
    pub fn blame(&self, faults: Vec<Fault>) -> SinkError {
        let mut blamed = BTreeMap::new();
        for (at, error) in faults {
            for origin in self.shares.get(&at).into_iter().flat_map(|share| &share.origins) {
                blamed.entry(origin.clone()).or_insert_with(|| PartitionFault::Target(error.clone()));
            }
        }
        SinkError::Partitions(blamed.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample::Sample;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition }
    }

    #[test]
    fn who_is_on_the_way_to_a_fault_is_blamed() {
        let mut load = Load::default();
        let packed = |partitions: &[i32]| Packed {
            batches: partitions.iter().map(|partition| (*partition, Sample::of(0, 0..2).batch())).collect(),
            looped: 1,
            ..Packed::default()
        };
        let topic: Arc<str> = "copy".into();
        let written = load.add(&at("t", 0), &topic, packed(&[0, 1]));
        assert_eq!((written.bytes, written.looped), (2 * Sample::of(0, 0..2).batch().size_bytes() as u64, 1));
        load.add(&at("t", 1), &topic, packed(&[1]));
        load.add(&at("t", 2), &topic, packed(&[2]));
        load.add(&at("t", 3), &topic, packed(&[]));
        assert_eq!(load.partitions().cloned().collect::<Vec<_>>(), [at("copy", 0), at("copy", 1), at("copy", 2)]);

        let blamed = |partition| {
            let error = WireError::Nobody { cluster: "dr".into(), what: "leader".to_owned() };
            let SinkError::Partitions(faults) = load.blame(vec![(at("copy", partition), error)]) else {
                unreachable!()
            };
            faults.into_iter().map(|(at, _)| at.partition).collect::<Vec<_>>()
        };
        assert_eq!([blamed(0), blamed(1), blamed(2), blamed(9)], [vec![0], vec![0, 1], vec![2], vec![]]);
    }
}
