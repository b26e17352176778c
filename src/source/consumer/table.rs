//! The partitions of a member: where each is read, what of it is handed out, finished and committed (pure: time comes in).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::fetcher::{Fetched, Jump};
use super::membership::Assignment;
use super::progress::{Position, Progress};
use crate::batch::OffsetRange;
use crate::limits::REVOKE_MAX;
use crate::source::catalog::Catalog;
use crate::source::{Hold, Key, Parcel, TopicPartition};
use crate::wire::client::NodeId;

/// See the module.
#[derive(Debug)]
pub struct Table {
    partitions: BTreeMap<Key, Partition>,
    /// Until then nobody else is given our partitions.
    until: Instant,
    /// Turns that were begun.
    turns: u64,
    /// Whether fetchers are to be told anew.
    changed: bool,
}

#[derive(Debug)]
struct Partition {
    at: TopicPartition,
    /// What the group has committed for it, as far as we know.
    stored: Option<Position>,
    /// `None` until it is known where to begin.
    reading: Option<Reading>,
    is_paused: bool,
    /// When the coordinator wanted it back.
    revoked_at: Option<Instant>,
    /// Whom its leader wants us to read from.
    replica: Option<NodeId>,
}

#[derive(Debug)]
struct Reading {
    progress: Progress,
    turn: u64,
    /// Where the next parcel begins.
    next: Position,
    /// Of the parcels that are not finished.
    holds: Vec<Arc<Hold>>,
    /// Where reading goes on once all that was handed out is finished.
    jump: Option<Position>,
}

/// A partition that is to be read.
#[derive(Debug, Clone)]
pub struct Readable {
    /// By id.
    pub key: Key,
    /// By name.
    pub at: TopicPartition,
    /// See [`Place`](super::fetcher::Place).
    pub turn: u64,
    /// Where to read on.
    pub next: Position,
    /// Whom to read from, if not the leader.
    pub replica: Option<NodeId>,
}

impl Table {
    /// Nothing is ours.
    pub fn new(now: Instant) -> Self {
        Self { partitions: BTreeMap::new(), until: now, turns: 0, changed: false }
    }

    /// Takes over what the coordinator says. Without an assignment we are no member any more, and nothing is ours.
    ///
    /// Partitions of topics that the catalog does not know are left until it does.
    pub fn assign(&mut self, assignment: Option<&Assignment>, catalog: &Catalog, now: Instant) {
        let Some(assignment) = assignment else {
            return self.lose_all();
        };
        self.until = assignment.until;
        for (topic, partition) in &assignment.partitions {
            let Some(info) = catalog.topics.get(topic) else { continue };
            let at = TopicPartition { topic: info.name.as_str().into(), partition: *partition };
            self.partitions.entry((*topic, *partition)).or_insert_with(|| {
                self.changed = true;
                Partition { at, stored: None, reading: None, is_paused: false, revoked_at: None, replica: None }
            });
        }
        for (key, partition) in &mut self.partitions {
            let is_ours = assignment.partitions.contains(key);
            if is_ours == partition.revoked_at.is_some() {
                partition.revoked_at = (!is_ours).then_some(now);
                self.changed = true;
                begin_turn(partition, &mut self.turns);
            }
            if let Some(reading) = &mut partition.reading {
                // What has expired was given up by the lane.
                if reading.holds.iter().any(|hold| hold.is_empty()) {
                    reading.begin_again();
                    self.changed = true;
                    begin_turn(partition, &mut self.turns);
                } else {
                    reading.holds.iter().for_each(|hold| hold.extend(assignment.until));
                }
            }
        }
    }

    fn lose_all(&mut self) {
        self.changed |= !self.partitions.is_empty();
        std::mem::take(&mut self.partitions).into_values().for_each(Partition::give_up);
    }

    /// Partitions for which it is not known where to begin.
    pub fn unplaced(&self) -> Vec<(Key, TopicPartition)> {
        let unplaced = self.partitions.iter().filter(|(_, p)| p.reading.is_none() && p.revoked_at.is_none());
        unplaced.map(|(key, partition)| (*key, partition.at.clone())).collect()
    }

    /// Begins to read a partition, unless it is not ours any more. `stored` is what the group has committed.
    pub fn place(&mut self, key: Key, start: Position, stored: Option<Position>) {
        let Some(partition) = self.partitions.get_mut(&key).filter(|partition| partition.reading.is_none()) else {
            return;
        };
        partition.stored = stored;
        let reading = Reading { progress: Progress::at(start), turn: 0, next: start, holds: vec![], jump: None };
        partition.reading = Some(reading);
        self.changed = true;
        begin_turn(partition, &mut self.turns);
    }

    /// What is to be read now.
    pub fn readable(&self) -> Vec<Readable> {
        let readable = |(key, partition): (&Key, &Partition)| {
            let reading = partition.reading.as_ref().filter(|reading| reading.jump.is_none())?;
            let is_open = !partition.is_paused && partition.revoked_at.is_none();
            let (at, replica) = (partition.at.clone(), partition.replica);
            is_open.then_some(Readable { key: *key, at, turn: reading.turn, next: reading.next, replica })
        };
        self.partitions.iter().filter_map(readable).collect()
    }

    /// Whether [`readable`](Self::readable) may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Reads a partition from somebody else from now on: `None` is its leader.
    pub fn read_from(&mut self, key: Key, replica: Option<NodeId>) {
        if let Some(partition) = self.partitions.get_mut(&key) {
            self.changed |= partition.replica != replica;
            partition.replica = replica;
        }
    }

    /// Throws away what is on its way of a partition, and reads it again.
    pub fn turn(&mut self, key: Key) {
        if let Some(partition) = self.partitions.get_mut(&key) {
            self.changed = true;
            begin_turn(partition, &mut self.turns);
        }
    }

    /// Takes what was read; `None` where there is nothing to be written, or it is not wanted any more.
    pub fn accept(&mut self, fetched: Fetched, node: NodeId) -> Option<Parcel> {
        let partition = self.partitions.get_mut(&fetched.key)?;
        let is_open = !partition.is_paused && partition.revoked_at.is_none();
        let reading = partition.reading.as_mut().filter(|reading| is_open && reading.turn == fetched.turn)?;
        if fetched.from != reading.next.offset || reading.jump.is_some() {
            return None;
        }
        let epoch = if fetched.last_epoch < 0 { reading.next.epoch } else { fetched.last_epoch };
        let end = Position { offset: fetched.next, epoch };
        if fetched.jump == Some(Jump::Truncated) {
            reading.jump = Some(end);
            reading.jump_if_idle();
            self.changed = true;
            begin_turn(partition, &mut self.turns);
            return None;
        }
        reading.progress.hand(end, fetched.visible.is_empty());
        reading.next = end;
        if fetched.visible.is_empty() {
            return None;
        }
        let hold = Arc::new(Hold::new(fetched.visible, self.until));
        reading.holds.push(hold.clone());
        Some(Parcel {
            at: partition.at.clone(),
            topic_id: fetched.key.0,
            leader: node,
            records: fetched.records,
            hold,
            span: OffsetRange { first: fetched.from, last: fetched.next - 1 },
            delivery_count: 1,
            fragile: false,
            fetched_at: fetched.fetched_at,
        })
    }

    /// A parcel is committed on the target. What is ours no longer is nobody's business here.
    pub fn settle(&mut self, parcel: &Parcel) {
        let key = (parcel.topic_id, parcel.at.partition);
        let Some(reading) = self.partitions.get_mut(&key).and_then(|partition| partition.reading.as_mut()) else {
            return;
        };
        if !reading.holds.iter().any(|hold| Arc::ptr_eq(hold, &parcel.hold)) {
            return;
        }
        let is_next = reading.progress.finish(parcel.span);
        debug_assert!(is_next, "{} was not finished in its order", parcel.at);
        parcel.hold.drop_range(parcel.span);
        reading.holds.retain(|hold| !hold.is_empty());
        self.changed |= reading.jump_if_idle();
    }

    /// Hands out nothing more of a partition.
    pub fn pause(&mut self, at: &TopicPartition) {
        self.set_paused(at, true);
    }

    /// Ends a pause: what comes next is what would have come then.
    pub fn resume(&mut self, at: &TopicPartition) {
        self.set_paused(at, false);
    }

    fn set_paused(&mut self, at: &TopicPartition, is_paused: bool) {
        for partition in self.partitions.values_mut().filter(|p| p.at == *at && p.is_paused != is_paused) {
            partition.is_paused = is_paused;
            self.changed = true;
            begin_turn(partition, &mut self.turns);
        }
    }

    /// Positions that the group does not have yet.
    pub fn uncommitted(&self) -> Vec<(Key, TopicPartition, Position)> {
        let uncommitted = |(key, partition): (&Key, &Partition)| {
            let done = partition.reading.as_ref()?.progress.done();
            (partition.stored != Some(done)).then(|| (*key, partition.at.clone(), done))
        };
        self.partitions.iter().filter_map(uncommitted).collect()
    }

    /// The group has a position of ours.
    pub fn store(&mut self, key: Key, position: Position) {
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.stored = Some(position);
        }
    }

    /// Gives up the partitions that the coordinator wants back: those that are finished and committed, and those for which it has
    /// waited long enough. Returns the latter.
    pub fn wind_up(&mut self, now: Instant) -> Vec<TopicPartition> {
        let mut overdue = vec![];
        let gone = self.partitions.extract_if(.., |_, partition| {
            let Some(revoked_at) = partition.revoked_at else { return false };
            let is_late = now >= revoked_at + REVOKE_MAX;
            if !partition.is_finished() && is_late {
                overdue.push(partition.at.clone());
            }
            partition.is_finished() || is_late
        });
        gone.for_each(|(_, partition)| partition.give_up());
        overdue
    }

    /// When [`wind_up`](Self::wind_up) should look at the latest.
    pub fn due_at(&self) -> Option<Instant> {
        self.partitions.values().filter_map(|partition| partition.revoked_at).min().map(|at| at + REVOKE_MAX)
    }

    /// What is not given up yet.
    pub fn owned(&self) -> BTreeSet<Key> {
        self.partitions.keys().copied().collect()
    }

    /// Offsets that were handed out and are not finished.
    pub fn unfinished(&self) -> u64 {
        let holds = self.partitions.values().filter_map(|p| p.reading.as_ref()).flat_map(|reading| &reading.holds);
        holds.flat_map(|hold| hold.ranges()).map(|range| range.count()).sum()
    }
}

fn begin_turn(partition: &mut Partition, turns: &mut u64) {
    *turns += 1;
    if let Some(reading) = &mut partition.reading {
        reading.turn = *turns;
    }
}

impl Partition {
    fn is_finished(&self) -> bool {
        let is_finished =
            |reading: &Reading| reading.progress.is_idle() && self.stored == Some(reading.progress.done());
        self.reading.as_ref().is_none_or(is_finished)
    }

    /// Whoever has parcels of it may not commit them any more.
    fn give_up(self) {
        self.reading.into_iter().flat_map(|reading| reading.holds).for_each(|hold| hold.drop_all());
    }
}

impl Reading {
    /// Back to what is finished.
    fn begin_again(&mut self) {
        self.holds.drain(..).for_each(|hold| hold.drop_all());
        self.next = self.progress.done();
        self.progress = Progress::at(self.next);
    }

    fn jump_if_idle(&mut self) -> bool {
        let jump = self.jump.take_if(|_| self.progress.is_idle());
        if let Some(to) = jump {
            self.next = to;
            self.progress = Progress::at(to);
        }
        jump.is_some()
    }
}

#[cfg(test)]
mod tests;
