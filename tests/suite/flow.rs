//! Without faults everything arrives exactly once, unchanged, and nothing else does.

pub(crate) mod segment;

use cluster::load::{Load, produce};
use cluster::read::{Isolation, Record, read_all};
use cluster::{Cluster, pair, unique};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::bridge::{DEADLINE, Flow, Worker, eventually, lag};

/// What a reader of committed records sees, without offsets, sorted; `None` while there is no such topic.
fn contents(cluster: &Cluster, topic: &str) -> Option<Vec<Record>> {
    let mut records = read_all(cluster.bootstrap(), topic, Isolation::Committed).ok()?;
    records.iter_mut().for_each(|record| record.offset = 0);
    let order = |r: &Record| (r.partition, r.timestamp_ms, r.key.clone(), r.value.clone(), r.headers.clone());
    records.sort_by_cached_key(order);
    Some(records)
}

/// Waits until the target has as many records as the source; then they must be the same.
pub(crate) fn assert_copied(topic: &str) -> Vec<Record> {
    let source = contents(&pair().source, topic).unwrap();
    let target = eventually(&format!("{} records of {topic} have arrived", source.len()), || {
        contents(&pair().target, topic).filter(|target| target.len() >= source.len())
    });
    let differing = source.iter().zip(&target).find(|(a, b)| a != b);
    assert!(differing.is_none(), "source and target differ: {differing:?}");
    assert_eq!(source.len(), target.len());
    target
}

fn assert_done(worker: &Worker, group: &str) {
    eventually("the worker sees no backlog", || (worker.metric("group_backlog") == 0).then_some(()));
    assert_eq!(lag(&pair().source, group), Some(0));
}

pub(crate) fn producer(settings: &[(&str, &str)]) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", pair().source.bootstrap());
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().unwrap()
}

/// Writes one record to a partition.
pub(crate) fn send(producer: &BaseProducer, topic: &str, partition: i32, (key, value): (Option<&[u8]>, Option<&[u8]>)) {
    let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(partition);
    (record.key, record.payload) = (key, value);
    producer.send(record).map_err(|(error, _)| error).unwrap();
}

/// Records with every detail that copying could garble.
pub(crate) fn send_oddities(topic: &str) {
    let producer = producer(&[]);
    let parts: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"\xff\x00\xfe"), Some(b"plain")];
    for (number, (key, value)) in parts.iter().flat_map(|key| parts.map(|value| (*key, value))).enumerate() {
        let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(number as i32 % 4);
        (record.key, record.payload) = (key, value);
        record.timestamp = Some(1_700_000_000_000 - 1_000 * number as i64);
        let header = |key, value| Header { key, value };
        let headers = OwnedHeaders::new().insert(header("twice", Some(b"\xff".as_slice())));
        record = record.headers(headers.insert(header("twice", None)).insert(header("", Some(b"".as_slice()))));
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
}

#[test]
fn all_codecs_and_details_arrive_once_in_unchanged_batches() {
    let pair = pair();
    let topic = unique("codecs");
    let config = [("retention.ms", "-1"), ("cleanup.policy", "delete"), ("max.message.bytes", "2000000")];
    pair.source.create_topic(&topic, 4, &config).unwrap();
    for (start, codec) in (0..).step_by(4_000).zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
        let load = Load { start, compression: codec.to_owned(), keys: true, headers: true, ..Load::of(4_000) };
        produce(pair.source.bootstrap(), &topic, &load).unwrap();
    }
    send_oddities(&topic);
    let flow = Flow::new(pair, &[&topic]);
    let worker = flow.start();
    let copied = assert_copied(&topic);
    assert_eq!(copied.len(), 20_016);
    assert_done(&worker, &flow.group);
    assert_eq!(contents(&pair.target, &topic).unwrap().len(), 20_016);

    let found = pair.target.topic_config(&topic).unwrap();
    let wanted = config.into_iter().chain([("message.timestamp.type", "CreateTime")]);
    wanted.for_each(|(key, value)| assert_eq!(found[key], value, "{key}"));
    for partition in 0..4 {
        let (source, target) =
            (segment::batches(&pair.source, &topic, partition), segment::batches(&pair.target, &topic, partition));
        let codecs: std::collections::BTreeSet<u16> = source.iter().map(|batch| batch.codec).collect();
        assert_eq!(codecs.len(), 5, "the source lacks a codec");
        assert_eq!(source, target, "partition {partition}");
    }
}

#[test]
fn c04_aborted_records_stay_behind_and_markers_hold_nothing_up() {
    let topic = unique("aborted");
    pair().source.create_topic(&topic, 2, &[]).unwrap();
    let producer = producer(&[("transactional.id", &topic)]);
    producer.init_transactions(DEADLINE).unwrap();
    for (round, name) in ["committed", "aborted", "committed", "aborted"].into_iter().enumerate() {
        producer.begin_transaction().unwrap();
        for partition in (0..20).map(|number| number % 2) {
            send(&producer, &topic, partition, (Some(&[round as u8]), Some(name.as_bytes())));
        }
        producer.flush(DEADLINE).unwrap();
        if name == "aborted" {
            producer.abort_transaction(DEADLINE).unwrap();
        } else {
            producer.commit_transaction(DEADLINE).unwrap();
        }
    }
    let flow = Flow::new(pair(), &[&topic]);
    let worker = flow.start();
    let copied = assert_copied(&topic);
    assert_eq!(copied.len(), 40);
    assert!(copied.iter().all(|record| record.value.as_deref() == Some(b"committed")));
    assert_done(&worker, &flow.group);

    producer.begin_transaction().unwrap();
    send(&producer, &topic, 0, (None, Some(b"late")));
    producer.flush(DEADLINE).unwrap();
    // Behind the open transaction, in its partition and beside it.
    let other = self::producer(&[]);
    (0..2).for_each(|partition| send(&other, &topic, partition, (None, Some(b"after"))));
    other.flush(DEADLINE).unwrap();
    assert_eq!(assert_copied(&topic).len(), 41);
    producer.commit_transaction(DEADLINE).unwrap();
    assert_eq!(assert_copied(&topic).len(), 43);
}

#[test]
fn c15_append_times_of_the_source_are_kept() {
    let pair = pair();
    let topic = unique("append");
    pair.source.create_topic(&topic, 2, &[("message.timestamp.type", "LogAppendTime")]).unwrap();
    for (start, codec) in [(0, "none"), (500, "lz4")] {
        let load = Load { start, compression: codec.to_owned(), ..Load::of(500) };
        produce(pair.source.bootstrap(), &topic, &load).unwrap();
    }
    let _worker = Flow::new(pair, &[&topic]).start();
    assert_eq!(assert_copied(&topic).len(), 1_000);
    assert_eq!(pair.target.topic_config(&topic).unwrap()["message.timestamp.type"], "CreateTime");
}

#[test]
fn batches_with_holes_from_compaction_arrive_whole() {
    let pair = pair();
    let topic = unique("holes");
    pair.source.alter_broker_config(&[("log.cleaner.backoff.ms", "200")]).unwrap();
    let config = [("cleanup.policy", "compact"), ("segment.bytes", "1048576"), ("min.cleanable.dirty.ratio", "0.01")];
    pair.source.create_topic(&topic, 1, &config).unwrap();
    let producer = producer(&[("batch.num.messages", "50"), ("linger.ms", "20")]);
    for number in 0..2_500_u32 {
        // Every other record has a key of its own and stays.
        let key = if number % 2 == 0 { number.to_be_bytes() } else { [0xff; 4] };
        send(&producer, &topic, 0, (Some(&key), Some(&[number as u8; 1_000])));
    }
    producer.flush(DEADLINE).unwrap();
    eventually("the source has compacted the topic", || {
        contents(&pair.source, &topic).filter(|left| left.len() < 2_400)
    });

    let flow = Flow::new(pair, &[&topic]).with("flows.f.allow.unordered.compacted = true");
    let worker = flow.start();
    let copied = assert_copied(&topic);
    println!("{} of 2500 records are left", copied.len());
    assert_done(&worker, &flow.group);
}
