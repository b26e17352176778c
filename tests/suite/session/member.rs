//! Members of a share group, one request at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cluster::load::{Load, produce};
use cluster::{pair, unique};
use sharebridge::batch::OffsetRange;
use sharebridge::config::security::SecurityConfig;
use sharebridge::config::{ClusterConfig, GroupConfig, Selection, StartPosition};
use sharebridge::health::Health;
use sharebridge::metrics::ClusterMetrics;
use sharebridge::source::Key;
use sharebridge::source::catalog::Catalog;
use sharebridge::source::share::group::{GroupError, prepare};
use sharebridge::source::share::membership::Membership;
use sharebridge::source::share::session::ShareSession;
use sharebridge::wire::admin::share_progress;
use sharebridge::wire::share::{ShareAcknowledge, ShareFetch, SharePartitionRequest};
use sharebridge::wire::{Client, Cluster, Code, Connection};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

/// For what a healthy broker does soon.
const DEADLINE: Duration = Duration::from_secs(30);

/// Long poll of one fetch: the pace of every wait here.
const FETCH_WAIT: Duration = Duration::from_millis(300);

/// Longer than [`DEADLINE`]: what happens within it is not the end of a lock.
pub(crate) const LONG_LOCK: Duration = Duration::from_secs(60);

/// A share group on a topic of its own.
pub(crate) struct Group {
    cluster: Arc<Cluster>,
    config: GroupConfig,
    keys: BTreeSet<Key>,
    client: Client,
    /// Dropped, it lets the one member leave that has joined. Brokers serve a group that somebody has joined once.
    _leave: oneshot::Sender<()>,
    /// What that member follows.
    _catalog: watch::Sender<Arc<Catalog>>,
}

impl Group {
    /// A group with `records` records in each of `partitions`.
    pub(crate) async fn with(records: u64, partitions: i32, lock: Duration) -> Self {
        let source = &pair().source;
        let (topic, id) = (unique("session"), unique("session"));
        source.create_topic(&topic, partitions, &[]).unwrap();
        produce(source.bootstrap(), &topic, &Load::of(records * partitions as u64)).unwrap();
        let cluster = ClusterConfig {
            name: "source".into(),
            bootstrap: vec![source.bootstrap().to_owned()],
            client_id: "suite".into(),
            rack: None,
            request_timeout: DEADLINE,
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            security: SecurityConfig::default(),
        };
        let cluster = Cluster::new(Arc::new(cluster), ClusterMetrics::default());
        let config = GroupConfig {
            id,
            lock,
            delivery_count_max: 10,
            record_locks_max: 4000,
            offset_reset: "earliest".into(),
            start: StartPosition::Auto,
        };
        let mut client = Client::new(cluster.clone());
        let selection = Selection { names: [topic.clone()].into(), ..Selection::default() };
        while let Err(error) = prepare(&mut client, &config, &selection).await {
            // A fresh cluster first has to make its coordinators.
            assert!(matches!(error, GroupError::Cluster(_)), "{error}");
            tokio::time::sleep(FETCH_WAIT).await;
        }
        let member = unique("member");
        let catalog = watch::Sender::new(Arc::new(Catalog { subscribed: [topic].into(), ..Catalog::default() }));
        let (membership, mut assignment) =
            Membership::new(cluster.clone(), (&config.id, &member), catalog.subscribe(), Health::default());
        let (leave, left) = oneshot::channel();
        tokio::spawn(membership.run(left));
        let is_whole = |keys: &Option<BTreeSet<Key>>| keys.as_ref().is_some_and(|k| k.len() == partitions as usize);
        let assigned = tokio::time::timeout(DEADLINE, assignment.wait_for(is_whole)).await;
        let keys = assigned.expect("the group assigns all partitions").unwrap().clone().unwrap();
        Self { cluster, config, keys, client, _leave: leave, _catalog: catalog }
    }

    /// Another member, which fetches from all partitions.
    pub(crate) async fn member(&self) -> Member {
        let mut session = ShareSession::new(&self.config.id, &unique("member"));
        session.want(self.keys.clone());
        let connection = Connection::open(&self.cluster, &self.cluster.bootstrap[0]).await.unwrap();
        Member { connection, session, lock: self.config.lock }
    }

    /// Waits until the broker says that so many records are still to be done.
    pub(crate) async fn has_lag(&mut self, records: u64) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let progress = share_progress(&mut self.client, &self.config.id).await.unwrap();
            let lag: Option<u64> = progress.iter().map(|partition| partition.lag).sum();
            if progress.len() == self.keys.len() && lag == Some(records) {
                return;
            }
            assert!(Instant::now() < deadline, "the lag is {lag:?}, not {records}");
            tokio::time::sleep(FETCH_WAIT).await;
        }
    }
}

/// What one fetch acquired of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Lot {
    pub(crate) key: Key,
    pub(crate) ranges: Vec<OffsetRange>,
    pub(crate) delivery_counts: BTreeSet<i16>,
}

/// A member with its connection and session.
pub(crate) struct Member {
    connection: Connection,
    pub(crate) session: ShareSession,
    lock: Duration,
}

impl Member {
    /// One fetch.
    pub(crate) async fn fetch(&mut self) -> Vec<Lot> {
        let reply = self.exchange(&self.session.fetch(1 << 20, FETCH_WAIT)).await;
        self.session.on_fetched();
        reply
    }

    /// Opens the session, anew if need be, without naming a partition, as the bridge does after the broker has forgotten it.
    pub(crate) async fn open(&mut self) {
        self.session.reopen();
        let acquired = self.exchange(&self.session.open()).await;
        assert!(acquired.is_empty(), "{acquired:?}");
        self.session.on_opened();
    }

    async fn exchange(&mut self, fetch: &ShareFetch) -> Vec<Lot> {
        let reply = self.connection.call(fetch).await.unwrap();
        assert_eq!(reply.error, None, "{:?}", reply.message);
        let mut lots = vec![];
        for partition in reply.partitions {
            assert_eq!(partition.error, None, "{:?}", partition.message);
            let key = (partition.topic, partition.partition);
            let ranges: Vec<_> = partition.acquired.iter().map(|acquired| acquired.range).collect();
            let delivery_counts = partition.acquired.iter().map(|acquired| acquired.delivery_count).collect();
            self.session.hold(key, ranges.clone(), (Instant::now(), self.lock));
            lots.push(Lot { key, ranges, delivery_counts });
        }
        lots.retain(|lot| !lot.ranges.is_empty());
        lots
    }

    /// Fetches until so many offsets were acquired.
    pub(crate) async fn acquire(&mut self, offsets: u64) -> Vec<Lot> {
        let (deadline, mut lots) = (Instant::now() + DEADLINE, vec![]);
        while count(&lots) < offsets {
            assert!(Instant::now() < deadline, "{} of {offsets} offsets acquired", count(&lots));
            lots.extend(self.fetch().await);
        }
        assert_eq!(count(&lots), offsets);
        lots
    }

    /// One ShareAcknowledge; returns the code of each partition.
    pub(crate) async fn acknowledge(&mut self, partitions: Vec<SharePartitionRequest>) -> Vec<Option<Code>> {
        let keys: Vec<Key> = partitions.iter().map(|p| (p.topic, p.partition)).collect();
        let request = self.session.acknowledge(partitions);
        let answers = self.send(&request).await.unwrap();
        self.session.count_up();
        let code = |key: Key| {
            let found = answers.iter().find(|(topic, partition, _)| (*topic, *partition) == key);
            found.unwrap_or_else(|| panic!("no answer for {key:?}: {answers:?}")).2
        };
        keys.into_iter().map(code).collect()
    }

    /// Releases what is held and closes the session, as the bridge does when it leaves.
    pub(crate) async fn close(&mut self) {
        let releases = self.session.releases();
        self.acknowledge(releases).await.into_iter().for_each(|code| assert_eq!(code, None));
        self.send(&self.session.close()).await.unwrap();
    }

    /// One ShareAcknowledge as it is. Errors: the code with which the broker refuses all of it.
    pub(crate) async fn send(&self, request: &ShareAcknowledge) -> Result<Vec<(Uuid, i32, Option<Code>)>, Code> {
        let reply = self.connection.call(request).await.unwrap();
        reply.error.map_or(Ok(reply.partitions), Err)
    }
}

pub(crate) fn count(lots: &[Lot]) -> u64 {
    lots.iter().flat_map(|lot| &lot.ranges).map(|range| range.count()).sum()
}
