//! A record that well-behaved clients don't write: the key of its header is not UTF-8.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::bridge::eventually;

/// Kafka's code for it.
const NOT_LEADER_OR_FOLLOWER: i16 = 6;

/// The last version of Produce without flexible encoding.
const PRODUCE_VERSION: i16 = 8;

/// Appends one record, without key and value, to partition 0.
pub(crate) fn write(bootstrap: &str, topic: &str, header_key: &[u8]) {
    append(bootstrap, (topic, 0), batch(header_key));
}

/// Appends a record batch as it is; of a new topic the leader may need a moment to know that it leads.
pub(crate) fn append(bootstrap: &str, (topic, partition): (&str, i32), batch: Bytes) {
    let code = eventually("the leader knows that it leads", || {
        Some(produce(bootstrap, (topic, partition), batch.clone())).filter(|code| *code != NOT_LEADER_OR_FOLLOWER)
    });
    assert_eq!(code, 0);
}

/// Returns the code that the broker answers with.
fn produce(bootstrap: &str, (topic, partition): (&str, i32), batch: Bytes) -> i16 {
    let partition = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![partition]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(vec![topic]);
    let header = RequestHeader::default().with_request_api_key(0).with_request_api_version(PRODUCE_VERSION);
    let mut body = BytesMut::new();
    header.encode(&mut body, 1).unwrap();
    request.encode(&mut body, PRODUCE_VERSION).unwrap();

    let mut stream = TcpStream::connect(bootstrap).unwrap();
    stream.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut reply).unwrap();
    let mut reply = Bytes::from(reply);
    ResponseHeader::decode(&mut reply, 0).unwrap();
    let reply = ProduceResponse::decode(&mut reply, PRODUCE_VERSION).unwrap();
    reply.responses[0].partition_responses[0].error_code
}

/// A record batch v2 (KIP-98) of one record.
fn batch(header_key: &[u8]) -> Bytes {
    // Attributes, deltas of timestamp and offset, null key, null value, one header, its key, its null value. Lengths are
    // zigzag: twice the number, -1 is 1.
    let mut record = vec![0, 0, 0, 1, 1, 2, 2 * header_key.len() as u8];
    record.extend_from_slice(header_key);
    record.push(1);

    let mut covered = BytesMut::new();
    covered.put_i16(0); // attributes: no compression, CreateTime
    covered.put_i32(0); // last offset delta
    covered.put_i64(0); // base timestamp
    covered.put_i64(0); // max timestamp
    covered.put_i64(-1); // producer id
    covered.put_i16(-1); // producer epoch
    covered.put_i32(-1); // base sequence
    covered.put_i32(1); // record count
    covered.put_u8(2 * record.len() as u8);
    covered.extend_from_slice(&record);

    let mut batch = BytesMut::new();
    batch.put_i64(0); // base offset
    batch.put_i32(4 + 1 + 4 + covered.len() as i32); // length of what follows
    batch.put_i32(-1); // partition leader epoch
    batch.put_i8(2); // magic
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &covered);
    batch.put_u32(crc as u32);
    batch.extend_from_slice(&covered);
    batch.freeze()
}
