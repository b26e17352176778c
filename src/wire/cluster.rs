//! A cluster as a running thing: what all of its clients in this process share.

use std::ops::Deref;
use std::sync::Arc;

use crate::config::ClusterConfig;
use crate::metrics::ClusterMetrics;
use crate::wire::sasl::Sasl;
use crate::wire::tls::Tls;

/// One cluster of the configuration, built once for the process. It reads like its configuration.
#[derive(Debug)]
pub struct Cluster {
    config: Arc<ClusterConfig>,
    /// What is counted of its connections.
    pub metrics: ClusterMetrics,
    /// `None` without TLS.
    pub tls: Option<Arc<Tls>>,
    /// `None` without SASL.
    pub sasl: Option<Sasl>,
}

impl Cluster {
    /// A cluster that nobody has spoken to yet.
    pub fn new(config: Arc<ClusterConfig>, metrics: ClusterMetrics) -> Arc<Self> {
        let security = &config.security;
        let (tls, sasl) = (security.tls.clone().map(Tls::new), security.sasl.clone().map(Sasl::new));
        Arc::new(Self { config, metrics, tls, sasl })
    }
}

impl Cluster {
    /// Whether certificates, keys and secrets can be used as they are, without reaching the cluster.
    ///
    /// Errors: which key of the configuration, why, and what to do.
    pub fn check(&self) -> Result<(), String> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.check()).map_err(|fault| fault.to_string())?;
        self.sasl.as_ref().map_or(Ok(()), Sasl::check).map_err(|error| error.to_string())
    }
}

impl Deref for Cluster {
    type Target = ClusterConfig;

    fn deref(&self) -> &ClusterConfig {
        &self.config
    }
}
