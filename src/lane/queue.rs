//! What a lane has to write, and how much of it goes into the next transaction (pure).

use std::collections::VecDeque;

use crate::limits::TRANSACTION_BYTES_MIN;
use crate::source::{Parcel, TopicPartition};

/// Parcels in the order in which they are written.
#[derive(Debug)]
pub struct Queue {
    parcels: VecDeque<Parcel>,
    /// Bytes of one transaction: fewer after a failure, so that one too large for its timeout still gets through.
    load_bytes_max: usize,
    load_bytes_ceiling: usize,
}

impl Queue {
    /// An empty queue whose transactions take at most `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self { parcels: VecDeque::new(), load_bytes_max: bytes_max, load_bytes_ceiling: bytes_max }
    }

    /// Appends what a poll has brought: fragile records first, those with the fewest attempts left before the others.
    pub fn extend(&mut self, parcels: Vec<Parcel>) {
        let (mut fragile, sound): (Vec<_>, Vec<_>) = parcels.into_iter().partition(|parcel| parcel.fragile);
        fragile.sort_by_key(|parcel| std::cmp::Reverse(parcel.delivery_count));
        self.parcels.extend(fragile.into_iter().chain(sound));
    }

    /// Puts a load back to where it came from.
    pub fn put_back(&mut self, load: Vec<Parcel>) {
        load.into_iter().rev().for_each(|parcel| self.parcels.push_front(parcel));
    }

    /// Takes everything of one topic partition out.
    pub fn take(&mut self, at: &TopicPartition) -> Vec<Parcel> {
        let (taken, others) = std::mem::take(&mut self.parcels).into_iter().partition(|parcel| parcel.at == *at);
        self.parcels = others;
        Vec::from(taken)
    }

    /// Takes the first parcel of one topic partition out.
    pub fn take_first(&mut self, at: &TopicPartition) -> Option<Parcel> {
        let index = self.parcels.iter().position(|parcel| parcel.at == *at)?;
        self.parcels.remove(index)
    }

    /// Forgets parcels of which nothing is ours any more.
    pub fn drop_lost(&mut self) {
        self.parcels.retain(|parcel| !parcel.held().is_empty());
    }

    /// What the next transaction takes; empty where there is nothing.
    ///
    /// A fragile parcel travels alone. Topic partitions `on_trial` come after all others and each alone, since they are likely to
    /// fail again, and would take the others along. A parcel larger than a transaction may be is taken apart.
    pub fn next_load(&mut self, on_trial: &[&TopicPartition]) -> Vec<Parcel> {
        let is_healthy = |parcel: &Parcel| !on_trial.contains(&&parcel.at);
        let Some(first) = self.parcels.iter().position(is_healthy).or((!self.parcels.is_empty()).then_some(0)) else {
            return vec![];
        };
        let first = self.take_fitting(first);
        let mut bytes = first.size();
        let mut load = vec![first];
        if load[0].fragile || !is_healthy(&load[0]) {
            return load;
        }
        while let Some(index) = self.parcels.iter().position(is_healthy) {
            let next = &self.parcels[index];
            if next.fragile || bytes + next.size() > self.load_bytes_max {
                break;
            }
            bytes += next.size();
            load.extend(self.parcels.remove(index));
        }
        load
    }

    /// Takes out one parcel, or as much of it as fits.
    fn take_fitting(&mut self, index: usize) -> Parcel {
        let mut parcel = self.parcels.remove(index).expect("the caller has found it there");
        while parcel.size() > self.load_bytes_max
            && let Some((part, rest)) = parcel.split()
        {
            self.parcels.insert(index, rest);
            parcel = part;
        }
        parcel
    }

    /// A transaction has failed as a whole: smaller ones from now on.
    pub fn shrink(&mut self) {
        self.load_bytes_max = (self.load_bytes_max / 2).max(TRANSACTION_BYTES_MIN);
    }

    /// A transaction went well: larger ones again.
    pub fn grow(&mut self) {
        self.load_bytes_max = self.load_bytes_max.saturating_mul(2).min(self.load_bytes_ceiling);
    }

    /// All parcels.
    pub fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.parcels.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{OffsetRange, sample};
    use crate::source::Hold;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    fn far_off() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn at(partition: i32) -> TopicPartition {
        TopicPartition { topic: "t".into(), partition }
    }

    fn parcel(partition: i32, counts: &[i32], fragile: Option<i16>) -> Parcel {
        let last = counts.iter().map(|count| i64::from(*count)).sum::<i64>() - 1;
        let span = OffsetRange { first: 0, last };
        Parcel {
            at: at(partition),
            topic_id: uuid::Uuid::nil(),
            leader: 1,
            records: sample::batches(0, counts),
            hold: Arc::new(Hold::new(vec![span], far_off())),
            span,
            delivery_count: fragile.unwrap_or(1),
            fragile: fragile.is_some(),
            fetched_at: Instant::now(),
        }
    }

    fn partitions(load: &[Parcel]) -> Vec<i32> {
        load.iter().map(|parcel| parcel.at.partition).collect()
    }

    #[test]
    fn fragile_parcels_come_first_and_alone() {
        let mut queue = Queue::new(1 << 20);
        queue.extend(vec![
            parcel(0, &[5], None),
            parcel(1, &[5], Some(7)),
            parcel(2, &[5], None),
            parcel(3, &[5], Some(9)),
        ]);
        let loads: Vec<_> = (0..4).map(|_| partitions(&queue.next_load(&[]))).collect();
        assert_eq!(loads, [vec![3], vec![1], vec![0, 2], vec![]]);
    }

    #[test]
    fn partitions_on_trial_come_last_and_alone() {
        let mut queue = Queue::new(1 << 20);
        queue.extend((0..4).map(|partition| parcel(partition, &[5], None)).collect());
        let trial = [&at(0), &at(2)];
        let loads: Vec<_> = (0..3).map(|_| partitions(&queue.next_load(&trial))).collect();
        assert_eq!(loads, [vec![1, 3], vec![0], vec![2]]);
    }

    #[test]
    fn after_failures_even_one_parcel_is_taken_apart_and_nothing_is_lost() {
        let mut queue = Queue::new(1 << 20);
        let counts = [500; 40];
        queue.extend(vec![parcel(0, &counts, None)]);
        (0..10).for_each(|_| queue.shrink());
        let (mut spans, mut sizes) = (vec![], vec![]);
        loop {
            let load = queue.next_load(&[]);
            let Some(part) = load.first() else { break };
            spans.extend(part.held());
            sizes.push(part.size());
        }
        assert_eq!(sizes.len(), counts.len(), "one record batch at a time: {sizes:?}");
        assert!(spans.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
        assert_eq!((spans[0].first, spans.last().unwrap().last), (0, 19_999));
    }

    #[test]
    fn what_is_lost_is_forgotten_and_what_is_put_back_comes_first() {
        let mut queue = Queue::new(1 << 20);
        queue.extend(vec![parcel(0, &[5], None), parcel(1, &[5], None)]);
        let load = queue.next_load(&[]);
        load[0].hold.drop_all();
        queue.extend(vec![parcel(2, &[5], None)]);
        queue.put_back(load);
        queue.drop_lost();
        assert_eq!(partitions(&queue.next_load(&[])), [1, 2]);
    }
}
