//! Offsets that a consumer group has committed, and who is in a share group.

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    GroupId, OffsetCommitRequest, OffsetFetchRequest, ShareGroupDescribeRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::error::{WireError, code_of};

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
pub async fn committed(client: &mut Client, group: &str) -> Result<Vec<Committed>, WireError> {
    let wanted = OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(None);
    let request = OffsetFetchRequest::default().with_groups(vec![wanted]);
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&request).await?;
    let mut found = vec![];
    for answer in reply.groups {
        if let Some(code) = code_of(answer.error_code) {
            return Err(connection.answered("OffsetFetch", &format!("group {group}"), (code, None)));
        }
        for topic in answer.topics {
            let name = topic.name.0.to_string();
            let partitions = topic.partitions.into_iter().filter(|p| p.error_code == 0 && p.committed_offset >= 0);
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

/// Commits offsets for a group without members. The group is made by it.
pub async fn commit(client: &mut Client, group: &str, offsets: &[Committed]) -> Result<(), WireError> {
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
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.into_iter().map(topic).collect());
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&request).await?;
    let refused = reply.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| (&topic.name, p)));
    match refused.into_iter().find_map(|(topic, p)| Some((topic, p.partition_index, code_of(p.error_code)?))) {
        None => Ok(()),
        Some((topic, partition, code)) => {
            let what = format!("group {group}, {}-{partition}", &*topic.0);
            Err(connection.answered("OffsetCommit", &what, (code, None)))
        }
    }
}

/// Member ids of a share group.
pub async fn share_members(client: &mut Client, group: &str) -> Result<Vec<String>, WireError> {
    let request = ShareGroupDescribeRequest::default().with_group_ids(vec![group_id(group)]);
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&request).await?;
    let mut members = vec![];
    for described in reply.groups {
        if let Some(code) = code_of(described.error_code) {
            let message = described.error_message.map(|words| words.to_string());
            return Err(connection.answered("ShareGroupDescribe", &format!("group {group}"), (code, message)));
        }
        members.extend(described.members.into_iter().map(|member| member.member_id.to_string()));
    }
    Ok(members)
}

fn group_id(group: &str) -> GroupId {
    GroupId(StrBytes::from_string(group.to_owned()))
}
