//! Share groups on the wire: ShareFetch and ShareAcknowledge v2 (KIP-932, KIP-1206, KIP-1222), the heartbeat, and the group's lag (KIP-1226).
//!
//! Version 1 of the first two lacks renewal, without which records cannot be held; it is not spoken.

use bytes::{BufMut, Bytes};
use kafka_protocol::messages::share_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{GroupId, ShareGroupHeartbeatRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::batch::OffsetRange;
use crate::wire::call::{Answer, Api, Call, Head, flexible_reader, put_flexible_header};
use crate::wire::codec::{Frame, Put, ReadError, Reader};
use crate::wire::error::{Code, code_of};
use crate::wire::leaders::{Endpoint, read_endpoints, read_leader};

/// What becomes of acquired offsets. Source: ShareAcknowledgeRequest.json v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum AcknowledgeType {
    /// No record stands there: a transaction marker, or what compaction took away.
    Gap = 0,
    /// Done.
    Accept = 1,
    /// Not done: somebody else may try, at the cost of one delivery attempt.
    Release = 2,
    /// Given up: nobody is to try again.
    Reject = 3,
    /// Still in work: start the acquisition lock anew.
    Renew = 4,
}

/// Offsets of one partition with one fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Inclusive offsets.
    pub range: OffsetRange,
    /// Their fate.
    pub kind: AcknowledgeType,
}

/// One partition of a ShareFetch or ShareAcknowledge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharePartitionRequest {
    /// Topic id.
    pub topic: Uuid,
    /// Partition number.
    pub partition: i32,
    /// Ascending, not overlapping.
    pub acknowledgements: Vec<Acknowledgement>,
}

/// ShareFetch v2 in batch-optimised mode: ranges end at record batch boundaries wherever the broker can do so.
#[derive(Debug, Clone)]
pub struct ShareFetch {
    /// Share group.
    pub group: String,
    /// Member.
    pub member: String,
    /// Epoch of the share session: 0 opens it.
    pub epoch: i32,
    /// Longest long poll, milliseconds.
    pub wait_ms: i32,
    /// Wanted bytes at most.
    pub bytes_max: i32,
    /// Wanted records at most, over all partitions.
    pub records_max: i32,
    /// Partitions that join the session.
    pub add: Vec<SharePartitionRequest>,
    /// Partitions that leave it: (topic id, partition).
    pub forget: Vec<(Uuid, i32)>,
}

/// The reply to a [`ShareFetch`].
#[derive(Debug)]
pub struct ShareFetched {
    /// Error of the whole request.
    pub error: Option<Code>,
    /// The broker's words.
    pub message: Option<String>,
    /// How long the acquisition locks last, milliseconds.
    pub lock_ms: i32,
    /// One entry for each partition that has something to say.
    pub partitions: Vec<SharePartitionFetched>,
    /// Where the leaders are that the partitions name.
    pub endpoints: Vec<Endpoint>,
}

/// What was fetched of one partition.
#[derive(Debug)]
pub struct SharePartitionFetched {
    /// Topic id.
    pub topic: Uuid,
    /// Partition number.
    pub partition: i32,
    /// Error of the fetch.
    pub error: Option<Code>,
    /// The broker's words.
    pub message: Option<String>,
    /// Who leads now, where that has changed.
    pub leader: Option<i32>,
    /// Whole record batches, more than what was acquired at times.
    pub records: Bytes,
    /// What is ours now.
    pub acquired: Vec<AcquiredRange>,
}

/// Offsets acquired together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredRange {
    /// Inclusive offsets.
    pub range: OffsetRange,
    /// How often these were delivered, this time included. 1 does not prove a first delivery: acquisitions are not persisted.
    pub delivery_count: i16,
}

/// ShareAcknowledge v2.
#[derive(Debug, Clone)]
pub struct ShareAcknowledge {
    /// Share group.
    pub group: String,
    /// Member.
    pub member: String,
    /// Epoch of the share session; -1 closes it and releases what is still held.
    pub epoch: i32,
    /// Whether any acknowledgement is a renewal.
    pub renews: bool,
    /// What is acknowledged.
    pub partitions: Vec<SharePartitionRequest>,
}

/// The reply to a [`ShareAcknowledge`].
#[derive(Debug)]
pub struct ShareAcknowledged {
    /// Error of the whole request.
    pub error: Option<Code>,
    /// The broker's words.
    pub message: Option<String>,
    /// How long the acquisition locks last, milliseconds.
    pub lock_ms: i32,
    /// Topic id, partition, and the error of its whole list.
    pub partitions: Vec<(Uuid, i32, Option<Code>)>,
}

impl Call for ShareFetch {
    type Reply = ShareFetched;
    const API: Api = Api { key: 78, name: "ShareFetch", min: 2, max: 2 };

    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
        put_flexible_header(Self::API, head, frame)?;
        let out = &mut frame.tail;
        put_session(out, &self.group, &self.member, self.epoch);
        out.put_i32(self.wait_ms);
        out.put_i32(1);
        out.put_i32(self.bytes_max);
        out.put_i32(self.records_max);
        out.put_i32(self.records_max);
        out.put_i8(0);
        out.put_u8(0);
        put_partitions(out, &self.add);
        put_forgotten(out, &self.forget);
        out.put_no_tags();
        Ok(())
    }

    fn decode(reply: Bytes, _version: i16) -> Result<Answer<ShareFetched>, String> {
        let mut reader = flexible_reader(reply)?;
        read_fetched(&mut reader).map_err(|error| error.to_string())
    }
}

impl Call for ShareAcknowledge {
    type Reply = ShareAcknowledged;
    const API: Api = Api { key: 79, name: "ShareAcknowledge", min: 2, max: 2 };

    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
        put_flexible_header(Self::API, head, frame)?;
        let out = &mut frame.tail;
        put_session(out, &self.group, &self.member, self.epoch);
        out.put_u8(self.renews.into());
        put_partitions(out, &self.partitions);
        out.put_no_tags();
        Ok(())
    }

    fn decode(reply: Bytes, _version: i16) -> Result<Answer<ShareAcknowledged>, String> {
        let mut reader = flexible_reader(reply)?;
        read_acknowledged(&mut reader).map_err(|error| error.to_string())
    }
}

fn put_session(out: &mut impl BufMut, group: &str, member: &str, epoch: i32) {
    out.put_compact_str(group);
    out.put_compact_str(member);
    out.put_i32(epoch);
}

/// One topic entry per partition: a topic may stand in the list more than once, which brokers accept and which keeps this flat.
fn put_partitions(out: &mut impl BufMut, partitions: &[SharePartitionRequest]) {
    out.put_compact_len(partitions.len());
    for partition in partitions {
        out.put_uuid(partition.topic);
        out.put_compact_len(1);
        out.put_i32(partition.partition);
        out.put_compact_len(partition.acknowledgements.len());
        for Acknowledgement { range, kind } in &partition.acknowledgements {
            out.put_i64(range.first);
            out.put_i64(range.last);
            out.put_compact_len(1);
            out.put_i8(*kind as i8);
            out.put_no_tags();
        }
        out.put_no_tags();
        out.put_no_tags();
    }
}

fn put_forgotten(out: &mut impl BufMut, forget: &[(Uuid, i32)]) {
    out.put_compact_len(forget.len());
    for (topic, partition) in forget {
        out.put_uuid(*topic);
        out.put_compact_len(1);
        out.put_i32(*partition);
        out.put_no_tags();
    }
}

fn read_fetched(reader: &mut Reader) -> Result<Answer<ShareFetched>, ReadError> {
    let throttle_ms = u32::try_from(reader.i32()?).unwrap_or(0);
    let error = code_of(reader.i16()?);
    let message = reader.compact_str()?;
    let lock_ms = reader.i32()?;
    let topics = reader.array(|reader| {
        let topic = reader.uuid()?;
        let partitions = reader.array(|reader| read_partition(topic, reader))?;
        reader.tags()?;
        Ok(partitions)
    })?;
    let endpoints = read_endpoints(reader)?;
    reader.tags()?;
    let partitions = topics.into_iter().flatten().collect();
    Ok(Answer { reply: ShareFetched { error, message, lock_ms, partitions, endpoints }, throttle_ms })
}

fn read_partition(topic: Uuid, reader: &mut Reader) -> Result<SharePartitionFetched, ReadError> {
    let partition = reader.i32()?;
    let error = code_of(reader.i16()?);
    let message = reader.compact_str()?;
    // Acknowledgements travel in ShareAcknowledge only, so their error fields here are empty.
    reader.i16()?;
    reader.compact_str()?;
    // Beside any other code the hint stays at the schema's default, which is node 0 (tried on 4.4.0: nobody is there).
    let has_moved = matches!(error, Some(Code::NotLeaderOrFollower | Code::FencedLeaderEpoch));
    let leader = read_leader(reader)?.filter(|_| has_moved);
    let records = reader.compact_bytes()?;
    let acquired = read_acquired(reader)?;
    reader.tags()?;
    Ok(SharePartitionFetched { topic, partition, error, message, leader, records, acquired })
}

/// Acquired ranges ascend and don't overlap; everything after relies on that, so it is checked here.
fn read_acquired(reader: &mut Reader) -> Result<Vec<AcquiredRange>, ReadError> {
    let mut next = 0;
    reader.array(|reader| {
        let range = OffsetRange { first: reader.i64()?, last: reader.i64()? };
        let delivery_count = reader.i16()?;
        reader.tags()?;
        if range.first < next || range.last < range.first || range.last == i64::MAX {
            return Err(ReadError::Offsets);
        }
        next = range.last + 1;
        Ok(AcquiredRange { range, delivery_count })
    })
}

fn read_acknowledged(reader: &mut Reader) -> Result<Answer<ShareAcknowledged>, ReadError> {
    let throttle_ms = u32::try_from(reader.i32()?).unwrap_or(0);
    let error = code_of(reader.i16()?);
    let message = reader.compact_str()?;
    let lock_ms = reader.i32()?;
    let topics = reader.array(|reader| {
        let topic = reader.uuid()?;
        let partitions = reader.array(|reader| {
            let partition = reader.i32()?;
            let error = code_of(reader.i16()?);
            reader.compact_str()?;
            read_leader(reader)?;
            reader.tags()?;
            Ok((topic, partition, error))
        })?;
        reader.tags()?;
        Ok(partitions)
    })?;
    read_endpoints(reader)?;
    reader.tags()?;
    let partitions = topics.into_iter().flatten().collect();
    Ok(Answer { reply: ShareAcknowledged { error, message, lock_ms, partitions }, throttle_ms })
}

/// A heartbeat of a member: `epoch` 0 joins, -1 leaves; `topics` are sent when they change.
pub fn heartbeat(group: &str, member: &str, (epoch, topics): (i32, Option<&[String]>)) -> ShareGroupHeartbeatRequest {
    let names = |names: &[String]| names.iter().map(|name| TopicName(StrBytes::from_string(name.clone()))).collect();
    ShareGroupHeartbeatRequest::default()
        .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
        .with_member_id(StrBytes::from_string(member.to_owned()))
        .with_member_epoch(epoch)
        .with_subscribed_topic_names(topics.map(names))
}

/// The partitions of an assignment.
pub fn assigned(assignment: &Assignment) -> Vec<(Uuid, i32)> {
    let topics = assignment.topic_partitions.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic_id, *partition))).collect()
}

/// DescribeShareGroupOffsets v1: how far a share group has come, and its lag (KIP-1226).
#[derive(Debug, Clone)]
pub struct DescribeShareGroupOffsets {
    /// Share group.
    pub group: String,
}

/// Progress of a share group in one topic partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareProgress {
    /// Topic.
    pub topic: String,
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Partition.
    pub partition: i32,
    /// The first offset that is not done, as the share coordinator has stored it: it trails the true one. `None` before the
    /// partition was ever read.
    pub start_offset: Option<i64>,
    /// Records still to be done; `None` where the broker does not know.
    pub lag: Option<u64>,
}

impl Call for DescribeShareGroupOffsets {
    type Reply = Result<Vec<ShareProgress>, Code>;
    const API: Api = Api { key: 90, name: "DescribeShareGroupOffsets", min: 1, max: 1 };

    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
        put_flexible_header(Self::API, head, frame)?;
        let out = &mut frame.tail;
        out.put_compact_len(1);
        out.put_compact_str(&self.group);
        out.put_u8(0);
        out.put_no_tags();
        out.put_no_tags();
        Ok(())
    }

    fn decode(reply: Bytes, _version: i16) -> Result<Answer<Self::Reply>, String> {
        let mut reader = flexible_reader(reply)?;
        read_progress(&mut reader).map_err(|error| error.to_string())
    }
}

fn read_progress(reader: &mut Reader) -> Result<Answer<Result<Vec<ShareProgress>, Code>>, ReadError> {
    let throttle_ms = u32::try_from(reader.i32()?).unwrap_or(0);
    let mut groups = reader.array(|reader| {
        reader.compact_str()?;
        let topics = reader.array(read_topic_progress)?;
        let error = code_of(reader.i16()?);
        reader.compact_str()?;
        reader.tags()?;
        Ok(error.map_or(Ok(topics.into_iter().flatten().collect()), Err))
    })?;
    reader.tags()?;
    Ok(Answer { reply: groups.pop().unwrap_or(Ok(vec![])), throttle_ms })
}

fn read_topic_progress(reader: &mut Reader) -> Result<Vec<ShareProgress>, ReadError> {
    let topic = reader.compact_str()?.unwrap_or_default();
    let topic_id = reader.uuid()?;
    let partitions = reader.array(|reader| {
        let partition = reader.i32()?;
        let start_offset = Some(reader.i64()?).filter(|offset| *offset >= 0);
        // The leader epoch may be older than the one under which the start offset was reached (tried on 4.4.0: by 12 s).
        reader.i32()?;
        let lag = u64::try_from(reader.i64()?).ok();
        reader.i16()?;
        reader.compact_str()?;
        reader.tags()?;
        Ok(ShareProgress { topic: topic.clone(), topic_id, partition, start_offset, lag })
    })?;
    reader.tags()?;
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use proptest::prelude::*;

    /// A ShareFetch reply with one partition and these acquired ranges.
    fn reply(ranges: &[(i64, i64)]) -> Bytes {
        refused(0, ranges)
    }

    /// The same with an error code.
    fn refused(code: i16, ranges: &[(i64, i64)]) -> Bytes {
        let mut out = BytesMut::new();
        out.put_no_tags();
        out.put_slice(&[0; 4 + 2 + 1 + 4]);
        out.put_compact_len(1);
        out.put_uuid(Uuid::from_u128(1));
        out.put_compact_len(1);
        out.put_i32(0);
        out.put_i16(code);
        out.put_slice(&[0; 1 + 2 + 1]);
        out.put_slice(&[0; 4 + 4 + 1]);
        out.put_compact_len(3);
        out.put_slice(b"xyz");
        out.put_compact_len(ranges.len());
        for (first, last) in ranges {
            out.put_i64(*first);
            out.put_i64(*last);
            out.put_i16(1);
            out.put_no_tags();
        }
        out.put_slice(&[0; 2]);
        out.put_compact_len(0);
        out.put_no_tags();
        out.freeze()
    }

    fn acquired(ranges: &[(i64, i64)]) -> Result<usize, String> {
        ShareFetch::decode(reply(ranges), 2).map(|answer| answer.reply.partitions[0].acquired.len())
    }

    #[test]
    fn acquired_ranges_must_make_sense() {
        assert_eq!(acquired(&[(0, 9), (10, 10), (20, 29)]), Ok(3));
        for nonsense in [&[(0, 9), (9, 12)][..], &[(5, 4)], &[(-1, 3)], &[(0, i64::MAX)], &[(7, 8), (1, 2)]] {
            assert_eq!(acquired(nonsense), Err("impossible offsets".to_owned()), "{nonsense:?}");
        }
    }

    #[test]
    fn only_who_is_not_the_leader_says_who_is() {
        let leader = |code: Code| ShareFetch::decode(refused(code.code(), &[]), 2).unwrap().reply.partitions[0].leader;
        assert_eq!(leader(Code::NotLeaderOrFollower), Some(0));
        assert_eq!(leader(Code::FencedLeaderEpoch), Some(0));
        assert_eq!(leader(Code::TopicAuthorizationFailed), None);
        assert_eq!(leader(Code::CorruptMessage), None);
    }

    proptest! {
        #[test]
        fn hostile_replies_never_panic(bytes: Vec<u8>, cut in 0usize..200) {
            let _ = ShareFetch::decode(bytes.clone().into(), 2);
            let _ = ShareAcknowledge::decode(bytes.clone().into(), 2);
            let _ = DescribeShareGroupOffsets::decode(bytes.into(), 1);
            let whole = reply(&[(0, 9), (10, 19)]);
            let _ = ShareFetch::decode(whole.slice(..cut.min(whole.len())), 2);
        }
    }
}
