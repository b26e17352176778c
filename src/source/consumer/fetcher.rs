//! The driver of one fetch session: a task for each broker that is read from. It reads ahead of the lane.
//!
//! A session has one request in flight. The next one leaves as soon as there is room, whether or not the lane has taken what the last one
//! brought. Errors of single partitions hold these, and the others go on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::batch::OffsetRange;
use crate::health::Health;
use crate::limits::{FETCH_WAIT, LEAVE_MAX, READ_AHEAD_PARTITION_BYTES_MAX};
use crate::metrics::FlowMetrics;
use crate::source::consumer::appetite::Appetite;
use crate::source::consumer::room::{Room, Taken};
use crate::source::consumer::session::{FetchSession, Said};
use crate::source::{Key, TopicPartition};
use crate::wire::backoff::Backoff;
use crate::wire::call::Call;
use crate::wire::client::NodeId;
use crate::wire::fetch::{Fetch, FetchReply, NAMES_UNTIL};
use crate::wire::leaders::Endpoint;
use crate::wire::{Cluster, Code, Connection, WireError};
use reading::Reading;

mod doubt;
mod interpret;
mod reading;

/// What a source asks of a fetcher.
#[derive(Debug)]
pub enum Command {
    /// From now on read these partitions and no others. One that is read already in the same turn goes on where it is.
    Follow {
        /// `host:port` of the broker; `None` where the cluster does not know it any more.
        address: Option<Arc<str>>,
        /// What to read.
        places: Vec<Place>,
    },
    /// Close the session and end.
    Close,
}

/// Where reading begins in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// By id.
    pub key: Key,
    /// By name.
    pub at: TopicPartition,
    /// Counts how often reading has begun anew: what a fetcher brings of an earlier turn is thrown away.
    pub turn: u64,
    /// The next offset to read.
    pub position: i64,
    /// Leader epoch of the record before; -1 where it is not known.
    pub last_epoch: i32,
    /// Leader epoch that we know the leader by; -1 where it is not known.
    pub leader_epoch: i32,
    /// Whether the broker is a replica that the leader would have us read from, and not the leader.
    pub is_replica: bool,
}

/// What a fetcher brings.
#[derive(Debug)]
pub struct Arrival {
    /// The broker.
    pub node: NodeId,
    /// What was read: for each partition in the order of its log.
    pub fetched: Vec<Fetched>,
    /// Partitions that are to be read from another broker: their new leader, or the replica that the leader prefers for our rack.
    pub moved: Vec<Moved>,
    /// Where brokers are.
    pub endpoints: Vec<Endpoint>,
    /// Whether something went wrong that fresh metadata may mend.
    pub stale: bool,
}

/// A partition that is to be read elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It has another leader.
    Leader(Key, NodeId),
    /// Its leader asks us to read from this replica (KIP-392).
    Replica(Key, NodeId),
    /// The replica that we read from cannot serve us: back to the leader.
    BackToLeader(Key),
}

/// What one fetch brought of a partition.
#[derive(Debug)]
pub struct Fetched {
    /// The partition.
    pub key: Key,
    /// The turn of its [`Place`].
    pub turn: u64,
    /// Where reading stood before.
    pub from: i64,
    /// Where it goes on: all committed records between are in `records`, unless there was a jump.
    pub next: i64,
    /// Leader epoch of the last record batch; -1 where it is not known.
    pub last_epoch: i32,
    /// Whole record batches as the broker sent them; they may begin below `from`.
    pub records: Bytes,
    /// The offsets from `from` on, below `next`, that hold committed records, as far as headers of batches tell: ascending, neighbours
    /// joined. Where there are none, there are no `records` either.
    pub visible: Vec<OffsetRange>,
    /// Why `next` is not where the records end.
    pub jump: Option<Jump>,
    /// When it came.
    pub fetched_at: Instant,
    /// Room that `records` take of what a lane may read ahead; free again with this value.
    pub room: Option<Taken>,
}

/// Why reading goes on elsewhere than where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    /// Retention has removed what was to be read: the log begins at `next`.
    Expired,
    /// The log was cut below the position by an unclean leader election (KIP-320): what was written anew begins at `next`.
    Truncated,
}

/// What a fetcher is made of.
#[derive(Debug, Clone)]
pub struct Context {
    /// The source cluster.
    pub cluster: Arc<Cluster>,
    /// Where arrivals go.
    pub arrivals: mpsc::Sender<Arrival>,
    /// What all fetchers of the lane may read ahead.
    pub room: Arc<Room>,
    /// Where troubles are told.
    pub health: Health,
    /// What is counted.
    pub metrics: FlowMetrics,
}

/// See the module.
#[derive(Debug)]
pub struct Fetcher {
    node: NodeId,
    address: Option<Arc<str>>,
    readings: BTreeMap<Key, Reading>,
    connection: Option<Arc<Connection>>,
    session: FetchSession,
    appetite: Appetite,
    not_before: Instant,
    backoff: Backoff,
    /// Partitions whose last fetch brought an error.
    troubled: BTreeSet<Key>,
    versions: RangeInclusive<i16>,
    context: Context,
}

/// Why a fetcher ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was told to.
    Told,
    /// Its source is gone.
    Alone,
}

impl Fetcher {
    /// A fetcher for a broker, not connected yet.
    pub fn new(node: NodeId, context: Context) -> Self {
        Self {
            node,
            address: None,
            readings: BTreeMap::new(),
            connection: None,
            session: FetchSession::default(),
            appetite: Appetite::default(),
            not_before: Instant::now(),
            backoff: Backoff::new(context.cluster.reconnect_backoff, context.cluster.reconnect_backoff_max),
            troubled: BTreeSet::new(),
            versions: Fetch::API.min..=Fetch::API.max,
            context,
        }
    }

    /// The same, speaking Fetch in these versions only: with a broker that knows more, as with one that does not.
    pub fn speaking(self, versions: RangeInclusive<i16>) -> Self {
        Self { versions, ..self }
    }

    /// Reads what it is told to until it is told to close, or until the source is gone.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let end = loop {
            if let Err(end) = self.round(&mut commands).await {
                break end;
            }
        };
        self.follow(None, vec![]);
        if end == End::Told {
            self.close().await;
        }
    }

    /// Waits until there is something to read, reads, and hands over what it has brought.
    async fn round(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), End> {
        self.rest(commands).await?;
        let arrival = match self.read(commands).await? {
            Ok(arrival) => arrival,
            Err(error) => self.on_error(&error),
        };
        if !arrival.is_empty() {
            let sending = self.context.arrivals.clone();
            self.attend(commands, sending.send(arrival)).await?.map_err(|_| End::Alone)?;
        }
        Ok(())
    }

    /// Waits until a partition may be read.
    async fn rest(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), End> {
        loop {
            let begin = self.readings.values().map(|reading| reading.paused_until.unwrap_or(self.not_before)).min();
            let begin = begin.map(|begin| begin.max(self.not_before));
            tokio::select! {
                biased;
                command = commands.recv() => self.obey(command)?,
                () = at(begin) => return Ok(()),
            }
        }
    }

    /// Waits for `work`, and serves commands meanwhile.
    async fn attend<T>(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        work: impl Future<Output = T>,
    ) -> Result<T, End> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => self.obey(command)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    fn obey(&mut self, command: Option<Command>) -> Result<(), End> {
        match command {
            Some(Command::Follow { address, places }) => {
                self.follow(address, places);
                Ok(())
            }
            Some(Command::Close) => Err(End::Told),
            None => Err(End::Alone),
        }
    }

    fn follow(&mut self, address: Option<Arc<str>>, places: Vec<Place>) {
        if address.is_some() && address != self.address {
            self.address = address;
            self.connection = None;
        }
        let mut before = std::mem::take(&mut self.readings);
        for place in places {
            let same = before.remove(&place.key).filter(|reading| reading.place.turn == place.turn);
            let reading = match same {
                Some(mut reading) => {
                    reading.learn(&place);
                    reading
                }
                None => Reading::new(place),
            };
            self.readings.insert(reading.place.key, reading);
        }
        // What is not read from here any more is somebody else's to judge.
        for (key, reading) in before {
            if self.troubled.remove(&key) {
                self.context.health.well(format_args!("source {}", reading.place.at));
            }
        }
        if self.readings.is_empty() {
            // Nothing is asked of this broker any more, so nothing can be wrong with it.
            self.context.health.well(self.subject());
        }
    }

    /// One fetch, or what has to come before it.
    async fn read(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<Result<Arrival, WireError>, End> {
        let (connection, version) = match self.prepare().await {
            Ok(ready) => ready,
            Err(error) => return Ok(Err(error)),
        };
        match self.resolve(&connection, version).await {
            Ok(found) if found.is_empty() => {}
            found => return Ok(found),
        }
        let (room, appetite) = (self.context.room.clone(), (self.appetite.least(), self.appetite.most()));
        let taken = self.attend(commands, room.take(appetite.0, appetite.1)).await?;
        let Some(fetch) = self.fetch(taken.bytes()) else { return Ok(Ok(self.arrival())) };
        let pending = match connection.send_in(version..=version, &fetch).await {
            Ok(pending) => pending,
            Err(error) => return Ok(Err(error)),
        };
        // Behind a throttle time, which is no fault of the link.
        let asked_at = Instant::now();
        let patience = connection.request_timeout + FETCH_WAIT;
        let reply = self.attend(commands, pending.reply(patience)).await?;
        Ok(reply.and_then(|reply| self.on_reply(reply, (taken, asked_at.elapsed(), patience), &connection)))
    }

    /// A connection, and the version of Fetch that is spoken over it.
    async fn prepare(&mut self) -> Result<(Arc<Connection>, i16), WireError> {
        let connection = match self.connection.take().filter(|connection| connection.is_alive()) {
            Some(connection) => connection,
            None => {
                self.session.begin_anew();
                let nobody = || WireError::Nobody {
                    cluster: self.context.cluster.name.as_str().into(),
                    what: format!("address of broker {}", self.node),
                };
                let address = self.address.clone().ok_or_else(nobody)?;
                Arc::new(Connection::open(&self.context.cluster, &address).await?)
            }
        };
        self.connection = Some(connection.clone());
        // Clusters before Kafka 2.8, or with an older inter.broker.protocol.version, know no ids of topics.
        let has_ids = self.readings.keys().all(|(id, _)| !id.is_nil());
        let newest = if has_ids { *self.versions.end() } else { NAMES_UNTIL.min(*self.versions.end()) };
        let version = connection.version_in::<Fetch>(*self.versions.start()..=newest)?;
        Ok((connection, version))
    }

    /// The next request; `None` where nothing is to be read now.
    fn fetch(&mut self, bytes_max: usize) -> Option<Fetch> {
        let now = Instant::now();
        let due = self.readings.iter().filter(|(_, reading)| reading.is_due(now) && reading.doubt.is_none());
        let wanted: BTreeMap<Key, _> = due.map(|(key, reading)| (*key, reading.wish())).collect();
        if wanted.is_empty() {
            return None;
        }
        let Said { id, epoch, partitions, forget } = self.session.say(wanted);
        Some(Fetch {
            wait_ms: i32::try_from(FETCH_WAIT.as_millis()).unwrap_or(i32::MAX),
            bytes_max: i32::try_from(bytes_max).unwrap_or(i32::MAX),
            partition_bytes_max: READ_AHEAD_PARTITION_BYTES_MAX,
            session_id: id,
            session_epoch: epoch,
            partitions,
            forget,
            rack: self.context.cluster.rack.clone().unwrap_or_default(),
        })
    }

    fn on_reply(
        &mut self,
        reply: FetchReply,
        (mut taken, elapsed, patience): (Taken, Duration, Duration),
        connection: &Connection,
    ) -> Result<Arrival, WireError> {
        if let Some(code) = reply.error {
            return Err(connection.answered("Fetch", &self.subject(), (code, None)));
        }
        self.session.on_answered(reply.session_id);
        let received = reply.partitions.iter().map(|partition| partition.records.len()).sum();
        self.appetite.on_answered((taken.bytes(), received), elapsed, patience);
        self.backoff.reset();
        self.context.health.well(self.subject());
        Ok(self.interpret(reply, &mut taken, connection))
    }

    /// After a failed exchange: the session begins anew, since nobody knows what the broker believes.
    fn on_error(&mut self, error: &WireError) -> Arrival {
        self.not_before = Instant::now() + self.backoff.pause();
        self.session.begin_anew();
        match error.code() {
            // A broker forgets sessions that it has no place for: that is no trouble.
            Some(Code::FetchSessionIdNotFound) => self.session.forget(),
            Some(Code::InvalidFetchSessionEpoch | Code::FetchSessionTopicIdError) => {}
            Some(_) => self.context.health.trouble(self.subject(), error),
            None => {
                self.context.health.trouble(self.subject(), error);
                self.connection = None;
                if matches!(error, WireError::Timeout { .. }) {
                    self.appetite.on_silence();
                }
            }
        }
        if is_of_session(error) {
            return self.arrival();
        }
        let served = self.readings.iter().filter(|(_, reading)| reading.place.is_replica);
        let moved = served.map(|(key, _)| Moved::BackToLeader(*key)).collect();
        Arrival { moved, stale: true, ..self.arrival() }
    }

    async fn close(&mut self) {
        let connection = self.connection.take().filter(|connection| connection.is_alive());
        let (Some(connection), Some(said)) = (connection, self.session.close()) else { return };
        let goodbye = Fetch { session_id: said.id, session_epoch: said.epoch, ..Fetch::default() };
        let version = connection.version_in::<Fetch>(self.versions.clone());
        let (Ok(version), true) = (version, goodbye.session_id != 0) else { return };
        // A session that is not closed is forgotten by the broker when it needs the place.
        if let Ok(pending) = connection.send_in(version..=version, &goodbye).await {
            let _ = pending.reply(LEAVE_MAX).await;
        }
    }

    fn arrival(&self) -> Arrival {
        Arrival { node: self.node, fetched: vec![], moved: vec![], endpoints: vec![], stale: false }
    }

    /// This broker, among the troubles.
    fn subject(&self) -> String {
        format!("source broker {}", self.node)
    }
}

impl Arrival {
    fn is_empty(&self) -> bool {
        self.fetched.is_empty() && self.moved.is_empty() && self.endpoints.is_empty() && !self.stale
    }
}

/// Whether an error says that the broker has no such fetch session.
fn is_of_session(error: &WireError) -> bool {
    let code = error.code();
    let known = [Code::FetchSessionIdNotFound, Code::InvalidFetchSessionEpoch, Code::FetchSessionTopicIdError];
    code.is_some_and(|code| known.contains(&code))
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
