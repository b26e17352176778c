//! Builds the domain types from checked tables.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::document::{Place, Table};
use super::error::{ConfigError, Problem};
use super::relation;
use super::section::{Section, View};
use super::security::build::security;
use super::{
    BridgeConfig, ClusterConfig, Config, ConsumerConfig, DeadLetterConfig, Engine, ErrorsConfig, FlowConfig,
    GroupConfig, LogFormat, OffsetReset, Protocol, RateLimits, Selection, StartPosition, TargetTopicsConfig,
};
use crate::batch::Codec;
use crate::limits::{FLOW_COUNT_MAX, LANE_BYTES_MIN, TRANSACTION_SWEEP};
use crate::route::{Mapping, NamePattern};

/// Clusters by name; `None` is one with errors of its own.
type Clusters = BTreeMap<String, Option<Arc<ClusterConfig>>>;

/// Builds a configuration; it is only valid if `errors` stays empty.
pub(super) fn build(tables: Vec<Table>, errors: &mut Vec<ConfigError>) -> Option<Config> {
    let mut bridge = Section::absent(Place::Bridge);
    let mut defaults = Section::absent(Place::Defaults);
    let mut clusters = Clusters::new();
    let mut flow_sections = Vec::new();
    for table in tables {
        let section = Section::check(table, errors);
        match &section.place {
            Place::Bridge => bridge = section,
            Place::Defaults => defaults = section,
            Place::Cluster(name) => {
                clusters.insert(name.clone(), cluster(name, &section, errors));
            }
            Place::Flow(_) => flow_sections.push(section),
        }
    }
    match flow_sections.len() {
        0 => errors.push(ConfigError::of_file(Problem::NoFlows)),
        1..=FLOW_COUNT_MAX => {}
        count => {
            errors.push(ConfigError::of_file(Problem::TooManyFlows(count)));
            return None;
        }
    }

    let mut flows = Vec::new();
    for section in &flow_sections {
        let view = View { section, defaults: Some(&defaults), errors };
        if let Some(flow) = flow(view, &clusters) {
            relation::check(&flow, section, &flows, errors);
            flows.push(flow);
        }
    }
    relation::check_loops(&flows, &flow_sections, errors);
    let bridge = bridge_config(&bridge, errors)?;
    Some(Config { bridge, flows })
}

fn bridge_config(section: &Section, errors: &mut Vec<ConfigError>) -> Option<BridgeConfig> {
    let mut view = View { section, defaults: None, errors };
    let log_format = view.text("log.format").map(|word| match word.as_str() {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        _ => unreachable!("the table of keys has no other format"),
    });
    Some(BridgeConfig {
        status_address: view.address("status.address")?,
        drain: view.duration("drain.timeout.ms")?,
        log_level: view.text("log.level")?,
        log_format: log_format?,
    })
}

fn cluster(name: &str, section: &Section, errors: &mut Vec<ConfigError>) -> Option<Arc<ClusterConfig>> {
    let mut view = View { section, defaults: None, errors };
    let reconnect_backoff = view.duration("reconnect.backoff.ms");
    let reconnect_backoff_max = view.duration("reconnect.backoff.max.ms");
    if let (Some(first), Some(max)) = (reconnect_backoff, reconnect_backoff_max)
        && max < first
    {
        let problem = Problem::BackoffOrder { max_ms: max.as_millis(), first_ms: first.as_millis() };
        view.report("reconnect.backoff.max.ms", problem);
    }
    let security = security(&mut view);
    Some(Arc::new(ClusterConfig {
        name: name.to_owned(),
        bootstrap: view.list("bootstrap.servers")?,
        client_id: view.text("client.id")?,
        rack: view.optional("client.rack"),
        request_timeout: view.duration("request.timeout.ms")?,
        reconnect_backoff: reconnect_backoff?,
        reconnect_backoff_max: reconnect_backoff_max?,
        security,
    }))
}

/// Reads all keys before it gives up on any, so that every missing one is reported.
fn flow(mut view: View<'_>, clusters: &Clusters) -> Option<FlowConfig> {
    let name = view.section.place.name()?.to_owned();
    let ends = ends(&mut view, clusters);
    let topics = topics(&mut view);
    let topics_refresh = view.duration("topics.refresh.interval.ms");
    let target_topics = target_topics(&mut view);
    let allow_unordered_compacted = view.boolean("allow.unordered.compacted");
    let (protocol, group) = (protocol(&mut view), group(&mut view));
    let consumer = consumer(&mut view);
    check_start(&mut view, protocol);
    let transaction_timeout = view.duration("transaction.timeout.ms");
    let topic_name = topic_name(&mut view);
    let (mapping, codec) = (mapping(&mut view), codec(&mut view));
    let hop_header = view.boolean("sink.hop.header.enable");
    if let (Some(transaction), Some(group)) = (transaction_timeout, &group)
        && transaction + TRANSACTION_SWEEP >= group.lock
    {
        let problem = Problem::TransactionOutlivesLock {
            transaction_ms: transaction.as_millis(),
            sweep_ms: TRANSACTION_SWEEP.as_millis(),
            lock_ms: group.lock.as_millis(),
        };
        view.report("transaction.timeout.ms", problem);
    }
    let (limits, errors) = (limits(&mut view), tolerance(&mut view));
    let (lanes, memory_bytes) = (view.number("lanes.count"), view.number("memory.max.bytes"));
    if let (Some(lanes), Some(bytes)) = (lanes, memory_bytes)
        && bytes / u64::from(lanes) < LANE_BYTES_MIN
    {
        view.report("memory.max.bytes", Problem::MemoryPerLane { bytes, lanes, lane_bytes_min: LANE_BYTES_MIN });
    }
    let (source, sink) = ends?;
    if hop_header == Some(true) && relation::is_same(&source, &sink) {
        view.report("sink.hop.header.enable", Problem::HopWithinCluster);
    }
    let topic_name = topic_name?.within(&source.name, &name);
    let topics = topics?;
    if let Some(ErrorsConfig::DeadLetter(letters)) = &errors
        && letters.is_on_source
        && topics.covers(&letters.topic)
    {
        let problem = Problem::CopiesDeadLetters { topic: letters.topic.clone() };
        view.report("errors.deadletterqueue.topic.name", problem);
    }
    Some(FlowConfig {
        name,
        source,
        sink,
        topics,
        topics_refresh: topics_refresh?,
        target_topics: target_topics?,
        allow_unordered_compacted: allow_unordered_compacted?,
        protocol: protocol?,
        group: group?,
        consumer: consumer?,
        lanes: lanes?,
        memory_bytes: memory_bytes?,
        transaction_timeout: transaction_timeout?,
        errors: errors?,
        limits: limits?,
        topic_name,
        mapping: mapping?,
        codec: codec?,
        hop_header: hop_header?,
    })
}

/// Names and patterns, at least one of them, that don't contradict the exclusions.
fn topics(view: &mut View<'_>) -> Option<Selection> {
    let (names, patterns) = (view.list("topics.names"), view.patterns("topics.regex"));
    let excluded = view.patterns("topics.exclude");
    let (names, patterns, excluded) = (names?, patterns?, excluded?);
    if names.is_empty() && patterns.is_empty() {
        view.report("topics.names", Problem::NoTopics);
        return None;
    }
    if let Some(name) = names.iter().find(|name| excluded.iter().any(|pattern| pattern.is_match(name))) {
        view.report("topics.exclude", Problem::ExcludesNamed(name.clone()));
    }
    Some(Selection { names: names.into_iter().collect(), patterns, excluded })
}

fn target_topics(view: &mut View<'_>) -> Option<TargetTopicsConfig> {
    Some(TargetTopicsConfig {
        create: view.boolean("sink.topic.create.enable")?,
        replication: view.text("sink.topic.create.replication.factor")?.parse().ok(),
        sync: view.boolean("sink.topic.config.sync.enable")?,
        excluded_configs: view.list("sink.topic.config.exclude")?,
    })
}

fn limits(view: &mut View<'_>) -> Option<RateLimits> {
    let (bytes, records) = (view.number("limit.bytes.per.second"), view.number("limit.records.per.second"));
    Some(RateLimits { bytes: NonZeroU64::new(bytes?), records: NonZeroU64::new(records?) })
}

/// A topic for dead letters is no use to a flow that passes nothing over.
fn tolerance(view: &mut View<'_>) -> Option<ErrorsConfig> {
    let (tolerance, topic) = (view.text("errors.tolerance")?, view.optional("errors.deadletterqueue.topic.name"));
    let (replicas, cluster) =
        (view.text("errors.deadletterqueue.topic.replication.factor")?, view.text("errors.deadletterqueue.cluster")?);
    Some(match (tolerance.as_str(), topic) {
        ("none", None) => ErrorsConfig::Stop,
        ("none", Some(_)) => {
            view.report("errors.deadletterqueue.topic.name", Problem::NothingTolerated);
            return None;
        }
        (_, None) => ErrorsConfig::Skip,
        (_, Some(topic)) => ErrorsConfig::DeadLetter(DeadLetterConfig {
            topic,
            replication: replicas.parse().ok(),
            is_on_source: cluster == "source",
        }),
    })
}

fn topic_name(view: &mut View<'_>) -> Option<NamePattern> {
    let text = view.text("sink.topic.name")?;
    Some(NamePattern::parse(&text).expect("the value was checked"))
}

fn mapping(view: &mut View<'_>) -> Option<Mapping> {
    Some(match view.text("sink.partition.mapping")?.as_str() {
        "same" => Mapping::Same,
        "modulo" => Mapping::Modulo,
        "key" => Mapping::Key,
        _ => unreachable!("the table of keys has no other mapping"),
    })
}

/// The outer `None` is a bad value, the inner one leaves records as they are.
fn codec(view: &mut View<'_>) -> Option<Option<Codec>> {
    let name = view.text("compression.type")?;
    Some(Codec::ALL.into_iter().find(|codec| codec.to_string() == name))
}

fn protocol(view: &mut View<'_>) -> Option<Protocol> {
    Some(match view.text("group.protocol")?.as_str() {
        "share" => Protocol::Share,
        "consumer" => Protocol::Consumer,
        _ => unreachable!("the table of keys has no other protocol"),
    })
}

fn consumer(view: &mut View<'_>) -> Option<ConsumerConfig> {
    let engine = view.text("consumer.engine").map(|word| match word.as_str() {
        "auto" => Engine::Auto,
        "native" => Engine::Native,
        "librdkafka" => Engine::Librdkafka,
        _ => unreachable!("the table of keys has no other engine"),
    });
    Some(ConsumerConfig {
        id: view.text("group.id")?,
        instance: view.optional("group.instance.id"),
        engine: engine?,
        session: view.duration("session.timeout.ms")?,
        offset_reset: view.text("auto.offset.reset").and_then(|policy| OffsetReset::parse(&policy))?,
        start: view.start("start.position")?,
    })
}

fn group(view: &mut View<'_>) -> Option<GroupConfig> {
    let (id, offset_reset) = (view.text("share.group.id"), view.text("share.auto.offset.reset"));
    Some(GroupConfig {
        id: id?,
        lock: view.duration("share.acquisition.lock.timeout.ms")?,
        delivery_count_max: view.number("share.max.delivery.count")?,
        record_locks_max: view.number("share.partition.max.record.locks")?,
        offset_reset: offset_reset?,
        start: view.start("start.position")?,
    })
}

/// The start position must not contradict the keys of the group that the flow reads through.
fn check_start(view: &mut View<'_>, protocol: Option<Protocol>) {
    let (id, reset) = match protocol {
        Some(Protocol::Consumer) => ("group.id", "auto.offset.reset"),
        Some(Protocol::Share) | None => ("share.group.id", "share.auto.offset.reset"),
    };
    let start = view.start("start.position");
    if let (Some(start), Some(value)) = (&start, view.text(reset))
        && *start != StartPosition::Auto
        && value != "earliest"
    {
        view.report("start.position", Problem::StartAndReset { key: reset, reset: value });
    }
    if let (Some(StartPosition::Group(other)), Some(id)) = (&start, view.text(id))
        && *other == id
    {
        view.report("start.position", Problem::StartsFromItself { id });
    }
}

/// Finds the two clusters of a flow.
fn ends(view: &mut View<'_>, clusters: &Clusters) -> Option<(Arc<ClusterConfig>, Arc<ClusterConfig>)> {
    let source_name = view.text("source.cluster");
    let sink_name = view.text("sink.cluster");
    let source = known(view, "source.cluster", source_name, clusters);
    let sink = known(view, "sink.cluster", sink_name, clusters);
    Some((source?, sink?))
}

fn known(view: &mut View<'_>, key: &str, name: Option<String>, clusters: &Clusters) -> Option<Arc<ClusterConfig>> {
    let name = name?;
    match clusters.get(&name) {
        Some(cluster) => cluster.clone(),
        None => {
            let known = clusters.keys().cloned().collect();
            view.report(key, Problem::UnknownCluster { name, known });
            None
        }
    }
}
