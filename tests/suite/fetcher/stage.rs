//! What a source does with its fetchers, as little as it takes: it follows leaders, and keeps the position of each partition.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sharebridge::batch::{OffsetRange, RecordBatch, append};
use sharebridge::config::ClusterConfig;
use sharebridge::config::security::SecurityConfig;
use sharebridge::health::Health;
use sharebridge::metrics::{ClusterMetrics, FlowMetrics};
use sharebridge::source::TopicPartition;
use sharebridge::source::consumer::fetcher::{Arrival, Command, Context, Fetched, Fetcher, Jump, Moved, Place};
use sharebridge::source::consumer::room::Room;
use sharebridge::wire::client::{NodeId, TopicInfo};
use sharebridge::wire::{Client, Cluster};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bridge::DEADLINE;

/// Fetch versions of all brokers that there are.
pub(crate) const ALL: RangeInclusive<i16> = 4..=18;

/// A topic that is being read.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) topic: TopicInfo,
    pub(crate) room: Arc<Room>,
    pub(crate) health: Health,
    pub(crate) metrics: FlowMetrics,
    pub(crate) places: BTreeMap<i32, Place>,
    /// Partitions that are read from a replica.
    pub(crate) replicas: BTreeMap<i32, NodeId>,
    /// What was read of each partition.
    pub(crate) read: BTreeMap<i32, Read>,
    /// Whether batches are kept and checked, which takes more time than reading them.
    pub(crate) checks: bool,
    versions: RangeInclusive<i16>,
    context: Context,
    fetchers: BTreeMap<NodeId, (mpsc::Sender<Command>, JoinHandle<()>)>,
    arrivals: mpsc::Receiver<Arrival>,
    deadline: Instant,
}

/// What was read of a partition.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Committed offsets.
    pub(crate) visible: Vec<OffsetRange>,
    /// From, to, and why.
    pub(crate) jumps: Vec<(i64, i64, Jump)>,
    /// Record batches with something visible, as they came.
    pub(crate) batches: Vec<RecordBatch>,
}

/// How a cluster is reached.
pub(crate) fn reach(bootstrap: &str, rack: Option<String>) -> Arc<Cluster> {
    let config = ClusterConfig {
        name: "source".into(),
        bootstrap: bootstrap.split(',').map(str::to_owned).collect(),
        client_id: "suite".into(),
        rack,
        request_timeout: Duration::from_secs(10),
        reconnect_backoff: Duration::from_millis(50),
        reconnect_backoff_max: Duration::from_secs(1),
        security: SecurityConfig::default(),
    };
    Cluster::new(Arc::new(config), ClusterMetrics::default())
}

impl Stage {
    /// Nothing is read yet.
    pub(crate) async fn of(cluster: Arc<Cluster>, topic: &str, room_bytes: usize) -> Self {
        let mut client = Client::new(cluster.clone());
        let topic = describe(&mut client, topic).await.unwrap();
        let (sender, arrivals) = mpsc::channel(1024);
        let (room, health, metrics) = (Room::new(room_bytes), Health::default(), FlowMetrics::default());
        let context =
            Context { cluster, arrivals: sender, room: room.clone(), health: health.clone(), metrics: metrics.clone() };
        let (places, replicas, read, fetchers) = Default::default();
        let deadline = Instant::now() + DEADLINE;
        Self {
            client,
            topic,
            room,
            health,
            metrics,
            places,
            replicas,
            read,
            checks: true,
            versions: ALL,
            context,
            fetchers,
            arrivals,
            deadline,
        }
    }

    /// Speaks these versions of Fetch only.
    pub(crate) fn speaking(self, versions: RangeInclusive<i16>) -> Self {
        Self { versions, ..self }
    }

    /// Reads a partition from an offset on, whose record before has this leader epoch.
    pub(crate) fn begin(mut self, partition: i32, (position, last_epoch): (i64, i32)) -> Self {
        let at = TopicPartition { topic: self.topic.name.as_str().into(), partition };
        let key = (self.topic.id, partition);
        let place = Place { key, at, turn: 1, position, last_epoch, leader_epoch: -1, is_replica: false };
        self.places.insert(partition, place);
        self
    }

    /// Reads all partitions from these offsets on.
    pub(crate) fn begin_all(self, positions: &[i64]) -> Self {
        (0..).zip(positions).fold(self, |stage, (partition, position)| stage.begin(partition, (*position, -1)))
    }

    /// Tells each fetcher what is its own.
    pub(crate) async fn follow(&mut self) {
        if let Some(topic) = describe(&mut self.client, &self.topic.name.clone()).await {
            self.topic = topic;
        }
        let mut told: BTreeMap<NodeId, Vec<Place>> = self.fetchers.keys().map(|node| (*node, vec![])).collect();
        for (partition, place) in &mut self.places {
            // The first broker knows best that it has no such partition.
            let (leader, epoch) = self.topic.leadership(*partition).unwrap_or((1, -1));
            let replica = self.replicas.get(partition).copied();
            (place.leader_epoch, place.is_replica) = (epoch, replica.is_some());
            told.entry(replica.unwrap_or(leader)).or_default().push(place.clone());
        }
        for (node, places) in told {
            let address = self.client.address_of(node);
            self.fetcher(node).send(Command::Follow { address, places }).await.unwrap();
        }
    }

    /// Takes what arrives until something is wrong with `subject`.
    pub(crate) async fn await_trouble(&mut self, subject: &str) {
        while !self.health.troubles().iter().any(|(troubled, _)| troubled == subject) {
            self.take().await;
        }
    }

    fn fetcher(&mut self, node: NodeId) -> &mpsc::Sender<Command> {
        let start = || {
            let (commands, told) = mpsc::channel(16);
            let fetcher = Fetcher::new(node, self.context.clone()).speaking(self.versions.clone());
            (commands, tokio::spawn(fetcher.run(told)))
        };
        &self.fetchers.entry(node).or_insert_with(start).0
    }

    /// Takes what arrives, in a real source's way: what is of another place is thrown away, and the log has no holes.
    pub(crate) async fn take(&mut self) -> Vec<Fetched> {
        let waited = timeout_at(self.deadline, self.arrivals.recv()).await;
        let arrival = waited.unwrap_or_else(|_| panic!("not in {DEADLINE:?}: {:?}", self.health.troubles())).unwrap();
        let mut taken = vec![];
        for fetched in arrival.fetched {
            let (partition, place) = (fetched.key.1, self.places.get_mut(&fetched.key.1));
            let Some(place) = place.filter(|place| place.turn == fetched.turn) else { continue };
            assert_eq!(fetched.from, place.position, "partition {partition} is read without holes");
            (place.position, place.last_epoch) = (fetched.next, fetched.last_epoch);
            if self.checks {
                self.read.entry(partition).or_default().add(&fetched);
            }
            taken.push(fetched);
        }
        self.client.learn_endpoints(arrival.endpoints);
        for moved in &arrival.moved {
            match moved {
                Moved::Replica(key, node) => drop(self.replicas.insert(key.1, *node)),
                Moved::BackToLeader(key) => drop(self.replicas.remove(&key.1)),
                Moved::Leader(..) => {}
            }
        }
        if arrival.stale || !arrival.moved.is_empty() {
            self.follow().await;
        }
        taken
    }

    /// Takes what arrives, and lets it go at once, until all positions have reached these.
    pub(crate) async fn read_to(&mut self, ends: &[i64]) {
        while (0..).zip(ends).any(|(partition, end)| self.places.get(&partition).is_some_and(|p| p.position < *end)) {
            self.take().await;
        }
    }

    /// Ends all fetchers in order.
    pub(crate) async fn close(&mut self) {
        for (commands, task) in std::mem::take(&mut self.fetchers).into_values() {
            commands.send(Command::Close).await.unwrap();
            timeout(DEADLINE, task).await.unwrap().unwrap();
        }
    }

    /// The committed offsets that were read of a partition.
    pub(crate) fn offsets(&self, partition: i32) -> Vec<i64> {
        self.read.get(&partition).map(Read::offsets).unwrap_or_default()
    }
}

impl Read {
    fn add(&mut self, fetched: &Fetched) {
        self.jumps.extend(fetched.jump.map(|jump| (fetched.from, fetched.next, jump)));
        let batches: Vec<RecordBatch> =
            RecordBatch::split(fetched.records.clone()).collect::<Result<_, _>>().expect("whole batches");
        batches.iter().for_each(|batch| batch.check().unwrap());
        let size: usize = batches.iter().map(RecordBatch::size_bytes).sum();
        assert_eq!(size, fetched.records.len(), "nothing behind the last whole batch");
        let held: Vec<OffsetRange> = batches.iter().map(RecordBatch::offsets).collect();
        for range in &fetched.visible {
            assert!(fetched.from <= range.first && range.first <= range.last && range.last < fetched.next);
            assert!(range.is_covered_by(&held), "{range} is in {held:?}");
            append(&mut self.visible, *range);
        }
        let room = fetched.room.as_ref().map_or(0, |taken| taken.bytes());
        assert!(room >= size, "{size} bytes of records take {room} of the room");
        self.batches.extend(batches);
    }

    fn offsets(&self) -> Vec<i64> {
        self.visible.iter().flat_map(|range| range.first..=range.last).collect()
    }
}

async fn describe(client: &mut Client, topic: &str) -> Option<TopicInfo> {
    client.topics(&[topic.to_owned()]).await.ok()?.pop()?.1.ok()
}
