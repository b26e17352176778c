//! The bridge: builds the lanes of all flows, watches over them, and drains them within the grace period.

use std::sync::{Arc, Mutex};

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::batch::Hop;
use crate::config::{Config, FlowConfig, Loop};
use crate::health::Health;
use crate::lane::{Lane, Wish, told};
use crate::limits::FAREWELL_MAX;
use crate::metrics::{self, FlowMetrics};
use crate::sink::kafka::identity::transactional_id;
use crate::sink::kafka::{KafkaSink, keeper};
use crate::source::share::frontier::Frontiers;
use crate::source::share::group::GroupError;
use crate::source::share::parking::Parking;
use crate::source::share::{Admitted, ShareSource};

pub mod compaction;
pub mod identity;
pub mod observe;
pub mod prepare;

use compaction::Compacted;
use identity::Identities;
use observe::Observer;

/// What runs, for those who look at it from outside.
#[derive(Debug, Clone)]
pub struct View {
    /// What is wrong.
    pub health: Health,
    /// All metrics.
    pub registry: Arc<Mutex<Registry>>,
    /// Flows by name.
    pub flows: Vec<(String, FlowMetrics)>,
}

/// The bridge of one process.
#[derive(Debug)]
pub struct Bridge {
    config: Config,
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
    /// Two names of the file are one cluster, so that records would loop.
    #[error("two names in the file are one cluster, as its id tells, and {0}")]
    Loop(#[from] Loop),
    /// It does not allow what its topics are.
    #[error(transparent)]
    Compacted(#[from] Compacted),
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
        let flows = config.flows.iter();
        let flows = flows.map(|flow| (flow.name.clone(), FlowMetrics::register(&mut registry, &flow.name))).collect();
        let view = View { health: Health::default(), registry: Arc::new(Mutex::new(registry)), flows };
        Self { config, view, wish: watch::Sender::new(Wish::Run) }
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
        let identities = Identities::new(&self.config.flows);
        for (flow, (_, metrics)) in self.config.flows.iter().zip(&self.view.flows) {
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
        if tokio::time::timeout(self.config.bridge.drain, gather(&mut flows, &mut farewell)).await.is_err() {
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
    (flow, identities): (FlowConfig, Identities),
    wish: watch::Receiver<Wish>,
    (health, metrics): (Health, FlowMetrics),
) -> Result<u64, Refusal> {
    let mut stopped = wish.clone();
    health.pending("start", "share group and topics are being prepared");
    let (admitted, hop) = tokio::select! {
        prepared = prepare(&flow, &identities, &health) => prepared?,
        () = told(&mut stopped, Wish::Drain) => return Ok(0),
    };
    let admission = admitted.subscribe();
    let mut watchers = JoinSet::new();
    watchers.spawn(prepare::keep_topics(flow.clone(), health.clone()));
    watchers.spawn(compaction::keep(flow.clone(), admitted, health.clone()));
    watchers.spawn(keeper::keep(flow.clone(), metrics.clone()));
    let incarnation = Uuid::new_v4();
    let (parking, frontiers) = (Parking::default(), Frontiers::default());
    // Its producer follows those of the lanes.
    let sink = KafkaSink::new(&flow, transactional_id(&flow.name, incarnation, flow.lanes), hop.clone());
    let mut observer = Observer::new(&flow, sink, frontiers.clone(), (health.clone(), metrics.clone()));
    let mut lanes = JoinSet::new();
    for number in 0..flow.lanes {
        let health = health.within(format_args!("lane-{number}"));
        let shared = (parking.clone(), frontiers.clone(), admission.clone());
        let source = ShareSource::join(&flow, shared, (&health, &metrics));
        observer.members.push(source.member().to_owned());
        let transactional_id = transactional_id(&flow.name, incarnation, number);
        let sink = KafkaSink::new(&flow, transactional_id, hop.clone());
        let bytes_max = usize::try_from(flow.memory_bytes / u64::from(flow.lanes)).unwrap_or(usize::MAX);
        lanes.spawn(Lane::new((source, sink), bytes_max, wish.clone(), (health, metrics.clone())).run());
    }
    watchers.spawn(observer.run(stopped));
    health.well("start");
    let mut released = 0;
    while let Some(ended) = lanes.join_next().await {
        released += ended.expect("lanes don't panic, and nobody aborts them");
    }
    // The watchers never end by themselves; they end with their set.
    Ok(released)
}

/// What must stand before anything is acquired; returns from which topics that may be, and what records are to say of their way. What is
/// refused changes nothing.
async fn prepare(
    flow: &FlowConfig,
    identities: &Identities,
    health: &Health,
) -> Result<(watch::Sender<Admitted>, Option<Hop>), Refusal> {
    let admitted = compaction::admit(flow, health).await?;
    let hop = identities.learn(flow, health).await?;
    prepare::prepare(flow, health).await?;
    Ok((admitted, flow.hop_header.then_some(hop)))
}
