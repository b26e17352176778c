//! Fetch v4 to v18: reading the logs of topic partitions by offset (KIP-98, KIP-227, KIP-320, KIP-392, KIP-516, KIP-951).
//!
//! The request is encoded by `kafka-protocol`. The reply is the data path: it is read here, record batches are not copied, and every count
//! is checked before memory is taken. Version 12 is the first flexible one, version 13 the first that names topics by id.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::batch::Aborted;
use crate::wire::call::{Answer, Api, Call, Head, flexible_reader};
use crate::wire::codec::{Frame, ReadError, Reader};
use crate::wire::error::{Code, code_of};
use crate::wire::leaders::{Endpoint, read_endpoints, read_leader};

/// First version with fetch sessions.
const SESSIONS_SINCE: i16 = 7;
/// First version with the rack of the client, and the replica that its leader prefers.
const RACKS_SINCE: i16 = 11;
/// First version with compact types and tagged fields.
const FLEXIBLE_SINCE: i16 = 12;
/// First version that names topics by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// First version in which the broker compares the epoch of the last record that was fetched with its log.
pub const LAST_EPOCH_SINCE: i16 = 12;

/// The newest version that names topics by name, for clusters whose topics have no ids.
pub const NAMES_UNTIL: i16 = TOPIC_IDS_SINCE - 1;

/// One Fetch of committed records (`isolation_level` 1).
#[derive(Debug, Clone, Default)]
pub struct Fetch {
    /// Longest long poll, milliseconds.
    pub wait_ms: i32,
    /// Wanted bytes at most; the first record batch comes whole, even if it is larger.
    pub bytes_max: i32,
    /// Wanted bytes of one partition at most, likewise.
    pub partition_bytes_max: i32,
    /// Fetch session, 0 for none yet.
    pub session_id: i32,
    /// Epoch of the fetch session: 0 opens one, -1 closes it.
    pub session_epoch: i32,
    /// All partitions where a session is opened, else those that are new or stand elsewhere than the session knows.
    pub partitions: Vec<FetchFrom>,
    /// Partitions that leave the session.
    pub forget: Vec<TopicAt>,
    /// Rack of the client, empty for none.
    pub rack: String,
}

/// A partition, by both names of its topic: the version decides which one is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicAt {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Partition number.
    pub partition: i32,
}

/// Where reading goes on in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFrom {
    /// Which one.
    pub at: TopicAt,
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch that we know the leader by; -1 where it is not known.
    pub leader_epoch: i32,
    /// Leader epoch of the record before; -1 where it is not known. From [`LAST_EPOCH_SINCE`] on.
    pub last_epoch: i32,
}

/// The reply to a [`Fetch`].
#[derive(Debug, PartialEq, Eq)]
pub struct FetchReply {
    /// Error of the whole request.
    pub error: Option<Code>,
    /// The fetch session; 0 where the broker keeps none.
    pub session_id: i32,
    /// All partitions of the request where it opens a session, else those that have something to say.
    pub partitions: Vec<PartitionReply>,
    /// Where the leaders are that the partitions name.
    pub endpoints: Vec<Endpoint>,
}

/// How a reply names a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicRef {
    /// Below version 13.
    Name(String),
    /// From version 13 on.
    Id(Uuid),
}

/// What a reply says of one partition.
#[derive(Debug, PartialEq, Eq)]
pub struct PartitionReply {
    /// Topic.
    pub topic: TopicRef,
    /// Partition number.
    pub partition: i32,
    /// Error of the fetch.
    pub error: Option<Code>,
    /// Where the log of the broker parts from what was read: the largest epoch that is not above the one asked for, and its end (KIP-595).
    pub diverging: Option<EpochEnd>,
    /// Who leads now, where that has changed.
    pub leader: Option<i32>,
    /// Aborted transactions that reach into what was read.
    pub aborted: Vec<Aborted>,
    /// The replica that the leader would have us read from (KIP-392).
    pub preferred: Option<i32>,
    /// Record batches from the one that holds the offset on; the last one may be cut.
    pub records: Bytes,
}

/// Where an epoch ends in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// Leader epoch.
    pub epoch: i32,
    /// The offset behind its last record.
    pub offset: i64,
}

impl Call for Fetch {
    type Reply = FetchReply;
    const API: Api = Api { key: 1, name: "Fetch", min: 4, max: 18 };

    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
        Call::encode(&self.body(head.version), head, frame)
    }

    fn decode(reply: Bytes, version: i16) -> Result<Answer<Self::Reply>, String> {
        let reader = if version >= FLEXIBLE_SINCE { flexible_reader(reply)? } else { Reader::new(reply) };
        Decoder { reader, version }.reply().map_err(|error| error.to_string())
    }
}

impl Fetch {
    /// One topic entry per partition: a topic may stand in the list more than once, which brokers accept and which keeps this flat.
    fn body(&self, version: i16) -> FetchRequest {
        let name = |at: &TopicAt| match version {
            TOPIC_IDS_SINCE.. => TopicName::default(),
            _ => TopicName(StrBytes::from_string(at.topic.to_string())),
        };
        let topic = |from: &FetchFrom| {
            let partition = FetchPartition::default()
                .with_partition(from.at.partition)
                .with_current_leader_epoch(from.leader_epoch)
                .with_fetch_offset(from.offset)
                .with_last_fetched_epoch(if version >= LAST_EPOCH_SINCE { from.last_epoch } else { -1 })
                .with_partition_max_bytes(self.partition_bytes_max);
            let topic = FetchTopic::default().with_topic(name(&from.at)).with_topic_id(from.at.topic_id);
            topic.with_partitions(vec![partition])
        };
        let forgotten = |at: &TopicAt| {
            let topic = ForgottenTopic::default().with_topic(name(at)).with_topic_id(at.topic_id);
            topic.with_partitions(vec![at.partition])
        };
        let forget = if version >= SESSIONS_SINCE { &self.forget[..] } else { &[] };
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(self.wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(self.bytes_max)
            .with_isolation_level(1)
            .with_session_id(self.session_id)
            .with_session_epoch(self.session_epoch)
            .with_topics(self.partitions.iter().map(topic).collect())
            .with_forgotten_topics_data(forget.iter().map(forgotten).collect())
            .with_rack_id(StrBytes::from_string(if version >= RACKS_SINCE { self.rack.clone() } else { String::new() }))
    }
}

/// Reads a reply in its version.
struct Decoder {
    reader: Reader,
    version: i16,
}

impl Decoder {
    fn reply(mut self) -> Result<Answer<FetchReply>, ReadError> {
        let throttle_ms = u32::try_from(self.reader.i32()?).unwrap_or(0);
        let (mut error, mut session_id) = (None, 0);
        if self.version >= SESSIONS_SINCE {
            error = code_of(self.reader.i16()?);
            session_id = self.reader.i32()?;
        }
        let partitions = self.array(Self::topic)?.into_iter().flatten().collect();
        let mut endpoints = vec![];
        self.tags(|tag, field| {
            if tag == 0 {
                endpoints = read_endpoints(field)?;
            }
            Ok(())
        })?;
        Ok(Answer { reply: FetchReply { error, session_id, partitions, endpoints }, throttle_ms })
    }

    fn topic(&mut self) -> Result<Vec<PartitionReply>, ReadError> {
        let topic = match self.version {
            TOPIC_IDS_SINCE.. => TopicRef::Id(self.reader.uuid()?),
            FLEXIBLE_SINCE.. => TopicRef::Name(self.reader.compact_str()?.unwrap_or_default()),
            _ => TopicRef::Name(self.reader.str()?),
        };
        let partitions = self.array(|decoder| decoder.partition(&topic))?;
        self.tags(|_, _| Ok(()))?;
        Ok(partitions)
    }

    fn partition(&mut self, topic: &TopicRef) -> Result<PartitionReply, ReadError> {
        let partition = self.reader.i32()?;
        let error = code_of(self.reader.i16()?);
        // High watermark, last stable offset and, from version 5 on, the start of the log.
        for _ in 0..if self.version >= 5 { 3 } else { 2 } {
            self.reader.i64()?;
        }
        let aborted = self.array(Self::aborted)?;
        let preferred = if self.version >= RACKS_SINCE { self.reader.i32()? } else { -1 };
        let records = self.records()?;
        let (mut diverging, mut leader) = (None, None);
        self.tags(|tag, field| {
            match tag {
                0 => diverging = read_epoch_end(field)?,
                1 => leader = read_leader(field)?,
                _ => {}
            }
            Ok(())
        })?;
        // Beside other codes it stays at the schema's default.
        let has_moved = matches!(error, Some(Code::NotLeaderOrFollower | Code::FencedLeaderEpoch));
        let leader = leader.filter(|_| has_moved);
        let preferred = Some(preferred).filter(|node| *node >= 0);
        Ok(PartitionReply { topic: topic.clone(), partition, error, diverging, leader, aborted, preferred, records })
    }

    fn aborted(&mut self) -> Result<Aborted, ReadError> {
        let aborted = Aborted { producer_id: self.reader.i64()?, first_offset: self.reader.i64()? };
        self.tags(|_, _| Ok(()))?;
        Ok(aborted)
    }

    fn records(&mut self) -> Result<Bytes, ReadError> {
        if self.version >= FLEXIBLE_SINCE { self.reader.compact_bytes() } else { self.reader.bytes() }
    }

    fn array<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T, ReadError>) -> Result<Vec<T>, ReadError> {
        let count = if self.version >= FLEXIBLE_SINCE { self.reader.compact_count()? } else { self.reader.count()? };
        (0..count).map(|_| element(self)).collect()
    }

    fn tags(&mut self, field: impl FnMut(u32, &mut Reader) -> Result<(), ReadError>) -> Result<(), ReadError> {
        if self.version >= FLEXIBLE_SINCE { self.reader.tags_with(field) } else { Ok(()) }
    }
}

fn read_epoch_end(reader: &mut Reader) -> Result<Option<EpochEnd>, ReadError> {
    let end = EpochEnd { epoch: reader.i32()?, offset: reader.i64()? };
    reader.tags()?;
    Ok(Some(end).filter(|end| end.epoch >= 0 && end.offset >= 0))
}

#[cfg(test)]
mod tests;
