//! Produce v11 to v13, encoded here so that record batches leave from where they lie.
//!
//! From version 12 on the partition leader itself adds the partition to the transaction (KIP-890): the version is the switch, see
//! [`TransactionVersion`](crate::wire::transaction::TransactionVersion). Version 13 names topics by id, so that a topic that was deleted and created again is never written by mistake.

use bytes::{BufMut, Bytes};
use uuid::Uuid;

use crate::wire::call::{Answer, Api, Call, Head, flexible_reader, put_flexible_header};
use crate::wire::codec::{Frame, Put, ReadError, Reader};
use crate::wire::error::{Code, code_of};
use crate::wire::leaders::{Endpoint, read_endpoints, read_leader};

/// First version that names topics by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// One Produce request to a leader, `acks` = all.
#[derive(Debug, Clone)]
pub struct Produce {
    /// The producer's transactional id.
    pub transactional_id: String,
    /// How long the leader may wait for its replicas, milliseconds.
    pub timeout_ms: i32,
    /// At most one entry for each topic partition.
    pub batches: Vec<ProduceBatch>,
}

/// One record batch for one topic partition.
#[derive(Debug, Clone)]
pub struct ProduceBatch {
    /// Topic name.
    pub topic: String,
    /// Topic id on the target.
    pub topic_id: Uuid,
    /// Partition number.
    pub partition: i32,
    /// The batch's header.
    pub header: Bytes,
    /// The batch's records, compressed or not.
    pub payload: Bytes,
}

impl ProduceBatch {
    /// Bytes of the batch.
    pub fn size(&self) -> usize {
        self.header.len() + self.payload.len()
    }
}

/// The reply to a [`Produce`].
#[derive(Debug)]
pub struct ProduceReply {
    /// One entry for each batch.
    pub partitions: Vec<Produced>,
    /// Where the leaders are that the partitions name.
    pub endpoints: Vec<Endpoint>,
}

/// The leader's answer for one batch, in the order of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    /// Topic name, or empty where the reply names the id.
    pub topic: String,
    /// Topic id, or nil where the reply names the topic.
    pub topic_id: Uuid,
    /// Partition number.
    pub partition: i32,
    /// What went wrong.
    pub error: Option<Code>,
    /// The leader's words, with those about single records.
    pub message: Option<String>,
    /// Who leads now, where that has changed.
    pub leader: Option<i32>,
}

impl Call for Produce {
    type Reply = ProduceReply;
    const API: Api = Api { key: 0, name: "Produce", min: 11, max: 13 };

    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
        put_flexible_header(Self::API, head, frame)?;
        frame.tail.put_compact_str(&self.transactional_id);
        frame.tail.put_i16(-1);
        frame.tail.put_i32(self.timeout_ms);
        frame.tail.put_compact_len(self.batches.len());
        for batch in &self.batches {
            if head.version >= TOPIC_IDS_SINCE {
                frame.tail.put_uuid(batch.topic_id);
            } else {
                frame.tail.put_compact_str(&batch.topic);
            }
            frame.tail.put_compact_len(1);
            frame.tail.put_i32(batch.partition);
            frame.tail.put_compact_len(batch.size());
            frame.put_shared(&batch.header);
            frame.put_shared(&batch.payload);
            frame.tail.put_no_tags();
            frame.tail.put_no_tags();
        }
        frame.tail.put_no_tags();
        Ok(())
    }

    fn decode(reply: Bytes, version: i16) -> Result<Answer<Self::Reply>, String> {
        let mut reader = flexible_reader(reply)?;
        read(&mut reader, version).map_err(|error| error.to_string())
    }
}

fn read(reader: &mut Reader, version: i16) -> Result<Answer<ProduceReply>, ReadError> {
    let topics = reader.array(|reader| {
        let (topic, topic_id) = if version >= TOPIC_IDS_SINCE {
            (String::new(), reader.uuid()?)
        } else {
            (reader.compact_str()?.unwrap_or_default(), Uuid::nil())
        };
        let partitions = reader.array(|reader| read_partition(reader, (&topic, topic_id)))?;
        reader.tags()?;
        Ok(partitions)
    })?;
    let throttle_ms = u32::try_from(reader.i32()?).unwrap_or(0);
    let mut endpoints = vec![];
    reader.tags_with(|tag, field| {
        if tag == 0 {
            endpoints = read_endpoints(field)?;
        }
        Ok(())
    })?;
    let partitions = topics.into_iter().flatten().collect();
    Ok(Answer { reply: ProduceReply { partitions, endpoints }, throttle_ms })
}

fn read_partition(reader: &mut Reader, (topic, topic_id): (&str, Uuid)) -> Result<Produced, ReadError> {
    let partition = reader.i32()?;
    let error = code_of(reader.i16()?);
    // Base offset, append time, log start offset: the target's own affair.
    for _ in 0..3 {
        reader.i64()?;
    }
    let record_errors = reader.array(|reader| {
        let index = reader.i32()?;
        let words = reader.compact_str()?.unwrap_or_default();
        reader.tags()?;
        Ok(format!("record {index}: {words}"))
    })?;
    let message = reader.compact_str()?;
    let mut leader = None;
    reader.tags_with(|tag, field| {
        if tag == 0 {
            leader = read_leader(field)?;
        }
        Ok(())
    })?;
    // One word about one record tells the kind; a batch may have thousands.
    let message = message.into_iter().chain(record_errors.into_iter().take(1)).reduce(|a, b| format!("{a}; {b}"));
    Ok(Produced { topic: topic.to_owned(), topic_id, partition, error, message, leader })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;
    use kafka_protocol::messages::ProduceRequest;
    use kafka_protocol::protocol::{Decodable, decode_request_header_from_buffer};

    /// `kafka-protocol` reads what we wrote.
    #[test]
    fn requests_follow_the_schema() {
        let id = Uuid::from_u128(7);
        let batch = ProduceBatch {
            topic: "orders".into(),
            topic_id: id,
            partition: 3,
            header: Bytes::from(vec![1; 61]),
            payload: Bytes::from(vec![2; 2000]),
        };
        let request = Produce { transactional_id: "tx".into(), timeout_ms: 9, batches: vec![batch.clone(), batch] };
        for version in 11..=13 {
            let mut frame = Frame::default();
            request.encode(&Head { version, correlation: 5, client_id: "c" }, &mut frame).unwrap();
            let mut outgoing = frame.finish();
            let mut bytes = outgoing.copy_to_bytes(outgoing.remaining());
            assert_eq!(bytes.get_u32() as usize, bytes.len());
            let header = decode_request_header_from_buffer(&mut bytes).unwrap();
            assert_eq!((header.correlation_id, header.request_api_version), (5, version));
            let decoded = <ProduceRequest as Decodable>::decode(&mut bytes, version).unwrap();
            assert!(bytes.is_empty());
            assert_eq!((decoded.acks, decoded.timeout_ms, decoded.topic_data.len()), (-1, 9, 2));
            let topic = &decoded.topic_data[1];
            assert_eq!(
                (topic.name.as_str(), topic.topic_id),
                if version < TOPIC_IDS_SINCE { ("orders", Uuid::nil()) } else { ("", id) }
            );
            let records = topic.partition_data[0].records.as_ref().unwrap();
            assert_eq!((topic.partition_data[0].index, records.len()), (3, 2061));
        }
    }

    /// We read what `kafka-protocol` wrote: an error with a leader's hint.
    #[test]
    fn replies_tell_errors_and_leaders() {
        use kafka_protocol::messages::produce_response::{
            LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
        };
        use kafka_protocol::messages::{BrokerId, ProduceResponse};
        use kafka_protocol::protocol::{Encodable, StrBytes};

        let hint = LeaderIdAndEpoch::default().with_leader_id(BrokerId(7)).with_leader_epoch(3);
        let partition = PartitionProduceResponse::default().with_index(2).with_error_code(6).with_current_leader(hint);
        let topic =
            TopicProduceResponse::default().with_topic_id(Uuid::from_u128(9)).with_partition_responses(vec![partition]);
        let endpoint = NodeEndpoint::default()
            .with_node_id(BrokerId(7))
            .with_host(StrBytes::from_static_str("b7"))
            .with_port(9092);
        let reply = ProduceResponse::default()
            .with_responses(vec![topic])
            .with_throttle_time_ms(11)
            .with_node_endpoints(vec![endpoint]);
        let mut bytes = bytes::BytesMut::from(&[0u8][..]);
        reply.encode(&mut bytes, 13).unwrap();

        let answer = <Produce as Call>::decode(bytes.freeze(), 13).unwrap();
        assert_eq!((answer.throttle_ms, &answer.reply.endpoints[..]), (11, &[(7, "b7:9092".to_owned())][..]));
        let produced = &answer.reply.partitions[0];
        assert_eq!((produced.topic_id, produced.partition), (Uuid::from_u128(9), 2));
        assert_eq!(produced.error, Some(Code::NotLeaderOrFollower));
        assert_eq!(produced.leader, Some(7));
    }
}
