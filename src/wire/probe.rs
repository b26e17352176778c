//! Questions that change nothing: what would be allowed, and how far away a cluster is.

use std::time::Duration;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{FetchRequest, ListGroupsRequest, MetadataRequest, TopicName};
use tokio::time::Instant;
use uuid::Uuid;

use crate::limits::PROBES_OF_DISTANCE;
use crate::wire::admin::text;
use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};
use crate::wire::offsets::{Committed, commit, committed};
use crate::wire::share::heartbeat;
use crate::wire::transaction::{Producer, end_txn};

/// A topic that cannot exist, since nobody would create it: what is asked about it goes no further than the rights on a group.
const NO_TOPIC: &str = "sharebridge.probe.no-such-topic";

/// An operation on a topic. Source: `AclOperation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// To read records.
    Read = 3,
    /// To write records.
    Write = 4,
}

/// The operations that a user may do on a topic: bits of `AclOperation` codes (KIP-430).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed(i32);

impl Allowed {
    /// Whether an operation is among them. A broker that does not tell allows what it will not refuse.
    pub fn has(self, operation: Operation) -> bool {
        self.0 == i32::MIN || self.0 & (1 << operation as i32) != 0
    }
}

/// What the user may do on each of some topics; topics that do not exist, or may not be described, are left out.
pub async fn allowed(client: &mut Client, topics: &[String]) -> Result<Vec<(String, Allowed)>, WireError> {
    let wanted = |name: &String| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
    let request = MetadataRequest::default()
        .with_topics(Some(topics.iter().map(wanted).collect()))
        .with_allow_auto_topic_creation(false)
        .with_include_topic_authorized_operations(true);
    let reply = client.anybody().await?.call(&request).await?;
    let known = reply.topics.into_iter().filter(|topic| topic.error_code == 0);
    Ok(known.filter_map(|topic| Some((topic.name?.to_string(), Allowed(topic.topic_authorized_operations)))).collect())
}

/// Finds out whether the user may join a share group: says farewell for a member that never was.
///
/// Errors: the right to READ the group is missing, or the cluster does not answer.
pub async fn may_join(client: &mut Client, group: &str) -> Result<(), WireError> {
    const LEAVE: i32 = -1;
    let request = heartbeat(group, &Uuid::new_v4().to_string(), (LEAVE, None));
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&request).await?;
    match code_of(reply.error_code) {
        Some(code @ Code::GroupAuthorizationFailed) => {
            Err(connection.answered("ShareGroupHeartbeat", &format!("group {group}"), (code, None)))
        }
        Some(code) if code.is_retriable() => {
            Err(connection.answered("ShareGroupHeartbeat", &format!("group {group}"), (code, None)))
        }
        // No such group, no such member.
        Some(_) | None => Ok(()),
    }
}

/// The type of a group, such as `share`, `consumer` or `classic` (KIP-848); `None` where it does not exist, or may not be described.
pub async fn group_type(client: &mut Client, group: &str) -> Result<Option<String>, WireError> {
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&ListGroupsRequest::default()).await?;
    if let Some(code) = code_of(reply.error_code) {
        return Err(connection.answered("ListGroups", &format!("group {group}"), (code, None)));
    }
    let found = reply.groups.into_iter().find(|found| &*found.group_id.0 == group);
    Ok(found.map(|found| found.group_type.to_lowercase()))
}

/// Finds out whether the user may commit offsets for a group: commits one of a topic that does not exist.
///
/// Errors: the right to READ the group is missing, or the cluster does not answer.
pub async fn may_commit_offsets(client: &mut Client, group: &str) -> Result<(), WireError> {
    let nothing =
        Committed { topic: NO_TOPIC.to_owned(), partition: 0, offset: 0, leader_epoch: -1, metadata: String::new() };
    match commit(client, group, &[nothing]).await {
        Err(error) => match error.code() {
            Some(Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition) => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Finds out whether the user may read what a group has committed.
///
/// Errors: the right to DESCRIBE the group is missing, or the cluster does not answer.
pub async fn may_describe_group(client: &mut Client, group: &str) -> Result<(), WireError> {
    committed(client, group).await.map(drop)
}

/// The version of Fetch that a broker and we have in common.
///
/// Errors: there is none.
pub fn fetch_version(broker: &Connection) -> Result<i16, WireError> {
    broker.version_of::<FetchRequest>()
}

/// Finds out whether the user may write in transactions under a transactional id: ends one of a producer that never was.
///
/// Errors: the right to WRITE the transactional id is missing, or the cluster does not answer.
pub async fn may_write_transactions(client: &mut Client, transactional_id: &str) -> Result<(), WireError> {
    let nobody = Producer { id: i64::MAX, epoch: 0 };
    let connection = client.coordinator(CoordinatorKind::Transaction, transactional_id).await?;
    let reply = connection.call(&end_txn(transactional_id, nobody, false)).await?;
    match code_of(reply.error_code) {
        Some(code) if code == Code::TransactionalIdAuthorizationFailed || code.is_retriable() => {
            Err(connection.answered("EndTxn", transactional_id, (code, None)))
        }
        // No such producer.
        Some(_) | None => Ok(()),
    }
}

/// The shortest of a few round trips to a broker, with what it takes to answer a small question.
pub async fn distance(client: &mut Client) -> Result<Duration, WireError> {
    let connection = client.anybody().await?;
    let mut shortest = Duration::MAX;
    for _ in 0..PROBES_OF_DISTANCE {
        let begun = Instant::now();
        connection.call(&MetadataRequest::default().with_topics(Some(vec![]))).await?;
        shortest = shortest.min(begun.elapsed());
    }
    Ok(shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_bits_and_silence_forbids_nothing() {
        let read_only = Allowed(1 << 3 | 1 << 8);
        assert!(read_only.has(Operation::Read) && !read_only.has(Operation::Write));
        assert!(Allowed(i32::MIN).has(Operation::Write));
        assert!(!Allowed(0).has(Operation::Read));
    }
}
