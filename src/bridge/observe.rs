//! Looks at a flow's group as a whole: how far all of its workers have come, and what a share group will not deliver.

mod consumer;
mod delay;
mod lags;

use std::collections::HashSet;

use tokio::sync::watch;

pub use consumer::ConsumerObserver;
use lags::Lags;

use crate::config::Protocol;
use crate::flow::Flow;
use crate::health::Health;
use crate::lane::recopy::{Progress, Recopy, RecopyError};
use crate::lane::{Wish, told};
use crate::limits::PROGRESS_EVERY;
use crate::metrics::LaneMetrics;
use crate::sink::Sink;
use crate::source::TopicPartition;
use crate::source::catalog::Watched;
use crate::source::group::{Group, Standing};
use crate::source::share::frontier::Frontiers;
use crate::source::share::lookout::Lookout;
use crate::source::share::rewritten::Rewritten;
use crate::wire::admin::share_progress;
use crate::wire::client::TopicInfo;
use crate::wire::offsets::share_members;
use crate::wire::{Client, WireError};

/// See the module.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    share_group: String,
    /// Record locks of a partition, which all members of the group share.
    locks_max: u32,
    catalog: Watched,
    /// The consumer group, with the compacted topics that are read through it.
    ordered: (Group, Watched),
    lookout: Lookout,
    recopy: Recopy,
    /// Member ids of our lanes.
    pub members: Vec<String>,
    lags: Lags,
    /// Topic partitions whose copy has failed.
    troubled: HashSet<TopicPartition>,
    health: Health,
    metrics: LaneMetrics,
}

impl Observer {
    /// An observer of the share group of a flow, with a sink of its own for what the group does not deliver.
    pub fn new(
        (flow, catalog, ordered): (&Flow, Watched, Watched),
        sink: Box<dyn Sink>,
        frontiers: Frontiers,
        (health, metrics): (Health, LaneMetrics),
    ) -> Self {
        Self {
            client: Client::new(flow.source.clone()),
            share_group: flow.group.id.clone(),
            locks_max: flow.group.record_locks_max,
            catalog,
            ordered: (Group::of(flow, Protocol::Consumer), ordered),
            lookout: Lookout::new(&flow.group.id, frontiers),
            recopy: Recopy::new(sink, metrics.clone()),
            members: vec![],
            lags: Lags::new((*metrics).clone()),
            troubled: HashSet::new(),
            health,
            metrics,
        }
    }

    /// Looks again and again, until the process wants to end.
    pub async fn run(mut self, mut wish: watch::Receiver<Wish>) {
        loop {
            if let Some(rewritten) = self.look().await {
                self.copy(rewritten, &wish).await;
            }
            tokio::select! {
                () = tokio::time::sleep(PROGRESS_EVERY) => {}
                () = told(&mut wish, Wish::Drain) => return,
            }
        }
    }

    /// Takes note of how far the group has come; returns what it will not deliver, or `None` where that is unknown.
    async fn look(&mut self) -> Option<Vec<Rewritten>> {
        match self.try_look().await {
            Ok(rewritten) => {
                self.health.well("rewritten offsets");
                self.metrics.rewritten.set(rewritten.iter().map(Rewritten::count).sum());
                Some(rewritten)
            }
            Err(error) => {
                self.client.forget_coordinators();
                if self.lookout.is_alarmed() {
                    self.health.trouble("rewritten offsets", format_args!("found, but not remembered yet: {error}"));
                }
                tracing::debug!(group = self.share_group, %error, "progress of the share group unknown");
                None
            }
        }
    }

    async fn try_look(&mut self) -> Result<Vec<Rewritten>, WireError> {
        let names = self.catalog.borrow().subscribed.clone();
        let topics = self.client.topics(&names).await?.into_iter().filter_map(|(_, topic)| topic.ok());
        let topics: Vec<TopicInfo> = topics.collect();
        let partitions: usize = topics.iter().map(|topic| topic.leaders.len()).sum();
        self.metrics.window.set(i64::try_from(partitions).unwrap_or(i64::MAX).saturating_mul(self.locks_max.into()));
        let mut progress = share_progress(&mut self.client, &self.share_group).await?;
        // The group remembers topics that the flow does not copy any more.
        progress.retain(|partition| names.binary_search(&partition.topic).is_ok());
        let mut standings: Vec<Standing> = progress.iter().cloned().map(Standing::from).collect();
        standings.extend(consumer::standings(&mut self.client, &self.ordered.0, &self.ordered.1).await?);
        self.lags.show(&standings);
        self.lookout.look(&mut self.client, &topics, &progress).await
    }

    /// Of all processes of the group, the one with the first member id copies what the group does not deliver.
    async fn is_first(&mut self) -> bool {
        match share_members(&mut self.client, &self.share_group).await {
            Ok(members) => {
                members.iter().map(|member| &member.id).min().is_some_and(|first| self.members.contains(first))
            }
            Err(error) => {
                self.client.forget_coordinators();
                tracing::debug!(group = self.share_group, %error, "members of the share group unknown");
                false
            }
        }
    }

    /// Copies as much as there is of everything; what has failed stays in trouble until it is copied, by whomever.
    async fn copy(&mut self, rewritten: Vec<Rewritten>, wish: &watch::Receiver<Wish>) {
        let mut troubled = HashSet::new();
        let is_ours = !rewritten.is_empty() && self.is_first().await;
        for rewritten in rewritten.into_iter().filter(|_| is_ours) {
            let at = rewritten.at.clone();
            if let Err(error) = self.copy_one(rewritten, wish).await {
                let reason = format_args!(
                    "an unclean leader election has cut its log; what was written anew is not copied yet: {error}"
                );
                self.health.trouble(subject(&at), reason);
                troubled.insert(at);
            }
        }
        for at in self.troubled.difference(&troubled) {
            self.health.well(subject(at));
        }
        self.troubled = troubled;
    }

    async fn copy_one(&mut self, mut rewritten: Rewritten, wish: &watch::Receiver<Wish>) -> Result<(), RecopyError> {
        while rewritten.is_open() && *wish.borrow() == Wish::Run {
            match self.recopy.step(&mut self.client, &rewritten).await? {
                Progress::CaughtUp => return Ok(()),
                Progress::To(position) => rewritten.position = position,
            }
            self.lookout.remember(&mut self.client, std::slice::from_ref(&rewritten)).await?;
        }
        tracing::info!(at = %rewritten.at, position = rewritten.position, end = rewritten.end, "copied what was written anew");
        Ok(())
    }
}

fn subject(at: &TopicPartition) -> String {
    format!("rewritten {at}")
}
