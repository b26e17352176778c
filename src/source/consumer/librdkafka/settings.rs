//! What librdkafka is told before it begins.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::BaseConsumer;

use super::context::Context;
use super::{Command, EngineError, words};
use crate::config::FlowConfig;
use crate::config::librdkafka::{Untold, properties};
use crate::flow::Flow;
use crate::limits::{
    CLASSIC_HEARTBEAT_MAX, ENGINE_FETCH_BYTES_MAX, ENGINE_FETCH_BYTES_MIN, HEARTBEATS_PER_SESSION,
    READ_AHEAD_KBYTES_MAX, READ_AHEAD_KBYTES_MIN, READ_AHEAD_PARTITIONS, READ_AHEAD_RECORDS_MAX,
};

/// A consumer of a lane.
pub(super) type Consumer = BaseConsumer<Context>;

/// A consumer that has not joined yet. It wakes the thread with [`Command::Wake`] whenever it has something.
pub(super) fn consumer(flow: &Flow, lane: (u32, usize), wake: Sender<Command>) -> Result<Arc<Consumer>, EngineError> {
    let mut config = ClientConfig::new();
    config.extend(settings(flow, lane)?);
    let created: Result<Consumer, _> = config.create_with_context(Context::new(wake));
    let mut consumer =
        created.map_err(|error| EngineError::Settings { cluster: flow.source.name.clone(), cause: words(&error) })?;
    let context = rdkafka::consumer::Consumer::context(&consumer).clone();
    consumer.set_nonempty_callback(move || context.wake());
    Ok(Arc::new(consumer))
}

/// Properties of a lane's consumer, which may read about so many bytes ahead.
fn settings(flow: &FlowConfig, (lane, bytes): (u32, usize)) -> Result<Vec<(String, String)>, Untold> {
    let (cluster, group) = (&*flow.source, &flow.consumer);
    let mut settings = properties(cluster)?;
    let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
    let ms = |duration: Duration| duration.as_millis().to_string();
    set("bootstrap.servers", cluster.bootstrap.join(","));
    set("client.id", cluster.client_id.clone());
    if let Some(rack) = &cluster.rack {
        set("client.rack", rack.clone());
    }
    set("reconnect.backoff.ms", ms(cluster.reconnect_backoff));
    set("reconnect.backoff.max.ms", ms(cluster.reconnect_backoff_max));
    set("group.id", group.id.clone());
    if let Some(instance) = &group.instance {
        set("group.instance.id", format!("{instance}-{lane}"));
    }
    // The classic protocol, which every broker speaks; groups of KIP-848 take its members, too.
    set("partition.assignment.strategy", "cooperative-sticky".to_owned());
    set("session.timeout.ms", ms(group.session));
    set("heartbeat.interval.ms", ms(beat(group.session)));
    set("isolation.level", "read_committed".to_owned());
    set("check.crcs", "true".to_owned());
    set("enable.auto.commit", "false".to_owned());
    set("enable.auto.offset.store", "false".to_owned());
    // Where to begin is decided in `position.rs`: librdkafka would pass over what an unclean leader election has rewritten.
    set("auto.offset.reset", "error".to_owned());
    set("topic.metadata.refresh.interval.ms", ms(flow.topics_refresh));
    // The default of one second idles a reader whenever it has caught up with what was read ahead.
    set("fetch.queue.backoff.ms", "10".to_owned());
    let kbytes = read_ahead_kbytes(bytes);
    set("queued.max.messages.kbytes", kbytes.to_string());
    set("queued.min.messages", READ_AHEAD_RECORDS_MAX.to_string());
    set("fetch.message.max.bytes", (kbytes * 1024).to_string());
    set("fetch.max.bytes", bytes.clamp(ENGINE_FETCH_BYTES_MIN, ENGINE_FETCH_BYTES_MAX).to_string());
    Ok(settings)
}

/// Time between two heartbeats.
pub(super) fn beat(session: Duration) -> Duration {
    (session / HEARTBEATS_PER_SESSION).min(CLASSIC_HEARTBEAT_MAX)
}

/// KiB that are read ahead of each partition: with so many partitions, a lane reads as much ahead as it may.
fn read_ahead_kbytes(bytes: usize) -> usize {
    (bytes / READ_AHEAD_PARTITIONS / 1024).clamp(READ_AHEAD_KBYTES_MIN, READ_AHEAD_KBYTES_MAX)
}
