//! What can go wrong between us and a broker.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::BROKER_WORDS_CHARS_MAX;
use crate::wire::rights::missing;

/// A broker's error code. Source: Kafka's protocol errors.
pub use kafka_protocol::error::ResponseError as Code;

/// A failed exchange with a broker, with the place where it happened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// No TCP connection.
    #[error("{place}: cannot connect: {cause}")]
    Connect {
        /// Where: cluster and address.
        place: Place,
        /// Why.
        cause: Arc<std::io::Error>,
    },
    /// The connection ended with the request unanswered: whether it was carried out is unknown.
    #[error("{place}: connection lost: {cause}")]
    Lost {
        /// Where: cluster and address.
        place: Place,
        /// Why.
        cause: Arc<str>,
    },
    /// No reply in time: whether the request was carried out is unknown.
    #[error("{place}: {api} v{version}: no reply within {} ms", waited.as_millis())]
    Timeout {
        /// Where: cluster and address.
        place: Place,
        /// The request.
        api: &'static str,
        /// Its version.
        version: i16,
        /// How long was waited.
        waited: Duration,
    },
    /// A reply that does not follow its schema, or breaks one of our bounds.
    #[error("{place}: {api} v{version}: malformed reply: {cause}")]
    Malformed {
        /// Where: cluster and address.
        place: Place,
        /// The request.
        api: &'static str,
        /// Its version.
        version: i16,
        /// What is wrong with it.
        cause: String,
    },
    /// A request that could not be built.
    #[error("{place}: {api} v{version}: cannot encode the request: {cause}")]
    Encode {
        /// Where: cluster and address.
        place: Place,
        /// The request.
        api: &'static str,
        /// Its version.
        version: i16,
        /// What is wrong with it.
        cause: String,
    },
    /// Broker and bridge have no version of the request in common.
    #[error("{place}: this broker offers {api} in versions {theirs}, sharebridge needs {ours}: {remedy}")]
    Unsupported {
        /// Where: cluster and address.
        place: Place,
        /// The request, or the feature.
        api: &'static str,
        /// Versions that the bridge speaks, as `min-max`.
        ours: String,
        /// Versions that the broker speaks, or `none`.
        theirs: String,
        /// What to do.
        remedy: String,
    },
    /// The broker answered with an error code.
    #[error("{place}: {api} ({what}): {code}{}{}", detail(message), remedy(api, *code))]
    Answered {
        /// Where: cluster and address.
        place: Place,
        /// The request.
        api: &'static str,
        /// What was asked for, e.g. a topic partition or a group.
        what: String,
        /// The broker's code.
        code: Code,
        /// The broker's own words, if any.
        message: Option<String>,
    },
    /// No TLS with this broker.
    #[error("{place}: no TLS connection: {why}; {remedy}")]
    Tls {
        /// Where: cluster and address.
        place: Place,
        /// Why.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Our own certificates or keys are unusable.
    #[error("{place}: {why}")]
    Security {
        /// Where: cluster and address.
        place: Place,
        /// Which key of the configuration, why, and what to do.
        why: String,
    },
    /// The broker does not take us for who we say we are, or cannot prove who it is.
    #[error("{place}: not authenticated by {mechanism} as {user}: {cause}; {remedy}")]
    Unauthenticated {
        /// Where: cluster and address.
        place: Place,
        /// `sasl.mechanism`.
        mechanism: &'static str,
        /// User or client id.
        user: String,
        /// Why.
        cause: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The cluster does not know a leader, coordinator or broker that is needed.
    #[error("cluster {cluster}: no {what} known")]
    Nobody {
        /// The cluster's name in the configuration.
        cluster: Arc<str>,
        /// Who is missing.
        what: String,
    },
}

fn detail(message: &Option<String>) -> String {
    message.as_ref().filter(|text| !text.is_empty()).map(|text| format!(": {text}")).unwrap_or_default()
}

fn remedy(api: &str, code: Code) -> String {
    missing(api, code).map(|right| format!("; grant {right}")).unwrap_or_default()
}

impl WireError {
    /// The broker's code, where it answered with one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Answered { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// Cluster and broker address, as errors and logs name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The cluster's name in the configuration.
    pub cluster: Arc<str>,
    /// `host:port`.
    pub address: Arc<str>,
}

impl Place {
    /// The host of the address: a name, or an IP address, of version 6 in brackets.
    pub fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cluster {} ({})", self.cluster, self.address)
    }
}

/// A broker's words as they may stand in a log: one line of bounded length.
pub(crate) fn tame(words: String) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    words.chars().take(BROKER_WORDS_CHARS_MAX).map(visible).collect()
}

/// The code of a reply field: `None` for 0. A code that this build has no name for is kept by number.
pub fn code_of(error_code: i16) -> Option<Code> {
    use kafka_protocol::error::ParseResponseErrorCode;
    error_code.err()
}
