//! Consumer groups on the wire: the heartbeat of KIP-848, and the classic protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, GroupId, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
    TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};
use crate::wire::subscription::{Partitions, Subscription, decode_assignment, encode_assignment};

/// A member of a consumer group, as requests name it.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The group.
    pub group: &'a str,
    /// Its member id; empty before it has one.
    pub id: &'a str,
    /// Its name as a static member (KIP-345, Kafka 2.3); older brokers don't hear of it.
    pub instance: Option<&'a str>,
    /// Member epoch (KIP-848) or generation id (classic protocol).
    pub epoch: i32,
}

impl<'a> Member<'a> {
    /// Somebody who is not in the group, and may speak for it while nobody is.
    pub fn nobody(group: &'a str) -> Self {
        Self { group, id: "", instance: None, epoch: -1 }
    }

    fn what(&self) -> String {
        format!("group {}", self.group)
    }

    /// The name, if the version of a request knows static members.
    fn instance_in(&self, version: i16, since: i16) -> Option<StrBytes> {
        self.instance.filter(|_| version >= since).map(text)
    }
}

/// The epoch with which a member joins (KIP-848).
pub const JOIN: i32 = 0;
/// The epoch with which a member leaves.
pub const LEAVE: i32 = -1;
/// The epoch with which a static member leaves for a while: its partitions wait for it as long as a session.
pub const LEAVE_FOR_NOW: i32 = -2;

/// What a heartbeat tells. `None` is as before; the first one of a member, and the one after a failure, tell everything.
#[derive(Debug, Default)]
pub struct News<'a> {
    /// Longest time for giving up what is revoked.
    pub rebalance: Option<Duration>,
    /// The member's rack.
    pub rack: Option<&'a str>,
    /// Topics that it wants partitions of.
    pub subscribed: Option<&'a [String]>,
    /// Partitions that it reads.
    pub owned: Option<&'a BTreeSet<(Uuid, i32)>>,
}

/// The answer to a heartbeat.
#[derive(Debug)]
pub struct Beaten {
    /// The member's id.
    pub id: Option<String>,
    /// Its epoch from now on.
    pub epoch: i32,
    /// Pause before the next heartbeat.
    pub interval: Duration,
    /// What it may read; `None` is as before.
    pub assigned: Option<BTreeSet<(Uuid, i32)>>,
}

/// A heartbeat of the protocol that the coordinator leads. Source: KIP-848, ConsumerGroupHeartbeatRequest.json v0, v1.
///
/// Errors: `Unsupported` where the coordinator is too old for it.
pub async fn heartbeat(connection: &Connection, member: &Member<'_>, news: &News<'_>) -> Result<Beaten, WireError> {
    let names = |names: &[String]| names.iter().map(|name| TopicName(text(name))).collect();
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(member.group)))
        .with_member_id(text(member.id))
        .with_instance_id(member.instance.map(text))
        .with_member_epoch(member.epoch)
        .with_rack_id(news.rack.map(text))
        .with_rebalance_timeout_ms(news.rebalance.map_or(-1, millis))
        .with_subscribed_topic_names(news.subscribed.map(names))
        .with_topic_partitions(news.owned.map(by_topic));
    let reply = connection.call(&request).await?;
    if let Some(code) = code_of(reply.error_code) {
        let words = reply.error_message.map(|words| words.to_string());
        return Err(connection.answered("ConsumerGroupHeartbeat", &member.what(), (code, words)));
    }
    let assigned = reply.assignment.map(|assignment| {
        let topics = assignment.topic_partitions.into_iter();
        topics.flat_map(|topic| topic.partitions.into_iter().map(move |p| (topic.topic_id, p))).collect()
    });
    let interval = Duration::from_millis(u64::try_from(reply.heartbeat_interval_ms).unwrap_or(0));
    Ok(Beaten { id: reply.member_id.map(|id| id.to_string()), epoch: reply.member_epoch, interval, assigned })
}

fn by_topic(keys: &BTreeSet<(Uuid, i32)>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    keys.iter().for_each(|(topic, partition)| topics.entry(*topic).or_default().push(*partition));
    let topic = |(id, partitions)| TopicPartitions::default().with_topic_id(id).with_partitions(partitions);
    topics.into_iter().map(topic).collect()
}

/// What a member offers when it joins by the classic protocol.
#[derive(Debug)]
pub struct Offer {
    /// The assignor, by Kafka's name for it.
    pub assignor: &'static str,
    /// What it wants and has.
    pub subscription: Subscription,
    /// Silence after which it counts as dead.
    pub session: Duration,
    /// Longest time that the others wait for it when the group is formed anew.
    pub rebalance: Duration,
}

/// The answer to joining.
#[derive(Debug)]
pub enum Joined {
    /// The coordinator has given us an id, with which to join again (KIP-394).
    Named(String),
    /// The group has formed.
    Formed(Generation),
}

/// A generation of a classic group.
#[derive(Debug)]
pub struct Generation {
    /// Its number.
    pub id: i32,
    /// Our member id.
    pub member: String,
    /// Where we lead: the members by their ids, and whether the assignment is to be made, or stays as it was. Who cannot be understood
    /// wants nothing.
    pub led: Option<(BTreeMap<String, Subscription>, Making)>,
}

/// What a leader has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// Assign.
    Anew,
    /// Nothing: a static leader that came back finds the assignment as it was (KIP-814).
    Kept,
}

/// Kafka's name for groups of consumers.
const CONSUMER: &str = "consumer";

/// The first versions that know static members.
const STATIC_JOINERS: i16 = 5;
const STATIC_MEMBERS: i16 = 3;

/// Joins, and waits until the group has formed: as long as its slowest member may take. Source: JoinGroupRequest.json.
pub async fn join(connection: &Connection, member: &Member<'_>, offer: &Offer) -> Result<Joined, WireError> {
    let version = connection.version_of::<JoinGroupRequest>()?;
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str(offer.assignor))
        .with_metadata(offer.subscription.encode());
    let request = JoinGroupRequest::default()
        .with_group_id(GroupId(text(member.group)))
        .with_member_id(text(member.id))
        .with_group_instance_id(member.instance_in(version, STATIC_JOINERS))
        .with_session_timeout_ms(millis(offer.session))
        .with_rebalance_timeout_ms(millis(offer.rebalance))
        .with_protocol_type(StrBytes::from_static_str(CONSUMER))
        .with_protocols(vec![protocol]);
    let patience = offer.rebalance + connection.request_timeout;
    let reply = connection.send(&request).await?.reply(patience).await?;
    let id = reply.member_id.to_string();
    match code_of(reply.error_code) {
        Some(Code::MemberIdRequired) => return Ok(Joined::Named(id)),
        Some(code) => return Err(connection.answered("JoinGroup", &member.what(), (code, None))),
        None => {}
    }
    let is_leader = reply.leader == reply.member_id;
    let members = reply.members.into_iter().map(|m| (m.member_id.to_string(), understand(member, m))).collect();
    let making = if reply.skip_assignment { Making::Kept } else { Making::Anew };
    Ok(Joined::Formed(Generation { id: reply.generation_id, member: id, led: is_leader.then_some((members, making)) }))
}

fn understand(us: &Member<'_>, member: JoinGroupResponseMember) -> Subscription {
    Subscription::decode(member.metadata).unwrap_or_else(|error| {
        tracing::warn!(group = us.group, member = &*member.member_id, %error, "a member of the group says nothing that we understand");
        Subscription::default()
    })
}

/// Hands in the assignment where we lead, and waits for our part of it. Source: SyncGroupRequest.json.
pub async fn sync(
    connection: &Connection,
    member: &Member<'_>,
    (offer, assignments): (&Offer, BTreeMap<String, Partitions>),
) -> Result<Partitions, WireError> {
    let version = connection.version_of::<SyncGroupRequest>()?;
    let assignment = |(id, partitions): (String, Partitions)| {
        let bytes = encode_assignment(&partitions);
        SyncGroupRequestAssignment::default().with_member_id(StrBytes::from_string(id)).with_assignment(bytes)
    };
    let request = SyncGroupRequest::default()
        .with_group_id(GroupId(text(member.group)))
        .with_generation_id(member.epoch)
        .with_member_id(text(member.id))
        .with_group_instance_id(member.instance_in(version, STATIC_MEMBERS))
        .with_protocol_type(Some(StrBytes::from_static_str(CONSUMER)))
        .with_protocol_name(Some(StrBytes::from_static_str(offer.assignor)))
        .with_assignments(assignments.into_iter().map(assignment).collect());
    let patience = offer.rebalance + connection.request_timeout;
    let reply = connection.send(&request).await?.reply(patience).await?;
    if let Some(code) = code_of(reply.error_code) {
        return Err(connection.answered("SyncGroup", &member.what(), (code, None)));
    }
    decode_assignment(reply.assignment).map_err(|error| WireError::Malformed {
        place: connection.place().clone(),
        api: "SyncGroup",
        version,
        cause: format!("the assignment {error}"),
    })
}

/// A heartbeat of the classic protocol. Source: HeartbeatRequest.json.
///
/// Errors: `RebalanceInProgress` is an answer, too: the group forms anew, and the member is to join again.
pub async fn classic_heartbeat(connection: &Connection, member: &Member<'_>) -> Result<(), WireError> {
    let version = connection.version_of::<HeartbeatRequest>()?;
    let request = HeartbeatRequest::default()
        .with_group_id(GroupId(text(member.group)))
        .with_generation_id(member.epoch)
        .with_member_id(text(member.id))
        .with_group_instance_id(member.instance_in(version, STATIC_MEMBERS));
    let reply = connection.call(&request).await?;
    match code_of(reply.error_code) {
        None => Ok(()),
        Some(code) => Err(connection.answered("Heartbeat", &member.what(), (code, None))),
    }
}

/// Leaves by the classic protocol. Source: LeaveGroupRequest.json.
pub async fn leave(connection: &Connection, member: &Member<'_>) -> Result<(), WireError> {
    let request = LeaveGroupRequest::default().with_group_id(GroupId(text(member.group)));
    let request = match connection.version_of::<LeaveGroupRequest>()? {
        ..STATIC_MEMBERS => request.with_member_id(text(member.id)),
        _ => request.with_members(vec![MemberIdentity::default().with_member_id(text(member.id))]),
    };
    let reply = connection.call(&request).await?;
    let codes = std::iter::once(reply.error_code).chain(reply.members.iter().map(|member| member.error_code));
    match codes.into_iter().find_map(code_of) {
        None => Ok(()),
        Some(code) => Err(connection.answered("LeaveGroup", &member.what(), (code, None))),
    }
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}
