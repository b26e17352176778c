//! One partition that is being read: where reading stands, and what is to be found out before it goes on.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::{Fetched, Jump, Place};
use crate::limits::FRONTIER_EPOCHS_MAX;
use crate::source::consumer::room::Taken;
use crate::source::consumer::visible::Visible;
use crate::wire::backoff::Backoff;
use crate::wire::fetch::{EpochEnd, FetchFrom, TopicAt};

/// See the module.
#[derive(Debug)]
pub(super) struct Reading {
    /// Position and epochs move on.
    pub(super) place: Place,
    pub(super) doubt: Option<Doubt>,
    /// It is not read before.
    pub(super) paused_until: Option<Instant>,
    pub(super) backoff: Backoff,
    /// Leader epochs of what was read last, each with the first offset that it was seen at: ascending.
    epochs: VecDeque<(i32, i64)>,
    /// Replies in a row that had no more than a part of a batch for it.
    pub(super) crumbs: u32,
}

/// What is to be found out before a partition is read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The log has nothing at our position: removed by retention, or cut by an unclean leader election?
    OutOfRange,
    /// Another leader leads: does its log still hold what was read? Newer brokers look at each fetch.
    Leader,
}

impl Reading {
    pub(super) fn new(place: Place) -> Self {
        let (epoch, before) = (place.last_epoch, place.position - 1);
        let (epochs, backoff) = (VecDeque::new(), Backoff::default());
        let mut reading = Self { place, doubt: None, paused_until: None, backoff, epochs, crumbs: 0 };
        reading.see(epoch, before);
        reading.doubt_leader();
        reading
    }

    /// Learns of a newer leader, in the same turn.
    pub(super) fn learn(&mut self, place: &Place) {
        if place.leader_epoch > self.place.leader_epoch {
            self.place.leader_epoch = place.leader_epoch;
            self.paused_until = None;
            self.doubt_leader();
        }
        self.place.is_replica = place.is_replica;
    }

    fn doubt_leader(&mut self) {
        if self.place.last_epoch >= 0 && self.place.leader_epoch > self.place.last_epoch {
            self.doubt = self.doubt.or(Some(Doubt::Leader));
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| until <= now)
    }

    /// Not to be read for a while, and longer each time.
    pub(super) fn pause(&mut self, now: Instant) {
        self.paused_until = Some(now + self.backoff.pause());
    }

    /// What a fetch asks for.
    pub(super) fn wish(&self) -> FetchFrom {
        let Place { at, key, position, leader_epoch, last_epoch, .. } = &self.place;
        FetchFrom {
            at: TopicAt { topic: at.topic.clone(), topic_id: key.0, partition: key.1 },
            offset: *position,
            leader_epoch: *leader_epoch,
            last_epoch: *last_epoch,
        }
    }

    /// Goes on behind what a fetch has brought; `None` where it brought nothing.
    pub(super) fn advance(&mut self, read: Visible, taken: impl FnOnce() -> Taken) -> Option<Fetched> {
        if read.next == self.place.position {
            return None;
        }
        read.epochs.into_iter().for_each(|(epoch, first)| self.see(epoch, first));
        self.crumbs = 0;
        self.backoff.reset();
        let mut fetched = self.step(read.next, None);
        if !read.ranges.is_empty() {
            (fetched.records, fetched.visible, fetched.room) = (read.records, read.ranges, Some(taken()));
        }
        Some(fetched)
    }

    /// The last record that counts as read has this epoch, which was seen at `first` at the latest.
    fn see(&mut self, epoch: i32, first: i64) {
        self.place.last_epoch = epoch;
        if epoch >= 0 && self.epochs.back().is_none_or(|(last, _)| *last < epoch) {
            self.epochs.push_back((epoch, first));
            if self.epochs.len() > FRONTIER_EPOCHS_MAX {
                self.epochs.pop_front();
            }
        }
    }

    /// Goes on where the log begins.
    pub(super) fn expire(&mut self, log_start: i64) -> Fetched {
        self.place.last_epoch = -1;
        self.epochs.clear();
        self.step(log_start, Some(Jump::Expired))
    }

    /// Where what was read parts from a log in which an epoch ends there: the first offset that may have been rewritten.
    pub(super) fn divergence(&self, end: EpochEnd) -> i64 {
        let foreign = self.epochs.iter().find(|(epoch, _)| *epoch > end.epoch).map(|(_, first)| *first);
        foreign.unwrap_or(i64::MAX).min(end.offset).min(self.place.position)
    }

    /// Goes on at `offset`, where the log was cut and written anew. `epoch`: of the record before, as the log has it now; -1 unknown.
    pub(super) fn truncate(&mut self, offset: i64, epoch: i32) -> Fetched {
        self.epochs.retain(|(_, first)| *first < offset);
        self.see(epoch, offset - 1);
        self.step(offset, Some(Jump::Truncated))
    }

    fn step(&mut self, next: i64, jump: Option<Jump>) -> Fetched {
        let from = std::mem::replace(&mut self.place.position, next);
        self.doubt = self.doubt.filter(|_| jump.is_none());
        Fetched {
            key: self.place.key,
            turn: self.place.turn,
            from,
            next,
            last_epoch: self.place.last_epoch,
            records: Default::default(),
            visible: vec![],
            jump,
            room: None,
        }
    }
}
