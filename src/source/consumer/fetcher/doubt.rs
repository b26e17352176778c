//! What is found out before a partition is read on: why its log has nothing there, and whether it was cut (KIP-320).
//!
//! Reading never goes on silently elsewhere: each jump is a warning with both offsets, and is counted.

use tokio::time::Instant;

use super::reading::{Doubt, Reading};
use super::{Arrival, Fetched, Fetcher};
use crate::source::Key;
use crate::wire::fetch::{EpochEnd, LAST_EPOCH_SINCE};
use crate::wire::log::{EpochOf, bounds, epochs};
use crate::wire::{Connection, WireError};

/// Where a log begins and ends.
type Bounds = (i64, i64);

impl Fetcher {
    /// Settles the doubts about partitions that are due, as far as the leader can tell now.
    pub(super) async fn resolve(&mut self, connection: &Connection, version: i16) -> Result<Arrival, WireError> {
        let mut arrival = self.arrival();
        if version >= LAST_EPOCH_SINCE {
            // These brokers compare at each fetch, with the very log that they read.
            let settled = self.readings.values_mut().filter(|reading| reading.doubt == Some(Doubt::Leader));
            settled.for_each(|reading| reading.doubt = None);
        }
        let mut compared = vec![];
        for (key, bounds) in self.bounds_of_doubtful(connection).await? {
            match bounds {
                Some((start, _)) if self.is_below(key, start) => arrival.fetched.extend(self.expire(key, start)),
                Some(bounds) => compared.push((key, Some(bounds))),
                None => self.put_off(key, &mut arrival),
            }
        }
        compared.extend(self.doubtful(Doubt::Leader).into_iter().map(|key| (key, None)));
        let asked: Vec<EpochOf> =
            compared.iter().filter_map(|(key, _)| Some(question(self.readings.get(key)?))).collect();
        // Nobody else changes what is read here: there is an answer for each.
        let ends = epochs(connection, &asked).await?;
        for ((key, bounds), end) in compared.into_iter().zip(ends) {
            match end {
                Some(end) => arrival.fetched.extend(self.compare(key, end, bounds)),
                None => self.put_off(key, &mut arrival),
            }
        }
        Ok(arrival)
    }

    fn doubtful(&self, doubt: Doubt) -> Vec<Key> {
        let now = Instant::now();
        let due = self.readings.iter().filter(|(_, reading)| reading.doubt == Some(doubt) && reading.is_due(now));
        due.map(|(key, _)| *key).collect()
    }

    async fn bounds_of_doubtful(&self, connection: &Connection) -> Result<Vec<(Key, Option<Bounds>)>, WireError> {
        let keys = self.doubtful(Doubt::OutOfRange);
        if keys.is_empty() {
            return Ok(vec![]);
        }
        let named: Vec<(&str, i32)> =
            keys.iter().filter_map(|key| Some((&*self.readings.get(key)?.place.at.topic, key.1))).collect();
        let found = bounds(connection, &named).await?;
        let bounds_of = |(topic, partition): (&str, i32)| found.get(&(topic.to_owned(), partition)).copied();
        let bounds = named.iter().map(|at| bounds_of(*at)).collect::<Vec<_>>();
        Ok(keys.into_iter().zip(bounds).collect())
    }

    fn is_below(&self, key: Key, offset: i64) -> bool {
        self.readings.get(&key).is_some_and(|reading| reading.place.position < offset)
    }

    /// The leader cannot tell now: later.
    fn put_off(&mut self, key: Key, arrival: &mut Arrival) {
        if let Some(reading) = self.readings.get_mut(&key) {
            reading.pause(Instant::now());
            arrival.stale = true;
        }
        self.trouble(key, "its leader cannot tell now where its log begins and ends, or which leader epochs it has");
    }

    /// Retention was faster than we are.
    fn expire(&mut self, key: Key, log_start: i64) -> Option<Fetched> {
        let fetched = self.readings.get_mut(&key)?.expire(log_start);
        let lost = u64::try_from(fetched.next - fetched.from).unwrap_or(0);
        self.context.metrics.lose("retention", lost);
        let at = &self.readings.get(&key)?.place.at;
        tracing::warn!(
            topic = &*at.topic,
            partition = at.partition,
            position = fetched.from,
            log_start,
            "the source has removed records before they were copied: its retention is too short for how far the copy is behind"
        );
        Some(fetched)
    }

    /// What the leader has of the epoch of the last record tells whether its log was cut. Where the leader knows no such epoch, or we
    /// know none, reading goes on at the end of a log that ends below the position: what stands there may have been written anew, and
    /// nothing tells from where on.
    fn compare(&mut self, key: Key, end: EpochEnd, bounds: Option<Bounds>) -> Option<Fetched> {
        let reading = self.readings.get_mut(&key)?;
        let position = reading.place.position;
        let (start, log_end) = bounds.unwrap_or((0, i64::MAX));
        if end.offset < 0 {
            let epoch = std::mem::replace(&mut reading.place.last_epoch, -1);
            if epoch >= 0 {
                tracing::warn!(at = %reading.place.at, position, epoch, "its leader knows nothing of the leader epoch of the last record");
            }
        }
        let known = if end.offset < 0 { position } else { reading.divergence(end) };
        let offset = known.min(log_end).max(start);
        reading.doubt = None;
        if offset < position {
            return self.cut(key, offset, end.epoch);
        }
        // In range after all: another leader answers now than before.
        reading.pause(Instant::now());
        reading.paused_until = reading.paused_until.filter(|_| bounds.is_some());
        None
    }

    /// A broker says by itself that its log parts from what was read.
    pub(super) fn diverge(&mut self, key: Key, end: EpochEnd) -> Option<Fetched> {
        let offset = self.readings.get(&key)?.divergence(end);
        self.cut(key, offset, end.epoch)
    }

    fn cut(&mut self, key: Key, offset: i64, epoch: i32) -> Option<Fetched> {
        self.context.metrics.truncated.inc();
        let reading = self.readings.get_mut(&key)?;
        let fetched = reading.truncate(offset, epoch);
        tracing::warn!(
            topic = &*reading.place.at.topic,
            partition = reading.place.at.partition,
            position = fetched.from,
            cut = fetched.next,
            "an unclean leader election has cut the source's log: what was written there since is copied, and what was removed stays on the target"
        );
        Some(fetched)
    }
}

fn question(reading: &Reading) -> EpochOf {
    let at = &reading.place.at;
    // An epoch that no log has, where we know none.
    EpochOf { topic: at.topic.to_string(), partition: at.partition, epoch: reading.place.last_epoch }
}
