//! What both protocols share: what a member tells its source, and what it hears from it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Assignment;
use crate::flow::Flow;
use crate::health::Health;
use crate::source::Key;
use crate::source::catalog::Watched;
use crate::wire::backoff::Backoff;
use crate::wire::group::Member;
use crate::wire::{Client, Cluster, WireError};

/// What `/ready` calls us.
pub(super) const SUBJECT: &str = "consumer group";

/// How a protocol ends.
#[derive(Debug)]
pub(super) enum End {
    /// We were told to leave.
    Left,
    /// The coordinator does not speak it, or not for this group.
    Refused(WireError),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Standing {
    cluster: Arc<Cluster>,
    pub(super) client: Client,
    pub(super) group: String,
    /// Our name as a static member.
    pub(super) instance: Option<Arc<str>>,
    pub(super) rack: Option<String>,
    /// `session.timeout.ms`, for the classic protocol.
    pub(super) session: Duration,
    pub(super) catalog: Watched,
    pub(super) owned: watch::Receiver<BTreeSet<Key>>,
    assignment: watch::Sender<Option<Assignment>>,
    pub(super) health: Health,
    pub(super) backoff: Backoff,
}

type Channels = (watch::Sender<Option<Assignment>>, watch::Receiver<BTreeSet<Key>>);

impl Standing {
    pub(super) fn new(
        (flow, lane): (&Flow, u32),
        catalog: Watched,
        (assignment, owned): Channels,
        health: Health,
    ) -> Self {
        let instance = flow.consumer.instance.as_ref().map(|name| format!("{name}-{lane}").into());
        Self {
            cluster: flow.source.clone(),
            client: Client::new(flow.source.clone()),
            group: flow.consumer.id.clone(),
            instance,
            rack: flow.source.rack.clone(),
            session: flow.consumer.session,
            catalog,
            owned,
            assignment,
            health,
            backoff: Backoff::default(),
        }
    }

    /// Another client, with connections of its own.
    pub(super) fn another_client(&self) -> Client {
        Client::new(self.cluster.clone())
    }

    /// Us, as requests name us.
    pub(super) fn member<'a>(&'a self, id: &'a str, epoch: i32) -> Member<'a> {
        Member { group: &self.group, id, instance: self.instance.as_deref(), epoch }
    }

    /// Tells what is ours.
    pub(super) fn tell(&self, member: &str, (epoch, partitions): (i32, BTreeSet<Key>), until: Instant) {
        let before = self.assignment.borrow().clone();
        if before.as_ref().is_none_or(|before| before.partitions != partitions) {
            tracing::info!(group = self.group, epoch, partitions = partitions.len(), "assignment");
        }
        let (member, instance) = (member.into(), self.instance.clone());
        let until = before.map_or(until, |before| until.max(before.until));
        self.assignment.send_replace(Some(Assignment { member, instance, epoch, partitions, until }));
    }

    /// Tells that what is ours stays so for longer; or the same under another epoch.
    pub(super) fn extend(&self, epoch: i32, until: Instant) {
        self.assignment.send_if_modified(|ours| match ours {
            Some(ours) => {
                (ours.epoch, ours.until) = (epoch, until.max(ours.until));
                true
            }
            None => false,
        });
    }

    /// Tells that nothing is ours any more.
    pub(super) fn lose(&self, reason: impl Display) {
        self.assignment.send_replace(None);
        self.health.trouble(SUBJECT, reason);
    }

    /// What is ours.
    pub(super) fn assigned(&self) -> BTreeSet<Key> {
        self.assignment.borrow().as_ref().map(|ours| ours.partitions.clone()).unwrap_or_default()
    }

    /// Whether anything may be ours.
    pub(super) fn is_member(&self) -> bool {
        self.assignment.borrow().is_some()
    }

    /// What the source reads, or may begin to read any moment: nobody else may be given it.
    pub(super) fn claimed(&mut self) -> BTreeSet<Key> {
        let ours = self.assigned();
        // Behind the assignment, see `Watched::take`.
        let mut claimed = self.owned.borrow_and_update().clone();
        claimed.extend(ours);
        claimed
    }

    /// Topics that the flow wants: none until the first look at the source.
    pub(super) fn subscribed(&mut self) -> Arc<[String]> {
        self.catalog.borrow_and_update().subscribed.clone()
    }

    /// Waits until a member may join: nothing is left of an earlier membership, and there is a topic.
    pub(super) async fn ready(&mut self) {
        loop {
            let owned = self.owned.borrow_and_update().len();
            if self.subscribed().is_empty() {
                self.health.pending(SUBJECT, "there is no topic to subscribe to yet");
            } else if owned > 0 {
                self.health.pending(
                    SUBJECT,
                    format_args!(
                        "{owned} partitions of an earlier membership are being given up before it joins again"
                    ),
                );
            } else {
                return;
            }
            self.heard().await;
        }
    }

    /// Waits until the catalog or what is owned changes.
    pub(super) async fn heard(&mut self) {
        // Both live as long as the lane; without them nothing would change any more.
        tokio::select! {
            Ok(()) = self.catalog.changed() => {}
            Ok(()) = self.owned.changed() => {}
            else => std::future::pending().await,
        }
    }

    /// A request was answered as it should be.
    pub(super) fn well(&mut self) {
        self.backoff.reset();
        self.health.well(SUBJECT);
    }

    /// A request failed for a reason that may pass; returns the pause before the next.
    pub(super) fn failed(&mut self, reason: impl Display) -> Duration {
        self.health.trouble(SUBJECT, reason);
        self.backoff.pause()
    }
}
