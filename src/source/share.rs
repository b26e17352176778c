//! The share-group source: one member of the group, with a share session at each broker that leads partitions of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use crate::flow::Flow;
use crate::health::Health;
use crate::limits::{ARRIVALS_MAX, COMMANDS_MAX};
use crate::metrics::LaneMetrics;
use crate::settle::acknowledgements;
use crate::source::catalog::Watched;
use crate::source::leadership::Leadership;
use crate::source::{Key, Settlement, Shipment, Source, TopicPartition};
use crate::wire::share::AcknowledgeType;

pub mod acquire;
pub mod frontier;
pub mod group;
pub mod lookout;
pub mod membership;
pub mod pace;
pub mod parking;
pub mod reader;
pub mod rewritten;
pub mod session;
pub mod suspects;

use frontier::Frontiers;
use membership::{Assignment, Membership};
use parking::Parking;
use reader::{Arrival, Command, Context, Following, Order, Reader};
use session::request;

/// See the module.
#[derive(Debug)]
pub struct ShareSource {
    leadership: Leadership,
    context: Context,
    frontiers: Frontiers,
    assignment: watch::Receiver<Assignment>,
    leave: Option<oneshot::Sender<()>>,
    membership: JoinHandle<()>,
    readers: BTreeMap<i32, Handle>,
    arrivals: mpsc::Receiver<Arrival>,
    paused: BTreeSet<TopicPartition>,
    /// Whether readers are to be told about their partitions anew.
    changed: bool,
}

#[derive(Debug)]
struct Handle {
    commands: mpsc::Sender<Command>,
    /// Bytes of a fetch that has not been answered yet.
    asked: Option<usize>,
    /// Whether the broker leads anything of ours.
    following: bool,
}

impl ShareSource {
    /// Joins the group of a flow. The group's configs have been prepared (see [`group`]).
    ///
    /// `parking` and `frontiers` are shared by all lanes of the flow in this process.
    pub fn join(
        flow: &Flow,
        (parking, frontiers, catalog): (Parking, Frontiers, Watched),
        (health, metrics): (&Health, &LaneMetrics),
    ) -> Self {
        let member = Uuid::new_v4().to_string();
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let (membership, assignment) =
            Membership::new(flow.source.clone(), (&flow.group.id, &member), catalog.clone(), health.clone());
        let (leave, left) = oneshot::channel();
        Self {
            leadership: Leadership::new(flow.source.clone(), catalog, health.clone()),
            context: Context {
                cluster: flow.source.clone(),
                group: flow.group.clone(),
                member,
                arrivals: sender,
                parking,
                health: health.clone(),
                metrics: metrics.clone(),
            },
            frontiers,
            assignment,
            leave: Some(leave),
            membership: tokio::spawn(membership.run(left)),
            readers: BTreeMap::new(),
            arrivals,
            paused: BTreeSet::new(),
            changed: true,
        }
    }

    /// Our member id.
    pub fn member(&self) -> &str {
        &self.context.member
    }

    /// Learns leaders and tells readers, where something has changed.
    async fn follow(&mut self) {
        self.changed |= self.assignment.has_changed().unwrap_or(false);
        self.changed |= self.leadership.follow().await;
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let Some(assigned) = self.assignment.borrow_and_update().clone() else {
            return;
        };
        let mut led: BTreeMap<i32, BTreeSet<Key>> = self.readers.keys().map(|node| (*node, BTreeSet::new())).collect();
        let mut leaderless = BTreeSet::new();
        for key in assigned {
            let at = self.leadership.named(key);
            let is_paused = at.as_ref().is_some_and(|at| self.paused.contains(at));
            match self.leadership.of(key) {
                _ if !self.leadership.admits(key) => {}
                Some(_) if is_paused => {}
                Some((node, _)) => {
                    led.entry(node).or_default().insert(key);
                }
                // Nobody leads it, or nobody told us: ask soon.
                None => {
                    leaderless.extend(at);
                    self.leadership.refresh_soon();
                }
            }
        }
        self.leadership.tell_of_leaderless(leaderless);
        let names = self.leadership.names();
        for (node, partitions) in led {
            self.tell(node, partitions, &names);
        }
    }

    fn tell(&mut self, node: i32, partitions: BTreeSet<Key>, names: &HashMap<Uuid, Arc<str>>) {
        let address = self.leadership.address_of(node);
        if address.is_none() && !partitions.is_empty() {
            return self.leadership.refresh_soon();
        }
        let context = &self.context;
        let handle = self.readers.entry(node).or_insert_with(|| {
            let (commands, queue) = mpsc::channel(COMMANDS_MAX);
            tokio::spawn(Reader::new(node, context.clone()).run(queue));
            Handle { commands, asked: None, following: false }
        });
        handle.following = !partitions.is_empty();
        let following = Following { address, partitions, names: names.clone() };
        // A reader that is too busy to listen is told later.
        self.changed |= handle.commands.try_send(Command::Follow(following)).is_err();
    }

    /// Asks every reader that is idle for one fetch. They share what is left of the budget.
    fn ask(&mut self, bytes_max: usize) {
        let outstanding: usize = self.readers.values().filter_map(|handle| handle.asked).sum();
        let idle = |handle: &&mut Handle| handle.following && handle.asked.is_none();
        let idle_count = self.readers.values_mut().filter(idle).count().max(1);
        let share = bytes_max.saturating_sub(outstanding) / idle_count;
        if share == 0 {
            return;
        }
        for handle in self.readers.values_mut().filter(idle) {
            handle.asked = handle.commands.try_send(Command::Fetch(share)).ok().map(|()| share);
        }
    }

    fn receive(&mut self, arrival: Arrival, shipment: &mut Shipment) {
        if let Some(handle) = self.readers.get_mut(&arrival.node) {
            handle.asked = None;
        }
        if arrival.stale {
            self.leadership.refresh_soon();
        }
        self.leadership.learn_endpoints(arrival.endpoints);
        for (key, node) in arrival.moved {
            self.leadership.moved(key, node);
        }
        shipment.parcels.extend(arrival.parcels);
    }
}

impl Source for ShareSource {
    async fn poll(&mut self, bytes_max: usize, patience: Duration) -> Shipment {
        let deadline = Instant::now() + patience;
        let mut shipment = Shipment::default();
        self.follow().await;
        self.ask(bytes_max);
        tokio::select! {
            Some(arrival) = self.arrivals.recv() => self.receive(arrival, &mut shipment),
            _ = self.assignment.changed() => self.changed = true,
            () = self.leadership.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
        while let Ok(arrival) = self.arrivals.try_recv() {
            self.receive(arrival, &mut shipment);
        }
        shipment
    }

    async fn gather(&mut self) -> Shipment {
        let mut shipment = Shipment::default();
        for handle in self.readers.values().filter(|handle| handle.asked.is_some()) {
            // A reader that is too busy to listen is fetching.
            let _ = handle.commands.try_send(Command::Cancel);
        }
        while self.readers.values().any(|handle| handle.asked.is_some()) && shipment.parcels.is_empty() {
            let Some(arrival) = self.arrivals.recv().await else { break };
            self.receive(arrival, &mut shipment);
        }
        shipment
    }

    async fn settle(&mut self, settlements: Vec<Settlement>) {
        let mut orders: BTreeMap<i32, (Vec<_>, Vec<_>)> = BTreeMap::new();
        for Settlement { parcel, held, written, is_rejected } in settlements {
            self.frontiers.finish((parcel.topic_id, parcel.at.partition), &held, &parcel.records);
            let kind = if is_rejected { AcknowledgeType::Reject } else { AcknowledgeType::Accept };
            let (partitions, finished) = orders.entry(parcel.leader).or_default();
            partitions.push(request((parcel.topic_id, parcel.at.partition), acknowledgements(&held, (&written, kind))));
            finished.push(parcel);
        }
        let mut answers = vec![];
        for (node, (partitions, finished)) in orders {
            let Some(handle) = self.readers.get(&node) else { continue };
            let (done, answer) = oneshot::channel();
            // A reader ends only when it is told to close.
            let _ = handle.commands.send(Command::Settle(Order { partitions, finished, done })).await;
            answers.push(answer);
        }
        join_all(answers).await;
    }

    fn pause(&mut self, at: &TopicPartition) {
        self.changed |= self.paused.insert(at.clone());
    }

    fn resume(&mut self, at: &TopicPartition) {
        self.changed |= self.paused.remove(at);
    }

    fn keeps_order(&self) -> bool {
        false
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
        drop(self.leave.take());
        // The task bounds its own farewell.
        let _ = self.membership.await;
        released
    }
}
