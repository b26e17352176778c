//! The bridge: builds the lanes of all flows, watches over them, and drains them within the grace period.

use std::sync::{Arc, Mutex};

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::Hop;
use crate::config::{BridgeConfig, Config, ErrorsConfig, Protocol};
use crate::dead_letter::Sender;
use crate::flow::Flow;
use crate::health::Health;
use crate::lane::brake::Brake;
use crate::lane::tolerance::{DeadLetters, Policy, Tolerance};
use crate::lane::{Lane, Wish, told};
use crate::limits::FAREWELL_MAX;
use crate::metrics::{self, FlowMetrics, LaneMetrics};
use crate::sink::Sink;
use crate::sink::kafka::identity::transactional_id;
use crate::sink::kafka::{KafkaSink, keeper};
use crate::source::Source;
use crate::source::catalog::Watched;
use crate::source::consumer::ConsumerSource;
use crate::source::consumer::librdkafka::{EngineError, LibrdkafkaSource};
use crate::source::share::ShareSource;
use crate::source::share::frontier::Frontiers;
use crate::source::share::group::GroupError;
use crate::source::share::parking::Parking;
use crate::source::start::StartError;

pub mod check;
pub mod compaction;
pub mod dead_letters;
pub mod discovery;
pub mod identity;
pub mod observe;
pub mod order;
pub mod plan;
pub mod prepare;
pub mod switch;

use check::Unfit;
use discovery::Discovery;
use identity::Identities;
use observe::{ConsumerObserver, Observer};

/// What runs, for those who look at it from outside.
#[derive(Debug, Clone)]
pub struct View {
    /// What is wrong.
    pub health: Health,
    /// All metrics.
    pub registry: Arc<Mutex<Registry>>,
    /// The flows, in the order of the file.
    pub flows: Vec<FlowView>,
}

/// A flow, likewise.
#[derive(Debug, Clone)]
pub struct FlowView {
    /// Its name.
    pub name: String,
    /// How it reads.
    pub protocol: Protocol,
    /// What it counts.
    pub metrics: FlowMetrics,
}

/// The bridge of one process.
#[derive(Debug)]
pub struct Bridge {
    config: BridgeConfig,
    flows: Vec<Flow>,
    view: View,
    wish: watch::Sender<Wish>,
}

/// Why a flow cannot run. Starting again would not help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its share group can't be brought to the configs that it needs.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Its group can't be put to where it should begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its clusters do not allow what it needs, or it does not allow what they have.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The engine that shall read cannot.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// How a bridge came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Farewell {
    /// Offsets that were acquired and not finished: they are released for others, at the cost of a delivery attempt.
    pub released: u64,
}

impl Bridge {
    /// A bridge that does not run yet.
    pub fn new(config: Config) -> Self {
        let mut registry = metrics::registry();
        let flows = Flow::all(config.flows, &mut registry);
        let view = |flow: &Flow| FlowView {
            name: flow.name.clone(),
            protocol: flow.protocol,
            metrics: FlowMetrics::register(&mut registry, &flow.name),
        };
        let views = flows.iter().map(view).collect();
        let health = Health::default();
        // Nobody who asks early is told that all is well.
        flows.iter().for_each(|flow| health.within(&flow.name).pending("start", "group and topics are being prepared"));
        let view = View { health, registry: Arc::new(Mutex::new(registry)), flows: views };
        Self { config: config.bridge, flows, view, wish: watch::Sender::new(Wish::Run) }
    }

    /// What can be seen from outside.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Runs until `stop` completes, then drains.
    ///
    /// Errors: a flow that cannot run; nothing was acquired for it.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Farewell, Refusal> {
        let mut flows = JoinSet::new();
        let identities = Identities::new(&self.flows);
        for (flow, FlowView { metrics, .. }) in self.flows.iter().zip(&self.view.flows) {
            let health = self.view.health.within(&flow.name);
            let flow = (flow.clone(), identities.clone());
            flows.spawn(run_flow(flow, self.wish.subscribe(), (health, metrics.clone())));
        }
        tokio::pin!(stop);
        let refused = tokio::select! {
            () = &mut stop => None,
            Some(ended) = flows.join_next() => ended.expect("flows don't panic, and nobody aborts them").err(),
        };
        tracing::info!("draining");
        self.wish.send_replace(Wish::Drain);
        let mut farewell = Farewell { released: 0 };
        if tokio::time::timeout(self.config.drain, gather(&mut flows, &mut farewell)).await.is_err() {
            tracing::warn!("the grace period (drain.timeout.ms) is over: leaving with records unfinished");
        }
        self.wish.send_replace(Wish::Leave);
        if tokio::time::timeout(FAREWELL_MAX, gather(&mut flows, &mut farewell)).await.is_err() {
            tracing::warn!("left without closing every share session: the brokers see the connections end");
        }
        refused.map_or(Ok(farewell), Err)
    }
}

async fn gather(flows: &mut JoinSet<Result<u64, Refusal>>, farewell: &mut Farewell) {
    while let Some(ended) = flows.join_next().await {
        // A flow that was refused had acquired nothing.
        farewell.released += ended.ok().and_then(Result::ok).unwrap_or(0);
    }
}

/// Prepares a flow, then runs its lanes side by side. Returns how many offsets they released unfinished.
async fn run_flow(
    (flow, identities): (Flow, Identities),
    wish: watch::Receiver<Wish>,
    (health, metrics): (Health, FlowMetrics),
) -> Result<u64, Refusal> {
    let mut stopped = wish.clone();
    let mut discovery = Discovery::new(flow.clone(), identities.clone(), (health.clone(), metrics.clone()));
    let hop = tokio::select! {
        prepared = prepare(&flow, &identities, &mut discovery, &health) => prepared?,
        () = told(&mut stopped, Wish::Drain) => return Ok(0),
    };
    let (shared, ordered) = (discovery.watch(Protocol::Share), discovery.watch(Protocol::Consumer));
    let mut watchers = JoinSet::new();
    watchers.spawn(discovery.run());
    watchers.spawn(keeper::keep(flow.clone(), metrics.clone()));
    let mut crew = Crew {
        // Nobody changes the limits of a running flow yet; a receiver keeps the last ones.
        brake: Brake::new(watch::channel(flow.limits).1, Instant::now()),
        incarnation: Uuid::new_v4(),
        lanes: JoinSet::new(),
        flow,
        hop,
        wish,
        health: health.clone(),
        metrics: metrics.clone(),
    };
    if crew.flow.protocol == Protocol::Share {
        watchers.spawn(crew.share(shared, ordered.clone()).run(stopped));
    } else {
        let observer = ConsumerObserver::new((&crew.flow, ordered.clone()), metrics);
        watchers.spawn(observer.run(stopped));
        (0..crew.flow.lanes).try_for_each(|number| crew.order(number, &ordered))?;
    }
    health.well("start");
    crew.work(ordered).await
    // The watchers never end by themselves; they end with their set.
}

/// The lanes of a flow, and what they have in common.
struct Crew {
    flow: Flow,
    /// Of this run: no other process has transactional ids with it.
    incarnation: Uuid,
    hop: Option<Hop>,
    brake: Brake,
    wish: watch::Receiver<Wish>,
    lanes: JoinSet<u64>,
    health: Health,
    metrics: FlowMetrics,
}

impl Crew {
    /// Lanes for the share group, and who looks at the group as a whole.
    fn share(&mut self, catalog: Watched, ordered: Watched) -> Observer {
        let (parking, frontiers) = (Parking::default(), Frontiers::default());
        // Its producer follows those of the lanes.
        let sink = self.sink(self.flow.lanes);
        let watched = (self.health.clone(), self.metrics.lane(self.flow.lanes, Protocol::Share));
        let mut observer = Observer::new((&self.flow, catalog.clone(), ordered), sink, frontiers.clone(), watched);
        for number in 0..self.flow.lanes {
            let health = self.lane_health(number);
            let shared = (parking.clone(), frontiers.clone(), catalog.clone());
            let metrics = self.metrics.lane(number, Protocol::Share);
            let source = ShareSource::join(&self.flow, shared, (&health, &metrics));
            observer.members.push(source.member().to_owned());
            self.add((number, metrics), (source, self.lane_bytes()));
        }
        observer
    }

    /// A lane for the consumer group.
    fn order(&mut self, number: u32, catalog: &Watched) -> Result<(), EngineError> {
        let health = self.lane_health(number);
        // The other half is for what it reads ahead.
        let bytes = self.lane_bytes() / 2;
        let metrics = self.metrics.lane(number, Protocol::Consumer);
        let watched = (&health, &metrics);
        if self.flow.is_read_by_librdkafka() {
            let source = LibrdkafkaSource::join(&self.flow, (number, bytes), catalog.clone(), watched)?;
            self.add((number, metrics), (source, bytes));
        } else {
            let source = ConsumerSource::join(&self.flow, (number, bytes), catalog.clone(), watched);
            self.add((number, metrics), (source, bytes));
        }
        Ok(())
    }

    fn add(&mut self, (number, metrics): (u32, LaneMetrics), (source, bytes_max): (impl Source + 'static, usize)) {
        let health = self.lane_health(number);
        let ends = (source, self.sink(number), self.tolerance(number));
        let lane = Lane::new(ends, (bytes_max, self.brake.clone()), self.wish.clone(), (health, metrics));
        self.lanes.spawn(lane.run());
    }

    fn sink(&self, number: u32) -> Box<dyn Sink> {
        let id = transactional_id(&self.flow.name, self.incarnation, number);
        Box::new(KafkaSink::new(&self.flow, id, self.hop.clone()))
    }

    /// What a lane does with records that it cannot deliver. Its dead letters have a producer of their own: the numbers of these begin
    /// behind those of the lanes, of the observer, and of the lane for compacted topics.
    fn tolerance(&self, lane: u32) -> Tolerance {
        let policy = match &self.flow.errors {
            ErrorsConfig::Stop => Policy::Stop,
            ErrorsConfig::Skip => Policy::Skip,
            ErrorsConfig::DeadLetter(config) => {
                let id = transactional_id(&self.flow.name, self.incarnation, self.flow.lanes + 2 + lane);
                let sink = KafkaSink::new(&self.flow.for_dead_letters(config), id, None);
                let (flow, cluster) = (self.flow.name.clone(), self.flow.source.name.clone());
                Policy::DeadLetter(DeadLetters::new(Box::new(sink), Sender { flow, lane, cluster }))
            }
        };
        let delivery_count_max = i16::try_from(self.flow.group.delivery_count_max).unwrap_or(i16::MAX);
        Tolerance { policy, delivery_count_max }
    }

    fn lane_health(&self, number: u32) -> Health {
        self.health.within(format_args!("lane-{number}"))
    }

    fn lane_bytes(&self) -> usize {
        usize::try_from(self.flow.memory_bytes / u64::from(self.flow.lanes)).unwrap_or(usize::MAX)
    }

    /// Waits for all lanes; returns how many offsets they released unfinished. The first compacted topic of a flow that reads through a
    /// share group brings one more lane, which reads such topics in order.
    async fn work(mut self, mut ordered: Watched) -> Result<u64, Refusal> {
        let mut may_come = self.flow.protocol == Protocol::Share;
        let mut released = 0;
        loop {
            let first = async { ordered.wait_for(|catalog| !catalog.admitted.is_empty()).await.map(drop) };
            tokio::select! {
                ended = self.lanes.join_next() => match ended {
                    Some(ended) => released += ended.expect("lanes don't panic, and nobody aborts them"),
                    None => return Ok(released),
                },
                Ok(()) = first, if may_come => {
                    may_come = false;
                    // The number between is that of the observer's producer.
                    self.order(self.flow.lanes + 1, &ordered)?;
                }
            }
        }
    }
}

/// What must stand before anything is acquired; returns what records are to say of their way. What is refused changes nothing.
async fn prepare(
    flow: &Flow,
    identities: &Identities,
    discovery: &mut Discovery,
    health: &Health,
) -> Result<Option<Hop>, Refusal> {
    let hop = check::admit(flow, identities, health).await?;
    prepare::prepare(flow, discovery, health).await?;
    dead_letters::prepare(flow, health).await;
    discovery.begin().await;
    Ok(flow.hop_header.then_some(hop))
}
