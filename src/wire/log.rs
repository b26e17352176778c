//! A partition's log by offset and leader epoch, past the share group (KIP-98, KIP-101, KIP-320).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{
    BrokerId, DescribeLogDirsRequest, FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::batch::Aborted;
use crate::limits::{FETCH_WAIT, REWRITTEN_READ_BYTES};
use crate::wire::client::{Client, TopicInfo};
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};
use crate::wire::fetch::EpochEnd;

/// A consumer, not a replica.
const NO_REPLICA: BrokerId = BrokerId(-1);

/// A leader epoch of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochOf {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Leader epoch.
    pub epoch: i32,
}

/// Where leader epochs end in the log of their leader: the offset behind the last record that was written in that epoch, or in one
/// before where the log has nothing of it. `None` where the log begins later, or the broker cannot tell now.
pub async fn epoch_ends(connection: &Connection, asked: &[EpochOf]) -> Result<Vec<Option<i64>>, WireError> {
    let ends = epochs(connection, asked).await?.into_iter();
    Ok(ends.map(|end| end.map(|end| end.offset).filter(|offset| *offset >= 0)).collect())
}

/// The same, with the epoch that each answer is about: the largest in the log that is not above the one asked for, and -1 where the log
/// knows none, or only of earlier ones. `None` where the broker cannot tell now.
///
/// A broker takes each topic and each partition once in a request, so two epochs of a partition take two requests.
pub async fn epochs(connection: &Connection, asked: &[EpochOf]) -> Result<Vec<Option<EpochEnd>>, WireError> {
    let mut ends = vec![None; asked.len()];
    let mut left: Vec<usize> = (0..asked.len()).collect();
    while !left.is_empty() {
        let mut round: BTreeMap<&str, BTreeMap<i32, usize>> = BTreeMap::new();
        left.retain(|&index| {
            let EpochOf { topic, partition, .. } = &asked[index];
            let place = *round.entry(topic).or_default().entry(*partition).or_insert(index);
            place != index
        });
        let question = |(partition, index): (&i32, &usize)| {
            let epoch = asked[*index].epoch;
            let question = OffsetForLeaderPartition::default().with_partition(*partition).with_leader_epoch(epoch);
            question.with_current_leader_epoch(-1)
        };
        let topic = |(name, partitions): (&&str, &BTreeMap<i32, usize>)| {
            let name = TopicName(StrBytes::from_string((*name).to_owned()));
            OffsetForLeaderTopic::default().with_topic(name).with_partitions(partitions.iter().map(question).collect())
        };
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id(NO_REPLICA)
            .with_topics(round.iter().map(topic).collect());
        for topic in connection.call(&request).await?.topics {
            let Some(indexes) = round.get(&*topic.topic.0) else { continue };
            for answer in topic.partitions.iter().filter(|answer| answer.error_code == 0) {
                if let Some(index) = indexes.get(&answer.partition) {
                    ends[*index] = Some(EpochEnd { epoch: answer.leader_epoch, offset: answer.end_offset });
                }
            }
        }
    }
    Ok(ends)
}

/// A place in a log. Source: ListOffsetsRequest.json.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The first offset that is there.
    Earliest,
    /// Behind the last record that is no part of an open transaction or behind one.
    Stable,
    /// Behind the last record.
    End,
    /// The first record below [`Stable`](Self::Stable) that is not older: milliseconds since 1970.
    At(i64),
}

impl Moment {
    fn timestamp(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::Stable | Self::End => -1,
            Self::At(ms) => ms,
        }
    }

    fn isolation_level(self) -> i8 {
        match self {
            Self::Stable | Self::At(_) => 1,
            Self::Earliest | Self::End => 0,
        }
    }
}

/// Looks a moment up in all partitions of these topics, by topic and partition; those in which there is nothing of it are left out.
///
/// Errors: one of the partitions has no leader, or another one than we know.
pub async fn list_offsets(
    client: &mut Client,
    topics: &[TopicInfo],
    moment: Moment,
) -> Result<BTreeMap<(String, i32), i64>, WireError> {
    let mut led: BTreeMap<i32, BTreeMap<&str, Vec<ListOffsetsPartition>>> = BTreeMap::new();
    for topic in topics {
        for (partition, leader) in (0..).zip(&topic.leaders) {
            let nobody = || WireError::Nobody {
                cluster: client.cluster().into(),
                what: format!("leader of {}-{partition}", topic.name),
            };
            let topics = led.entry(leader.ok_or_else(nobody)?).or_default();
            topics.entry(&topic.name).or_default().push(question(partition, moment));
        }
    }
    let mut offsets = BTreeMap::new();
    for (node, topics) in led {
        let connection = client.broker(node).await?;
        for topic in connection.call(&offsets_request(topics, moment)).await?.topics {
            for answer in topic.partitions {
                if let Some(code) = code_of(answer.error_code) {
                    let what = format!("{}-{}", &*topic.name.0, answer.partition_index);
                    return Err(connection.answered("ListOffsets", &what, (code, None)));
                }
                if answer.offset >= 0 {
                    offsets.insert((topic.name.0.to_string(), answer.partition_index), answer.offset);
                }
            }
        }
    }
    Ok(offsets)
}

/// Where logs begin and end, by topic and partition, as the leader at the other end of `connection` says; those that it cannot tell of
/// now are left out.
pub async fn bounds(
    connection: &Connection,
    asked: &[(&str, i32)],
) -> Result<BTreeMap<(String, i32), (i64, i64)>, WireError> {
    let mut starts = offsets_at(connection, asked, Moment::Earliest).await?;
    let ends = offsets_at(connection, asked, Moment::End).await?;
    Ok(ends.into_iter().filter_map(|(at, end)| Some((starts.remove(&at)?, end)).map(|bounds| (at, bounds))).collect())
}

async fn offsets_at(
    connection: &Connection,
    asked: &[(&str, i32)],
    moment: Moment,
) -> Result<BTreeMap<(String, i32), i64>, WireError> {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for &(topic, partition) in asked {
        topics.entry(topic).or_default().push(question(partition, moment));
    }
    let reply = connection.call(&offsets_request(topics, moment)).await?;
    let answers = reply.topics.into_iter().flat_map(|topic| {
        let known = topic.partitions.into_iter().filter(|answer| answer.error_code == 0 && answer.offset >= 0);
        known.map(move |answer| ((topic.name.0.to_string(), answer.partition_index), answer.offset))
    });
    Ok(answers.collect())
}

fn question(partition: i32, moment: Moment) -> ListOffsetsPartition {
    let question = ListOffsetsPartition::default().with_partition_index(partition);
    question.with_current_leader_epoch(-1).with_timestamp(moment.timestamp())
}

fn offsets_request(topics: BTreeMap<&str, Vec<ListOffsetsPartition>>, moment: Moment) -> ListOffsetsRequest {
    let topic = |(name, partitions): (&str, _)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        ListOffsetsTopic::default().with_name(name).with_partitions(partitions)
    };
    ListOffsetsRequest::default()
        .with_replica_id(NO_REPLICA)
        .with_isolation_level(moment.isolation_level())
        .with_topics(topics.into_iter().map(topic).collect())
}

/// How many bytes the logs of these topics take on their leaders, by topic and partition.
///
/// Errors: DESCRIBE on the cluster is not allowed, or a broker does not answer.
pub async fn sizes(client: &mut Client, topics: &[TopicInfo]) -> Result<BTreeMap<(String, i32), u64>, WireError> {
    let leaders: HashMap<&str, &TopicInfo> = topics.iter().map(|topic| (topic.name.as_str(), topic)).collect();
    let leader = |topic: &str, partition: i32| Some(leaders.get(topic)?.leadership(partition)?.0);
    let nodes: BTreeSet<i32> = topics.iter().flat_map(|topic| topic.leaders.iter().copied().flatten()).collect();
    let mut sizes = BTreeMap::new();
    for node in nodes {
        let connection = client.broker(node).await?;
        let reply = connection.call(&DescribeLogDirsRequest::default().with_topics(None)).await?;
        if let Some(code) = code_of(reply.error_code) {
            return Err(connection.answered("DescribeLogDirs", "sizes of logs", (code, None)));
        }
        for topic in reply.results.into_iter().flat_map(|folder| folder.topics) {
            for partition in topic.partitions {
                if leader(&topic.name.0, partition.partition_index) == Some(node) && !partition.is_future_key {
                    let at = (topic.name.0.to_string(), partition.partition_index);
                    sizes.insert(at, u64::try_from(partition.partition_size).unwrap_or(0));
                }
            }
        }
    }
    Ok(sizes)
}

/// What a read has brought.
#[derive(Debug)]
pub struct LogRead {
    /// Record batches below the last stable offset, from the one that holds the offset on; the last one may be cut.
    pub records: Bytes,
    /// Transactions in them that were aborted.
    pub aborted: Vec<Aborted>,
    /// Where the log begins.
    pub start_offset: i64,
}

/// Reads a partition from `offset` on, at least one whole record batch if there is one below the last stable offset.
pub async fn read_log(
    connection: &Connection,
    (topic, partition): (Uuid, i32),
    offset: i64,
) -> Result<LogRead, WireError> {
    let wanted = FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(REWRITTEN_READ_BYTES);
    let request = FetchRequest::default()
        .with_replica_id(NO_REPLICA)
        .with_max_wait_ms(i32::try_from(FETCH_WAIT.as_millis()).unwrap_or(i32::MAX))
        .with_min_bytes(1)
        .with_max_bytes(REWRITTEN_READ_BYTES)
        .with_isolation_level(1)
        .with_session_epoch(-1)
        .with_topics(vec![FetchTopic::default().with_topic_id(topic).with_partitions(vec![wanted])]);
    let reply = connection.call(&request).await?;
    let what = format!("partition {partition} of topic {topic}");
    let mut partitions = reply.responses.into_iter().flat_map(|topic| topic.partitions);
    let found = partitions.find(|found| found.partition_index == partition);
    let code = code_of(reply.error_code).or_else(|| code_of(found.as_ref()?.error_code));
    match (found, code) {
        (Some(found), None) => {
            let aborted = found.aborted_transactions.unwrap_or_default().into_iter();
            let aborted =
                aborted.map(|a| Aborted { producer_id: a.producer_id.0, first_offset: a.first_offset }).collect();
            let records = found.records.unwrap_or_default();
            Ok(LogRead { records, aborted, start_offset: found.log_start_offset })
        }
        (_, code) => Err(connection.answered("Fetch", &what, (code.unwrap_or(Code::UnknownServerError), None))),
    }
}
