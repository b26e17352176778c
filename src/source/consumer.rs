//! The consumer-group source: one member of the group, which reads its partitions by classic Fetch, each in order.
//!
//! Beside the lane, four kinds of task work for it: the [membership] keeps us in the group, the guard takes over what the coordinator
//! wants, the [clerk] commits, and a [fetcher] for each broker reads ahead. What they all look at is the [table] of our partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::flow::Flow;
use crate::health::Health;
use crate::limits::{ARRIVALS_MAX, COMMANDS_MAX, FAREWELL_MAX, POLL_PATIENCE};
use crate::metrics::{LaneMetrics, LaneSensors};
use crate::source::catalog::Watched;
use crate::source::leadership::Leadership;
use crate::source::{Key, Parcel, Settlement, Shipment, Source, TopicPartition};
use crate::wire::client::NodeId;

pub mod appetite;
pub mod clerk;
pub mod fetcher;
pub mod librdkafka;
pub mod membership;
pub mod progress;
pub mod room;
pub mod session;
pub mod table;
pub mod visible;

use clerk::Clerk;
use fetcher::{Arrival, Command, Context, Fetched, Fetcher, Moved, Place};
use membership::{Assignment, Membership};
use room::Room;
use table::Table;

/// See the module.
#[derive(Debug)]
pub struct ConsumerSource {
    leadership: Leadership,
    ours: Ours,
    news: watch::Receiver<()>,
    fetchers: BTreeMap<NodeId, mpsc::Sender<Command>>,
    /// From whom each partition is read.
    nodes: HashMap<Key, NodeId>,
    /// Whether fetchers are to be told about their partitions anew.
    changed: bool,
    context: Context,
    arrivals: mpsc::Receiver<Arrival>,
    /// What was read ahead.
    ahead: VecDeque<(NodeId, Fetched)>,
    tasks: Tasks,
}

/// The tasks of a member, in the order in which they end.
#[derive(Debug)]
struct Tasks {
    guard: JoinHandle<()>,
    clerk: (oneshot::Sender<()>, JoinHandle<()>),
    membership: (oneshot::Sender<()>, JoinHandle<()>),
}

/// The table of our partitions, which several tasks look at.
#[derive(Debug, Clone)]
pub struct Ours {
    table: Arc<Mutex<Table>>,
    news: watch::Sender<()>,
}

impl Ours {
    fn new() -> Self {
        Self { table: Arc::new(Mutex::new(Table::new(Instant::now()))), news: watch::Sender::new(()) }
    }

    /// The table, for a moment.
    pub fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no code panics while it holds this lock")
    }

    /// Lets all others look at the table.
    pub fn tell(&self) {
        self.news.send_replace(());
    }

    /// Where it is told that the table has changed.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }
}

impl ConsumerSource {
    /// Joins the consumer group of a flow, as its lane of this number, which may hold `ahead_bytes` of what it has read ahead.
    pub fn join(
        flow: &Flow,
        (lane, ahead_bytes): (u32, usize),
        catalog: Watched,
        (health, metrics): (&Health, &LaneMetrics),
    ) -> Self {
        let ours = Ours::new();
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let (membership, watched) = Membership::new(flow, lane, catalog.clone(), health.clone());
        let seen = (watched.assignment.clone(), catalog.clone());
        let clerk = Clerk::new(flow, ours.clone(), seen, (health.clone(), metrics.sensors.clone()));
        let (leave, left) = oneshot::channel();
        let (close, closed) = oneshot::channel();
        let guard =
            guard(ours.clone(), (watched.assignment, catalog.clone()), (watched.owned, metrics.sensors.clone()));
        Self {
            leadership: Leadership::new(flow.source.clone(), catalog, health.clone()),
            news: ours.news(),
            tasks: Tasks {
                guard: tokio::spawn(guard),
                clerk: (close, tokio::spawn(clerk.run(closed))),
                membership: (leave, tokio::spawn(membership.run(left))),
            },
            ours,
            fetchers: BTreeMap::new(),
            nodes: HashMap::new(),
            changed: true,
            context: Context {
                cluster: flow.source.clone(),
                arrivals: sender,
                room: Room::new(ahead_bytes),
                health: health.clone(),
                metrics: (**metrics).clone(),
            },
            arrivals,
            ahead: VecDeque::new(),
        }
    }

    /// Tells fetchers what to read, where something has changed.
    async fn follow(&mut self) {
        self.changed |= self.leadership.follow().await;
        self.changed |= self.ours.table().take_changed();
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.choose_nodes();
        let mut places: BTreeMap<NodeId, Vec<Place>> = self.fetchers.keys().map(|node| (*node, vec![])).collect();
        for readable in self.ours.table().readable() {
            let Some(node) = self.nodes.get(&readable.key) else { continue };
            let leader_epoch = self.leadership.of(readable.key).map_or(-1, |(_, epoch)| epoch);
            places.entry(*node).or_default().push(Place {
                key: readable.key,
                at: readable.at,
                turn: readable.turn,
                position: readable.next.offset,
                last_epoch: readable.next.epoch,
                leader_epoch,
                is_replica: readable.replica.is_some(),
            });
        }
        for (node, places) in places {
            self.instruct(node, places);
        }
    }

    /// From whom each partition is read: what comes from the one before does not count any more.
    fn choose_nodes(&mut self) {
        let mut leaderless = BTreeSet::new();
        let mut nodes = HashMap::new();
        for readable in self.ours.table().readable() {
            let leader = self.leadership.of(readable.key).map(|(node, _)| node);
            match readable.replica.or(leader) {
                _ if !self.leadership.admits(readable.key) => {}
                Some(node) => {
                    nodes.insert(readable.key, node);
                }
                // Nobody leads it, or nobody told us: ask soon.
                None => {
                    leaderless.insert(readable.at);
                }
            }
        }
        if !leaderless.is_empty() {
            self.leadership.refresh_soon();
        }
        self.leadership.tell_of_leaderless(leaderless);
        for (key, _) in nodes.iter().filter(|(key, node)| self.nodes.get(key).is_some_and(|before| before != *node)) {
            self.ours.table().turn(*key);
        }
        self.nodes = nodes;
        // The turns that were begun are in what is told now.
        self.ours.table().take_changed();
    }

    fn instruct(&mut self, node: NodeId, places: Vec<Place>) {
        let address = self.leadership.address_of(node);
        if address.is_none() && !places.is_empty() {
            return self.leadership.refresh_soon();
        }
        let context = &self.context;
        let fetcher = self.fetchers.entry(node).or_insert_with(|| {
            let (commands, queue) = mpsc::channel(COMMANDS_MAX);
            tokio::spawn(Fetcher::new(node, context.clone()).run(queue));
            commands
        });
        // A fetcher that is too busy to listen is told later.
        self.changed |= fetcher.try_send(Command::Follow { address, places }).is_err();
    }

    fn receive(&mut self, Arrival { node, fetched, moved, endpoints, stale }: Arrival) {
        if stale {
            self.leadership.refresh_soon();
        }
        self.leadership.learn_endpoints(endpoints);
        for moved in moved {
            match moved {
                Moved::Leader(key, node) => {
                    self.leadership.moved(key, node);
                    self.ours.table().read_from(key, None);
                }
                Moved::Replica(key, node) => self.ours.table().read_from(key, Some(node)),
                Moved::BackToLeader(key) => self.ours.table().read_from(key, None),
            }
        }
        self.ahead.extend(fetched.into_iter().map(|fetched| (node, fetched)));
    }

    /// Hands out what was read ahead, in its order, until there are about so many bytes of it.
    fn hand_out(&mut self, bytes_max: usize) -> Vec<Parcel> {
        let (mut parcels, mut bytes) = (vec![], 0);
        let mut has_passed = false;
        while bytes < bytes_max {
            let Some((node, fetched)) = self.ahead.pop_front() else { break };
            has_passed |= fetched.visible.is_empty();
            if let Some(parcel) = self.ours.table().accept(fetched, node) {
                bytes += parcel.size();
                parcels.push(parcel);
            }
        }
        if has_passed {
            // Markers and aborted records are finished as soon as they are read.
            self.ours.tell();
        }
        parcels
    }
}

impl Source for ConsumerSource {
    async fn poll(&mut self, bytes_max: usize, patience: Duration) -> Shipment {
        let deadline = Instant::now() + patience;
        loop {
            self.follow().await;
            let parcels = self.hand_out(bytes_max);
            if !parcels.is_empty() {
                return Shipment { parcels };
            }
            tokio::select! {
                Some(arrival) = self.arrivals.recv(), if self.ahead.is_empty() => self.receive(arrival),
                Ok(()) = self.news.changed() => {}
                () = self.leadership.changed() => {}
                () = tokio::time::sleep_until(deadline) => return Shipment::default(),
            }
            while let Ok(arrival) = self.arrivals.try_recv() {
                self.receive(arrival);
            }
        }
    }

    async fn gather(&mut self) -> Shipment {
        // What was read ahead costs nothing to read again.
        self.ahead.clear();
        Shipment::default()
    }

    async fn settle(&mut self, settlements: Vec<Settlement>) {
        let mut table = self.ours.table();
        settlements.iter().for_each(|settlement| table.settle(&settlement.parcel));
        drop(table);
        self.ours.tell();
    }

    fn pause(&mut self, at: &TopicPartition) {
        self.ours.table().pause(at);
    }

    fn resume(&mut self, at: &TopicPartition) {
        self.ours.table().resume(at);
    }

    fn keeps_order(&self) -> bool {
        true
    }

    async fn close(self) -> u64 {
        let unfinished = self.ours.table().unfinished();
        for fetcher in self.fetchers.values() {
            // A fetcher that is too busy to listen ends with its channel.
            let _ = fetcher.try_send(Command::Close);
        }
        let Tasks { guard, clerk, membership } = self.tasks;
        guard.abort();
        for (end, task) in [clerk, membership] {
            drop(end);
            // Each bounds its own farewell.
            let _ = tokio::time::timeout(FAREWELL_MAX, task).await;
        }
        unfinished
    }
}

/// Brings what the coordinator wants into the table, and gives up what it wants back. Never ends.
async fn guard(
    ours: Ours,
    (mut assignment, mut catalog): (watch::Receiver<Option<Assignment>>, Watched),
    (owned, sensors): (watch::Sender<BTreeSet<Key>>, LaneSensors),
) {
    let mut news = ours.news();
    loop {
        let now = Instant::now();
        let wanted = assignment.borrow_and_update().clone();
        // Told before anything is read: the member looks at what is owned once it has told a new assignment, so either it sees what we own,
        // or we see below that it is ours no longer.
        owned.send_if_modified(|owned| {
            let known = catalog.borrow_and_update();
            let ours = wanted.iter().flat_map(|wanted| &wanted.partitions);
            ours.filter(|key| known.topics.contains_key(&key.0)).fold(false, |any, key| any | owned.insert(*key))
        });
        let (overdue, ours_now, due_at) = {
            let mut table = ours.table();
            table.assign(assignment.borrow().as_ref(), &catalog.borrow(), now);
            (table.wind_up(now), table.owned(), table.due_at())
        };
        for at in overdue {
            tracing::warn!(%at, "given up to another member before what was read of it was committed: it is copied again");
        }
        sensors.partitions.set(ours_now.len().try_into().unwrap_or(i64::MAX));
        owned.send_if_modified(|known| std::mem::replace(known, ours_now.clone()) != ours_now);
        ours.tell();
        news.mark_unchanged();
        let due_at = due_at.unwrap_or(now + POLL_PATIENCE);
        tokio::select! {
            Ok(()) = assignment.changed() => {}
            Ok(()) = catalog.changed() => {}
            Ok(()) = news.changed() => {}
            () = tokio::time::sleep_until(due_at) => {}
        }
    }
}
