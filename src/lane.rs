//! A lane: one loop that polls, writes, commits and acknowledges.
//!
//! ```text
//! open ──▶ poll ──▶ write ──▶ commit ──▶ settle ──▶ poll ...
//!            ▲        │          │
//!            └─ hold ◀┴─ abort ◀─┘
//! ```
//!
//! Nothing is acquired before the sink is open. Whatever goes wrong at the sink, the lane keeps what it has, whose locks the
//! source renews, acquires nothing more, says why, and tries again.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::health::Health;
use crate::limits::{FETCH_BYTES_MIN, LEAVE_MAX, POLL_PATIENCE, QUICK_DIVISOR};
use crate::metrics::{CarveLabels, LaneMetrics};
use crate::sink::{Fate, Sink, SinkError, Written};
use crate::source::{Parcel, Settlement, Shipment, Source, TopicPartition};
use crate::wire::backoff::Backoff;

pub mod brake;
pub mod queue;
pub mod recopy;
pub mod retry;
pub mod shelf;

use brake::Brake;
use queue::Queue;
use retry::{Decision, Held, judge};
use shelf::Shelf;

/// What the process wants of its lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Work.
    Run,
    /// Finish what is held, then leave.
    Drain,
    /// Leave now.
    Leave,
}

/// Waits until the process wants at least this.
pub async fn told(wish: &mut watch::Receiver<Wish>, at_least: Wish) {
    // A process that has dropped its wish wants nothing any more.
    let _ = wish.wait_for(|wish| *wish >= at_least).await;
}

/// See the module.
#[derive(Debug)]
pub struct Lane<S, K> {
    source: S,
    sink: K,
    wish: watch::Receiver<Wish>,
    /// Bytes that the lane may keep in memory.
    bytes_max: usize,
    brake: Brake,
    queue: Queue,
    shelf: Shelf,
    backoff: Backoff,
    /// Transactions that have failed as a whole since the last that went well.
    failures: u32,
    /// Offsets held, those of them on the shelf, and bytes in memory, as the gauges know them.
    gauged: (i64, i64, i64),
    health: Health,
    metrics: LaneMetrics,
}

impl<S: Source, K: Sink> Lane<S, K> {
    /// A lane between two ends, which acquires as the brake of its flow allows.
    pub fn new(
        (source, sink): (S, K),
        (bytes_max, brake): (usize, Brake),
        wish: watch::Receiver<Wish>,
        (health, metrics): (Health, LaneMetrics),
    ) -> Self {
        health.pending("target", "has not answered yet");
        Self {
            source,
            sink,
            wish,
            bytes_max,
            brake,
            queue: Queue::new(bytes_max),
            shelf: Shelf::default(),
            backoff: Backoff::default(),
            failures: 0,
            gauged: (0, 0, 0),
            health,
            metrics,
        }
    }

    /// Works until told to leave, then leaves the group. Returns how many offsets were released unfinished.
    pub async fn run(mut self) -> u64 {
        let mut wish = self.wish.clone();
        tokio::select! {
            () = self.work() => {}
            () = told(&mut wish, Wish::Leave) => {}
        }
        // A transaction that is still open would keep readers of the target waiting until its timeout.
        let _ = tokio::time::timeout(LEAVE_MAX, self.sink.abort()).await;
        self.source.close().await
    }

    async fn work(&mut self) {
        loop {
            self.forget_lost();
            let is_idle = self.queue.parcels().next().is_none();
            let draining = *self.wish.borrow() >= Wish::Drain;
            if draining && is_idle {
                if !self.drain().await {
                    return;
                }
            } else if let Err(error) = self.sink.open().await {
                self.health.trouble("target", error);
                self.pause().await;
            } else if is_idle {
                self.health.well("target");
                self.poll().await;
                // One trial after each poll: however many topic partitions are in trouble, the others get their turn.
                self.queue.extend(self.shelf.take_due(Instant::now()));
            } else {
                let load = self.queue.next_load(&self.shelf.on_trial());
                self.ship(load).await;
            }
            self.gauge();
        }
    }

    /// With the queue empty: takes in what is still on its way, or waits for what should heal soon. `false` where nothing is left
    /// that could be finished.
    async fn drain(&mut self) -> bool {
        let shipment = self.source.gather().await;
        let soon = self.shelf.soon_at();
        if let (true, Some(soon)) = (shipment.parcels.is_empty(), soon) {
            tokio::time::sleep_until(soon).await;
            self.queue.extend(self.shelf.take_due(soon));
        }
        let goes_on = !shipment.parcels.is_empty() || soon.is_some();
        self.take_in(shipment);
        goes_on
    }

    /// Waits before another try, unless the process wants something else meanwhile.
    async fn pause(&mut self) {
        let pause = self.backoff.pause();
        self.idle(pause).await;
    }

    async fn idle(&mut self, patience: Duration) {
        tokio::select! {
            () = tokio::time::sleep(patience) => {}
            _ = self.wish.changed() => {}
        }
    }

    async fn poll(&mut self) {
        let held = self.bytes();
        let room = self.bytes_max.saturating_sub(held);
        let due = self.shelf.due_at().map(|at| at.saturating_duration_since(Instant::now()));
        let patience = due.unwrap_or(POLL_PATIENCE).min(POLL_PATIENCE);
        if room < FETCH_BYTES_MIN {
            self.health.trouble(
                "memory",
                format!("{held} bytes are held for topic partitions in trouble: nothing more is acquired"),
            );
            return self.idle(patience).await;
        }
        self.health.well("memory");
        let mut wish = self.wish.clone();
        let grant = self.brake.grant(Instant::now());
        let patience = if grant.bytes_max == 0 { patience.min(grant.wait) } else { patience };
        let shipment = tokio::select! {
            shipment = self.source.poll(room.min(grant.bytes_max), patience) => shipment,
            () = told(&mut wish, Wish::Drain) => Shipment::default(),
        };
        let bytes = shipment.parcels.iter().map(Parcel::size).sum();
        let records = self.take_in(shipment);
        self.brake.settle(grant, (bytes, records));
    }

    /// Takes in what has come; returns how many offsets.
    fn take_in(&mut self, shipment: Shipment) -> u64 {
        let count = |parcel: &Parcel| {
            let offsets = parcel.held_count();
            self.metrics.topic(&parcel.at.topic).read.record(offsets);
            offsets
        };
        let offsets = shipment.parcels.iter().map(count).sum();
        self.queue.extend(shipment.parcels);
        offsets
    }

    /// Forgets what is ours no longer. A topic partition on trial of which nothing is left has nothing to be tried with.
    fn forget_lost(&mut self) {
        self.queue.drop_lost();
        for at in self.shelf.on_trial() {
            if !self.queue.parcels().any(|parcel| parcel.at == at) {
                self.end_trial(&at);
            }
        }
    }

    async fn ship(&mut self, load: Vec<Parcel>) {
        match self.transact(&load).await {
            Ok(Outcome::Committed(written)) => self.finish(load, written).await,
            Ok(Outcome::Lost) => self.queue.put_back(load),
            Ok(Outcome::NotCommitted) => self.write_again(load, "the transaction was not committed").await,
            Err(error) => self.on_error(&error, load).await,
        }
    }

    async fn transact(&mut self, load: &[Parcel]) -> Result<Outcome, SinkError> {
        let begun = Instant::now();
        let written = self.sink.write(load).await?;
        if begun.elapsed() < self.sink.write_max() / QUICK_DIVISOR {
            self.queue.grow();
        }
        // Records that were lost meanwhile are somebody else's: committing them would double them.
        let now = Instant::now();
        let is_lost = |(parcel, written): (&Parcel, &Written)| parcel.hold.expire(now) || parcel.held() != written.held;
        if load.iter().zip(&written).any(is_lost) {
            tracing::warn!("records were lost while they were written: aborting");
            self.abort("aborted").await;
            return Ok(Outcome::Lost);
        }
        match self.decide().await {
            Fate::Committed => Ok(Outcome::Committed(written)),
            Fate::NotCommitted => {
                self.metrics.ended("fenced").inc();
                Ok(Outcome::NotCommitted)
            }
        }
    }

    /// Commits, and asks again until the fate of the transaction is known.
    async fn decide(&mut self) -> Fate {
        loop {
            match self.sink.commit().await {
                Ok(fate) => return fate,
                Err(error) => {
                    self.health.trouble("target", format_args!("commit undecided: {error}"));
                    self.pause().await;
                }
            }
        }
    }

    async fn finish(&mut self, load: Vec<Parcel>, written: Vec<Written>) {
        self.metrics.ended("committed").inc();
        self.failures = 0;
        self.backoff.reset();
        self.health.well("target");
        let ats: BTreeSet<TopicPartition> = load.iter().map(|parcel| parcel.at.clone()).collect();
        ats.iter().for_each(|at| self.end_trial(at));
        let settlement = |(parcel, written): (Parcel, Written)| {
            self.count(&parcel, &written);
            Settlement { parcel, held: written.held, written: written.offsets }
        };
        let settlements = load.into_iter().zip(written).map(settlement).collect();
        self.source.settle(settlements).await;
    }

    /// What was committed of a parcel.
    fn count(&self, parcel: &Parcel, written: &Written) {
        self.metrics.topic(&parcel.at.topic).sent.record(written.records());
        self.metrics.looped.inc_by(written.looped);
        self.metrics.bytes_sent.inc_by(written.bytes);
        for reason in &written.carved {
            self.metrics.carved.get_or_create(&CarveLabels { reason: reason.to_string() }).inc();
        }
        self.metrics.pipeline_latency.observe(parcel.fetched_at.elapsed());
        if let Some(timestamp) = parcel.timestamp_ms() {
            self.metrics.replication_latency.observe_since(timestamp);
        }
    }

    async fn on_error(&mut self, error: &SinkError, load: Vec<Parcel>) {
        self.abort(if error.is_fenced() { "fenced" } else { "aborted" }).await;
        match judge(error, self.failures) {
            Decision::WriteAgain => self.write_again(load, error).await,
            Decision::Hold(held) => {
                self.queue.put_back(load);
                if error.is_overdue() {
                    self.queue.shrink();
                }
                // An answer about topic partitions that nobody has asked about must not make the loop spin.
                if !held.into_iter().map(|held| self.hold(held)).fold(false, |any, held| any | held) {
                    self.pause().await;
                }
            }
        }
    }

    async fn write_again(&mut self, load: Vec<Parcel>, reason: impl Display) {
        self.health.trouble("target", reason);
        self.failures = self.failures.saturating_add(1);
        self.queue.put_back(load);
        self.queue.shrink();
        self.pause().await;
    }

    /// Puts a topic partition aside; `false` where there is nothing of it.
    fn hold(&mut self, Held { at, patience, reason }: Held) -> bool {
        let parcels = self.queue.take(&at);
        let is_known = !parcels.is_empty();
        if is_known {
            self.health.trouble(&at, reason);
            self.source.pause(&at);
            self.shelf.put(&at, parcels, (Instant::now(), patience));
        }
        is_known
    }

    /// A topic partition that was held works again.
    fn end_trial(&mut self, at: &TopicPartition) {
        if self.shelf.end_trial(at) {
            self.source.resume(at);
            self.health.well(at);
        }
    }

    async fn abort(&mut self, outcome: &'static str) {
        if self.sink.abort().await {
            self.metrics.ended(outcome).inc();
        }
    }

    fn bytes(&self) -> usize {
        self.queue.parcels().chain(self.shelf.parcels()).map(Parcel::size).sum()
    }

    /// Adds what has changed to the gauges, which all lanes of a flow share.
    fn gauge(&mut self) {
        let held = self.shelf.parcels().map(Parcel::held_count).sum::<u64>().cast_signed();
        let in_flight = held + self.queue.parcels().map(Parcel::held_count).sum::<u64>().cast_signed();
        let bytes = i64::try_from(self.bytes()).unwrap_or(i64::MAX);
        self.metrics.in_flight.inc_by(in_flight - self.gauged.0);
        self.metrics.held.inc_by(held - self.gauged.1);
        self.metrics.held_bytes.inc_by(bytes - self.gauged.2);
        self.gauged = (in_flight, held, bytes);
    }
}

/// How a transaction went.
enum Outcome {
    /// What was written is visible.
    Committed(Vec<Written>),
    /// Not visible, or not known to be.
    NotCommitted,
    /// Aborted, since some of the records are ours no longer.
    Lost,
}

#[cfg(test)]
mod tests;
