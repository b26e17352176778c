//! The clerk of a member: finds out where its partitions begin, and commits how far they are finished.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use tokio::sync::{oneshot, watch};

use super::Ours;
use super::membership::Assignment;
use super::progress::Position;
use crate::config::{OffsetReset, Protocol};
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::{COMMIT_PAUSE, LEAVE_MAX};
use crate::metrics::FlowMetrics;
use crate::source::catalog::Watched;
use crate::source::{Key, TopicPartition};
use crate::wire::admin::share_progress;
use crate::wire::backoff::Backoff;
use crate::wire::client::{CoordinatorKind, TopicInfo};
use crate::wire::group::Member;
use crate::wire::log::{Moment, list_offsets};
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
    metrics: FlowMetrics,
}

impl Clerk {
    /// A clerk that has nothing to do yet.
    pub fn new(
        flow: &Flow,
        ours: Ours,
        (assignment, catalog): (watch::Receiver<Option<Assignment>>, Watched),
        (health, metrics): (Health, FlowMetrics),
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
            metrics,
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
        let done = match self.place().await {
            Ok(()) => self.commit().await,
            failed => failed,
        };
        let pause = match done {
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
            Some(
                Code::UnknownMemberId
                | Code::FencedMemberEpoch
                | Code::StaleMemberEpoch
                | Code::IllegalGeneration
                | Code::RebalanceInProgress,
            ) => tracing::debug!(group = self.flow.consumer.id, %error, "not committed yet"),
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
    async fn starts(&mut self, new: &[Key]) -> Result<BTreeMap<(String, i32), i64>, WireError> {
        let catalog = self.catalog.borrow().clone();
        let topics: Vec<TopicInfo> =
            catalog.topics.values().filter(|topic| new.iter().any(|(id, _)| *id == topic.id)).cloned().collect();
        if topics.is_empty() {
            return Ok(BTreeMap::new());
        }
        let moment = match self.flow.consumer.offset_reset {
            OffsetReset::Earliest => Moment::Earliest,
            OffsetReset::Latest => Moment::Stable,
            OffsetReset::Within(age) => Moment::At(ago(age)),
        };
        // In this order: what is written between the two is found by its time, or lies behind the end.
        let mut starts = list_offsets(&mut self.client, &topics, Moment::Stable).await?;
        starts.extend(list_offsets(&mut self.client, &topics, moment).await?);
        if self.flow.protocol == Protocol::Share {
            // A topic that was copied through the share group before it was compacted.
            starts.extend(self.shared().await?);
        }
        Ok(starts)
    }

    /// Where the flow's share group stands.
    async fn shared(&mut self) -> Result<BTreeMap<(String, i32), i64>, WireError> {
        match share_progress(&mut self.client, &self.flow.group.id).await {
            Ok(progress) => {
                let begun = progress.into_iter().filter_map(|p| Some(((p.topic, p.partition), p.start_offset?)));
                Ok(begun.collect())
            }
            Err(error) if error.code() == Some(Code::GroupIdNotFound) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
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
        let answers = commit_as(&connection, &by, &offsets).await?;
        let mut refused = None;
        for ((key, at, position), answer) in uncommitted.into_iter().zip(answers) {
            match answer {
                None => {
                    let records = self.ours.table().store(key, position);
                    self.metrics.acknowledged.inc_by(records);
                }
                Some(code) => refused = refused.or(Some((at, code))),
            }
        }
        self.ours.tell();
        let refusal = |(at, code)| connection.answered("OffsetCommit", &format!("group {group}, {at}"), (code, None));
        refused.map_or(Ok(()), |refused| Err(refusal(refused)))
    }
}

fn named(at: &TopicPartition) -> (String, i32) {
    (at.topic.to_string(), at.partition)
}

/// Milliseconds since 1970 of a time that lies back so far.
fn ago(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX)
}
