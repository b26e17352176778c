//! Membership in the share group: a task that sends heartbeats and tells the assignment.
//!
//! Source: KIP-932, ShareGroupHeartbeat v1. A member id is kept for the life of the member; after fencing it joins again.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::health::Health;
use crate::limits::LEAVE_MAX;
use crate::source::Key;
use crate::source::catalog::Watched;
use crate::wire::backoff::Backoff;
use crate::wire::client::CoordinatorKind;
use crate::wire::error::code_of;
use crate::wire::share::{assigned, heartbeat};
use crate::wire::{Client, Cluster, Code, WireError};

const JOIN: i32 = 0;
const LEAVE: i32 = -1;

/// The partitions that the coordinator gave us; `None` until it has.
pub type Assignment = Option<BTreeSet<Key>>;

/// A member of a share group.
#[derive(Debug)]
pub struct Membership {
    client: Client,
    group: String,
    member: String,
    catalog: Watched,
    /// What the coordinator was told to subscribe us to.
    subscribed: Arc<[String]>,
    epoch: i32,
    assignment: watch::Sender<Assignment>,
    health: Health,
}

impl Membership {
    /// A member that has not joined yet, and where its assignment can be watched.
    pub fn new(
        cluster: Arc<Cluster>,
        (group, member): (&str, &str),
        catalog: Watched,
        health: Health,
    ) -> (Self, watch::Receiver<Assignment>) {
        health.pending("share group", "has not joined yet");
        let (assignment, watched) = watch::channel(None);
        let membership = Self {
            client: Client::new(cluster),
            group: group.to_owned(),
            member: member.to_owned(),
            catalog,
            subscribed: [].into(),
            epoch: JOIN,
            assignment,
            health,
        };
        (membership, watched)
    }

    /// Sends heartbeats until `leave` is told or dropped, then leaves the group.
    pub async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        let mut backoff = Backoff::default();
        loop {
            if self.epoch == JOIN && self.catalog.borrow_and_update().subscribed.is_empty() {
                // Nobody may join without a topic.
                self.health.pending("share group", "there is no topic to subscribe to yet");
                tokio::select! {
                    Ok(()) = self.catalog.changed() => continue,
                    _ = &mut leave => return,
                }
            }
            let beat = self.beat();
            let pause = tokio::select! {
                beaten = beat => match beaten {
                    Ok(interval) => {
                        backoff.reset();
                        self.health.well("share group");
                        interval
                    }
                    Err(error) => self.on_error(&error, &mut backoff),
                },
                _ = &mut leave => break,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = self.catalog.changed() => {}
                _ = &mut leave => break,
            }
        }
        self.leave().await;
    }

    /// One heartbeat; returns the pause until the next.
    async fn beat(&mut self) -> Result<Duration, WireError> {
        let names = self.catalog.borrow_and_update().subscribed.clone();
        let is_news = self.epoch == JOIN || (self.epoch != LEAVE && names != self.subscribed);
        let topics = is_news.then_some(&names[..]);
        let request = heartbeat(&self.group, &self.member, (self.epoch, topics));
        let connection = self.client.coordinator(CoordinatorKind::Group, &self.group).await?;
        let reply = connection.call(&request).await?;
        if let Some(code) = code_of(reply.error_code) {
            let message = reply.error_message.map(|words| words.to_string());
            return Err(connection.answered("ShareGroupHeartbeat", &format!("group {}", self.group), (code, message)));
        }
        self.epoch = reply.member_epoch;
        if is_news {
            self.subscribed = names;
        }
        if let Some(assignment) = &reply.assignment {
            let partitions: BTreeSet<Key> = assigned(assignment).into_iter().collect();
            tracing::info!(group = self.group, epoch = self.epoch, partitions = partitions.len(), "assignment");
            self.assignment.send_replace(Some(partitions));
        }
        Ok(Duration::from_millis(u64::try_from(reply.heartbeat_interval_ms).unwrap_or(0).max(100)))
    }

    fn on_error(&mut self, error: &WireError, backoff: &mut Backoff) -> Duration {
        self.client.forget_coordinators();
        match error.code() {
            Some(Code::UnknownMemberId | Code::FencedMemberEpoch) => self.join_again(format_args!(
                "{error}: nothing was heard of this member for too long; joining again, and what was acquired comes again"
            )),
            // A member of a group that is no more: whoever joins makes it anew.
            Some(Code::GroupIdNotFound) if self.epoch != JOIN => self.join_again(format_args!(
                "{error}: the group was deleted; joining again, and it begins again (share.auto.offset.reset)"
            )),
            Some(Code::GroupIdNotFound | Code::InconsistentGroupProtocol) => self.health.trouble(
                "share group",
                format_args!(
                    "{error}: a group of this id and another type exists (Kafka Connect names its groups connect-<name>); \
                     choose another share.group.id, or delete that group if nobody needs it"
                ),
            ),
            Some(_) | None => self.health.trouble("share group", error),
        }
        backoff.pause()
    }

    fn join_again(&mut self, reason: impl Display) {
        self.epoch = JOIN;
        self.health.trouble("share group", reason);
    }

    async fn leave(&mut self) {
        // Also where the answer to joining is still out: the coordinator may know us already.
        self.epoch = LEAVE;
        if !matches!(tokio::time::timeout(LEAVE_MAX, self.beat()).await, Ok(Ok(_))) {
            tracing::warn!(
                group = self.group,
                "left without saying so: the coordinator finds out when the session ends"
            );
        }
    }
}
