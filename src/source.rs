//! Where records come from: one trait, and what a poll brings.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::batch::OffsetRange;

pub mod share;

/// A partition of a topic, by name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition number.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A source of record batches whose records stay acquired, and are delivered to nobody else, until they are settled.
///
/// The source renews the acquisition locks of everything that it handed out and that was not settled yet, by itself and for as
/// long as it lives: to hold records, a lane has nothing to do but keep them.
pub trait Source: Send {
    /// Waits until something was acquired, at most for `patience`; takes about `bytes_max` bytes. An empty shipment says: not yet.
    fn poll(&mut self, bytes_max: usize, patience: Duration) -> impl Future<Output = Shipment> + Send;

    /// Acknowledges what a lane has finished. Never fails: what the source could not store will come again, and is counted.
    fn settle(&mut self, settlements: Vec<Settlement>) -> impl Future<Output = Settled> + Send;

    /// Acquires nothing more of a topic partition; what was acquired stays held.
    fn pause(&mut self, at: &TopicPartition);

    /// Ends a [`pause`](Self::pause).
    fn resume(&mut self, at: &TopicPartition);

    /// Leaves. Everything that is still held is released for others, at the cost of one delivery attempt; returns how many offsets.
    fn close(self) -> impl Future<Output = u64> + Send;
}

/// What one poll brought.
#[derive(Debug, Default)]
pub struct Shipment {
    /// One parcel or more for each topic partition that had something.
    pub parcels: Vec<Parcel>,
}

/// Record batches of one topic partition, with the offsets that are ours. What it holds is settled, or lost, as a whole.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Where the records come from.
    pub at: TopicPartition,
    /// Id of the topic at the source.
    pub topic_id: Uuid,
    /// The broker that keeps the acquisition locks.
    pub leader: i32,
    /// Whole record batches as the broker sent them; they may hold more than what was acquired.
    pub records: Bytes,
    /// The offsets that are ours.
    pub hold: Arc<Hold>,
    /// Highest delivery count among the records.
    pub delivery_count: i16,
    /// Whether the records are so close to the delivery limit that they should travel alone.
    pub fragile: bool,
}

impl Parcel {
    /// Bytes that the parcel keeps in memory.
    pub fn size(&self) -> usize {
        self.records.len()
    }
}

/// The offsets that a parcel holds. The source takes away what it has lost; the lane looks before it commits.
#[derive(Debug, Default)]
pub struct Hold {
    ranges: Mutex<Vec<OffsetRange>>,
}

impl Hold {
    /// Holds `ranges`: ascending, not overlapping.
    pub fn new(ranges: Vec<OffsetRange>) -> Self {
        Self { ranges: Mutex::new(ranges) }
    }

    /// What is ours now.
    pub fn ranges(&self) -> Vec<OffsetRange> {
        self.lock().clone()
    }

    /// Offsets that are ours now.
    pub fn count(&self) -> u64 {
        self.lock().iter().map(OffsetRange::count).sum()
    }

    /// The source has lost a range that it handed out.
    pub fn lose(&self, lost: OffsetRange) {
        self.lock().retain(|range| *range != lost);
    }

    /// The source has lost everything.
    pub fn lose_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<OffsetRange>> {
        self.ranges.lock().expect("no code panics while it holds this lock")
    }
}

/// The end of a parcel: its offsets that hold records were written; the rest of what it held is empty.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// What was finished.
    pub parcel: Parcel,
    /// What was held when it was written.
    pub held: Vec<OffsetRange>,
    /// The offsets among them that hold records: ascending, not overlapping.
    pub written: Vec<OffsetRange>,
}

/// How a settlement went.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Offsets that the source has stored as done.
    pub acknowledged: u64,
    /// Offsets that it has not: they will be delivered again.
    pub lost: u64,
}

impl std::ops::AddAssign for Settled {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
    }
}
