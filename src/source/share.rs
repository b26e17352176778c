//! The share-group source: one member of the group, with a share session at each broker that leads partitions of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use crate::config::FlowConfig;
use crate::health::Health;
use crate::limits::{ARRIVALS_MAX, COMMANDS_MAX, METADATA_AGE_MAX, METADATA_SOON};
use crate::metrics::FlowMetrics;
use crate::settle::acknowledgements;
use crate::source::{Settled, Settlement, Shipment, Source, TopicPartition};
use crate::wire::Client;
use crate::wire::client::TopicInfo;

pub mod acquire;
pub mod group;
pub mod membership;
pub mod pace;
pub mod reader;
pub mod session;

use membership::{Assignment, Membership};
use reader::{Arrival, Command, Context, Following, Order, Reader};
use session::{Key, request};

/// See the module.
#[derive(Debug)]
pub struct ShareSource {
    client: Client,
    topics: Vec<String>,
    context: Context,
    assignment: watch::Receiver<Assignment>,
    leave: Option<oneshot::Sender<()>>,
    membership: JoinHandle<()>,
    readers: BTreeMap<i32, Handle>,
    arrivals: mpsc::Receiver<Arrival>,
    known: Vec<TopicInfo>,
    paused: BTreeSet<TopicPartition>,
    refresh_at: Instant,
    /// Whether readers are to be told about their partitions anew.
    changed: bool,
}

#[derive(Debug)]
struct Handle {
    commands: mpsc::Sender<Command>,
    fetching: bool,
    following: bool,
}

impl ShareSource {
    /// Joins the group of a flow. The group's configs have been prepared (see [`group`]).
    pub fn join(flow: &FlowConfig, health: &Health, metrics: &FlowMetrics) -> Self {
        let member = Uuid::new_v4().to_string();
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let (membership, assignment) =
            Membership::new(flow.source.clone(), (&flow.group.id, &member), flow.topics.clone(), health.clone());
        let (leave, left) = oneshot::channel();
        Self {
            client: Client::new(flow.source.clone()),
            topics: flow.topics.clone(),
            context: Context {
                cluster: flow.source.clone(),
                group: flow.group.clone(),
                member,
                arrivals: sender,
                health: health.clone(),
                metrics: metrics.clone(),
            },
            assignment,
            leave: Some(leave),
            membership: tokio::spawn(membership.run(left)),
            readers: BTreeMap::new(),
            arrivals,
            known: vec![],
            paused: BTreeSet::new(),
            refresh_at: Instant::now(),
            changed: true,
        }
    }

    /// Learns leaders and tells readers, where something has changed. A failure leaves everything as it is, for the next poll.
    async fn follow(&mut self) {
        self.changed |= self.assignment.has_changed().unwrap_or(false);
        if Instant::now() >= self.refresh_at {
            self.refresh().await;
        }
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let Some(assigned) = self.assignment.borrow_and_update().clone() else {
            return;
        };
        let names: HashMap<Uuid, Arc<str>> =
            self.known.iter().map(|topic| (topic.id, topic.name.as_str().into())).collect();
        let mut led: BTreeMap<i32, BTreeSet<Key>> = self.readers.keys().map(|node| (*node, BTreeSet::new())).collect();
        for (topic, partition) in assigned {
            match self.leader((topic, partition)) {
                Some(_) if self.is_paused(&names, (topic, partition)) => {}
                Some(node) => {
                    led.entry(node).or_default().insert((topic, partition));
                }
                // A topic or leader that is not known yet: ask soon.
                None => self.refresh_soon(),
            }
        }
        for (node, partitions) in led {
            self.tell(node, partitions, &names).await;
        }
    }

    async fn refresh(&mut self) {
        match self.client.topics(&self.topics).await {
            Ok(topics) => {
                self.context.health.well("source metadata");
                let found = topics.into_iter().filter_map(|(_, topic)| topic.ok()).collect();
                self.changed |= self.known != found;
                self.known = found;
                self.refresh_at = Instant::now() + METADATA_AGE_MAX;
            }
            Err(error) => {
                self.context.health.trouble("source metadata", error);
                self.refresh_soon();
            }
        }
    }

    fn refresh_soon(&mut self) {
        self.changed = true;
        self.refresh_at = self.refresh_at.min(Instant::now() + METADATA_SOON);
    }

    fn leader(&self, (id, partition): Key) -> Option<i32> {
        let topic = self.known.iter().find(|topic| topic.id == id)?;
        *topic.leaders.get(usize::try_from(partition).ok()?)?
    }

    fn is_paused(&self, names: &HashMap<Uuid, Arc<str>>, (id, partition): Key) -> bool {
        let at = names.get(&id).map(|topic| TopicPartition { topic: topic.clone(), partition });
        at.is_some_and(|at| self.paused.contains(&at))
    }

    async fn tell(&mut self, node: i32, partitions: BTreeSet<Key>, names: &HashMap<Uuid, Arc<str>>) {
        let Some(address) = self.client.address_of(node) else {
            return self.refresh_soon();
        };
        let context = &self.context;
        let handle = self.readers.entry(node).or_insert_with(|| {
            let (commands, queue) = mpsc::channel(COMMANDS_MAX);
            tokio::spawn(Reader::new(node, context.clone()).run(queue));
            Handle { commands, fetching: false, following: false }
        });
        handle.following = !partitions.is_empty();
        let command = Command::Follow(Following { address, partitions, names: names.clone() });
        // A reader ends only when it is told to close.
        let _ = handle.commands.send(command).await;
    }

    /// Asks every reader that is idle for one fetch. They share the budget.
    async fn ask(&mut self, bytes_max: usize) {
        let share = bytes_max / self.readers.values().filter(|handle| handle.following).count().max(1);
        for handle in self.readers.values_mut().filter(|handle| handle.following && !handle.fetching) {
            handle.fetching = handle.commands.send(Command::Fetch(share)).await.is_ok();
        }
    }

    fn receive(&mut self, arrival: Arrival, shipment: &mut Shipment) {
        if let Some(handle) = self.readers.get_mut(&arrival.node) {
            handle.fetching = false;
        }
        if arrival.stale {
            self.refresh_soon();
        }
        self.client.learn_endpoints(arrival.endpoints);
        for ((id, partition), node) in arrival.moved {
            let topic = self.known.iter_mut().find(|topic| topic.id == id);
            if let Some(leader) = topic.and_then(|topic| topic.leader_mut(partition)) {
                *leader = Some(node);
            }
        }
        shipment.parcels.extend(arrival.parcels);
    }
}

impl Source for ShareSource {
    async fn poll(&mut self, bytes_max: usize, patience: Duration) -> Shipment {
        let deadline = Instant::now() + patience;
        let mut shipment = Shipment::default();
        self.follow().await;
        self.ask(bytes_max).await;
        tokio::select! {
            Some(arrival) = self.arrivals.recv() => self.receive(arrival, &mut shipment),
            _ = self.assignment.changed() => self.changed = true,
            () = tokio::time::sleep_until(deadline) => {}
        }
        while let Ok(arrival) = self.arrivals.try_recv() {
            self.receive(arrival, &mut shipment);
        }
        shipment
    }

    async fn settle(&mut self, settlements: Vec<Settlement>) -> Settled {
        let mut orders: BTreeMap<i32, (Vec<_>, Vec<_>)> = BTreeMap::new();
        for Settlement { parcel, held, written } in settlements {
            let (partitions, holds) = orders.entry(parcel.leader).or_default();
            partitions.push(request((parcel.topic_id, parcel.at.partition), acknowledgements(&held, &written)));
            holds.push(parcel.hold);
        }
        let mut answers = vec![];
        for (node, (partitions, holds)) in orders {
            let Some(handle) = self.readers.get(&node) else {
                continue;
            };
            let (done, answer) = oneshot::channel();
            // A reader ends only when it is told to close.
            let _ = handle.commands.send(Command::Settle(Order { partitions, holds, done })).await;
            answers.push(answer);
        }
        let mut settled = Settled::default();
        for answer in join_all(answers).await {
            settled += answer.unwrap_or_default();
        }
        self.context.metrics.acknowledged.inc_by(settled.acknowledged);
        self.context.metrics.lost.inc_by(settled.lost);
        settled
    }

    fn pause(&mut self, at: &TopicPartition) {
        self.changed |= self.paused.insert(at.clone());
    }

    fn resume(&mut self, at: &TopicPartition) {
        self.changed |= self.paused.remove(at);
    }

    async fn close(mut self) -> u64 {
        let mut answers = vec![];
        for handle in self.readers.values() {
            let (done, answer) = oneshot::channel();
            // A reader ends only when it is told to close.
            let _ = handle.commands.send(Command::Close(done)).await;
            answers.push(answer);
        }
        let released = join_all(answers).await.into_iter().map(Result::unwrap_or_default).sum();
        self.context.metrics.released.inc_by(released);
        drop(self.leave.take());
        // The task bounds its own farewell.
        let _ = self.membership.await;
        released
    }
}
