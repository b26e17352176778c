//! What the fetchers take for granted of Fetch, asked of a broker in every version.

use cluster::load::{Load, produce};
use cluster::read::{Isolation, end_offsets};
use cluster::{Spec, pair, unique};
use sharebridge::batch::RecordBatch;
use sharebridge::wire::fetch::{EpochEnd, Fetch, FetchFrom, FetchReply, TopicAt};
use sharebridge::wire::{Client, Code, Connection};

use super::stage::{ALL, reach};
use super::{compare, interleave, oracle};

/// A topic with 100 records in a partition, and a connection to its leader.
async fn hundred() -> (Connection, Fetch) {
    let (source, topic) = (&pair().source, unique("hundred"));
    source.create_topic(&topic, 1, &[]).unwrap();
    produce(source.bootstrap(), &topic, &Load::of(100)).unwrap();
    let cluster = reach(source.bootstrap(), None);
    let id =
        Client::new(cluster.clone()).topics(std::slice::from_ref(&topic)).await.unwrap().pop().unwrap().1.unwrap().id;
    let connection = Connection::open(&cluster, source.bootstrap()).await.unwrap();
    let at = TopicAt { topic: topic.into(), topic_id: id, partition: 0 };
    let from = FetchFrom { at, offset: 40, leader_epoch: 0, last_epoch: 0 };
    let fetch = Fetch { wait_ms: 300, bytes_max: 1 << 20, partition_bytes_max: 1 << 20, ..Fetch::default() };
    (connection, Fetch { partitions: vec![from], ..fetch })
}

/// The last offset that a reply brings; -1 without records.
fn last(reply: &FetchReply) -> i64 {
    let batches = RecordBatch::split(reply.partitions[0].records.clone());
    batches.map(|batch| batch.unwrap().last_offset()).max().unwrap_or(-1)
}

#[tokio::test]
async fn each_version_brings_the_same_records() {
    let (connection, fetch) = hundred().await;
    for version in ALL {
        let reply = connection.call_in(version..=version, &fetch).await.unwrap();
        assert_eq!((reply.error, reply.partitions[0].error, last(&reply)), (None, None, 99), "version {version}");
        assert_eq!(reply.session_id != 0, version >= 7, "version {version}");
    }
}

#[tokio::test]
async fn a_session_goes_on_is_refused_and_is_replaced() {
    let (connection, opening) = hundred().await;
    let opened = connection.call(&opening).await.unwrap();
    let next = Fetch { session_id: opened.session_id, session_epoch: 1, partitions: vec![], ..opening.clone() };
    // The broker knows where it stands, and names the session again.
    let again = connection.call(&next).await.unwrap();
    assert_eq!((again.session_id, last(&again)), (opened.session_id, 99));
    // The same epoch twice.
    assert_eq!(connection.call(&next).await.unwrap().error, Some(Code::InvalidFetchSessionEpoch));
    let replaced = connection.call(&Fetch { session_epoch: 0, ..opening.clone() }).await.unwrap();
    assert!(replaced.session_id != 0 && last(&replaced) == 99);
    let closing = Fetch { session_id: replaced.session_id, session_epoch: -1, ..Fetch::default() };
    assert_eq!(connection.call(&closing).await.unwrap().error, None);
    let behind = Fetch { session_id: replaced.session_id, session_epoch: 1, ..Fetch::default() };
    assert_eq!(connection.call(&behind).await.unwrap().error, Some(Code::FetchSessionIdNotFound));
    // Names and ids do not mix in a session.
    let opened = connection.call(&opening).await.unwrap();
    let named = Fetch { session_id: opened.session_id, session_epoch: 1, ..opening };
    assert_eq!(connection.call_in(12..=12, &named).await.unwrap().error, Some(Code::FetchSessionTopicIdError));
}

#[tokio::test]
async fn a_consumer_is_told_where_its_log_parts_from_the_leaders() {
    let (connection, mut fetch) = hundred().await;
    // As if the last record had been of an epoch that this leader has only 100 records of.
    fetch.partitions[0].offset = 101;
    let reply = connection.call(&fetch).await.unwrap();
    assert_eq!(
        (reply.partitions[0].error, reply.partitions[0].diverging),
        (None, Some(EpochEnd { epoch: 0, offset: 100 }))
    );
    // Of an epoch that it knows nothing of.
    (fetch.partitions[0].offset, fetch.partitions[0].last_epoch) = (40, 7);
    let reply = connection.call(&fetch).await.unwrap();
    assert_eq!((reply.partitions[0].error, reply.partitions[0].diverging), (Some(Code::OffsetOutOfRange), None));
}

#[tokio::test]
#[ignore = "needs the jars of Kafka 3.9.2"]
async fn an_older_broker_without_a_place_for_sessions_is_read_all_the_same() {
    let slots = "max.incremental.fetch.session.cache.slots";
    let spec = Spec { version: "3.9.2".into(), ..Spec::named("kafka-3.9.2") }.with(slots, "0");
    let cluster = cluster::Cluster::start(spec).unwrap();
    let topic = unique("older");
    cluster.create_topic(&topic, 2, &[]).unwrap();
    interleave(&cluster, &topic);
    let expected = oracle(&cluster, &topic);
    let ends = end_offsets(cluster.bootstrap(), &topic, Isolation::Uncommitted).unwrap();
    let from: Vec<i64> = ends.iter().map(|end| end / 2).collect();
    compare((&cluster, &topic), &expected, (&from, 256 << 10, ALL)).await;
}
