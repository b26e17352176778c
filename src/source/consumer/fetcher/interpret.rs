//! From a reply to what it brings, partition by partition: the one place that judges errors of partitions.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;

use tokio::time::Instant;
use uuid::Uuid;

use super::reading::Doubt;
use super::{Arrival, Fetcher, Moved};
use crate::limits::{CRUMBS_MAX, HOLD_RETRY};
use crate::source::Key;
use crate::source::consumer::room::Taken;
use crate::source::consumer::visible::visible;
use crate::wire::client::asks_for_refresh;
use crate::wire::fetch::{FetchReply, PartitionReply, TopicRef};
use crate::wire::{Code, Connection};

/// What becomes of a partition whose fetch was answered with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The log has nothing there: find out why.
    Doubt,
    /// The replica cannot serve us: its leader shall.
    BackToLeader,
    /// Somebody else leads, or will soon: ask who, and try again.
    Refresh,
    /// Nothing that asking would mend: try again after a while.
    Hold,
}

/// The only match from an error of a partition to what is done about it.
fn judge(code: Code, is_replica: bool) -> Verdict {
    match code {
        _ if is_replica => Verdict::BackToLeader,
        Code::OffsetOutOfRange => Verdict::Doubt,
        // A new leader does not know yet how far its log is committed; a broken disk hands over.
        Code::OffsetNotAvailable | Code::KafkaStorageError | Code::InconsistentTopicId => Verdict::Refresh,
        code if asks_for_refresh(code) => Verdict::Refresh,
        _ => Verdict::Hold,
    }
}

/// What to do about a partition that cannot be read, where the broker does not say it.
fn remedy(code: Code) -> Option<String> {
    match code {
        Code::CorruptMessage | Code::KafkaStorageError => Some("it cannot read its log, check its disk".to_owned()),
        Code::UnsupportedCompressionType => Some("it gives zstd to no client that speaks Fetch below v10".to_owned()),
        _ => None,
    }
}

impl Fetcher {
    pub(super) fn interpret(&mut self, reply: FetchReply, taken: &mut Taken, connection: &Connection) -> Arrival {
        let mut arrival = Arrival { endpoints: reply.endpoints, ..self.arrival() };
        let mut troubled = BTreeSet::new();
        let named = reply.partitions.first().is_some_and(|first| matches!(first.topic, TopicRef::Name(_)));
        let ids = if named { self.ids() } else { HashMap::new() };
        for partition in reply.partitions {
            let id = match &partition.topic {
                TopicRef::Id(id) => Some(*id),
                TopicRef::Name(name) => ids.get(name).copied(),
            };
            let Some(key) = id.map(|id| (id, partition.partition)) else { continue };
            // What is read from elsewhere by now is of no use to anybody.
            let position = self.readings.get(&key).map(|reading| reading.place.position);
            if position.is_none() || position != self.session.asked(key) {
                continue;
            }
            let trouble = match partition.error {
                Some(code) => self.on_refused((key, code, partition.leader), &mut arrival, connection),
                None => self.on_brought(key, partition, (taken, &mut arrival)),
            };
            if let Some(reason) = trouble {
                self.trouble(key, reason);
                troubled.insert(key);
            }
        }
        // A partition with nothing to say is not in the reply: what was asked for and is not in trouble now is well.
        self.clear(&troubled);
        arrival
    }

    /// Ids of topics by name, where brokers name them so.
    fn ids(&self) -> HashMap<String, Uuid> {
        let places = self.readings.values().map(|reading| &reading.place);
        places.map(|place| (place.at.topic.to_string(), place.key.0)).collect()
    }

    /// Returns what is wrong with the partition, unless nothing is.
    fn on_refused(
        &mut self,
        (key, code, leader): (Key, Code, Option<i32>),
        arrival: &mut Arrival,
        connection: &Connection,
    ) -> Option<String> {
        let reading = self.readings.get_mut(&key)?;
        let now = Instant::now();
        match judge(code, reading.place.is_replica) {
            Verdict::Doubt => {
                reading.doubt = Some(Doubt::OutOfRange);
                return None;
            }
            Verdict::BackToLeader => {
                reading.pause(now);
                arrival.moved.push(Moved::BackToLeader(key));
                return None;
            }
            Verdict::Refresh => {
                reading.pause(now);
                arrival.moved.extend(leader.map(|leader| Moved::Leader(key, leader)));
                arrival.stale = true;
            }
            Verdict::Hold => reading.paused_until = Some(now + HOLD_RETRY),
        }
        Some(connection.answered("Fetch", &reading.place.at.to_string(), (code, remedy(code))).to_string())
    }

    /// Likewise.
    fn on_brought(
        &mut self,
        key: Key,
        partition: PartitionReply,
        (taken, arrival): (&mut Taken, &mut Arrival),
    ) -> Option<String> {
        let reading = self.readings.get_mut(&key)?;
        let now = Instant::now();
        if let Some(end) = partition.diverging {
            if reading.place.is_replica {
                // It may only be behind its leader.
                reading.pause(now);
                arrival.moved.push(Moved::BackToLeader(key));
            } else {
                arrival.fetched.extend(self.diverge(key, end));
            }
            return None;
        }
        if let Some(replica) = partition.preferred.filter(|node| *node != self.node) {
            reading.pause(now);
            arrival.moved.push(Moved::Replica(key, replica));
            return None;
        }
        let size = partition.records.len();
        let mut read = visible(partition.records, partition.aborted, reading.place.position);
        let fault = read.fault.take();
        let fetched = reading.advance(read, || taken.part(size));
        let brought_nothing = fetched.is_none() && size > 0;
        arrival.fetched.extend(fetched);
        if fault.is_some() {
            reading.paused_until = Some(now + HOLD_RETRY);
        } else if brought_nothing {
            reading.crumbs += 1;
            if reading.crumbs.is_multiple_of(CRUMBS_MAX) {
                reading.pause(now);
                self.session.begin_anew();
            }
        }
        fault.map(|fault| fault.to_string())
    }

    pub(super) fn trouble(&mut self, key: Key, reason: impl Display) {
        if let Some(reading) = self.readings.get(&key) {
            self.context.health.trouble(format_args!("source {}", reading.place.at), reason);
            self.troubled.insert(key);
        }
    }

    /// Of the partitions that were asked for, those in `troubled` are in trouble, and told already; the others are well.
    fn clear(&mut self, troubled: &BTreeSet<Key>) {
        if self.troubled.is_empty() {
            return;
        }
        for key in self.session.all_asked().filter(|key| !troubled.contains(key)) {
            if self.troubled.remove(&key) {
                let reading = self.readings.get(&key);
                reading.inspect(|reading| self.context.health.well(format_args!("source {}", reading.place.at)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_left_for_whatever_reason_and_a_leader_is_asked_why() {
        for code in [Code::OffsetOutOfRange, Code::OffsetNotAvailable, Code::NotLeaderOrFollower, Code::CorruptMessage]
        {
            assert_eq!(judge(code, true), Verdict::BackToLeader);
        }
        assert_eq!(judge(Code::OffsetOutOfRange, false), Verdict::Doubt);
        for code in [Code::OffsetNotAvailable, Code::FencedLeaderEpoch, Code::UnknownTopicId, Code::ReplicaNotAvailable]
        {
            assert_eq!(judge(code, false), Verdict::Refresh);
        }
        for code in [Code::CorruptMessage, Code::TopicAuthorizationFailed, Code::UnknownServerError] {
            assert_eq!(judge(code, false), Verdict::Hold);
        }
    }
}
