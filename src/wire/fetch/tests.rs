use bytes::{Buf, BytesMut};
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{FetchResponse, ProducerId};
use kafka_protocol::protocol::{Decodable, Encodable, decode_request_header_from_buffer};
use proptest::prelude::*;

use super::*;

const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;

fn at(topic: &str, partition: i32) -> TopicAt {
    TopicAt { topic: topic.into(), topic_id: Uuid::from_u128(7), partition }
}

/// `kafka-protocol` reads what we wrote.
#[test]
fn requests_follow_the_schema() {
    let from = FetchFrom { at: at("orders", 3), offset: 1 << 40, leader_epoch: 5, last_epoch: 4 };
    let fetch = Fetch {
        wait_ms: 500,
        bytes_max: 1 << 20,
        partition_bytes_max: 1 << 19,
        session_id: 9,
        session_epoch: 2,
        partitions: vec![from.clone(), from],
        forget: vec![at("gone", 1)],
        rack: "r1".into(),
    };
    for version in VERSIONS {
        let mut frame = Frame::default();
        Call::encode(&fetch, &Head { version, correlation: 5, client_id: "c" }, &mut frame).unwrap();
        let mut outgoing = frame.finish();
        let mut bytes = outgoing.copy_to_bytes(outgoing.remaining());
        assert_eq!(bytes.get_u32() as usize, bytes.len());
        let header = decode_request_header_from_buffer(&mut bytes).unwrap();
        assert_eq!((header.correlation_id, header.request_api_version), (5, version));
        let read = <FetchRequest as Decodable>::decode(&mut bytes, version).unwrap();
        assert!(bytes.is_empty(), "version {version}");
        assert_eq!((read.replica_id.0, read.isolation_level, read.min_bytes, read.topics.len()), (-1, 1, 1, 2));
        assert_eq!((read.max_wait_ms, read.max_bytes), (500, 1 << 20));
        let session = if version >= 7 { (9, 2, 1) } else { (0, -1, 0) };
        assert_eq!((read.session_id, read.session_epoch, read.forgotten_topics_data.len()), session);
        assert_eq!(&*read.rack_id, if version >= 11 { "r1" } else { "" });
        let topic = &read.topics[1];
        let named = if version < 13 { ("orders", Uuid::nil()) } else { ("", Uuid::from_u128(7)) };
        assert_eq!((topic.topic.as_str(), topic.topic_id), named);
        let partition = &topic.partitions[0];
        assert_eq!((partition.partition, partition.fetch_offset, partition.partition_max_bytes), (3, 1 << 40, 1 << 19));
        assert_eq!(partition.current_leader_epoch, if version >= 9 { 5 } else { -1 });
        assert_eq!(partition.last_fetched_epoch, if version >= 12 { 4 } else { -1 });
    }
}

/// What `kafka-protocol` says of a reply, in our words.
fn foreign(reply: FetchResponse, version: i16) -> FetchReply {
    let partition = |topic: &FetchableTopicResponse, partition: &PartitionData| {
        let error = code_of(partition.error_code);
        let moved = matches!(partition.error_code, 6 | 74);
        let end = EpochEnd { epoch: partition.diverging_epoch.epoch, offset: partition.diverging_epoch.end_offset };
        let aborted = partition.aborted_transactions.iter().flatten();
        PartitionReply {
            topic: match version {
                13.. => TopicRef::Id(topic.topic_id),
                _ => TopicRef::Name(topic.topic.to_string()),
            },
            partition: partition.partition_index,
            error,
            diverging: Some(end).filter(|end| end.epoch >= 0 && end.offset >= 0),
            leader: Some(partition.current_leader.leader_id.0).filter(|node| moved && *node >= 0),
            aborted: aborted.map(|a| Aborted { producer_id: a.producer_id.0, first_offset: a.first_offset }).collect(),
            preferred: Some(partition.preferred_read_replica.0).filter(|node| *node >= 0),
            records: partition.records.clone().unwrap_or_default(),
        }
    };
    FetchReply {
        error: code_of(reply.error_code),
        session_id: reply.session_id,
        partitions: reply.responses.iter().flat_map(|t| t.partitions.iter().map(move |p| partition(t, p))).collect(),
        endpoints: reply.node_endpoints.iter().map(|e| (e.node_id.0, format!("{}:{}", e.host, e.port))).collect(),
    }
}

prop_compose! {
    fn partition_data(version: i16)(
        index: i32,
        code in prop::sample::select(vec![0i16, 1, 3, 6, 74, 78, 100]),
        offsets: [i64; 3],
        aborted in prop::option::of(prop::collection::vec((any::<i64>(), any::<i64>()), 0..4)),
        preferred in -1..5i32,
        records in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        diverging in prop::option::of((0..5i32, 0..100i64)),
        leader in prop::option::of(0..5i32),
    ) -> PartitionData {
        let transaction = |(producer, first)| {
            AbortedTransaction::default().with_producer_id(ProducerId(producer)).with_first_offset(first)
        };
        let mut data = PartitionData::default()
            .with_partition_index(index)
            .with_error_code(code)
            .with_high_watermark(offsets[0])
            .with_last_stable_offset(offsets[1])
            .with_aborted_transactions(aborted.map(|list| list.into_iter().map(transaction).collect()))
            .with_records(records.map(Bytes::from));
        if version >= 5 {
            data = data.with_log_start_offset(offsets[2]);
        }
        if version >= 11 {
            data = data.with_preferred_read_replica(BrokerId(preferred));
        }
        if let Some((epoch, end)) = diverging.filter(|_| version >= 12) {
            data = data.with_diverging_epoch(EpochEndOffset::default().with_epoch(epoch).with_end_offset(end));
        }
        if let Some(leader) = leader.filter(|_| version >= 12) {
            data = data.with_current_leader(LeaderIdAndEpoch::default().with_leader_id(BrokerId(leader)));
        }
        data
    }
}

prop_compose! {
    fn response(version: i16)(
        throttle in 0..1000i32,
        code in prop::sample::select(vec![0i16, 70, 71, 106]),
        session: i32,
        topics in prop::collection::vec(
            ("[a-z]{1,9}", any::<u128>(), prop::collection::vec(partition_data(version), 0..4)), 0..4),
        endpoints in prop::collection::vec((any::<i32>(), "[a-z]{0,9}", any::<i32>()), 0..3),
    ) -> FetchResponse {
        let topic = |(name, id, partitions): (String, u128, _)| {
            let topic = FetchableTopicResponse::default().with_partitions(partitions);
            match version {
                13.. => topic.with_topic_id(Uuid::from_u128(id)),
                _ => topic.with_topic(TopicName(StrBytes::from_string(name))),
            }
        };
        let endpoint = |(node, host, port): (i32, String, i32)| {
            let endpoint = NodeEndpoint::default().with_node_id(BrokerId(node)).with_port(port);
            endpoint.with_host(StrBytes::from_string(host))
        };
        let mut reply = FetchResponse::default()
            .with_throttle_time_ms(throttle)
            .with_responses(topics.into_iter().map(topic).collect());
        if version >= 7 {
            reply = reply.with_error_code(code).with_session_id(session);
        }
        if version >= 16 {
            reply = reply.with_node_endpoints(endpoints.into_iter().map(endpoint).collect());
        }
        reply
    }
}

fn versioned() -> impl Strategy<Value = (i16, FetchResponse)> {
    VERSIONS.prop_flat_map(|version| response(version).prop_map(move |reply| (version, reply)))
}

fn encoded(version: i16, reply: &FetchResponse) -> Bytes {
    let mut bytes = BytesMut::new();
    if version >= FLEXIBLE_SINCE {
        // The header of a flexible reply has no tagged fields either.
        bytes.extend_from_slice(&[0]);
    }
    Encodable::encode(reply, &mut bytes, version).unwrap();
    bytes.freeze()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn replies_mean_the_same_to_the_other_implementation((version, reply) in versioned()) {
        let answer = <Fetch as Call>::decode(encoded(version, &reply), version).unwrap();
        prop_assert_eq!(answer.throttle_ms, reply.throttle_time_ms.unsigned_abs());
        prop_assert_eq!(answer.reply, foreign(reply, version));
    }

    #[test]
    fn hostile_replies_never_panic(bytes: Vec<u8>, (version, reply) in versioned(), place: prop::sample::Index, byte: u8) {
        let _ = <Fetch as Call>::decode(bytes.into(), version);
        let whole = encoded(version, &reply);
        let _ = <Fetch as Call>::decode(whole.slice(..place.index(whole.len())), version);
        let mut broken = whole.to_vec();
        broken[place.index(whole.len())] = byte;
        let _ = <Fetch as Call>::decode(broken.into(), version);
    }
}

#[test]
fn counts_beyond_the_reply_take_no_memory() {
    let mut old = vec![0; 10];
    old.extend_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(<Fetch as Call>::decode(old.into(), 11).unwrap_err(), format!("{} elements in an array", i32::MAX));
    let flexible = [&[0; 11][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    assert_eq!(
        <Fetch as Call>::decode(flexible.into(), 18).unwrap_err(),
        format!("{} elements in an array", u32::MAX - 1)
    );
}
