//! Shows in the metrics how far a group has come.

use std::collections::HashSet;

use tokio::time::Instant;

use super::delay::Delays;
use crate::metrics::{FlowMetrics, PartitionLabels};
use crate::source::group::Standing;

/// See the module.
#[derive(Debug)]
pub(super) struct Lags {
    /// Topic partitions whose lag is shown.
    shown: HashSet<PartitionLabels>,
    delays: Delays,
    metrics: FlowMetrics,
}

impl Lags {
    /// Nothing is known yet.
    pub(super) fn new(metrics: FlowMetrics) -> Self {
        metrics.window.set(-1);
        metrics.backlog.set(-1);
        metrics.delay.set(-1);
        Self { shown: HashSet::new(), delays: Delays::default(), metrics }
    }

    /// Takes note of all of a group's topic partitions.
    pub(super) fn show(&mut self, standings: &[Standing]) {
        let labels =
            |standing: &Standing| PartitionLabels { topic: standing.topic.clone(), partition: standing.partition };
        let lag = |standing: &Standing| {
            let lag = standing.lag.and_then(|lag| i64::try_from(lag).ok());
            self.metrics.lag.get_or_create(&labels(standing)).set(lag.unwrap_or(-1));
            lag
        };
        let lags: Vec<Option<i64>> = standings.iter().map(lag).collect();
        // Deleted topics are not shown for ever.
        let shown: HashSet<PartitionLabels> = standings.iter().map(labels).collect();
        for gone in self.shown.difference(&shown) {
            self.metrics.lag.remove(gone);
        }
        self.shown = shown;
        // A group that the coordinator knows nothing of yet has not done everything.
        let backlog = if lags.is_empty() { None } else { lags.into_iter().sum() };
        self.metrics.backlog.set(backlog.unwrap_or(-1));
        let delay = self.delays.look(Instant::now(), standings);
        self.metrics.delay.set(delay.map_or(-1, |delay| delay.as_secs().cast_signed()));
    }
}
