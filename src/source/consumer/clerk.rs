//! The clerk of a member: finds out where its partitions begin, and commits how far they are finished.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::Ours;
use super::membership::Assignment;
use super::progress::Position;
use crate::config::Protocol;
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::{COMMIT_PAUSE, LEAVE_MAX};
use crate::metrics::LaneSensors;
use crate::source::catalog::Watched;
use crate::source::group::Offsets;
use crate::source::start::{by_rule, reached_by};
use crate::source::{Key, TopicPartition};
use crate::wire::backoff::Backoff;
use crate::wire::client::{CoordinatorKind, TopicInfo};
use crate::wire::group::Member;
use crate::wire::offsets::{Committed, commit_as, committed};
use crate::wire::{Client, Code, WireError};

/// What troubles are told of.
const SUBJECT: &str = "consumer group offsets";

/// See the module.
#[derive(Debug)]
pub struct Clerk {
    client: Client,
    flow: Flow,
    ours: Ours,
    news: watch::Receiver<()>,
    assignment: watch::Receiver<Option<Assignment>>,
    catalog: Watched,
    backoff: Backoff,
    health: Health,
    sensors: LaneSensors,
}

impl Clerk {
    /// A clerk that has nothing to do yet.
    pub fn new(
        flow: &Flow,
        ours: Ours,
        (assignment, catalog): (watch::Receiver<Option<Assignment>>, Watched),
        (health, sensors): (Health, LaneSensors),
    ) -> Self {
        let (client, news) = (Client::new(flow.source.clone()), ours.news());
        Self {
            client,
            flow: flow.clone(),
            news,
            ours,
            assignment,
            catalog,
            backoff: Backoff::default(),
            health,
            sensors,
        }
    }

    /// Works until `close` is told or dropped; then commits once more what is finished.
    pub async fn run(mut self, mut close: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                () = self.work() => {}
                _ = &mut close => break,
            }
        }
        if !matches!(tokio::time::timeout(LEAVE_MAX, self.commit()).await, Ok(Ok(()))) {
            tracing::warn!(
                group = self.flow.consumer.id,
                "left without committing the last offsets: what they stand for is copied again"
            );
        }
    }

    /// Does what there is to do, and waits for more.
    async fn work(&mut self) {
        self.news.mark_unchanged();
        // A partition that can't begin must not keep the others from being committed.
        let placed = self.place().await;
        let committed = self.commit().await;
        let pause = match placed.and(committed) {
            Ok(()) => {
                self.backoff.reset();
                self.health.well(SUBJECT);
                COMMIT_PAUSE
            }
            Err(error) => self.on_error(&error),
        };
        // What is finished meanwhile goes into one commit.
        tokio::time::sleep(pause).await;
        let is_idle = { self.ours.table().uncommitted().is_empty() && self.ours.table().unplaced().is_empty() };
        if is_idle {
            // The table lives as long as we do.
            let _ = self.news.changed().await;
        }
    }

    fn on_error(&mut self, error: &WireError) -> Duration {
        self.client.forget_coordinators();
        match error.code() {
            // The membership finds out what has become of us, and says it with the next assignment.
            Some(code) if is_too_late(code) => {
                tracing::debug!(group = self.flow.consumer.id, %error, "not committed yet")
            }
            Some(_) | None => self.health.trouble(SUBJECT, error),
        }
        self.backoff.pause()
    }

    /// Lets partitions begin: where the group has committed, else where the flow's share group stands, else where the reset rule says.
    async fn place(&mut self) -> Result<(), WireError> {
        let unplaced = self.ours.table().unplaced();
        if unplaced.is_empty() {
            return Ok(());
        }
        let stored = committed(&mut self.client, &self.flow.consumer.id).await?;
        let stored: HashMap<(String, i32), Position> = stored
            .into_iter()
            .map(|c| ((c.topic, c.partition), Position { offset: c.offset, epoch: c.leader_epoch }))
            .collect();
        let new: Vec<Key> =
            unplaced.iter().filter(|(_, at)| !stored.contains_key(&named(at))).map(|(key, _)| *key).collect();
        let starts = self.starts(&new).await?;
        for (key, at) in unplaced {
            let stored = stored.get(&named(&at)).copied();
            let start = starts.get(&named(&at)).map(|offset| Position { offset: *offset, epoch: -1 });
            if let Some(start) = stored.or(start) {
                tracing::debug!(%at, offset = start.offset, "begins");
                self.ours.table().place(key, start, stored);
            }
        }
        self.ours.tell();
        Ok(())
    }

    /// Where partitions begin for which nothing is committed.
    async fn starts(&mut self, new: &[Key]) -> Result<Offsets, WireError> {
        let is_new = |topic: &&TopicInfo| new.iter().any(|(id, _)| *id == topic.id);
        let names: Vec<String> =
            self.catalog.borrow().topics.values().filter(is_new).map(|topic| topic.name.clone()).collect();
        if names.is_empty() {
            return Ok(Offsets::new());
        }
        let topics = self.client.topics(&names).await?.into_iter().filter_map(|(_, topic)| topic.ok());
        // A partition that nobody leads is told of by the source; its topic waits.
        let topics: Vec<TopicInfo> = topics.filter(|topic| topic.leaders.iter().all(Option::is_some)).collect();
        let mut starts = by_rule(&mut self.client, &topics, self.flow.consumer.offset_reset).await?;
        if self.flow.protocol == Protocol::Share {
            // A topic that was copied through the share group before it was compacted.
            starts.extend(reached_by(&mut self.client, &topics, &self.flow.group.id).await?);
        }
        Ok(starts)
    }

    /// Commits what is finished and not committed.
    async fn commit(&mut self) -> Result<(), WireError> {
        let uncommitted = self.ours.table().uncommitted();
        let member = self.assignment.borrow().clone();
        let (Some(member), false) = (member, uncommitted.is_empty()) else { return Ok(()) };
        let offset = |(_, at, position): &(Key, TopicPartition, Position)| Committed {
            topic: at.topic.to_string(),
            partition: at.partition,
            offset: position.offset,
            leader_epoch: position.epoch,
            metadata: String::new(),
        };
        let offsets: Vec<Committed> = uncommitted.iter().map(offset).collect();
        let group = &self.flow.consumer.id;
        let connection = self.client.coordinator(CoordinatorKind::Group, group).await?;
        let by = Member { group, id: &member.member, instance: member.instance.as_deref(), epoch: member.epoch };
        self.sensors.commit_number.inc();
        let answers = commit_as(&connection, &by, &offsets).await?;
        let mut refused = None;
        for ((key, at, position), answer) in uncommitted.into_iter().zip(answers) {
            match answer {
                None => self.ours.table().store(key, position),
                Some(code) => refused = refused.or(Some((at, code))),
            }
        }
        self.ours.tell();
        let refusal = |(at, code)| connection.answered("OffsetCommit", &format!("group {group}, {at}"), (code, None));
        match refused {
            None => self.sensors.commits.record(1),
            Some((_, code)) if is_too_late(code) => self.sensors.commits_skipped.record(1),
            Some(_) => {}
        }
        refused.map_or(Ok(()), |refused| Err(refusal(refused)))
    }
}

/// Whether a commit was refused for having been made by a member, or for an assignment, that is no more.
fn is_too_late(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownMemberId
            | Code::FencedMemberEpoch
            | Code::StaleMemberEpoch
            | Code::IllegalGeneration
            | Code::RebalanceInProgress
    )
}

fn named(at: &TopicPartition) -> (String, i32) {
    (at.topic.to_string(), at.partition)
}
