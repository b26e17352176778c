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

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::health::Health;
use crate::limits::{FETCH_BYTES_MIN, LEAVE_MAX, POLL_PATIENCE};
use crate::metrics::FlowMetrics;
use crate::sink::{Fate, Sink, SinkError, Written};
use crate::source::{Parcel, Settlement, Source, TopicPartition};
use crate::wire::backoff::Backoff;

pub mod retry;
pub mod shelf;

use retry::{Decision, Held, Patience, judge};
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
    queue: VecDeque<Parcel>,
    shelf: Shelf,
    /// Whether the sink is ready to write.
    is_open: bool,
    /// Parcels in one transaction: fewer after a failure, so that one too large for its timeout still gets through.
    parcels_max: usize,
    backoff: Backoff,
    /// Records on the shelf and bytes in memory, as the gauges know them.
    gauged: (i64, i64),
    health: Health,
    metrics: FlowMetrics,
}

impl<S: Source, K: Sink> Lane<S, K> {
    /// A lane between two ends.
    pub fn new(
        (source, sink): (S, K),
        bytes_max: usize,
        wish: watch::Receiver<Wish>,
        (health, metrics): (Health, FlowMetrics),
    ) -> Self {
        health.trouble("start", "has not reached the target yet");
        Self {
            source,
            sink,
            wish,
            bytes_max,
            queue: VecDeque::new(),
            shelf: Shelf::default(),
            is_open: false,
            parcels_max: usize::MAX,
            backoff: Backoff::default(),
            gauged: (0, 0),
            health,
            metrics,
        }
    }

    /// Works until told to leave, then leaves the group. Returns how many offsets were released unfinished.
    pub async fn run(mut self) -> u64 {
        let mut wish = self.wish.clone();
        tokio::select! {
            () = self.work() => {}
            () = told(&mut wish, Wish::Leave) => {
                // An open transaction would keep readers of the target waiting until its timeout.
                let _ = tokio::time::timeout(LEAVE_MAX, self.sink.abort()).await;
            }
        }
        self.source.close().await
    }

    async fn work(&mut self) {
        loop {
            let draining = *self.wish.borrow() >= Wish::Drain;
            self.queue.extend(self.shelf.take_due(Instant::now()));
            if !self.is_open {
                if draining && self.queue.is_empty() {
                    return;
                }
                self.open().await;
            } else if let Some(load) = self.next_load() {
                self.ship(load).await;
            } else if draining {
                return;
            } else {
                self.poll().await;
            }
            self.gauge();
        }
    }

    async fn open(&mut self) {
        match self.sink.open().await {
            Ok(()) => {
                self.is_open = true;
                self.health.well("start");
            }
            Err(error) => {
                self.health.trouble("target", &error);
                self.pause().await;
            }
        }
    }

    /// Waits before another try, unless the process wants something else meanwhile.
    async fn pause(&mut self) {
        let pause = self.backoff.pause();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = self.wish.changed() => {}
        }
    }

    async fn poll(&mut self) {
        let room = self.bytes_max.saturating_sub(self.bytes());
        let patience = self.shelf.due_at().map_or(POLL_PATIENCE, |at| at.saturating_duration_since(Instant::now()));
        if room < FETCH_BYTES_MIN.min(self.bytes_max) {
            self.health.trouble(
                "memory",
                format_args!(
                    "{} bytes are held for topic partitions in trouble: nothing more is acquired",
                    self.bytes()
                ),
            );
            return self.idle(patience).await;
        }
        self.health.well("memory");
        let mut wish = self.wish.clone();
        let shipment = tokio::select! {
            shipment = self.source.poll(room, patience.min(POLL_PATIENCE)) => shipment,
            () = told(&mut wish, Wish::Drain) => return,
        };
        let (mut fragile, sound): (Vec<_>, Vec<_>) = shipment.parcels.into_iter().partition(|parcel| parcel.fragile);
        fragile.sort_by_key(|parcel| std::cmp::Reverse(parcel.delivery_count));
        self.queue.extend(fragile);
        self.queue.extend(sound);
    }

    async fn idle(&mut self, patience: Duration) {
        tokio::select! {
            () = tokio::time::sleep(patience) => {}
            _ = self.wish.changed() => {}
        }
    }

    /// What the next transaction takes: a fragile parcel alone, otherwise all that there is.
    fn next_load(&mut self) -> Option<Vec<Parcel>> {
        self.queue.retain(|parcel| parcel.hold.count() > 0);
        for at in self.shelf.on_trial() {
            // All that was held of it is lost to others: it has nothing left to be tried with.
            if !self.queue.iter().any(|parcel| parcel.at == at) {
                self.end_trial(&at);
            }
        }
        if self.queue.front()?.fragile {
            return self.queue.pop_front().map(|parcel| vec![parcel]);
        }
        let sound = self.queue.iter().take_while(|parcel| !parcel.fragile).count();
        Some(self.queue.drain(..sound.min(self.parcels_max)).collect())
    }

    async fn ship(&mut self, load: Vec<Parcel>) {
        match self.transact(&load).await {
            Ok(Some(written)) => self.finish(load, written).await,
            Ok(None) => {
                self.is_open = false;
                self.keep(load);
            }
            Err(error) => self.on_error(&error, load).await,
        }
    }

    /// One transaction; `None` where it was not committed and nothing speaks against trying again at once.
    async fn transact(&mut self, load: &[Parcel]) -> Result<Option<Vec<Written>>, SinkError> {
        let written = self.sink.write(load).await?;
        // Records that were lost meanwhile are somebody else's: committing them would double them.
        if load.iter().zip(&written).any(|(parcel, written)| parcel.hold.ranges() != written.held) {
            tracing::warn!("records were lost while they were written: aborting");
            self.abort().await;
            return Ok(None);
        }
        match self.sink.commit().await? {
            Fate::Committed => Ok(Some(written)),
            Fate::NotCommitted => {
                self.metrics.aborts.inc();
                Ok(None)
            }
        }
    }

    async fn finish(&mut self, load: Vec<Parcel>, written: Vec<Written>) {
        self.metrics.commits.inc();
        self.backoff.reset();
        self.parcels_max = usize::MAX;
        self.health.well("target");
        let ats: BTreeSet<TopicPartition> = load.iter().map(|parcel| parcel.at.clone()).collect();
        ats.iter().for_each(|at| self.end_trial(at));
        let settlement = |(parcel, written): (Parcel, Written)| {
            self.metrics.sent.inc_by(written.offsets.iter().map(|range| range.count()).sum());
            self.metrics.bytes_sent.inc_by(written.bytes);
            Settlement { parcel, held: written.held, written: written.offsets }
        };
        let settlements = load.into_iter().zip(written).map(settlement).collect();
        self.source.settle(settlements).await;
    }

    async fn on_error(&mut self, error: &SinkError, load: Vec<Parcel>) {
        self.abort().await;
        self.is_open = false;
        match judge(error) {
            Decision::WriteAgain => {
                self.health.trouble("target", error);
                self.parcels_max = (load.len() / 2).max(1);
                self.keep(load);
                self.pause().await;
            }
            Decision::Hold(held) => {
                self.keep(load);
                let before = self.queue.len();
                for Held { at, patience, reason } in held {
                    self.health.trouble(&at, reason);
                    self.hold(&at, patience);
                }
                // An answer about partitions that nobody asked about must not make this loop spin.
                if self.queue.len() == before {
                    self.pause().await;
                }
            }
        }
    }

    /// A topic partition that was held works again.
    fn end_trial(&mut self, at: &TopicPartition) {
        if self.shelf.end_trial(at) {
            self.source.resume(at);
            self.health.well(at);
        }
    }

    /// Puts a load back where it came from.
    fn keep(&mut self, load: Vec<Parcel>) {
        for parcel in load.into_iter().rev() {
            self.queue.push_front(parcel);
        }
    }

    fn hold(&mut self, at: &TopicPartition, patience: Patience) {
        self.source.pause(at);
        let (held, others) = std::mem::take(&mut self.queue).into_iter().partition(|parcel| parcel.at == *at);
        self.queue = others;
        self.shelf.put(at, Vec::from(held), (Instant::now(), patience));
    }

    async fn abort(&mut self) {
        self.metrics.aborts.inc();
        self.sink.abort().await;
    }

    fn bytes(&self) -> usize {
        self.queue.iter().chain(self.shelf.parcels()).map(Parcel::size).sum()
    }

    /// Adds what has changed to the gauges, which all lanes of a flow share.
    fn gauge(&mut self) {
        let held = self.shelf.parcels().map(|parcel| parcel.hold.count()).sum::<u64>().cast_signed();
        let bytes = self.bytes().cast_signed() as i64;
        self.metrics.held.inc_by(held - self.gauged.0);
        self.metrics.held_bytes.inc_by(bytes - self.gauged.1);
        self.gauged = (held, bytes);
    }
}
