//! Who leads the partitions of a flow: what the catalog says, and what brokers have said since.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;
use uuid::Uuid;

use crate::health::Health;
use crate::limits::METADATA_SOON;
use crate::source::catalog::Watched;
use crate::source::{Key, TopicPartition};
use crate::wire::client::{NodeId, TopicInfo};
use crate::wire::leaders::Endpoint;
use crate::wire::{Client, Cluster};

/// See the module. It belongs to one lane, as its source does.
#[derive(Debug)]
pub struct Leadership {
    client: Client,
    catalog: Watched,
    known: HashMap<Uuid, (Arc<str>, TopicInfo)>,
    /// Partitions of ours that nobody leads.
    leaderless: BTreeSet<TopicPartition>,
    /// When to ask for leaders, out of turn.
    refresh_at: Option<Instant>,
    changed: bool,
    health: Health,
}

impl Leadership {
    /// Follows a catalog, from what it holds now on.
    pub fn new(cluster: Arc<Cluster>, mut catalog: Watched, health: Health) -> Self {
        catalog.mark_changed();
        Self {
            client: Client::new(cluster),
            catalog,
            known: HashMap::new(),
            leaderless: BTreeSet::new(),
            refresh_at: None,
            changed: true,
            health,
        }
    }

    /// Takes over a new catalog, and asks for leaders where that is due. A failure leaves everything as it is, for the next time.
    ///
    /// Returns whether anything may have changed since the last call.
    pub async fn follow(&mut self) -> bool {
        if self.catalog.has_changed().unwrap_or(false) {
            self.learn();
        }
        if self.refresh_at.is_some_and(|at| Instant::now() >= at) {
            self.refresh().await;
        }
        std::mem::take(&mut self.changed)
    }

    /// Waits until the catalog changes.
    pub async fn changed(&mut self) {
        // The discovery that publishes it lives as long as the lanes; without it nothing would change any more.
        match self.catalog.changed().await {
            Ok(()) => self.learn(),
            Err(_) => std::future::pending().await,
        }
    }

    fn learn(&mut self) {
        let catalog = self.catalog.borrow_and_update().clone();
        self.client.learn_endpoints(catalog.endpoints.clone());
        self.know(catalog.topics.values().cloned());
        self.changed = true;
    }

    fn know(&mut self, topics: impl Iterator<Item = TopicInfo>) {
        let known = topics.map(|topic| (topic.id, (topic.name.as_str().into(), topic))).collect();
        self.changed |= self.known != known;
        self.known = known;
    }

    /// Leaders move between two looks.
    async fn refresh(&mut self) {
        self.refresh_at = None;
        let names = self.catalog.borrow().subscribed.clone();
        match self.client.topics(&names).await {
            Ok(topics) => {
                self.health.well("source metadata");
                self.know(topics.into_iter().filter_map(|(_, topic)| topic.ok()));
            }
            Err(error) => {
                self.health.trouble("source metadata", error);
                self.refresh_soon();
            }
        }
    }

    /// Asks for leaders soon: somebody has said that what is known is not true any more.
    pub fn refresh_soon(&mut self) {
        self.changed = true;
        let soon = Instant::now() + METADATA_SOON;
        self.refresh_at = Some(self.refresh_at.map_or(soon, |at| at.min(soon)));
    }

    /// A broker has said who leads a partition now.
    pub fn moved(&mut self, (id, partition): Key, node: NodeId) {
        let topic = self.known.get_mut(&id).map(|(_, topic)| topic);
        if let Some(leader) = topic.and_then(|topic| topic.leader_mut(partition)) {
            *leader = Some(node);
            self.changed = true;
        }
    }

    /// A broker has said where others are.
    pub fn learn_endpoints(&mut self, endpoints: Vec<Endpoint>) {
        self.client.learn_endpoints(endpoints);
    }

    /// Leader and leader epoch of a partition; `None` while nobody leads it, or nobody told us.
    pub fn of(&self, (id, partition): Key) -> Option<(NodeId, i32)> {
        self.known.get(&id)?.1.leadership(partition)
    }

    /// Whether records may be acquired from a partition.
    pub fn admits(&self, key: Key) -> bool {
        self.catalog.borrow().admits(key)
    }

    /// A partition by the name of its topic.
    pub fn named(&self, (id, partition): Key) -> Option<TopicPartition> {
        self.known.get(&id).map(|(topic, _)| TopicPartition { topic: topic.clone(), partition })
    }

    /// Names of topics by id.
    pub fn names(&self) -> HashMap<Uuid, Arc<str>> {
        self.known.iter().map(|(id, (name, _))| (*id, name.clone())).collect()
    }

    /// `host:port` of a broker, where it is known.
    pub fn address_of(&self, node: NodeId) -> Option<Arc<str>> {
        self.client.address_of(node)
    }

    /// Says which of our partitions nobody leads: nobody fetches from them, so nobody else tells.
    pub fn tell_of_leaderless(&mut self, leaderless: BTreeSet<TopicPartition>) {
        let subject = |at: &TopicPartition| format!("source leader of {at}");
        for at in &leaderless {
            self.health.trouble(subject(at), "the cluster knows none: nothing is acquired from it");
        }
        for at in self.leaderless.difference(&leaderless) {
            self.health.well(subject(at));
        }
        self.leaderless = leaderless;
    }
}
