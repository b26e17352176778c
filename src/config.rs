//! The configuration: TOML whose dotted keys are Kafka's own property names, validated into domain types.

mod build;
mod copied;
mod document;
mod error;
mod key;
pub mod librdkafka;
mod loops;
mod nearest;
mod needless;
mod offset_reset;
#[cfg(test)]
mod reference;
mod relation;
mod scope;
pub mod secret;
mod section;
pub mod security;
mod selection;
mod shown;
mod start_position;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use copied::{COPIED_CONFIGS, Copied};
pub use error::ConfigErrors;
use error::{ConfigError, Problem};
pub use loops::{Loop, find as find_loop};
pub use offset_reset::OffsetReset;
pub use secret::Secret;
use security::SecurityConfig;
pub use selection::{Cover, Pattern, Selection};
pub use start_position::StartPosition;

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
    /// Rack of this client, for reads from a replica there: `client.rack`.
    pub rack: Option<String>,
    /// Longest wait for the answer to one request: `request.timeout.ms`.
    pub request_timeout: Duration,
    /// First wait before connecting again: `reconnect.backoff.ms`.
    pub reconnect_backoff: Duration,
    /// Longest wait before connecting again, at least `reconnect_backoff`: `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Duration,
    /// How connections are protected: `security.protocol`, and all keys that begin with `ssl.` or `sasl.`.
    pub security: SecurityConfig,
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
    /// Topics to copy, at least a name or a pattern.
    pub topics: Selection,
    /// Pause between two looks at the topics of both clusters: `topics.refresh.interval.ms`.
    pub topics_refresh: Duration,
    /// What sharebridge may do to topics of the target.
    pub target_topics: TargetTopicsConfig,
    /// Whether compacted topics are copied, although order is not kept: `allow.unordered.compacted`.
    pub allow_unordered_compacted: bool,
    /// How topics are read: `group.protocol`.
    pub protocol: Protocol,
    /// The share group on the source.
    pub group: GroupConfig,
    /// The consumer group on the source.
    pub consumer: ConsumerConfig,
    /// Members of the group that this process runs: `lanes.count`.
    pub lanes: u32,
    /// Bytes of records that the lanes of this flow may hold together: `memory.max.bytes`.
    pub memory_bytes: u64,
    /// Longest time for one transaction on the sink: `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// What becomes of records that cannot be delivered.
    pub errors: ErrorsConfig,
    /// What the lanes of this flow may copy in a second, together.
    pub limits: RateLimits,
    /// How topics are called on the sink: `sink.topic.name`.
    pub topic_name: NamePattern,
    /// Into which partitions records go there: `sink.partition.mapping`.
    pub mapping: Mapping,
    /// How records are compressed there; `None` leaves them as they are: `compression.type`.
    pub codec: Option<Codec>,
    /// Whether each record says through which clusters it has come, and none goes where it has been: `sink.hop.header.enable`.
    pub hop_header: bool,
}

/// What sharebridge may do to topics of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetTopicsConfig {
    /// Whether missing topics and partitions are created: `sink.topic.create.enable`.
    pub create: bool,
    /// Replicas of created topics; `None` leaves them to the target's brokers: `sink.topic.create.replication.factor`.
    pub replication: Option<i16>,
    /// Whether configs follow the source's: `sink.topic.config.sync.enable`.
    pub sync: bool,
    /// Which of [`COPIED_CONFIGS`] are left alone: `sink.topic.config.exclude`.
    pub excluded_configs: Vec<String>,
}

impl TargetTopicsConfig {
    /// The configs that target topics take from their sources.
    pub fn copied(&self) -> impl Iterator<Item = (&'static str, Copied)> {
        let is_excluded = |name: &str| self.excluded_configs.iter().any(|excluded| excluded == name);
        COPIED_CONFIGS.iter().map(|(name, when, _)| (*name, *when)).filter(move |(name, _)| !is_excluded(name))
    }
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
    /// Where a new group is put before its first member joins: `start.position`. Unless it is `Auto`, the reset policy is `earliest`.
    pub start: StartPosition,
}

/// What becomes of records that cannot be delivered (KIP-298): `errors.tolerance`, and the keys of `errors.deadletterqueue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorsConfig {
    /// They are held, and their topic partition with them.
    Stop,
    /// They are passed over.
    Skip,
    /// They are passed over once a dead letter is written.
    DeadLetter(DeadLetterConfig),
}

/// Where dead letters go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterConfig {
    /// The topic: `errors.deadletterqueue.topic.name`.
    pub topic: String,
    /// Its replicas where it is created; `None` leaves them to the brokers: `errors.deadletterqueue.topic.replication.factor`.
    pub replication: Option<i16>,
    /// Whether it stands on the source, and not on the sink: `errors.deadletterqueue.cluster`.
    pub is_on_source: bool,
}

/// How a flow reads a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Through a share group (KIP-932): any number of workers, no order.
    Share,
    /// Through a consumer group: each partition in order, by one lane at a time.
    Consumer,
}

impl Protocol {
    /// The word in the configuration, and in what is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Consumer => "consumer",
        }
    }
}

/// Who reads for a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The native one wherever it can connect.
    Auto,
    /// Our own client: whole record batches.
    Native,
    /// librdkafka: decoded records.
    Librdkafka,
}

/// A consumer group on the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// The group's id: `group.id`.
    pub id: String,
    /// Name of this process, whose lanes are static members (KIP-345): `group.instance.id`.
    pub instance: Option<String>,
    /// Who reads: `consumer.engine`.
    pub engine: Engine,
    /// Silence after which a member counts as dead under the classic protocol: `session.timeout.ms`.
    pub session: Duration,
    /// Where a partition begins for which nothing is committed: `auto.offset.reset`.
    pub offset_reset: OffsetReset,
    /// Where a new group is put before its first member joins: `start.position`.
    pub start: StartPosition,
}

/// What a flow may copy in a second, in one process; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Bytes of record batches, compressed as they are: `limit.bytes.per.second`.
    pub bytes: Option<NonZeroU64>,
    /// Records: `limit.records.per.second`.
    pub records: Option<NonZeroU64>,
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
    /// The same flow as it writes dead letters: each into this topic, as it is.
    pub fn for_dead_letters(&self, topic: &str) -> Self {
        let topic_name = NamePattern::constant(topic);
        Self { topic_name, mapping: Mapping::Modulo, codec: None, hop_header: false, ..self.clone() }
    }

    /// Whether librdkafka reads for the consumer group, and not our own client.
    pub fn is_read_by_librdkafka(&self) -> bool {
        self.consumer.engine == Engine::Librdkafka
    }

    /// Whether the flow copies a topic of its source.
    pub fn covers(&self, topic: &str) -> bool {
        self.topics.covers(topic)
    }

    /// Where a source topic goes; what it meets there is not looked at.
    pub fn target(&self, topic: &str) -> Result<String, RouteError> {
        let captures = self.topics.captures(topic);
        self.topic_name.target(topic, |group| captures.as_ref()?.get(group))
    }

    /// A group that the name pattern wants and a pattern of topics lacks, with that pattern.
    fn uncaptured(&self) -> Option<(String, String)> {
        self.topic_name.groups().find_map(|group| {
            let pattern = self.topics.patterns.iter().find(|pattern| !pattern.has_group(group))?;
            Some((group.to_owned(), pattern.text().to_owned()))
        })
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
