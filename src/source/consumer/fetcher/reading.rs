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
        self.place.is_replica = place.is_replica;
        if place.leader_epoch > self.place.leader_epoch {
            self.place.leader_epoch = place.leader_epoch;
            self.paused_until = None;
            self.doubt_leader();
        }
    }

    /// A replica was named by its leader, which had been asked before.
    fn doubt_leader(&mut self) {
        if !self.place.is_replica && self.place.last_epoch >= 0 && self.place.leader_epoch > self.place.last_epoch {
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
            fetched_at: Instant::now(),
            room: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::TopicPartition;
    use crate::source::consumer::visible::visible;
    use bytes::Bytes;
    use uuid::Uuid;

    fn reading(position: i64, last_epoch: i32) -> Reading {
        let at = TopicPartition { topic: "t".into(), partition: 0 };
        let key = (Uuid::nil(), 0);
        Reading::new(Place { key, at, turn: 1, position, last_epoch, leader_epoch: 9, is_replica: false })
    }

    /// Reads on to `next` under these epochs.
    fn read(reading: &mut Reading, next: i64, epochs: &[(i32, i64)]) {
        let nothing = visible(Bytes::new(), vec![], next);
        reading.advance(Visible { next, epochs: epochs.to_vec(), ..nothing }, || unreachable!("nothing is visible"));
    }

    #[test]
    fn a_log_parts_where_an_epoch_ends_in_it() {
        let mut reading = reading(100, 3);
        read(&mut reading, 200, &[(3, 100), (4, 150)]);
        let divergence = |epoch, offset| reading.divergence(EpochEnd { epoch, offset });
        assert_eq!(divergence(4, 300), 200, "the log has all of it");
        assert_eq!(divergence(4, 180), 180);
        // The log has nothing of epoch 4, and more of epoch 3 than we have read.
        assert_eq!((divergence(3, 140), divergence(3, 170)), (140, 150));
        // Nor of epoch 3, of which the record before our first one was.
        assert_eq!((divergence(2, 80), divergence(2, 500)), (80, 99));
    }

    #[test]
    fn behind_a_cut_the_epochs_of_the_log_count() {
        let mut reading = reading(100, 3);
        read(&mut reading, 200, &[(3, 100), (4, 150)]);
        let fetched = reading.truncate(140, 3);
        assert_eq!(
            (fetched.from, fetched.next, fetched.last_epoch, fetched.jump),
            (200, 140, 3, Some(Jump::Truncated))
        );
        read(&mut reading, 160, &[(7, 140)]);
        assert_eq!(reading.divergence(EpochEnd { epoch: 3, offset: 155 }), 140);
        assert_eq!(reading.wish().last_epoch, 7);
    }

    #[test]
    fn only_so_many_epochs_are_remembered() {
        let mut reading = reading(0, -1);
        let epochs: Vec<(i32, i64)> = (0..50).map(|epoch| (epoch, i64::from(epoch) * 10)).collect();
        read(&mut reading, 500, &epochs);
        assert_eq!(reading.epochs.len(), FRONTIER_EPOCHS_MAX);
        assert_eq!(reading.divergence(EpochEnd { epoch: 48, offset: 600 }), 490);
    }

    #[test]
    fn a_newer_leader_is_doubted_and_ends_a_pause() {
        let mut reading = reading(100, 9);
        assert_eq!(reading.doubt, None, "the record before is of this leader's epoch");
        reading.pause(Instant::now());
        let newer = Place { leader_epoch: 10, ..reading.place.clone() };
        reading.learn(&newer);
        assert_eq!((reading.doubt, reading.paused_until), (Some(Doubt::Leader), None));
        let replica = Place { leader_epoch: 11, is_replica: true, ..newer };
        assert_eq!(Reading::new(replica).doubt, None);
    }
}
