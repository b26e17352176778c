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

use crate::config::GroupConfig;
use crate::health::Health;
use crate::limits::{FETCH_PAUSE, FETCH_WAIT, RENEW_AT_DIVISOR};
use crate::metrics::{LaneMetrics, Sensor, TopicSensors};
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
    /// What is not renewed any more.
    pub finished: Vec<Parcel>,
    /// Told when the broker has answered.
    pub done: oneshot::Sender<()>,
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
    /// What is held and will not be delivered again.
    last_deliveries: Vec<Arc<Hold>>,
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
    metrics: LaneMetrics,
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
    pub metrics: LaneMetrics,
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
            last_deliveries: vec![],
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
                        self.settle(order.partitions).await;
                        self.finish(&order.finished);
                        // A lane that was dropped does not wait for the answer.
                        let _ = order.done.send(());
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
        if self.losing("connection", ShareSession::on_disconnected) {
            tracing::warn!(
                broker = self.node,
                "connection lost, and with it what was held: the records will come again"
            );
        }
    }

    /// Does what may end locks, and counts those that it has ended. An offset whose last delivery that was comes no more: the group passes it.
    fn losing<T>(&mut self, cause: &'static str, change: impl FnOnce(&mut ShareSession) -> T) -> T {
        let last = |holds: &[Arc<Hold>]| holds.iter().flat_map(|hold| hold.ranges()).map(|range| range.count()).sum();
        let (held, last_held): (u64, u64) = (self.session.held_count(), last(&self.last_deliveries));
        let result = change(&mut self.session);
        self.metrics.unlock(cause, held - self.session.held_count());
        let passed = last_held - last(&self.last_deliveries);
        if passed > 0 {
            self.metrics.lose("delivery_limit", passed);
            tracing::error!(
                broker = self.node,
                offsets = passed,
                cause,
                "locks have ended on the last delivery that the group allows (share.max.delivery.count): what was not committed before is \
                 lost; compare with sharebridge verify"
            );
        }
        self.forget_finished();
        result
    }

    /// These parcels are acknowledged, or their acknowledgement is given up.
    fn finish(&mut self, finished: &[Parcel]) {
        for parcel in finished {
            parcel.hold.drop_range(parcel.span);
            self.metrics.topic(&parcel.at.topic).acknowledge_time.observe(parcel.fetched_at.elapsed());
        }
        self.session.let_go();
        self.forget_finished();
    }

    fn forget_finished(&mut self) {
        self.last_deliveries.retain(|hold| !hold.is_empty());
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
        let sensors = self.metrics.topic(&at.topic);
        sensors.acquired.record(acquired);
        sensors.redelivered.inc_by(again.map(|acquired| acquired.range.count()).sum());
        self.pace.on_fetched(acquired, fetched.records.len());
        let fetched_at = Instant::now();
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
            fetched_at,
        };
        let parcels: Vec<Parcel> = lots.into_iter().map(parcel).collect();
        let is_last = |parcel: &&Parcel| i64::from(parcel.delivery_count) >= i64::from(self.group.delivery_count_max);
        self.last_deliveries.extend(parcels.iter().filter(is_last).map(|parcel| parcel.hold.clone()));
        parcels
    }

    /// Counts offsets of a topic partition.
    fn record(&self, key: Key, offsets: u64, sensor: impl Fn(&TopicSensors) -> &Sensor) {
        if let Some(topic) = self.names.get(&key.0) {
            sensor(&self.metrics.topic(topic)).record(offsets);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{OffsetRange, sample};
    use crate::config::{Config, Protocol};
    use crate::flow::Flow;
    use crate::metrics::{FlowMetrics, LossLabels};
    use crate::wire::share::AcquiredRange;

    fn reader() -> Reader {
        let text = "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\nsource.cluster = 'a'\n\
                    sink.cluster = 'b'\ntopics.names = ['t']\n";
        let config = Config::parse(std::path::Path::new("f.toml"), text).unwrap();
        let flow = Flow::all(config.flows, &mut prometheus_client::registry::Registry::default()).remove(0);
        let context = Context {
            cluster: flow.source.clone(),
            group: flow.group.clone(),
            member: "m".to_owned(),
            arrivals: mpsc::channel(1).0,
            parking: Parking::default(),
            health: Health::default(),
            metrics: FlowMetrics::default().lane(0, Protocol::Share),
        };
        Reader::new(1, context)
    }

    #[tokio::test]
    async fn what_is_lost_on_its_last_delivery_is_lost_for_good() {
        let mut reader = reader();
        let last = i16::try_from(reader.group.delivery_count_max).unwrap();
        let acquired =
            |first, delivery_count| AcquiredRange { range: OffsetRange { first, last: first + 4 }, delivery_count };
        let fetched = SharePartitionFetched {
            topic: Uuid::nil(),
            partition: 0,
            error: None,
            message: None,
            leader: None,
            records: sample::batches(0, &[5, 5, 5]),
            acquired: vec![acquired(0, 1), acquired(5, last), acquired(10, last)],
        };
        let at = TopicPartition { topic: "t".into(), partition: 0 };
        let parcels = reader.accept(at.clone(), fetched, Instant::now());
        let finished: Vec<Parcel> = parcels.iter().filter(|parcel| parcel.span.first == 10).cloned().collect();
        reader.finish(&finished);
        reader.on_disconnected();
        let lost = |losses: &prometheus_client::metrics::family::Family<LossLabels, _>, cause| {
            let counter: prometheus_client::metrics::counter::Counter =
                losses.get_or_create_owned(&LossLabels { cause });
            counter.get()
        };
        assert_eq!(lost(&reader.metrics.locks_lost, "connection"), 10);
        assert_eq!(lost(&reader.metrics.records_lost, "delivery_limit"), 5);
        let topic = reader.metrics.topic(&at.topic);
        assert_eq!((topic.acquired.total(), topic.redelivered.get()), (15, 10));
    }
}
