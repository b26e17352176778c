//! The thread of one lane: it alone speaks to its consumer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use super::Command;
use super::committer::Committer;
use super::package::Package;
use super::part::{Part, State};
use super::position::{self, Place};
use super::settings::{Consumer, beat};
use crate::batch::OffsetRange;
use crate::config::ConsumerConfig;
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::{COMMIT_PAUSE, ENGINE_ANSWER_MAX, ENGINE_TICK, ENGINE_TURN_BYTES, RETRY_MAX};
use crate::metrics::LaneMetrics;
use crate::source::catalog::Watched;
use crate::source::{Hold, Parcel, TopicPartition};

/// Where troubles of the group and of the connections are told.
pub(super) const GROUP: &str = "consumer group";

/// See the module.
pub(super) struct Reader {
    pub(super) consumer: Arc<Consumer>,
    pub(super) committer: Committer,
    pub(super) group: ConsumerConfig,
    catalog: Watched,
    /// Topics by name: their ids, and how many of their partitions may be read.
    topics: HashMap<Arc<str>, (Uuid, i32)>,
    subscribed: BTreeSet<String>,
    pub(super) parts: BTreeMap<TopicPartition, Part>,
    paused: BTreeSet<TopicPartition>,
    /// Bytes that the lane waits for.
    asked: Option<usize>,
    /// What a commit that is on its way will have stored, and no other is sent before.
    pub(super) committing: Option<BTreeMap<TopicPartition, i64>>,
    commit_at: Instant,
    /// When the cluster is looked at again, since something was wrong with it.
    probe_at: Option<Instant>,
    /// Who waits for our end.
    pub(super) closing: Option<oneshot::Sender<u64>>,
    commands: Receiver<Command>,
    arrivals: mpsc::Sender<Vec<Parcel>>,
    pub(super) health: Health,
    pub(super) metrics: LaneMetrics,
}

impl Reader {
    pub(super) fn new(
        flow: &Flow,
        (consumer, committer): (Arc<Consumer>, Committer),
        (mut catalog, commands, arrivals): (Watched, Receiver<Command>, mpsc::Sender<Vec<Parcel>>),
        (health, metrics): (Health, LaneMetrics),
    ) -> Self {
        health.pending(GROUP, "has not joined yet");
        catalog.mark_changed();
        Self {
            consumer,
            committer,
            group: flow.consumer.clone(),
            catalog,
            topics: HashMap::new(),
            subscribed: BTreeSet::new(),
            parts: BTreeMap::new(),
            paused: BTreeSet::new(),
            asked: None,
            committing: None,
            commit_at: Instant::now(),
            probe_at: None,
            closing: None,
            commands,
            arrivals,
            health,
            metrics,
        }
    }

    /// Works until told to close.
    pub(super) fn run(mut self) {
        loop {
            self.consumer.context().looks();
            self.serve();
            self.follow_catalog();
            self.mend();
            self.bring();
            self.extend();
            self.commit();
            self.probe();
            if let Some(command) = self.next_command(Instant::now() + ENGINE_TICK) {
                self.obey(command);
            }
            if let Some(done) = self.closing.take() {
                // Nobody waits any more if the farewell is over.
                let _ = done.send(self.leave());
                return;
            }
        }
    }

    /// The next command, or `None` when there is none before `deadline`.
    pub(super) fn next_command(&self, deadline: Instant) -> Option<Command> {
        self.commands.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// Does what the lane wants.
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Fetch(bytes) => self.asked = Some(bytes),
            Command::Cancel => self.answer(vec![]),
            Command::Settle(finished) => finished.into_iter().for_each(|finished| self.settle(finished)),
            Command::Pause(at) => {
                self.paused.insert(at);
            }
            Command::Resume(at) => {
                self.paused.remove(&at);
            }
            Command::Wake => {}
            Command::Committed(result) => self.on_committed(result),
            Command::Close(done) => self.closing = Some(done),
        }
    }

    fn settle(&mut self, (at, hold, span): (TopicPartition, Arc<Hold>, OffsetRange)) {
        match self.parts.get_mut(&at) {
            Some(part) => part.settle(&hold, span),
            None => tracing::warn!(%at, ?span, "written after the partition was given up: others write it again"),
        }
    }

    /// Answers a fetch, if one was asked for.
    fn answer(&mut self, parcels: Vec<Parcel>) {
        if self.asked.take().is_some() {
            // There is room for one answer, and a lane that is gone needs none.
            let _ = self.arrivals.try_send(parcels);
        }
    }

    /// Subscribes to the topics that there are.
    fn follow_catalog(&mut self) {
        if !self.catalog.has_changed().unwrap_or(false) {
            return;
        }
        let catalog = self.catalog.borrow_and_update().clone();
        let admitted = |id: &Uuid| catalog.admitted.get(id).copied().unwrap_or(0);
        self.topics = catalog
            .topics
            .values()
            .map(|topic| (topic.name.as_str().into(), (topic.id, admitted(&topic.id))))
            .collect();
        let names: BTreeSet<String> = catalog.topics.values().map(|topic| topic.name.clone()).collect();
        if names == self.subscribed {
            return;
        }
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        match self.consumer.subscribe(&list) {
            Ok(()) => self.subscribed = names,
            Err(error) => self.health.trouble(GROUP, error),
        }
    }

    /// Brings what is there, if the lane waits for something.
    fn bring(&mut self) {
        let Some(bytes_max) = self.asked else { return };
        let mut packages: BTreeMap<TopicPartition, Package> = BTreeMap::new();
        let (mut bytes, mut before) = (0, usize::MAX);
        // In turns, so that one partition leaves room for the others.
        while bytes < bytes_max && bytes != before {
            before = bytes;
            for (at, part) in &mut self.parts {
                let is_open = self.topics.get(&at.topic).is_some_and(|(_, admitted)| at.partition < *admitted);
                if !is_open || self.paused.contains(at) || !part.is_read() || bytes >= bytes_max {
                    continue;
                }
                let package = packages.entry(at.clone()).or_default();
                let held = package.size_bytes();
                let room = ENGINE_TURN_BYTES.min(bytes_max - bytes);
                if let Err(reason) = part.take(package, held + room) {
                    let reason = self.consumer.context().failure().unwrap_or(reason);
                    self.health.trouble(subject(at), reason);
                    part.hold(Instant::now());
                }
                bytes += package.size_bytes() - held;
            }
        }
        let parcels: Vec<Parcel> = packages.into_iter().filter_map(|(at, package)| self.parcel(at, package)).collect();
        if !parcels.is_empty() {
            self.answer(parcels);
        }
    }

    fn parcel(&mut self, at: TopicPartition, package: Package) -> Option<Parcel> {
        let until = self.until();
        let part = self.parts.get_mut(&at)?;
        let (records, span) = match package.finish() {
            Ok(finished) => finished?,
            Err(reason) => {
                self.health.trouble(subject(&at), reason);
                part.hold(Instant::now());
                return None;
            }
        };
        if matches!(part.state, State::Trial(_)) {
            part.state = State::Reading;
            self.health.well(subject(&at));
        }
        let topic_id = self.topics.get(&at.topic)?.0;
        let hold = part.hand(span, until);
        let (leader, delivery_count, fragile, fetched_at) = (-1, 1, false, Instant::now());
        Some(Parcel { at, topic_id, leader, records, hold, span, delivery_count, fragile, fetched_at })
    }

    /// Until when nobody else is given our partitions, as far as we know now: the last heartbeat may be as old as the time between two.
    fn until(&self) -> Instant {
        Instant::now() + self.group.session - beat(self.group.session)
    }

    pub(super) fn extend(&self) {
        // librdkafka revokes everything when its session is over; a process that was frozen gets to know it late.
        if !self.consumer.assignment_lost() {
            let until = self.until();
            self.parts.values().for_each(|part| part.extend(until));
        }
    }

    /// Reads on where reading has come to a halt.
    fn mend(&mut self) {
        let now = Instant::now();
        let ats: Vec<TopicPartition> = self.parts.keys().cloned().collect();
        for at in ats {
            let Some(part) = self.parts.get_mut(&at) else { continue };
            if let Some(done) = part.given_up() {
                let lost = part.take_back();
                tracing::warn!(%at, lost, "held for too long: read again");
                self.read_from(&at, done);
                continue;
            }
            match part.state {
                State::Reading => {}
                State::Trial(until) if until <= now => {
                    part.state = State::Reading;
                    self.health.well(subject(&at));
                }
                State::Trial(_) => {}
                State::Held(until) if until > now => {}
                State::Held(_) if part.next.is_some() => {
                    let next = part.next.unwrap_or_default();
                    self.read_from(&at, next);
                }
                State::Held(_) | State::Lost => self.locate(&at),
            }
        }
    }

    /// Finds out where to read on.
    fn locate(&mut self, at: &TopicPartition) {
        let Some(next) = self.parts.get(at).map(|part| part.next) else { return };
        match position::find(&self.consumer, at, (next, self.group.offset_reset)) {
            Ok(Place::Begin(offset)) => {
                tracing::info!(%at, offset, "nothing is committed: beginning here");
                self.read_from(at, offset);
                self.parts.get_mut(at).into_iter().for_each(|part| part.begins_at(offset));
            }
            Ok(Place::Expired(offset)) => {
                tracing::warn!(%at, ?next, offset, "retention has removed what was to be read: going on here");
                self.metrics.lose("retention", next.map_or(0, |next| offset.abs_diff(next)));
                self.read_from(at, offset);
            }
            Ok(Place::Cut) => self.halt(
                at,
                "its log was cut by an unclean leader election, and librdkafka cannot tell from where on it was written anew: read the \
                 flow natively (consumer.engine = \"native\"), or stop it and set the group's offset with kafka-consumer-groups.sh"
                    .to_owned(),
            ),
            Err(error) => self.halt(at, format!("position unknown: {error}")),
        }
    }

    /// Not read for a while, and then looked at again.
    fn halt(&mut self, at: &TopicPartition, reason: String) {
        self.health.trouble(subject(at), reason);
        self.parts.get_mut(at).into_iter().for_each(|part| part.hold(Instant::now()));
    }

    /// Reading goes on from here.
    fn read_from(&mut self, at: &TopicPartition, offset: i64) {
        match self.seek(at, offset) {
            Ok(()) => {
                let now = Instant::now();
                self.parts.get_mut(at).into_iter().for_each(|part| part.is_read_from(offset, now));
            }
            Err(error) => self.halt(at, format!("reading from offset {offset}: {error}")),
        }
    }

    fn seek(&self, at: &TopicPartition, offset: i64) -> Result<(), KafkaError> {
        let offset = Offset::Offset(offset);
        if self.consumer.seek(&at.topic, at.partition, offset, ENGINE_ANSWER_MAX).is_ok() {
            return Ok(());
        }
        // A partition whose position was lost is not fetched any more, and takes no seek: it has to be assigned anew.
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&at.topic, at.partition, offset)?;
        self.consumer.incremental_unassign(&list)?;
        self.consumer.incremental_assign(&list)
    }

    /// Stores how far everything is finished: one commit at a time, and not too often.
    fn commit(&mut self) {
        let now = Instant::now();
        if self.committing.is_some() || now < self.commit_at {
            return;
        }
        let positions = self.to_commit();
        if positions.is_empty() {
            return;
        }
        self.commit_at = now + COMMIT_PAUSE;
        self.metrics.sensors.commit_number.inc();
        self.committer.commit(list(&positions));
        self.committing = Some(positions);
    }

    pub(super) fn to_commit(&self) -> BTreeMap<TopicPartition, i64> {
        self.parts.values().filter_map(|part| Some((part.at.clone(), part.to_commit()?))).collect()
    }

    pub(super) fn on_committed(&mut self, result: Result<(), String>) {
        let positions = self.committing.take();
        match result {
            Ok(()) => {
                self.health.well(GROUP);
                let positions = positions.unwrap_or_default();
                let is_late = positions.keys().any(|at| !self.parts.contains_key(at));
                let sensors = &self.metrics.sensors;
                let sensor = if is_late { &sensors.commits_skipped } else { &sensors.commits };
                sensor.record(1);
                for (at, offset) in positions {
                    self.parts.get_mut(&at).into_iter().for_each(|part| part.committed = Some(offset));
                }
            }
            Err(error) => {
                self.commit_at = Instant::now() + RETRY_MAX;
                self.health.trouble(GROUP, format_args!("offsets are not stored: {error}"));
            }
        }
    }

    /// librdkafka tells when something breaks and not when it works again: so that is looked at.
    fn probe(&mut self) {
        let now = Instant::now();
        if self.probe_at.is_none_or(|at| now < at) {
            return;
        }
        let reason = self.consumer.context().failure();
        match self.consumer.fetch_metadata(self.subscribed.first().map(String::as_str), ENGINE_ANSWER_MAX) {
            Ok(_) => {
                self.probe_at = None;
                self.health.well("source");
            }
            Err(error) => {
                self.probe_at = Some(now + RETRY_MAX);
                self.health.trouble("source", reason.unwrap_or_else(|| error.to_string()));
            }
        }
    }

    /// Something is wrong beyond a partition.
    pub(super) fn alarm(&mut self) {
        self.probe_at.get_or_insert_with(Instant::now);
    }
}

/// Where troubles of a partition are told: those of its copy have the plain name.
pub(super) fn subject(at: &TopicPartition) -> String {
    format!("source {at}")
}

/// Positions in librdkafka's form.
pub(super) fn list(positions: &BTreeMap<TopicPartition, i64>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (at, offset) in positions {
        list.add_partition_offset(&at.topic, at.partition, Offset::Offset(*offset))
            .expect("offsets of records are not negative");
    }
    list
}
