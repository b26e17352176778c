//! Where records come from: one trait, and what a poll brings.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::{OffsetRange, RecordBatch, within, without};

pub mod catalog;
pub mod consumer;
mod epoch;
pub mod group;
pub mod leadership;
pub mod share;
pub mod start;

/// A topic partition by topic id, as fetches name it.
pub type Key = (Uuid, i32);

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
    /// Waits until something was acquired, at most for `patience`; asks for about `bytes_max` bytes, or with 0 for nothing beyond what
    /// earlier polls have asked for. An empty shipment says: not yet.
    fn poll(&mut self, bytes_max: usize, patience: Duration) -> impl Future<Output = Shipment> + Send;

    /// Gathers what earlier polls have asked for and is still on its way, and asks for nothing more. Empty means: nothing is.
    fn gather(&mut self) -> impl Future<Output = Shipment> + Send;

    /// Acknowledges what a lane has finished. Never fails: what the source could not store will come again, and is counted.
    fn settle(&mut self, settlements: Vec<Settlement>) -> impl Future<Output = ()> + Send;

    /// Acquires nothing more of a topic partition; what was acquired stays held.
    fn pause(&mut self, at: &TopicPartition);

    /// Ends a [`pause`](Self::pause).
    fn resume(&mut self, at: &TopicPartition);

    /// Whether parcels of a topic partition must be finished in the order in which they came.
    fn keeps_order(&self) -> bool;

    /// Leaves. Everything that is still held is released for others, at the cost of one delivery attempt; returns how many offsets.
    fn close(self) -> impl Future<Output = u64> + Send;
}

/// What one poll brought.
#[derive(Debug, Default)]
pub struct Shipment {
    /// One parcel or more for each topic partition that had something.
    pub parcels: Vec<Parcel>,
}

/// Record batches of one topic partition, with the offsets that are ours.
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
    /// Offsets that were acquired together.
    pub hold: Arc<Hold>,
    /// The part of the hold that travels in this parcel.
    pub span: OffsetRange,
    /// Highest delivery count among the records.
    pub delivery_count: i16,
    /// Whether they should travel alone: the records are close to the delivery limit, or one of them may be at fault.
    pub fragile: bool,
    /// When the source had fetched it.
    pub fetched_at: Instant,
}

impl Parcel {
    /// Bytes that the parcel keeps in memory.
    pub fn size(&self) -> usize {
        self.records.len()
    }

    /// The offsets of the parcel that are ours now: ascending.
    pub fn held(&self) -> Vec<OffsetRange> {
        within(&self.hold.ranges(), self.span)
    }

    /// How many that are.
    pub fn held_count(&self) -> u64 {
        self.held().iter().map(OffsetRange::count).sum()
    }

    /// The greatest timestamp of the first record batch, in ms since 1970; `None` where it has none.
    pub fn timestamp_ms(&self) -> Option<i64> {
        let first = RecordBatch::split(self.records.clone()).next()?.ok()?;
        Some(first.max_timestamp()).filter(|timestamp| *timestamp >= 0)
    }

    /// The part of the parcel between two offsets, with the same hold.
    #[must_use]
    pub fn part(&self, span: OffsetRange) -> Self {
        Self { span, ..self.clone() }
    }

    /// The same to be written in a transaction of its own.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { fragile: true, ..self }
    }

    /// The part before an offset, the part with it alone, and the part behind, each to be written alone, as far as they hold anything. Empty
    /// where the parcel holds nothing else.
    pub fn isolate(&self, offset: i64) -> Vec<Self> {
        let spans = [
            OffsetRange { last: offset - 1, ..self.span },
            OffsetRange { first: offset, last: offset },
            OffsetRange { first: offset + 1, ..self.span },
        ];
        let parts = spans.into_iter().filter(|span| span.first <= span.last).map(|span| self.part(span).alone());
        let parts: Vec<Self> = parts.filter(|part| !part.held().is_empty()).collect();
        if parts.len() > 1 { parts } else { vec![] }
    }

    /// The same with no record batches beyond those that its span reaches into.
    #[must_use]
    pub fn trimmed(self) -> Self {
        let batches = RecordBatch::split(self.records.clone()).filter_map(Result::ok);
        let ours = batches.filter(|batch| !within(&[batch.offsets()], self.span).is_empty());
        let bytes: Vec<Bytes> = ours.map(|batch| batch.bytes().clone()).collect();
        match &bytes[..] {
            [] => self,
            [one] => Self { records: one.clone(), ..self },
            _ => Self { records: bytes.concat().into(), ..self },
        }
    }

    /// Takes a parcel apart about in the middle, even within a record batch; `None` where it holds one offset.
    pub fn halve(&self) -> Option<(Self, Self)> {
        self.split().or_else(|| {
            let held = self.held();
            let half = held.iter().map(OffsetRange::count).sum::<u64>() / 2;
            let mut before = 0;
            let middle = held.iter().find_map(|range| {
                let within = half.checked_sub(before).filter(|within| (1..=range.count()).contains(within));
                before += range.count();
                within.map(|within| range.first + within.cast_signed() - 1)
            })?;
            let left = self.part(OffsetRange { last: middle, ..self.span });
            Some((left, self.part(OffsetRange { first: middle + 1, ..self.span })))
        })
    }

    /// Takes a parcel apart where a record batch ends, about in the middle; `None` where it has only one batch.
    ///
    /// The second part begins with the last batch of the first: it shows that nothing lies between the two (see `sink/kafka/pack.rs`).
    pub fn split(&self) -> Option<(Self, Self)> {
        let batches: Vec<RecordBatch> = RecordBatch::split(self.records.clone()).collect::<Result<_, _>>().ok()?;
        let ours = |batch: &RecordBatch| !within(&[batch.offsets()], self.span).is_empty();
        let (mut end, mut cut) = (0, None);
        for pair in batches.windows(2) {
            let begin = end;
            end += pair[0].size_bytes();
            if ours(&pair[0]) && ours(&pair[1]) {
                cut = Some((begin, end, pair[0].last_offset()));
                if end >= self.records.len() / 2 {
                    break;
                }
            }
        }
        let (begin, end, last) = cut?;
        let left = OffsetRange { last, ..self.span };
        let right = OffsetRange { first: last + 1, ..self.span };
        let part = |span, records| Self { span, records, ..self.clone() };
        Some((part(left, self.records.slice(..end)), part(right, self.records.slice(begin..))))
    }
}

/// Offsets that were acquired together. The source takes away what it has lost; the lane looks before it commits.
#[derive(Debug)]
pub struct Hold {
    state: Mutex<HoldState>,
}

#[derive(Debug)]
struct HoldState {
    ranges: Vec<OffsetRange>,
    expires_at: Instant,
}

impl Hold {
    /// Holds `ranges`, which ascend and don't overlap, until `expires_at` unless it is extended.
    pub fn new(ranges: Vec<OffsetRange>, expires_at: Instant) -> Self {
        Self { state: Mutex::new(HoldState { ranges, expires_at }) }
    }

    /// The locks were renewed.
    pub fn extend(&self, expires_at: Instant) {
        self.lock().expires_at = expires_at;
    }

    /// Gives everything up if the locks have ended: others may have the records. Returns whether there was anything to give up.
    pub fn expire(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let is_over = state.expires_at <= now && !state.ranges.is_empty();
        if is_over {
            state.ranges.clear();
        }
        is_over
    }

    /// What is ours now.
    pub fn ranges(&self) -> Vec<OffsetRange> {
        self.lock().ranges.clone()
    }

    /// Whether nothing is ours any more.
    pub fn is_empty(&self) -> bool {
        self.lock().ranges.is_empty()
    }

    /// Offsets are ours no longer: settled, or lost.
    pub fn drop_range(&self, gone: OffsetRange) {
        let mut state = self.lock();
        state.ranges = without(&state.ranges, gone);
    }

    /// Nothing is ours any more.
    pub fn drop_all(&self) {
        self.lock().ranges.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HoldState> {
        self.state.lock().expect("no code panics while it holds this lock")
    }
}

/// The end of a parcel: its offsets that hold records were written, or given up; the rest of what it held is empty.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// What was finished.
    pub parcel: Parcel,
    /// What was held when it was written.
    pub held: Vec<OffsetRange>,
    /// The offsets among them that hold records, with those that need not be written: ascending, not overlapping.
    pub written: Vec<OffsetRange>,
    /// Whether the records were given up, and stand in a dead letter at best, instead of being written.
    pub is_rejected: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample;

    fn parcel(counts: &[i32], span: (i64, i64)) -> Parcel {
        let span = OffsetRange { first: span.0, last: span.1 };
        Parcel {
            at: TopicPartition { topic: "t".into(), partition: 0 },
            topic_id: Uuid::nil(),
            leader: 1,
            records: sample::batches(0, counts),
            hold: Arc::new(Hold::new(vec![span], Instant::now() + Duration::from_secs(30))),
            span,
            delivery_count: 1,
            fragile: false,
            fetched_at: Instant::now(),
        }
    }

    fn span(parcel: &Parcel) -> (i64, i64) {
        (parcel.span.first, parcel.span.last)
    }

    #[test]
    fn a_parcel_is_split_between_batches_into_parts_that_hold_all_of_it() {
        let whole = parcel(&[10, 10, 10, 10], (0, 39));
        let (left, right) = whole.split().unwrap();
        assert_eq!((span(&left), span(&right)), ((0, 19), (20, 39)));
        assert_eq!([left.held(), right.held()].concat(), [left.span, right.span]);
        let (middle, last) = right.split().unwrap();
        assert_eq!((span(&middle), span(&last)), ((20, 29), (30, 39)));
        assert!(last.split().is_none() && last.size() < whole.size());
    }

    #[test]
    fn a_parcel_is_halved_down_to_each_offset_that_it_holds() {
        fn singles(parcel: &Parcel) -> Vec<OffsetRange> {
            match parcel.halve() {
                Some((left, right)) => [singles(&left), singles(&right)].concat(),
                None => parcel.held(),
            }
        }
        let whole = parcel(&[3, 4], (0, 6));
        whole.hold.drop_range(OffsetRange { first: 1, last: 4 });
        let expected = [0, 5, 6].map(|offset| OffsetRange { first: offset, last: offset });
        assert_eq!(singles(&whole), expected);
    }

    #[test]
    fn a_settled_part_leaves_the_rest_held() {
        let whole = parcel(&[10, 10], (0, 19));
        let (left, right) = whole.split().unwrap();
        left.hold.drop_range(left.span);
        assert_eq!((left.held(), right.held()), (vec![], vec![right.span]));
        right.hold.drop_all();
        assert!(whole.hold.is_empty());
    }
}
