//! The configuration: TOML whose dotted keys are Kafka's own property names, validated into domain types.

mod build;
mod document;
mod error;
mod key;
mod loops;
mod nearest;
mod offset_reset;
#[cfg(test)]
mod reference;
mod relation;
mod section;
mod shown;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use error::ConfigErrors;
use error::{ConfigError, Problem};
pub use loops::{Loop, find as find_loop};

use crate::batch::Codec;
use crate::limits::CONFIG_BYTES_MAX;
use crate::route::{self, Mapping, NamePattern, RouteError};

/// A validated configuration file: every value is in its range and nothing contradicts anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What concerns the process as a whole.
    pub bridge: BridgeConfig,
    /// The flows, at least one, in the order of the file; names are unique.
    pub flows: Vec<FlowConfig>,
}

/// Settings of the process, from the table `[bridge]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Where the status server listens: `status.address`.
    pub status_address: SocketAddr,
    /// Longest time for flows to finish what they hold at shutdown: `drain.timeout.ms`.
    pub drain: Duration,
    /// Directives for tracing's `EnvFilter`: `log.level`.
    pub log_level: String,
    /// Shape of a log line: `log.format`.
    pub log_format: LogFormat,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How to reach one Kafka cluster, from a table `[clusters.<name>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The name of the table.
    pub name: String,
    /// First brokers to ask, each `host:port` with IPv6 hosts in brackets; at least one: `bootstrap.servers`.
    pub bootstrap: Vec<String>,
    /// Name of this client in the broker's logs and quotas: `client.id`.
    pub client_id: String,
    /// Longest wait for the answer to one request: `request.timeout.ms`.
    pub request_timeout: Duration,
    /// First wait before connecting again: `reconnect.backoff.ms`.
    pub reconnect_backoff: Duration,
    /// Longest wait before connecting again, at least `reconnect_backoff`: `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Duration,
}

/// One flow of topics from a source to a sink, from a table `[flows.<name>]` over `[defaults]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowConfig {
    /// The name of the table: 1 to 100 characters of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// The cluster that is read: `source.cluster`.
    pub source: Arc<ClusterConfig>,
    /// The cluster that is written; the source only where every topic gets another name: `sink.cluster`.
    pub sink: Arc<ClusterConfig>,
    /// Topics to copy, at least one, without duplicates: `topics.names`.
    pub topics: Vec<String>,
    /// Whether compacted topics are copied, although order is not kept: `allow.unordered.compacted`.
    pub allow_unordered_compacted: bool,
    /// The share group on the source.
    pub group: GroupConfig,
    /// Members of the group that this process runs: `lanes.count`.
    pub lanes: u32,
    /// Bytes of records that the lanes of this flow may hold together: `memory.max.bytes`.
    pub memory_bytes: u64,
    /// Longest time for one transaction on the sink: `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// How topics are called on the sink: `sink.topic.name`.
    pub topic_name: NamePattern,
    /// Into which partitions records go there: `sink.partition.mapping`.
    pub mapping: Mapping,
    /// How records are compressed there; `None` leaves them as they are: `compression.type`.
    pub codec: Option<Codec>,
    /// Whether each record says through which clusters it has come, and none goes where it has been: `sink.hop.header.enable`.
    pub hop_header: bool,
}

/// A share group and what the broker shall hold it to (KIP-932, KIP-1302).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// The group's id: `share.group.id`.
    pub id: String,
    /// How long an acquired record stays ours without renewal: `share.acquisition.lock.timeout.ms`.
    pub lock: Duration,
    /// Deliveries of a record before the broker archives it: `share.max.delivery.count`.
    pub delivery_count_max: u32,
    /// Records of one partition that may be in flight: `share.partition.max.record.locks`.
    pub record_locks_max: u32,
    /// Where a new group starts, in Kafka's words `earliest`, `latest` or `by_duration:<ISO-8601>`:
    /// `share.auto.offset.reset`.
    pub offset_reset: String,
}

impl Config {
    /// Reads and validates a file.
    ///
    /// Errors: all that is wrong with the file at once.
    pub fn load(file: &Path) -> Result<Self, ConfigErrors> {
        let text = read(file).map_err(|problem| ConfigErrors::new(file, vec![ConfigError::of_file(problem)]))?;
        Self::parse(file, &text)
    }

    /// Validates the text of a file; the path only appears in errors.
    ///
    /// Errors: all that is wrong with the text at once.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let config = document::read(text, &mut errors).and_then(|tables| build::build(tables, &mut errors));
        match config {
            Some(config) if errors.is_empty() => Ok(config),
            _ => Err(ConfigErrors::new(file, errors)),
        }
    }
}

impl FlowConfig {
    /// Whether the flow copies a topic of its source.
    pub fn covers(&self, topic: &str) -> bool {
        self.topics.iter().any(|name| name == topic)
    }

    /// Where a source topic goes; what it meets there is not looked at.
    pub fn target(&self, topic: &str) -> Result<String, RouteError> {
        self.topic_name.target(topic, |_| None)
    }

    /// Where each of these source topics goes: see [`route::targets`].
    pub fn targets<'a>(&self, topics: impl Iterator<Item = &'a str>) -> BTreeMap<String, Result<String, RouteError>> {
        route::targets(topics, |topic| self.target(topic))
    }
}

fn read(file: &Path) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(Problem::Unreadable)?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(Problem::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| Problem::NotUtf8)
}
