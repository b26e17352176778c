//! Where records go: names, partitions, codecs, several targets, and ways that lead back.

mod back;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cluster::load::{Load, produce};
use cluster::read::{Isolation, Record, read_all};
use cluster::{Cluster, Verification, pair, unique};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::{ClientConfig, producer::BaseProducer};

use crate::bridge::{DEADLINE, Flow, Worker, arrived, await_all, commands, eventually, mortal_pair, obey};
use crate::flow::{assert_copied, producer, segment, send};

const RECORDS: u64 = 5_000;

/// Partitions of the source, and of a target that has fewer.
const PARTITIONS: (i32, i32) = (5, 3);

/// A file with one more flow of the same topics, with these keys.
fn also(flow: Flow, (name, topic): (&str, &str), ends: (&str, &str), keys: &[&str]) -> Flow {
    let group = unique("group");
    let (source, sink) = ends;
    let shared = [
        format!("source.cluster = \"{source}\""),
        format!("sink.cluster = \"{sink}\""),
        format!("topics.names = [\"{topic}\"]"),
        format!("share.group.id = \"{group}\""),
        "transaction.timeout.ms = 3000".to_owned(),
        "lanes.count = 1".to_owned(),
    ];
    let keys = keys.iter().map(|key| (*key).to_owned());
    shared.into_iter().chain(keys).fold(flow, |flow, key| flow.with(&format!("flows.{name}.{key}")))
}

fn verified(worker: &Worker) -> Verification {
    let verified = Verification::run(Path::new(env!("CARGO_BIN_EXE_sharebridge")), &worker.process.config()).unwrap();
    println!("{}", verified.report);
    verified
}

/// All committed records without their places, sorted; `None` while there is no such topic.
fn contents(cluster: &Cluster, topic: &str) -> Option<Vec<Record>> {
    let mut records = read_all(cluster.bootstrap(), topic, Isolation::Committed).ok()?;
    records.iter_mut().for_each(|record| (record.partition, record.offset) = (0, 0));
    records.sort_by_cached_key(|record| (record.timestamp_ms, record.key.clone(), record.value.clone()));
    Some(records)
}

/// Waits until a topic of the target holds exactly these records.
fn await_contents(topic: &str, records: &[Record]) {
    let found = eventually(&format!("{} records of {topic} have arrived", records.len()), || {
        contents(&pair().target, topic).filter(|found| found.len() >= records.len())
    });
    let differing = records.iter().zip(&found).find(|(a, b)| a != b);
    assert!(differing.is_none() && found.len() == records.len(), "{topic} differs: {differing:?}");
}

/// Records of all codecs, with and without keys and headers, in small batches.
fn write_all_kinds(topic: &str) -> Vec<Record> {
    for (start, codec) in (0..).step_by(1_000).zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
        let load = Load { start, compression: codec.to_owned(), keys: true, headers: true, ..Load::of(1_000) };
        produce(pair().source.bootstrap(), topic, &Load { batch_bytes: 10_000, ..load }).unwrap();
    }
    let producer = producer(&[]);
    for number in 0..50 {
        send(&producer, topic, number % PARTITIONS.0, (None, Some(number.to_string().as_bytes())));
    }
    producer.flush(DEADLINE).unwrap();
    contents(&pair().source, topic).unwrap()
}

/// Partition by key, as librdkafka's producer chooses it where it is told to choose as the one in Java does.
fn partitions_by_key(keys: &BTreeSet<Vec<u8>>) -> BTreeMap<Vec<u8>, i32> {
    let topic = unique("oracle");
    pair().target.create_topic(&topic, PARTITIONS.1, &[]).unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", pair().target.bootstrap()).set("partitioner", "murmur2");
    let producer: BaseProducer = config.create().unwrap();
    for key in keys {
        producer.send(BaseRecord::<[u8], [u8]>::to(&topic).key(key)).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
    let records = read_all(pair().target.bootstrap(), &topic, Isolation::Committed).unwrap();
    records.into_iter().map(|record| (record.key.unwrap(), record.partition)).collect()
}

#[test]
fn one_topic_goes_many_ways_at_once_and_each_copy_is_whole() {
    let pair = pair();
    let topic = unique("ways");
    pair.source.create_topic(&topic, PARTITIONS.0, &[]).unwrap();
    let name = "sink.topic.name = \"${topic}.${flow}\"";
    let mut flow = Flow::new(pair, &[&topic]).with(&format!("flows.f.{name}")).patient();
    for mapping in ["modulo", "key"] {
        pair.target.create_topic(&format!("{topic}.{mapping}"), PARTITIONS.1, &[]).unwrap();
        let mapping_key = format!("sink.partition.mapping = \"{mapping}\"");
        flow = also(flow, (mapping, &topic), ("primary", "dr"), &[name, &mapping_key]);
    }
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    for codec in codecs {
        let codec_key = format!("compression.type = \"{codec}\"");
        flow = also(flow, (codec, &topic), ("primary", "dr"), &[name, &codec_key]);
    }
    let written = write_all_kinds(&topic);
    let worker = flow.start();
    for way in ["f", "modulo", "key"].iter().chain(&codecs) {
        await_contents(&format!("{topic}.{way}"), &written);
    }
    for (number, codec) in (0..).zip(codecs) {
        let copy = format!("{topic}.{codec}");
        let batches = (0..PARTITIONS.0).flat_map(|partition| segment::batches(&pair.target, &copy, partition));
        let found: BTreeSet<u16> = batches.map(|batch| batch.codec).collect();
        assert_eq!(found, BTreeSet::from([number]), "{codec}");
    }
    let records = |topic: &str| read_all(pair.target.bootstrap(), topic, Isolation::Committed).unwrap();
    let source = read_all(pair.source.bootstrap(), &topic, Isolation::Committed).unwrap();
    let place = |record: &Record| (record.timestamp_ms, record.key.clone(), record.value.clone());
    let origin: BTreeMap<_, i32> = source.iter().map(|record| (place(record), record.partition)).collect();
    for record in records(&format!("{topic}.modulo")) {
        assert_eq!(record.partition, origin[&place(&record)] % PARTITIONS.1);
    }
    let chosen = partitions_by_key(&source.iter().filter_map(|record| record.key.clone()).collect());
    assert_eq!(chosen.values().collect::<BTreeSet<_>>().len(), 3);
    for record in records(&format!("{topic}.key")) {
        let keyless = origin[&place(&record)] % PARTITIONS.1;
        assert_eq!(record.partition, record.key.as_ref().map_or(keyless, |key| chosen[key]));
    }
    worker.await_ready();
    assert!(verified(&worker).is_exact());
}

#[test]
fn a_topic_keeps_its_records_under_another_name() {
    let pair = pair();
    let topic = unique("named");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    let copy = format!("primary.{topic}-copy");
    pair.target.create_topic(&copy, 1, &[]).unwrap();
    let worker = Flow::new(pair, &[&topic]).with("flows.f.sink.topic.name = \"${source}.${topic}-copy\"");
    let worker = worker.with("flows.f.sink.topic.create.enable = false").start();
    produce(pair.source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    let line = worker.await_trouble(&[&format!("{topic}-1: "), &format!("--topic {copy} ")]);
    commands(&line).into_iter().for_each(|command| obey(&pair.target, command));
    await_all(&pair.target, &copy, RECORDS);
    worker.await_ready();
    let verified = verified(&worker);
    assert!(verified.is_exact() && verified.report.contains(&copy));
}

#[test]
fn what_a_pattern_captures_names_topics_and_those_that_would_meet_are_left_alone() {
    let pair = pair();
    let name = unique("captured");
    let topics = ["eu-1", "us-1", "us-2"].map(|end| format!("{name}-{end}"));
    for topic in &topics {
        pair.source.create_topic(topic, 1, &[]).unwrap();
        produce(pair.source.bootstrap(), topic, &Load::of(RECORDS)).unwrap();
    }
    let worker = Flow::new(pair, &[])
        .with(&format!("flows.f.topics.regex = [\"{name}-(?<region>..)-.\"]"))
        .with(&format!("flows.f.sink.topic.name = \"${{region}}.{name}\""))
        .start();
    await_all(&pair.target, &format!("eu.{name}"), RECORDS);
    for topic in &topics[1..] {
        println!(
            "{}",
            worker.await_trouble(&[&format!("topic {topic}: "), &format!("us.{name}"), "their records would mix"])
        );
    }
    assert!(arrived(&pair.target, &format!("us.{name}")).is_none());
}

#[test]
fn a_topic_is_copied_within_its_cluster() {
    let pair = pair();
    let topic = unique("within");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    produce(pair.source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    let flow = Flow::new(pair, &[&topic]).with("flows.f.sink.cluster = \"primary\"");
    let worker = flow.with("flows.f.sink.topic.name = \"${topic}.copy\"").start();
    await_all(&pair.source, &format!("{topic}.copy"), RECORDS);
    assert!(verified(&worker).is_exact());
}

#[test]
fn a_target_that_is_down_does_not_hold_the_others() {
    let pair = mortal_pair();
    let topic = unique("fan-out");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    let name = "sink.topic.name = \"${topic}.copy\"";
    let flow = also(Flow::new(&pair, &[&topic]), ("g", &topic), ("primary", "primary"), &[name]);
    let worker = flow.start();
    worker.await_ready();
    pair.target.kill().unwrap();
    produce(pair.source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    await_all(&pair.source, &format!("{topic}.copy"), RECORDS);
    println!("{}", worker.await_trouble(&["f/lane-", "dr"]));
    pair.target.start_again().unwrap();
    await_all(&pair.target, &topic, RECORDS);
    assert!(verified(&worker).is_exact());
}

#[test]
fn a_flow_without_wishes_still_forwards_batches_untouched() {
    let topic = unique("untouched");
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    let load = Load { compression: "gzip".to_owned(), ..Load::of(RECORDS) };
    produce(pair().source.bootstrap(), &topic, &load).unwrap();
    let worker = Flow::new(pair(), &[&topic]).with("flows.f.compression.type = \"gzip\"").start();
    assert_copied(&topic);
    assert_eq!(worker.metric("batch_carve_total"), 0);
    assert_eq!(segment::batches(&pair().source, &topic, 0), segment::batches(&pair().target, &topic, 0));
}
