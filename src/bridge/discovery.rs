//! The one look at a flow's topics: what is new at the source, what the target lacks, who may acquire from what.
//!
//! Each round looks at both clusters, judges (`judge`, `sync`, `change`: pure), changes the target (`apply`), and publishes a
//! [`Catalog`], which lanes, members and the observer follow. A topic or partition is published only when the target has it: so
//! it is there before the first record for it is acquired.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use crate::bridge::compaction::POLICY;
use crate::bridge::identity::Identities;
use crate::config::Protocol;
use crate::flow::Flow;
use crate::health::Health;
use crate::metrics::FlowMetrics;
use crate::route::RouteError;
use crate::source::catalog::{Catalog, Watched};
use crate::wire::admin::Mode;
use crate::wire::backoff::Backoff;
use crate::wire::client::TopicInfo;
use crate::wire::topics::settings;
use crate::wire::{Client, WireError};

pub mod admit;
pub mod apply;
pub mod change;
pub mod judge;
pub mod look;
pub mod plan;
pub mod sync;
mod tell;

use admit::{Outcome, admit};
use apply::apply;
use change::Change;
use judge::{Chosen, Routes, Sorted, Ways};
use look::Target;
use plan::{Bases, Plan};
use tell::{Round, Teller};

/// See the module.
#[derive(Debug)]
pub struct Discovery {
    flow: Flow,
    identities: Identities,
    source: Client,
    target: Client,
    published: BTreeMap<Protocol, watch::Sender<Arc<Catalog>>>,
    /// How topics are read that were admitted.
    known: HashMap<Uuid, Protocol>,
    bases: Bases,
    teller: Teller,
}

/// What one look at the source has found.
#[derive(Debug)]
pub struct Seen {
    /// By their names.
    pub chosen: Chosen,
    /// By their configs.
    pub sorted: Sorted,
    /// What the target said, before the source told its configs.
    pub targets: Result<HashMap<String, Target>, WireError>,
}

impl Discovery {
    /// A discovery that has not looked yet.
    pub fn new(flow: Flow, identities: Identities, (health, metrics): (Health, FlowMetrics)) -> Self {
        Self {
            source: Client::new(flow.source.clone()),
            target: Client::new(flow.sink.clone()),
            published: [Protocol::Share, Protocol::Consumer]
                .map(|protocol| (protocol, watch::Sender::default()))
                .into(),
            known: HashMap::new(),
            bases: Bases::default(),
            teller: Teller::new(flow.clone(), health, metrics),
            identities,
            flow,
        }
    }

    /// Where the catalogs appear of what is read so.
    pub fn watch(&self, protocol: Protocol) -> Watched {
        self.published[&protocol].subscribe()
    }

    /// Goes round until both clusters have answered.
    pub async fn begin(&mut self) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.go_round().await {
            self.teller.health().trouble("topics", error);
            tokio::time::sleep(backoff.pause()).await;
        }
        self.teller.health().well("topics");
    }

    /// Goes round from time to time. Never ends.
    pub async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut pause = self.flow.topics_refresh;
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.go_round().await {
                Ok(()) => {
                    backoff.reset();
                    self.flow.topics_refresh
                }
                Err(error) => {
                    // The lanes tell when a cluster is out of reach.
                    tracing::debug!(flow = self.flow.name, %error, "topics not compared");
                    backoff.pause().min(self.flow.topics_refresh)
                }
            };
        }
    }

    /// What the target needs for what was seen.
    pub fn plan(&self, seen: &Seen) -> Plan {
        let nothing = HashMap::new();
        let known = seen.targets.as_ref().unwrap_or(&nothing);
        self.bases.plan((&self.flow.target_topics, self.flow.mapping), &seen.sorted.copied, known)
    }

    async fn go_round(&mut self) -> Result<(), WireError> {
        let seen = self.look().await?;
        let mut plan = self.plan(&seen);
        let Seen { chosen, sorted, targets } = seen;
        let nothing = HashMap::new();
        let known = targets.as_ref().unwrap_or(&nothing);
        let outcomes = apply(&mut self.target, &plan.changes, Mode::Apply).await;
        let changes = plan.changes.clone();
        let failed: Vec<(&Change, WireError)> =
            changes.iter().zip(outcomes).filter_map(|(change, outcome)| Some((change, outcome.err()?))).collect();
        self.bases.learn(&mut plan, &failed);
        let outcome = Outcome { targets: known, changes: &changes, failed: &failed };
        let before = self.published.values().flat_map(|catalog| catalog.borrow().admitted.clone()).collect();
        let admitted = admit(sorted.copied.iter(), &outcome, &before);
        let round = Round {
            chosen: &chosen,
            sorted: &sorted,
            plan: &plan,
            failed: &failed,
            targets: &targets,
            admitted: &admitted,
        };
        self.teller.tell(&round);
        let read = sorted.copied.iter().map(|copied| (copied.topic.id, copied.protocol));
        self.known.extend(read.filter(|(id, _)| admitted.contains_key(id)));
        self.publish(&chosen, &sorted, &admitted);
        targets.map(drop)
    }

    /// Ids first, configs second: a topic that is deleted and created again in between has an id that is not admitted yet. The target
    /// first, the source second: what another worker has brought over meanwhile is then seen at the source, too.
    pub async fn look(&mut self) -> Result<Seen, WireError> {
        let listed = look::list(&mut self.source, &self.flow.topics).await?;
        let chosen = judge::choose(&self.flow.topics, listed);
        let existing = chosen.wanted.iter().filter(|(_, wanted)| wanted.found.is_ok());
        let names: Vec<String> = existing.map(|(name, _)| name.clone()).collect();
        let copied: Vec<&'static str> = self.flow.target_topics.copied().map(|(name, _)| name).collect();
        let synced: &[&'static str] = if self.flow.target_topics.sync { &copied } else { &[] };
        let routes = self.routes(&names);
        let routed: Vec<String> = routes.values().flatten().cloned().collect();
        let targets = look::targets(&mut self.target, &routed, synced).await;
        let asked: Vec<&'static str> = copied.iter().copied().filter(|name| *name != POLICY).chain([POLICY]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let told = settings(&mut self.source, &names, &asked).await?;
        let ways = Ways {
            protocol: self.flow.protocol,
            allow_compacted: self.flow.allow_unordered_compacted,
            known: &self.known,
        };
        let sorted = judge::sort(&chosen, told, routes, ways);
        Ok(Seen { chosen, sorted, targets })
    }

    /// Where topics of the source go.
    fn routes(&self, topics: &[String]) -> Routes {
        let targets = self.flow.targets(topics.iter().map(String::as_str)).into_iter();
        let way_back = self.identities.ways_back(&self.flow.name);
        let route = |(topic, target): (String, Result<String, RouteError>)| {
            let target = match way_back(&topic) {
                Some(way) => Err(way.to_string()),
                None => target.map_err(|error| error.to_string()),
            };
            (topic, target)
        };
        targets.map(route).collect()
    }

    /// Each group subscribes to what is read through it. What is not sorted yet is subscribed to where the flow reads most of its topics.
    fn publish(&self, chosen: &Chosen, sorted: &Sorted, admitted: &BTreeMap<Uuid, i32>) {
        let ways: HashMap<&str, Protocol> =
            sorted.copied.iter().map(|copied| (copied.topic.name.as_str(), copied.protocol)).collect();
        for (protocol, published) in &self.published {
            let is_read = |name: &str| ways.get(name).copied().unwrap_or(self.flow.protocol) == *protocol;
            let wanted = || chosen.wanted.iter().filter(|(name, _)| is_read(name));
            let topics = wanted().filter_map(|(_, wanted)| wanted.found.clone().ok());
            let topics: BTreeMap<Uuid, TopicInfo> = topics.map(|topic| (topic.id, topic)).collect();
            let admitted = admitted.iter().filter(|(id, _)| topics.contains_key(id));
            let found = Arc::new(Catalog {
                subscribed: wanted().map(|(name, _)| name.clone()).collect(),
                admitted: admitted.map(|(id, count)| (*id, *count)).collect(),
                endpoints: self.source.endpoints(),
                topics,
            });
            published.send_if_modified(|known| std::mem::replace(known, found.clone()) != found);
        }
    }
}
