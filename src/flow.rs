//! A flow as a running thing: its configuration, with the clusters at its two ends.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::config::{ClusterConfig, Config, ConfigErrors, DeadLetterConfig, FlowConfig};
use crate::metrics::ClusterMetrics;
use crate::wire::Cluster;

/// One flow of the configuration. It reads like its configuration, except that its ends are clusters that can be spoken to.
#[derive(Debug, Clone)]
pub struct Flow {
    config: Arc<FlowConfig>,
    /// The cluster that is read.
    pub source: Arc<Cluster>,
    /// The cluster that is written.
    pub sink: Arc<Cluster>,
}

impl Flow {
    /// The flows of a configuration. Those that name the same cluster share it.
    pub fn all(configs: Vec<FlowConfig>, registry: &mut Registry) -> Vec<Self> {
        let mut clusters = BTreeMap::new();
        let mut cluster = |config: &Arc<ClusterConfig>| {
            let known = clusters.entry(config.name.clone());
            let new = || Cluster::new(config.clone(), ClusterMetrics::register(registry, &config.name));
            Arc::clone(known.or_insert_with(new))
        };
        let flow = |config: FlowConfig| {
            let (source, sink) = (cluster(&config.source), cluster(&config.sink));
            Self { config: Arc::new(config), source, sink }
        };
        configs.into_iter().map(flow).collect()
    }

    /// The same flow as it writes its dead letters.
    pub fn for_dead_letters(&self, letters: &DeadLetterConfig) -> Self {
        let sink = if letters.is_on_source { &self.source } else { &self.sink };
        let config = Arc::new(self.config.for_dead_letters(&letters.topic));
        Self { config, source: self.source.clone(), sink: sink.clone() }
    }
}

/// Whether all that the clusters of a configuration name can be used, such as certificates; no cluster is reached.
pub fn check(file: &Path, config: &Config) -> Result<(), ConfigErrors> {
    let flows = Flow::all(config.flows.clone(), &mut Registry::default());
    let ends = flows.iter().flat_map(|flow| [&flow.source, &flow.sink]);
    let clusters: BTreeMap<&str, &Arc<Cluster>> = ends.map(|cluster| (cluster.name.as_str(), cluster)).collect();
    let wrong = clusters.iter().filter_map(|(name, cluster)| Some(((*name).to_owned(), cluster.check().err()?)));
    let wrong: Vec<(String, String)> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(ConfigErrors::of_clusters(file, wrong)) }
}

impl Deref for Flow {
    type Target = FlowConfig;

    fn deref(&self) -> &FlowConfig {
        &self.config
    }
}
