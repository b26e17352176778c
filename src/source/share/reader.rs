//! The driver of one share session: a task for each broker that leads partitions of ours.
//!
//! It owns the connection and has one request in flight at a time, as a share session demands. Whatever was handed to the lane
//! and not settled yet, it renews.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::OffsetRange;
use crate::config::GroupConfig;
use crate::health::Health;
use crate::limits::{FETCH_PAUSE, FETCH_WAIT, RENEW_AT_DIVISOR};
use crate::metrics::{FlowMetrics, LossLabels};
use crate::source::share::acquire::{Lot, lots};
use crate::source::share::pace::Pace;
use crate::source::share::parking::{Parking, Spot};
use crate::source::share::session::ShareSession;
use crate::source::share::suspects::Suspects;
use crate::source::{Hold, Key, Parcel, TopicPartition};
use crate::wire::backoff::Backoff;
use crate::wire::client::asks_for_refresh;
use crate::wire::leaders::Endpoint;
use crate::wire::share::{ShareFetch, ShareFetched, SharePartitionFetched, SharePartitionRequest};
use crate::wire::{Cluster, Code, Connection, WireError};

mod acknowledge;

/// What a lane asks of a reader.
#[derive(Debug)]
pub enum Command {
    /// From now on fetch from these partitions.
    Follow(Following),
    /// Fetch once, about so many bytes; an [`Arrival`] follows in any case.
    Fetch(usize),
    /// Forget the fetch, unless it is under way; its [`Arrival`] follows all the same.
    Cancel,
    /// Acknowledge finished records.
    Settle(Order),
    /// Close the session and end; answered with the number of offsets that were released by it.
    Close(oneshot::Sender<u64>),
}

/// What a broker leads of our assignment.
#[derive(Debug)]
pub struct Following {
    /// `host:port` of the broker; `None` where the cluster does not know it any more.
    pub address: Option<Arc<str>>,
    /// What it leads.
    pub partitions: BTreeSet<Key>,
    /// Names of topics by id.
    pub names: HashMap<Uuid, Arc<str>>,
}

/// Acknowledgements of finished parcels.
#[derive(Debug)]
pub struct Order {
    /// By topic partition, ascending within each.
    pub partitions: Vec<SharePartitionRequest>,
    /// What is not renewed any more: these offsets of these holds.
    pub finished: Vec<(Arc<Hold>, OffsetRange)>,
    /// Where the answer goes.
    pub done: oneshot::Sender<Settled>,
}

/// How a settlement went.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Offsets that the broker has stored as done.
    pub acknowledged: u64,
    /// Offsets that it has not: they will be delivered again.
    pub lost: u64,
}

impl std::ops::AddAssign for Settled {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
    }
}

/// What a fetch brought.
#[derive(Debug, Default)]
pub struct Arrival {
    /// The broker.
    pub node: i32,
    /// Empty where there was nothing.
    pub parcels: Vec<Parcel>,
    /// Partitions that somebody else leads now, and who.
    pub moved: Vec<(Key, i32)>,
    /// Where these leaders are.
    pub endpoints: Vec<Endpoint>,
    /// Whether something went wrong that fresh metadata may mend.
    pub stale: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Reader {
    node: i32,
    cluster: Arc<Cluster>,
    group: GroupConfig,
    address: Arc<str>,
    names: HashMap<Uuid, Arc<str>>,
    /// What the lane wants of this broker; the session is told of what is fetched together.
    followed: BTreeSet<Key>,
    suspects: Suspects,
    connection: Option<Arc<Connection>>,
    session: ShareSession,
    lock: Duration,
    pace: Pace,
    /// The lane's wish for a fetch, in bytes.
    asked: Option<usize>,
    not_before: Instant,
    /// Until then there is nothing to fetch, unless something changes.
    idle_until: Instant,
    spot: Spot,
    /// Partitions whose last fetch brought an error.
    troubled: BTreeSet<Key>,
    backoff: Backoff,
    arrivals: mpsc::Sender<Arrival>,
    health: Health,
    metrics: FlowMetrics,
}

/// What a reader is made of.
#[derive(Debug, Clone)]
pub struct Context {
    /// The source cluster.
    pub cluster: Arc<Cluster>,
    /// The share group.
    pub group: GroupConfig,
    /// Our member id.
    pub member: String,
    /// Where arrivals go.
    pub arrivals: mpsc::Sender<Arrival>,
    /// Whose fetches may wait.
    pub parking: Parking,
    /// Where troubles are told.
    pub health: Health,
    /// What is counted.
    pub metrics: FlowMetrics,
}

impl Reader {
    /// A reader for a broker, not connected yet.
    pub fn new(node: i32, context: Context) -> Self {
        let backoff = Backoff::new(context.cluster.reconnect_backoff, context.cluster.reconnect_backoff_max);
        Self {
            node,
            address: "".into(),
            names: HashMap::new(),
            followed: BTreeSet::new(),
            suspects: Suspects::default(),
            connection: None,
            session: ShareSession::new(&context.group.id, &context.member),
            lock: context.group.lock,
            pace: Pace::new(context.group.record_locks_max),
            asked: None,
            not_before: Instant::now(),
            idle_until: Instant::now(),
            spot: context.parking.spot(),
            troubled: BTreeSet::new(),
            backoff,
            cluster: context.cluster,
            group: context.group,
            arrivals: context.arrivals,
            health: context.health,
            metrics: context.metrics,
        }
    }

    /// Serves commands and renews locks until told to close, or until the lane is gone.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let (renew_at, fetch_at) = (self.session.renew_at(), self.fetch_at());
            let connection = self.connection.clone();
            tokio::select! {
                biased;
                () = end_of(connection.as_deref()) => self.on_disconnected(),
                () = at(renew_at) => self.renew().await,
                command = commands.recv() => match command {
                    Some(Command::Follow(following)) => self.follow(following),
                    Some(Command::Fetch(bytes_max)) => self.asked = Some(bytes_max),
                    Some(Command::Cancel) => self.cancel_fetch().await,
                    Some(Command::Settle(order)) => {
                        let settled = self.settle(order.partitions).await;
                        order.finished.iter().for_each(|(hold, span)| hold.drop_range(*span));
                        self.session.let_go();
                        // A lane that was dropped does not wait for the answer.
                        let _ = order.done.send(settled);
                    }
                    Some(Command::Close(done)) => {
                        // A lane that was dropped does not wait for the answer.
                        let _ = done.send(self.close().await);
                        return;
                    }
                    None => return,
                },
                () = at(fetch_at) => self.serve_fetch().await,
                () = self.spot.changed() => self.idle_until = Instant::now(),
            }
            self.spot.hold(self.session.held());
        }
    }

    /// When the fetch that the lane has asked for is to be sent.
    fn fetch_at(&self) -> Option<Instant> {
        self.asked.map(|_| self.not_before.max(self.idle_until))
    }

    async fn cancel_fetch(&mut self) {
        if self.asked.take().is_some() {
            // Only a lane that was dropped does not listen.
            let _ = self.arrivals.send(Arrival { node: self.node, ..Arrival::default() }).await;
        }
    }

    fn follow(&mut self, Following { address, partitions, names }: Following) {
        if partitions.is_empty() {
            // Nothing is asked of this broker any more, so nothing can be wrong with it.
            self.health.well(self.subject());
        }
        if let Some(address) = address.filter(|address| *address != self.address) {
            self.address = address;
            if !self.session.is_holding() {
                self.on_disconnected();
            }
        }
        self.names.extend(names);
        // What is not fetched from here any more is somebody else's to judge.
        let gone: BTreeSet<Key> = self.followed.difference(&partitions).copied().collect();
        self.judge(&gone, BTreeSet::new());
        self.session.want(partitions.clone());
        self.followed = partitions;
    }

    /// Of `judged` partitions, those in `troubled` are in trouble, and told already; the others are well.
    fn judge(&mut self, judged: &BTreeSet<Key>, troubled: BTreeSet<Key>) {
        for key in self.troubled.extract_if(.., |key| judged.contains(key) && !troubled.contains(key)) {
            if let Some(topic) = self.names.get(&key.0) {
                self.health.well(format_args!("source {topic}-{}", key.1));
            }
        }
        self.troubled.extend(troubled);
    }

    /// This broker, among the troubles.
    fn subject(&self) -> String {
        format!("source broker {}", self.node)
    }

    fn on_disconnected(&mut self) {
        self.connection = None;
        let held = self.session.held_count();
        if self.session.on_disconnected() {
            self.lost("connection", held);
            tracing::warn!(
                broker = self.node,
                "connection lost, and with it what was held: the records will come again"
            );
        }
    }

    /// Counts offsets that are ours no longer, and why.
    fn lost(&self, cause: &str, offsets: u64) {
        self.metrics.locks_lost.get_or_create(&LossLabels { cause: cause.to_owned() }).inc_by(offsets);
    }

    async fn serve_fetch(&mut self) {
        let Some(bytes_max) = self.asked.take() else {
            return;
        };
        let arrival = match self.fetch(bytes_max).await {
            Ok(arrival) => {
                self.health.well(self.subject());
                arrival
            }
            Err(error) => {
                self.on_error(&error);
                Arrival { node: self.node, stale: true, ..Arrival::default() }
            }
        };
        if arrival.stale && arrival.parcels.is_empty() {
            self.not_before = Instant::now() + self.backoff.pause();
        } else {
            self.backoff.reset();
        }
        // Only a lane that was dropped does not listen.
        let _ = self.arrivals.send(arrival).await;
    }

    async fn fetch(&mut self, bytes_max: usize) -> Result<Arrival, WireError> {
        // First the connection: a new one begins a new session.
        let connection = self.connect().await?;
        self.session.want(self.suspects.select(&self.followed, Instant::now()));
        let is_trial = self.suspects.is_trial(self.session.wanted());
        let wait = if self.spot.park(self.session.wanted()) && !is_trial { FETCH_WAIT } else { Duration::ZERO };
        let request = self.session.fetch(self.pace.bytes_max(bytes_max, self.session.wanted().len()), wait);
        let asked_at = Instant::now();
        let reply = self.exchange_fetch(&connection, &request).await.inspect_err(|error| {
            self.spot.leave();
            if matches!(error, WireError::Timeout { .. }) {
                self.pace.on_silence();
            }
        })?;
        self.session.on_fetched();
        let bytes = reply.partitions.iter().map(|partition| partition.records.len()).sum();
        self.pace.on_answered(bytes, asked_at.elapsed(), connection.request_timeout.min(self.lock / RENEW_AT_DIVISOR));
        let arrival = self.receive(reply, (&connection, asked_at));
        // In this order: between the two, another reader would take the partitions for free.
        self.spot.hold(self.session.held());
        self.spot.leave();
        if arrival.parcels.is_empty() && wait.is_zero() && !is_trial {
            self.idle_until = Instant::now() + FETCH_PAUSE;
        }
        Ok(arrival)
    }

    async fn exchange_fetch(&self, connection: &Connection, request: &ShareFetch) -> Result<ShareFetched, WireError> {
        let reply = connection.send(request).await?.reply(connection.request_timeout + FETCH_WAIT).await?;
        match reply.error {
            None => Ok(reply),
            Some(code) => {
                let what = format!("group {}", request.group);
                Err(connection.answered("ShareFetch", &what, (code, reply.message)))
            }
        }
    }

    async fn connect(&mut self) -> Result<Arc<Connection>, WireError> {
        if let Some(connection) = self.connection.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        self.on_disconnected();
        let connection = Arc::new(Connection::open(&self.cluster, &self.address).await?);
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    /// The lock time belongs to the group, and may be changed while we run.
    fn adopt_lock(&mut self, lock_ms: i32) {
        if let Ok(lock_ms @ 1..) = u64::try_from(lock_ms) {
            self.lock = Duration::from_millis(lock_ms);
        }
    }

    fn receive(&mut self, reply: ShareFetched, (connection, asked_at): (&Connection, Instant)) -> Arrival {
        self.adopt_lock(reply.lock_ms);
        let mut arrival = Arrival { node: self.node, endpoints: reply.endpoints, ..Arrival::default() };
        let (mut troubled, mut refused) = (BTreeSet::new(), BTreeSet::new());
        for partition in reply.partitions {
            let Some(topic) = self.names.get(&partition.topic).cloned() else { continue };
            let at = TopicPartition { topic, partition: partition.partition };
            let key = (partition.topic, partition.partition);
            if let Some(code) = partition.error {
                let words = partition.message.clone().filter(|words| !words.is_empty()).or_else(|| remedy(code));
                let reason = connection.answered("ShareFetch", &at.to_string(), (code, words));
                self.health.trouble(format_args!("source {at}"), reason);
                arrival.moved.extend(partition.leader.map(|leader| (key, leader)));
                arrival.stale = true;
                troubled.insert(key);
                refused.extend(Some(key).filter(|_| !asks_for_refresh(code)));
            }
            arrival.parcels.extend(self.accept(at, partition, asked_at));
        }
        // A partition with nothing to say is not in the reply: what was asked for and is not in trouble now is well.
        let asked = self.session.wanted().clone();
        self.suspects.on_fetched(&asked, refused, Instant::now());
        self.judge(&asked, troubled);
        arrival
    }

    fn accept(&mut self, at: TopicPartition, fetched: SharePartitionFetched, asked_at: Instant) -> Vec<Parcel> {
        let key = (fetched.topic, fetched.partition);
        let acquired: u64 = fetched.acquired.iter().map(|acquired| acquired.range.count()).sum();
        let again = fetched.acquired.iter().filter(|acquired| acquired.delivery_count > 1);
        self.metrics.acquired.inc_by(acquired);
        self.metrics.redelivered.inc_by(again.map(|acquired| acquired.range.count()).sum());
        self.pace.on_fetched(acquired, fetched.records.len());
        let lots = lots(&fetched.acquired, &fetched.records, self.group.delivery_count_max);
        let parcel = |lot: Lot| Parcel {
            at: at.clone(),
            topic_id: fetched.topic,
            leader: self.node,
            span: lot.span(),
            records: lot.records,
            hold: self.session.hold(key, lot.ranges, (asked_at, self.lock)),
            delivery_count: lot.delivery_count,
            fragile: lot.fragile,
        };
        lots.into_iter().map(parcel).collect()
    }

    /// After a failed exchange: a session that the broker does not know is opened anew and keeps its locks; after anything else
    /// that leaves doubt the connection ends, and the broker releases what was held.
    fn on_error(&mut self, error: &WireError) {
        if !self.session.wanted().is_empty() {
            self.health.trouble(self.subject(), error);
        }
        match error.code() {
            _ if is_session_lost(error) => self.session.reopen(),
            Some(_) => {}
            None => self.on_disconnected(),
        }
    }
}

/// What to do about a partition that cannot be read, where the broker does not say it.
fn remedy(code: Code) -> Option<String> {
    let is_of_disk = matches!(code, Code::CorruptMessage | Code::KafkaStorageError);
    is_of_disk.then(|| "it cannot read its log, check its disk".to_owned())
}

fn is_session_lost(error: &WireError) -> bool {
    matches!(error.code(), Some(Code::ShareSessionNotFound | Code::InvalidShareSessionEpoch))
}

async fn end_of(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.ended().await,
        None => std::future::pending().await,
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
