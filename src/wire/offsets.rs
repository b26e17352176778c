//! Offsets that a consumer group has committed, those where a share group begins, and who is in groups.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use kafka_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::share_group_describe_response;
use kafka_protocol::messages::{
    AlterShareGroupOffsetsRequest, ConsumerGroupDescribeRequest, DescribeGroupsRequest, GroupId, OffsetCommitRequest,
    OffsetFetchRequest, OffsetFetchResponse, ShareGroupDescribeRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};
use crate::wire::group::Member;

/// An offset that a consumer group has committed for a topic partition. Source: OffsetCommitRequest.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of what was read before.
    pub leader_epoch: i32,
    /// What the committer has added.
    pub metadata: String,
}

/// All that a consumer group has committed; nothing where there is no such group.
///
/// Errors: one of the offsets is not known, or part of a transaction that is still open (KIP-447, Kafka 2.5).
pub async fn committed(client: &mut Client, group: &str) -> Result<Vec<Committed>, WireError> {
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let version = connection.version_of::<OffsetFetchRequest>()?;
    let reply = connection.call(&build_fetch(group, version)).await?;
    let mut found = vec![];
    for answer in answers(reply, version) {
        if let Some(code) = code_of(answer.error_code) {
            return Err(connection.answered("OffsetFetch", &format!("group {group}"), (code, None)));
        }
        for topic in answer.topics {
            let name = topic.name.0.to_string();
            let unknown = topic.partitions.iter().find_map(|p| Some((p.partition_index, code_of(p.error_code)?)));
            if let Some((partition, code)) = unknown {
                let what = format!("group {group}, {name}-{partition}");
                return Err(connection.answered("OffsetFetch", &what, (code, None)));
            }
            let partitions = topic.partitions.into_iter().filter(|p| p.committed_offset >= 0);
            found.extend(partitions.map(|p| Committed {
                topic: name.clone(),
                partition: p.partition_index,
                offset: p.committed_offset,
                leader_epoch: p.committed_leader_epoch,
                metadata: p.metadata.map(|words| words.to_string()).unwrap_or_default(),
            }));
        }
    }
    Ok(found)
}

/// Of OffsetFetch: the first that asks for several groups (KIP-709, Kafka 3.0).
const BATCHED_GROUPS: i16 = 8;

/// Of OffsetFetch: the first that tells of offsets in open transactions.
const STABLE: i16 = 7;

fn build_fetch(group: &str, version: i16) -> OffsetFetchRequest {
    let request = OffsetFetchRequest::default().with_require_stable(version >= STABLE);
    match version {
        ..BATCHED_GROUPS => request.with_group_id(group_id(group)).with_topics(None),
        _ => {
            let wanted = OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(None);
            request.with_groups(vec![wanted])
        }
    }
}

/// The answers in the form of today.
fn answers(reply: OffsetFetchResponse, version: i16) -> Vec<OffsetFetchResponseGroup> {
    if version >= BATCHED_GROUPS {
        return reply.groups;
    }
    let partition = |p: OffsetFetchResponsePartition| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(p.partition_index)
            .with_committed_offset(p.committed_offset)
            .with_committed_leader_epoch(p.committed_leader_epoch)
            .with_metadata(p.metadata)
            .with_error_code(p.error_code)
    };
    let topic = |t: OffsetFetchResponseTopic| {
        let partitions = t.partitions.into_iter().map(partition).collect();
        OffsetFetchResponseTopics::default().with_name(t.name).with_partitions(partitions)
    };
    let topics = reply.topics.into_iter().map(topic).collect();
    vec![OffsetFetchResponseGroup::default().with_error_code(reply.error_code).with_topics(topics)]
}

/// Commits offsets for a group without members. The group is made by it.
pub async fn commit(client: &mut Client, group: &str, offsets: &[Committed]) -> Result<(), WireError> {
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let answers = commit_as(&connection, &Member::nobody(group), offsets).await?;
    match offsets.iter().zip(answers).find_map(|(offset, answer)| Some((offset, answer?))) {
        None => Ok(()),
        Some((Committed { topic, partition, .. }, code)) => {
            let what = format!("group {group}, {topic}-{partition}");
            Err(connection.answered("OffsetCommit", &what, (code, None)))
        }
    }
}

/// Commits offsets as a member of the group, over a connection to its coordinator.
///
/// Returns what became of each, in their order; `None` is committed. `StaleMemberEpoch` (KIP-848), `IllegalGeneration` and
/// `RebalanceInProgress` (classic protocol) ask for the member's next epoch: only its membership knows whether there will be one.
/// Source: OffsetCommitRequest.json v2 to v9, by topic name.
pub async fn commit_as(
    connection: &Connection,
    member: &Member<'_>,
    offsets: &[Committed],
) -> Result<Vec<Option<Code>>, WireError> {
    let version = connection.version_of::<OffsetCommitRequest>()?;
    let request = build_commit(member, offsets, version);
    let reply = connection.call(&request).await?;
    let answered: HashMap<(&str, i32), i16> = reply
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|p| ((&**topic.name, p.partition_index), p.error_code)))
        .collect();
    let unanswered = Code::UnknownServerError.code();
    let answer = |at: &Committed| answered.get(&(at.topic.as_str(), at.partition)).copied().unwrap_or(unanswered);
    Ok(offsets.iter().map(|offset| code_of(answer(offset))).collect())
}

/// Of OffsetCommit: the first that knows static members (KIP-345, Kafka 2.3).
const STATIC_COMMITTERS: i16 = 7;

fn build_commit(member: &Member<'_>, offsets: &[Committed], version: i16) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for offset in offsets {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(offset.partition)
            .with_committed_offset(offset.offset)
            .with_committed_leader_epoch(offset.leader_epoch)
            .with_committed_metadata(Some(StrBytes::from_string(offset.metadata.clone())));
        topics.entry(&offset.topic).or_default().push(partition);
    }
    let topic = |(name, partitions): (&str, _)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        OffsetCommitRequestTopic::default().with_name(name).with_partitions(partitions)
    };
    let instance = member.instance.filter(|_| version >= STATIC_COMMITTERS);
    OffsetCommitRequest::default()
        .with_group_id(group_id(member.group))
        .with_member_id(StrBytes::from_string(member.id.to_owned()))
        .with_group_instance_id(instance.map(|name| StrBytes::from_string(name.to_owned())))
        .with_generation_id_or_member_epoch(member.epoch)
        .with_topics(topics.into_iter().map(topic).collect())
}

/// Sets the start offsets of a share group without members, by topic and partition. The group is made by it.
///
/// Errors: `NonEmptyGroup` where it has members.
pub async fn set_share_offsets(
    client: &mut Client,
    group: &str,
    offsets: &BTreeMap<(String, i32), i64>,
) -> Result<(), WireError> {
    let mut topics: BTreeMap<&str, Vec<AlterShareGroupOffsetsRequestPartition>> = BTreeMap::new();
    for ((topic, partition), offset) in offsets {
        let partition = AlterShareGroupOffsetsRequestPartition::default()
            .with_partition_index(*partition)
            .with_start_offset(*offset);
        topics.entry(topic).or_default().push(partition);
    }
    let topic = |(name, partitions): (&str, _)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        AlterShareGroupOffsetsRequestTopic::default().with_topic_name(name).with_partitions(partitions)
    };
    let request = AlterShareGroupOffsetsRequest::default()
        .with_group_id(group_id(group))
        .with_topics(topics.into_iter().map(topic).collect());
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&request).await?;
    let refused = |what: &str, code, message: Option<StrBytes>| {
        let message = message.map(|words| words.to_string());
        Err(connection.answered("AlterShareGroupOffsets", what, (code, message)))
    };
    if let Some(code) = code_of(reply.error_code) {
        return refused(&format!("group {group}"), code, reply.error_message);
    }
    for topic in reply.responses {
        for partition in topic.partitions {
            if let Some(code) = code_of(partition.error_code) {
                let what = format!("group {group}, {}-{}", &*topic.topic_name.0, partition.partition_index);
                return refused(&what, code, partition.error_message);
            }
        }
    }
    Ok(())
}

/// Who is in a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberInfo {
    /// Its member id.
    pub id: String,
    /// How its client calls itself.
    pub client_id: String,
    /// From where it has come, as the broker saw it.
    pub host: String,
}

impl fmt::Display for MemberInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (client {} from {})", self.id, self.client_id, self.host)
    }
}

/// Members of a share group.
///
/// Errors: `GroupIdNotFound` where there is no such share group.
pub async fn share_members(client: &mut Client, group: &str) -> Result<Vec<MemberInfo>, WireError> {
    let request = ShareGroupDescribeRequest::default().with_group_ids(vec![group_id(group)]);
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&request).await?;
    let mut members = vec![];
    for described in reply.groups {
        if let Some(code) = code_of(described.error_code) {
            let message = described.error_message.map(|words| words.to_string());
            return Err(connection.answered("ShareGroupDescribe", &format!("group {group}"), (code, message)));
        }
        let member = |member: share_group_describe_response::Member| {
            self::member(&member.member_id, &member.client_id, &member.client_host)
        };
        members.extend(described.members.into_iter().map(member));
    }
    Ok(members)
}

/// Members of a consumer group under either protocol; nobody where there is no such group.
pub async fn consumer_members(client: &mut Client, group: &str) -> Result<Vec<MemberInfo>, WireError> {
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    if connection.version_of::<ConsumerGroupDescribeRequest>().is_ok() {
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id(group)]);
        let described = connection.call(&request).await?.groups.pop();
        match described.as_ref().and_then(|described| code_of(described.error_code)) {
            // Of the classic protocol, or not there. Where the cluster has the feature off, all groups are classic ones.
            Some(Code::GroupIdNotFound | Code::UnsupportedVersion) => {}
            Some(code) => {
                return Err(connection.answered("ConsumerGroupDescribe", &format!("group {group}"), (code, None)));
            }
            None => {
                let members = described.into_iter().flat_map(|described| described.members);
                return Ok(members.map(|m| member(&m.member_id, &m.client_id, &m.client_host)).collect());
            }
        }
    }
    let reply = connection.call(&DescribeGroupsRequest::default().with_groups(vec![group_id(group)])).await?;
    let mut members = vec![];
    for described in reply.groups {
        match code_of(described.error_code) {
            None => {}
            Some(Code::GroupIdNotFound) => continue,
            Some(code) => return Err(connection.answered("DescribeGroups", &format!("group {group}"), (code, None))),
        }
        members.extend(described.members.into_iter().map(|m| member(&m.member_id, &m.client_id, &m.client_host)));
    }
    Ok(members)
}

fn member(id: &StrBytes, client_id: &StrBytes, host: &StrBytes) -> MemberInfo {
    // The JVM shows an address behind a slash.
    let host = host.trim_start_matches('/').to_owned();
    MemberInfo { id: id.to_string(), client_id: client_id.to_string(), host }
}

fn group_id(group: &str) -> GroupId {
    GroupId(StrBytes::from_string(group.to_owned()))
}
