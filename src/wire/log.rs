//! A partition's log by offset and leader epoch, past the share group (KIP-98, KIP-101, KIP-320).

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, OffsetForLeaderEpochRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::batch::Aborted;
use crate::limits::{FETCH_WAIT, REWRITTEN_READ_BYTES};
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};

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
    let topic = |of: &EpochOf| {
        let partition = OffsetForLeaderPartition::default().with_partition(of.partition).with_leader_epoch(of.epoch);
        OffsetForLeaderTopic::default()
            .with_topic(TopicName(StrBytes::from_string(of.topic.clone())))
            .with_partitions(vec![partition.with_current_leader_epoch(-1)])
    };
    let request = OffsetForLeaderEpochRequest::default()
        .with_replica_id(NO_REPLICA)
        .with_topics(asked.iter().map(topic).collect());
    let reply = connection.call(&request).await?;
    let answers = reply.topics.iter().flat_map(|topic| topic.partitions.iter().map(|answer| (&*topic.topic.0, answer)));
    let answers: Vec<_> = answers.filter(|(_, answer)| answer.error_code == 0 && answer.end_offset >= 0).collect();
    let end = |of: &EpochOf| {
        let found = answers.iter().find(|(topic, answer)| *topic == of.topic && answer.partition == of.partition);
        found.map(|(_, answer)| answer.end_offset)
    };
    Ok(asked.iter().map(end).collect())
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
