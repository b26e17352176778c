//! A lane: one loop that polls, writes, commits and acknowledges.
//!
//! ```text
//! open ──▶ poll ──▶ write ──▶ commit ──▶ settle ──▶ poll ...
//!            ▲        │          │
//!            └─ hold ◀┴─ abort ◀─┘
//! ```
//!
//! Nothing is acquired before the sink is open. Whatever goes wrong at the sink, the lane keeps what it has, whose locks the
//! source renews, acquires nothing more, says why, and tries again. Where a record is at fault, it is found by halving what failed, and
//! the flow's [tolerance] says what becomes of it; its neighbours go on.

use std::fmt::Display;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::batch::{OffsetRange, within};
use crate::dead_letter::Blame;
use crate::health::Health;
use crate::limits::{FETCH_BYTES_MIN, LEAVE_MAX, LONE_RECORDS_MAX, POLL_PATIENCE, QUICK_DIVISOR};
use crate::metrics::{CarveLabels, LaneMetrics};
use crate::sink::{Fate, Refused, Sink, SinkError, Written, decide};
use crate::source::{Parcel, Settlement, Shipment, Source};
use crate::wire::backoff::Backoff;

pub mod brake;
pub mod queue;
pub mod recopy;
pub mod retry;
pub mod shelf;
pub mod tolerance;

use brake::Brake;
use queue::Queue;
use retry::{Decision, Held, Patience, judge};
use shelf::{Shelf, Subject};
use tolerance::{Done, Tolerance};

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
pub struct Lane<S> {
    source: S,
    sink: Box<dyn Sink>,
    tolerance: Tolerance,
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

impl<S: Source> Lane<S> {
    /// A lane between two ends, which acquires as the brake of its flow allows.
    pub fn new(
        (source, sink, tolerance): (S, Box<dyn Sink>, Tolerance),
        (bytes_max, brake): (usize, Brake),
        wish: watch::Receiver<Wish>,
        (health, metrics): (Health, LaneMetrics),
    ) -> Self {
        health.pending("target", "has not answered yet");
        Self {
            source,
            sink,
            tolerance,
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
                let on_trial = self.shelf.on_trial();
                let whole = on_trial.iter().filter(|(_, offset)| offset.is_none()).map(|(at, _)| at);
                let load = self.queue.next_load(&whole.collect::<Vec<_>>());
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

    /// Forgets what is ours no longer. What is on trial and of which nothing is left has nothing to be tried with.
    fn forget_lost(&mut self) {
        self.queue.drop_lost();
        self.end_trials();
    }

    async fn ship(&mut self, load: Vec<Parcel>) {
        if let [parcel] = &load[..]
            && self.tolerance.is_last_chance(parcel)
        {
            return self.give_up(parcel.clone(), Blame::last_chance(parcel.delivery_count)).await;
        }
        match self.transact(&load).await {
            Ok(Outcome::Committed(written)) => self.finish(load, written).await,
            Ok(Outcome::Refused(written)) => self.isolate_refused(load, written).await,
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
        // Behind a record that is refused, none may be visible where order is kept.
        if self.source.keeps_order() && written.iter().any(|written| !written.refused.is_empty()) {
            self.abort("aborted").await;
            return Ok(Outcome::Refused(written));
        }
        let undecided = |error: &SinkError| self.health.trouble("target", format_args!("commit undecided: {error}"));
        match decide(&mut *self.sink, undecided).await {
            Fate::Committed => Ok(Outcome::Committed(written)),
            Fate::NotCommitted => {
                self.metrics.ended("fenced").inc();
                Ok(Outcome::NotCommitted)
            }
        }
    }

    async fn finish(&mut self, load: Vec<Parcel>, written: Vec<Written>) {
        self.metrics.ended("committed").inc();
        self.failures = 0;
        self.backoff.reset();
        self.health.well("target");
        let (mut settlements, mut refused) = (vec![], vec![]);
        for (parcel, written) in load.into_iter().zip(written) {
            self.count(&parcel, &written);
            for part in parts(&parcel, &written) {
                match part {
                    Part::Done(settlement) => settlements.push(settlement),
                    Part::Refused(parcel, why) => refused.push((parcel, why)),
                }
            }
        }
        self.source.settle(settlements).await;
        for (parcel, why) in refused {
            self.on_refused(parcel, why).await;
        }
        self.end_trials();
    }

    /// One record, which a sink has refused while it took others.
    async fn on_refused(&mut self, parcel: Parcel, Refused { offset, is_retriable, class, why }: Refused) {
        let subject = (parcel.at.clone(), Some(offset));
        if !is_retriable {
            return self.give_up(parcel, Blame { class, why, is_unreadable: false }).await;
        }
        // The first refusal may well be the last.
        if self.shelf.has(&parcel.at) {
            self.health.trouble(&parcel.at, format_args!("offset {offset} is refused again and again: {why}"));
        }
        if self.source.keeps_order() {
            self.queue.put_back(vec![parcel]);
            self.hold(Held { at: subject.0, patience: Patience::Soon, reason: why, class }, Extent::All);
        } else {
            self.shelf.put(&subject, vec![parcel.trimmed()], (Instant::now(), Patience::Soon));
        }
    }

    /// Order is kept, and nothing was committed: what stands before the first refused record of a parcel goes on, then that record alone.
    async fn isolate_refused(&mut self, load: Vec<Parcel>, written: Vec<Written>) {
        let (mut again, mut alone) = (vec![], vec![]);
        for (parcel, mut written) in load.into_iter().zip(written) {
            if written.refused.is_empty() {
                again.push(parcel);
                continue;
            }
            let refused = written.refused.swap_remove(0);
            match parcel.isolate(refused.offset) {
                parts if parts.is_empty() => alone.push((parcel, refused)),
                parts => again.extend(parts),
            }
        }
        self.queue.put_back(again);
        for (parcel, refused) in alone {
            self.on_refused(parcel, refused).await;
        }
    }

    /// What cannot be delivered. Nothing is rejected before the policy is carried out.
    async fn give_up(&mut self, parcel: Parcel, blame: Blame) {
        let at = parcel.at.clone();
        let (held, offsets) = (parcel.held(), Offsets(parcel.held()));
        let is_lone = !self.source.keeps_order() && self.shelf.count(&at) < LONE_RECORDS_MAX;
        let extent = if is_lone { Extent::First } else { Extent::All };
        match self.tolerance.apply(&parcel, &blame).await {
            Ok(Done::Held) => {
                self.count_refused(&held, Done::Held);
                let Blame { class, why, is_unreadable } = blame;
                let patience = if is_unreadable { Patience::Batch } else { Patience::Record };
                self.queue.put_back(vec![parcel]);
                self.hold(Held { at, patience, reason: why, class }, extent);
            }
            // What was lost meanwhile is somebody else's, and may be delivered after all.
            Ok(_) if parcel.held() != held => self.queue.put_back(vec![parcel]),
            Ok(done) => {
                tracing::warn!(%at, %offsets, class = blame.class, reason = blame.why, outcome = done.word(), "records given up");
                self.count_refused(&held, done);
                let settlement = Settlement { written: held.clone(), held, parcel, is_rejected: true };
                self.source.settle(vec![settlement]).await;
                self.end_trials();
            }
            Err(error) => {
                self.queue.put_back(vec![parcel]);
                let reason = format!("{}, and no dead letter could be written: {error}", blame.why);
                self.hold(Held { at, patience: Patience::Soon, reason, class: blame.class }, extent);
            }
        }
    }

    fn count_refused(&self, held: &[OffsetRange], done: Done) {
        self.metrics.refuse(done.word(), held.iter().map(OffsetRange::count).sum());
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
                if error.is_overdue() {
                    self.queue.shrink();
                }
                let (suspects, held): (Vec<_>, Vec<_>) = held.into_iter().partition(Held::is_of_a_record);
                let is_suspect = |parcel: &Parcel| suspects.iter().any(|held| held.at == parcel.at);
                let (suspected, others) = load.into_iter().partition(is_suspect);
                self.queue.put_back(others);
                let mut is_known =
                    held.into_iter().map(|held| self.hold(held, Extent::All)).fold(false, |any, held| any | held);
                is_known |= self.isolate(suspects, suspected).await;
                // An answer about topic partitions that nobody has asked about must not make the loop spin.
                if !is_known {
                    self.pause().await;
                }
            }
        }
    }

    /// Halves what has failed for the fault of one record; what cannot be halved is at fault. `false` where there is nothing.
    async fn isolate(&mut self, suspects: Vec<Held>, mut suspected: Vec<Parcel>) -> bool {
        let is_known = !suspected.is_empty();
        for Held { at, patience, reason, class } in suspects {
            let (mut parcels, others): (Vec<_>, Vec<_>) = suspected.into_iter().partition(|parcel| parcel.at == at);
            suspected = others;
            match (parcels.len(), parcels.pop()) {
                (1, Some(parcel)) => {
                    let is_unreadable = patience == Patience::Batch;
                    let halves = if is_unreadable { parcel.split() } else { parcel.halve() };
                    match halves {
                        Some((left, right)) => self.queue.put_back(vec![left.alone(), right.alone()]),
                        None => self.give_up(parcel, Blame { class, why: reason, is_unreadable }).await,
                    }
                }
                (_, last) => {
                    parcels.extend(last);
                    self.queue.put_back(parcels.into_iter().map(Parcel::alone).collect());
                }
            }
        }
        is_known
    }

    async fn write_again(&mut self, load: Vec<Parcel>, reason: impl Display) {
        self.health.trouble("target", reason);
        self.failures = self.failures.saturating_add(1);
        self.queue.put_back(load);
        self.queue.shrink();
        self.pause().await;
    }

    /// Puts a topic partition aside; `false` where there is nothing of it.
    fn hold(&mut self, Held { at, patience, reason, .. }: Held, extent: Extent) -> bool {
        let parcels = match extent {
            Extent::All => self.queue.take(&at),
            Extent::First => self.queue.take_first(&at).into_iter().collect(),
        };
        let is_known = !parcels.is_empty();
        if is_known {
            self.health.trouble(&at, reason);
            self.source.pause(&at);
            self.shelf.put(&(at, None), parcels, (Instant::now(), patience));
        }
        is_known
    }

    /// What was held and of which nothing is left to be tried works again.
    fn end_trials(&mut self) {
        for subject in self.shelf.on_trial() {
            if !self.queue.parcels().any(|parcel| is_of(parcel, &subject)) && self.shelf.end_trial(&subject) {
                let (at, offset) = subject;
                if offset.is_none() {
                    self.source.resume(&at);
                }
                if !self.shelf.has(&at) {
                    self.health.well(&at);
                }
            }
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

/// Whether a parcel is what is held.
fn is_of(parcel: &Parcel, (at, offset): &Subject) -> bool {
    parcel.at == *at && offset.is_none_or(|offset| parcel.span == OffsetRange { first: offset, last: offset })
}

/// A part of a parcel that is committed.
enum Part {
    /// Its records were written.
    Done(Settlement),
    /// One record, which was not.
    Refused(Parcel, Refused),
}

/// What has become of a parcel, in the order of its offsets.
fn parts(parcel: &Parcel, written: &Written) -> Vec<Part> {
    let done = |span: OffsetRange| {
        Part::Done(Settlement {
            parcel: parcel.part(span),
            held: within(&written.held, span),
            written: within(&written.offsets, span),
            is_rejected: false,
        })
    };
    let (mut parts, mut next) = (vec![], parcel.span.first);
    for refused in &written.refused {
        let offset = refused.offset;
        if next < offset {
            parts.push(done(OffsetRange { first: next, last: offset - 1 }));
        }
        let alone = parcel.part(OffsetRange { first: offset, last: offset }).alone();
        parts.push(Part::Refused(alone, refused.clone()));
        next = offset + 1;
    }
    if next <= parcel.span.last {
        parts.push(done(OffsetRange { first: next, ..parcel.span }));
    }
    parts
}

/// Offsets as a log line shows them.
struct Offsets(Vec<OffsetRange>);

impl Display for Offsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(index, range)| write!(f, "{}{range}", if index == 0 { "" } else { "," }))
    }
}

/// How much of what was acquired of a topic partition is put aside with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All that is not on the shelf yet.
    All,
    /// The first parcel: one record is at fault, and the others need not wait for it.
    First,
}

/// How a transaction went.
enum Outcome {
    /// What was written is visible, but for records that were refused.
    Committed(Vec<Written>),
    /// Aborted, since the sink has refused records and order is kept.
    Refused(Vec<Written>),
    /// Not visible, or not known to be.
    NotCommitted,
    /// Aborted, since some of the records are ours no longer.
    Lost,
}

#[cfg(test)]
mod tests;
