//! Reads a topic back with librdkafka, which shares no code with the bridge's own client.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::pair::unique;

/// The most records that [`read_all`] holds.
pub const READ_RECORDS_MAX: usize = 1_000_000;

/// How long a broker may take for the next record, or to say that there is none.
const NEXT_DEADLINE: Duration = Duration::from_secs(30);

/// As Kafka's `isolation.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Records of committed transactions, up to the last stable offset.
    Committed,
    /// All records, up to the high watermark.
    Uncommitted,
}

/// A record as a consumer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970, of its creation or of its append, whichever the topic keeps.
    pub timestamp_ms: Option<i64>,
    /// Its key; none and empty differ.
    pub key: Option<Vec<u8>>,
    /// Its value; none is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// All records of a topic, those of one partition in order, at most [`READ_RECORDS_MAX`].
pub fn read_all(bootstrap: &str, topic: &str, isolation: Isolation) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    scan(bootstrap, topic, isolation, |message| {
        if records.len() == READ_RECORDS_MAX {
            bail!("{topic} holds more than {READ_RECORDS_MAX} records: use scan");
        }
        records.push(record(message));
        Ok(())
    })?;
    Ok(records)
}

/// The number of records in a topic, without holding them. Unlike offsets it knows of no markers and gaps.
pub fn count(bootstrap: &str, topic: &str, isolation: Isolation) -> anyhow::Result<u64> {
    let mut records = 0;
    scan(bootstrap, topic, isolation, |_| {
        records += 1;
        Ok(())
    })?;
    Ok(records)
}

/// Shows every record of a topic to `visit`, until each partition is at its end.
///
/// Errors: those of `visit`, which end the scan, or no answer in 30 s.
pub fn scan(
    bootstrap: &str,
    topic: &str,
    isolation: Isolation,
    visit: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    scan_topics(bootstrap, &[topic], isolation, visit)
}

/// Shows every record of several topics to `visit`, as [`scan`] does for one. Where records still come, it may end a little early.
pub fn scan_topics(
    bootstrap: &str,
    topics: &[&str],
    isolation: Isolation,
    mut visit: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let consumer = consumer(bootstrap, isolation)?;
    let mut assignment = TopicPartitionList::new();
    // How many topics are not at their end in a partition of this number: its end is told without the topic.
    let mut unfinished: HashMap<i32, usize> = HashMap::new();
    for topic in topics {
        for partition in partitions(&consumer, topic)? {
            assignment.add_partition_offset(topic, partition, Offset::Beginning)?;
            *unfinished.entry(partition).or_default() += 1;
        }
    }
    consumer.assign(&assignment)?;
    let mut deadline = Instant::now() + NEXT_DEADLINE;
    while !unfinished.is_empty() {
        match consumer.poll(deadline.saturating_duration_since(Instant::now())) {
            Some(Ok(message)) => visit(&message)?,
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                let count = unfinished.remove(&partition).unwrap_or(0);
                unfinished.extend((count > 1).then(|| (partition, count - 1)));
            }
            // librdkafka goes on by itself once a broker is back; until then the deadline stands.
            Some(Err(KafkaError::MessageConsumption(code))) if is_lost_connection(code) => continue,
            Some(Err(error)) => return Err(error).with_context(|| format!("reading {topics:?}")),
            None => bail!("{topics:?}: nothing in {NEXT_DEADLINE:?}, partitions {unfinished:?} are not at their end"),
        }
        deadline = Instant::now() + NEXT_DEADLINE;
    }
    Ok(())
}

fn is_lost_connection(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
}

/// The offset behind the last record of partition 0, 1, ...: the last stable offset if `isolation` is committed.
pub fn end_offsets(bootstrap: &str, topic: &str, isolation: Isolation) -> anyhow::Result<Vec<i64>> {
    Ends::of(bootstrap, topic, isolation)?.now()
}

/// The ends of a topic's partitions, for those who look again and again.
pub struct Ends {
    consumer: BaseConsumer,
    topic: String,
    partitions: Vec<i32>,
}

impl Ends {
    /// As [`end_offsets`].
    pub fn of(bootstrap: &str, topic: &str, isolation: Isolation) -> anyhow::Result<Self> {
        let consumer = consumer(bootstrap, isolation)?;
        let mut partitions = partitions(&consumer, topic)?;
        partitions.sort_unstable();
        Ok(Self { consumer, topic: topic.to_owned(), partitions })
    }

    /// Where they are now.
    pub fn now(&self) -> anyhow::Result<Vec<i64>> {
        let end = |partition: &i32| Ok(self.consumer.fetch_watermarks(&self.topic, *partition, NEXT_DEADLINE)?.1);
        self.partitions.iter().map(end).collect()
    }
}

fn consumer(bootstrap: &str, isolation: Isolation) -> anyhow::Result<BaseConsumer> {
    let isolation = match isolation {
        Isolation::Committed => "read_committed",
        Isolation::Uncommitted => "read_uncommitted",
    };
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", unique("reader"))
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .context("making a consumer")
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> anyhow::Result<Vec<i32>> {
    let metadata = consumer.fetch_metadata(Some(topic), NEXT_DEADLINE)?;
    let topics = metadata.topics();
    let partitions = topics.first().map(|topic| topic.partitions()).unwrap_or_default();
    if partitions.is_empty() {
        bail!("the topic {topic} does not exist");
    }
    Ok(partitions.iter().map(|partition| partition.id()).collect())
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let header =
        |header: rdkafka::message::Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
    Record {
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: message.headers().map(|headers| headers.iter().map(header).collect()).unwrap_or_default(),
    }
}
