//! A consumer group on topics of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cluster::{Cluster, unique};
use prometheus_client::registry::Registry;
use sharebridge::config::Config;
use sharebridge::flow::Flow;
use sharebridge::source::Key;
use sharebridge::source::catalog::Catalog;
use sharebridge::wire::Client;
use sharebridge::wire::admin::{Configs, Mode, set_group_configs};
use tokio::sync::watch;
use tokio::time::Instant;

use super::DEADLINE;
use super::ledger::Ledger;
use super::reader::Reader;

/// How long a killed member counts as alive.
const SESSION_MS: u64 = 2_500;

/// Pause between two looks at what readers have.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Group {
    pub(crate) cluster: &'static Cluster,
    pub(crate) flow: Flow,
    pub(crate) catalog: watch::Sender<Arc<Catalog>>,
    pub(crate) ledger: Ledger,
    pub(crate) topics: BTreeMap<String, i32>,
    /// Longest time that the open transaction of a reader takes.
    pub(crate) transaction_ms: Arc<AtomicU64>,
    client: Client,
}

impl Group {
    /// A group whose topics have so many partitions.
    pub(crate) async fn new(cluster: &'static Cluster, partitions: &[i32]) -> Self {
        Self::with(cluster, partitions, (SESSION_MS, "")).await
    }

    /// The same with sessions of another length, and a line of its own in the flow's configuration.
    pub(crate) async fn with(cluster: &'static Cluster, partitions: &[i32], (session_ms, line): (u64, &str)) -> Self {
        let id = unique("members");
        let text = format!(
            "clusters.a.bootstrap.servers = \"{}\"\nclusters.b.bootstrap.servers = \"127.0.0.1:9\"\n[flows.f]\n\
             source.cluster = \"a\"\nsink.cluster = \"b\"\ngroup.protocol = \"consumer\"\ngroup.id = \"{id}\"\n\
             topics.regex = [\"{id}-.*\"]\nsession.timeout.ms = {session_ms}\n{line}\n",
            cluster.bootstrap()
        );
        let config = Config::parse(Path::new("group.toml"), &text).unwrap();
        let flow = Flow::all(config.flows, &mut Registry::default()).remove(0);
        let mut client = Client::new(flow.source.clone());
        // Only brokers that lead groups take it: the classic protocol has the session in the configuration.
        let session = Configs::from([("consumer.session.timeout.ms".to_owned(), session_ms.to_string())]);
        let _ = set_group_configs(&mut client, &id, &session, Mode::Apply).await;
        let mut group = Self {
            cluster,
            flow,
            catalog: watch::Sender::new(Arc::default()),
            ledger: Ledger::default(),
            topics: BTreeMap::new(),
            transaction_ms: Arc::new(AtomicU64::new(150)),
            client,
        };
        for count in partitions {
            group.add(*count).await;
        }
        group
    }

    /// Another topic.
    pub(crate) async fn add(&mut self, partitions: i32) -> String {
        let topic = format!("{}-{}", self.flow.consumer.id, self.topics.len());
        self.cluster.create_topic(&topic, partitions, &[]).unwrap();
        self.topics.insert(topic.clone(), partitions);
        self.look().await;
        topic
    }

    /// More partitions.
    pub(crate) async fn grow(&mut self, topic: &str, partitions: i32) {
        self.cluster.grow_topic(topic, partitions).unwrap();
        self.topics.insert(topic.to_owned(), partitions);
        self.look().await;
    }

    /// The discovery has looked: what is here now is what all members follow.
    async fn look(&mut self) {
        let names: Vec<String> = self.topics.keys().cloned().collect();
        let described = self.client.topics(&names).await.unwrap();
        let topics: BTreeMap<_, _> = described.into_iter().map(|(_, t)| t.unwrap()).map(|t| (t.id, t)).collect();
        let admitted = topics.iter().map(|(id, topic)| (*id, topic.partition_count())).collect();
        let endpoints = self.client.endpoints();
        self.catalog.send_replace(Arc::new(Catalog { subscribed: names.into(), topics, admitted, endpoints }));
    }

    /// All partitions.
    pub(crate) fn keys(&self) -> BTreeSet<Key> {
        let catalog = self.catalog.borrow();
        let all = catalog.topics.values().flat_map(|topic| (0..topic.partition_count()).map(move |p| (topic.id, p)));
        all.collect()
    }

    /// Another member.
    pub(crate) fn join(&self, name: &str, lane: u32) -> Reader {
        Reader::join(self, name, lane)
    }

    /// Waits until readers that keep a ledger have so many partitions.
    pub(crate) async fn holds(&self, count: usize) {
        let deadline = Instant::now() + DEADLINE;
        while self.ledger.shares().values().map(BTreeSet::len).sum::<usize>() != count {
            assert!(Instant::now() < deadline, "not {count}: {:#?}", self.ledger.shares());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until these readers, and no others, have all partitions, each as many as the others but for one.
    pub(crate) async fn settled(&self, readers: &[&str]) -> BTreeMap<String, BTreeSet<Key>> {
        let (all, deadline) = (self.keys(), Instant::now() + DEADLINE);
        let names: BTreeSet<&str> = readers.iter().copied().collect();
        loop {
            let shares = self.ledger.shares();
            let sizes: Vec<usize> = shares.values().map(BTreeSet::len).collect();
            let is_whole =
                sizes.iter().sum::<usize>() == all.len() && shares.values().flatten().all(|k| all.contains(k));
            let is_even = sizes.iter().max() <= sizes.iter().min().map(|min| min + 1).as_ref();
            let is_theirs = shares.keys().map(String::as_str).collect::<BTreeSet<_>>() == names;
            if is_whole && is_even && is_theirs {
                self.ledger.check();
                return shares;
            }
            assert!(Instant::now() < deadline, "{readers:?} have {shares:#?}");
            tokio::time::sleep(LOOK).await;
        }
    }
}
