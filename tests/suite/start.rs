//! Where a new share group starts, and that it starts there only once.

use std::collections::BTreeMap;

use cluster::load::{Load, produce, sequence};
use cluster::read::{Isolation, read_all};
use cluster::{Cluster, pair, unique};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::bridge::{DEADLINE, Flow, arrived, await_all, eventually, lag};
use crate::flow::producer;
use crate::refusal::end_of;
use crate::stream::write;

const PARTITIONS: i32 = 4;
const RECORDS: u64 = 4_000;

/// A topic with records on both sides, so that nothing waits for its creation.
fn topic(name: &str, partitions: i32) -> String {
    let topic = unique(name);
    for cluster in [&pair().source, &pair().target] {
        cluster.create_topic(&topic, partitions, &[]).unwrap();
    }
    topic
}

/// Commits offsets of a consumer group, as another tool has left them.
fn commit(group: &str, topic: &str, offsets: &[(i32, i64)]) {
    let mut settings = ClientConfig::new();
    let consumer: BaseConsumer =
        settings.set("bootstrap.servers", pair().source.bootstrap()).set("group.id", group).create().unwrap();
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset)).unwrap();
    }
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

/// How often each sequence number lies in which partition.
fn sightings(cluster: &Cluster, topic: &str) -> BTreeMap<(i32, u64), u32> {
    let mut seen = BTreeMap::new();
    for record in read_all(cluster.bootstrap(), topic, Isolation::Committed).unwrap() {
        *seen.entry((record.partition, sequence(&record.value.unwrap()).unwrap())).or_default() += 1;
    }
    seen
}

#[test]
fn c02_a_switch_from_a_consumer_group_copies_neither_twice_nor_too_little() {
    let topic = topic("switch", PARTITIONS);
    write(&pair().source, &topic, 0..RECORDS);
    // The first has committed its beginning, the third has read everything, and of the last nothing is known.
    let other = unique("mirror");
    let committed = [(0, 0), (1, 337), (2, 1_000)];
    commit(&other, &topic, &committed);
    let originals = read_all(pair().source.bootstrap(), &topic, Isolation::Committed).unwrap();
    let begin = |partition| committed.iter().find(|(known, _)| *known == partition).map_or(0, |(_, offset)| *offset);
    let mut expected: BTreeMap<(i32, u64), u32> = originals
        .iter()
        .filter(|record| record.offset >= begin(record.partition))
        .map(|record| ((record.partition, sequence(record.value.as_ref().unwrap()).unwrap()), 1))
        .collect();
    assert_eq!(expected.len(), 1_000 + 663 + 1_000);

    let flow = Flow::new(pair(), &[&topic]).with(&format!("flows.f.start.position = \"group:{other}\""));
    let mut workers = [flow.start(), flow.start(), flow.start()];
    eventually("all has arrived", || (sightings(&pair().target, &topic).len() >= expected.len()).then_some(()));
    assert_eq!(sightings(&pair().target, &topic), expected);
    let logs: Vec<String> = workers.iter_mut().map(|worker| worker.process.log()).collect();
    assert!(logs.iter().any(|log| log.contains(&format!("{topic}-3 (no offset committed)"))));

    // The group goes on from where it is, whatever the other one does.
    workers.iter_mut().for_each(|worker| assert_eq!(worker.shut_down().code(), Some(0)));
    commit(&other, &topic, &[(0, 0), (1, 0), (2, 0)]);
    write(&pair().source, &topic, RECORDS..2 * RECORDS);
    let _worker = flow.start();
    let whole = sightings(&pair().source, &topic);
    expected.extend(whole.into_iter().filter(|((_, sequence), _)| *sequence >= RECORDS));
    eventually("the rest has arrived", || (sightings(&pair().target, &topic).len() >= expected.len()).then_some(()));
    assert_eq!(sightings(&pair().target, &topic), expected);
}

#[test]
fn a_share_group_is_followed_as_well() {
    let topic = topic("shared", 2);
    write(&pair().source, &topic, 0..RECORDS);
    let first = Flow::new(pair(), &[&topic]);
    let mut worker = first.start();
    await_all(&pair().target, &topic, RECORDS);
    assert_eq!(worker.shut_down().code(), Some(0));
    eventually("it has done everything", || (lag(&pair().source, &first.group)? == 0).then_some(()));
    let second = Flow::new(pair(), &[&topic]);
    let worker = second.with(&format!("flows.f.start.position = \"group:{}\"", first.group)).start();
    worker.await_log("start offsets set");
    write(&pair().source, &topic, RECORDS..2 * RECORDS);
    assert_eq!(await_all(&pair().target, &topic, 2 * RECORDS).duplicates, 0);
}

#[test]
fn a_group_that_nobody_has_committed_for_is_refused() {
    let topic = topic("nowhere", 1);
    let other = unique("misspelt");
    let flow = Flow::new(pair(), &[&topic]).with(&format!("flows.f.start.position = \"group:{other}\""));
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(77));
    for words in ["start.position", &*other, &*flow.group, "primary"] {
        assert!(log.contains(words), "{words} is not named");
    }
}

#[test]
fn latest_counts_once() {
    let topic = topic("latest", 2);
    write(&pair().source, &topic, 0..RECORDS);
    let flow = Flow::new(pair(), &[&topic]).with("flows.f.start.position = \"latest\"");
    let mut worker = flow.start();
    worker.await_log("start offsets set");
    worker.await_ready();
    assert_eq!(worker.shut_down().code(), Some(0));
    write(&pair().source, &topic, RECORDS..2 * RECORDS);
    let _worker = flow.start();
    eventually("what was written while nobody ran has arrived", || {
        arrived(&pair().target, &topic).filter(|arrived| arrived.distinct >= RECORDS)
    });
    let seen = sightings(&pair().target, &topic);
    assert!(seen.len() as u64 == RECORDS && seen.keys().all(|(_, sequence)| *sequence >= RECORDS));
}

#[test]
fn a_time_is_the_first_record_that_is_not_older() {
    const BEGIN_MS: i64 = 1_700_000_000_000;
    let topic = topic("since", 2);
    let producer = producer(&[]);
    let send = |partition: i32, number: i64| {
        let value = format!("{number}");
        let record =
            BaseRecord::<(), str>::to(&topic).partition(partition).timestamp(BEGIN_MS + number).payload(&value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    };
    // The second partition has nothing that is young enough.
    (0..1_000).for_each(|number| send(0, number));
    (0..500).for_each(|number| send(1, number));
    producer.flush(DEADLINE).unwrap();
    // Half a second after the begin.
    let flow = Flow::new(pair(), &[&topic]).with("flows.f.start.position = 2023-11-14T22:13:20.500Z");
    let worker = flow.start();
    worker.await_log("start offsets set");
    worker.await_ready();
    // What is written later is copied, whatever its time.
    send(1, -7);
    producer.flush(DEADLINE).unwrap();
    let seen = || {
        let records = read_all(pair().target.bootstrap(), &topic, Isolation::Committed).unwrap();
        let number = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().parse::<i64>().unwrap();
        let mut seen: Vec<_> = records.into_iter().map(|r| (r.partition, number(r.value.unwrap()))).collect();
        seen.sort();
        seen
    };
    eventually("all has arrived", || (seen().len() >= 501).then_some(()));
    let expected: Vec<_> = (500..1_000).map(|number| (0, number)).chain([(1, -7)]).collect();
    assert_eq!(seen(), expected);
}

#[test]
fn a_group_that_was_placed_and_never_joined_stays_where_it_is() {
    let topic = topic("placed", 1);
    produce(pair().source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    let flow = Flow::new(pair(), &[&topic]).with("flows.f.start.position = \"earliest\"");
    let source = &pair().source;
    let reset = ["--group", &flow.group, "--reset-offsets", "--to-latest", "--topic", &topic, "--execute"];
    println!("{}", source.tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand", &reset).unwrap());
    let config = ["--alter", "--entity-type", "groups", "--entity-name", &flow.group];
    let config = [&config[..], &["--add-config", "share.auto.offset.reset=earliest"]].concat();
    source.tool("org.apache.kafka.tools.ConfigCommand", &config).unwrap();
    let _worker = flow.start();
    write(source, &topic, RECORDS..2 * RECORDS);
    let seen = eventually("the later ones have arrived", || {
        Some(sightings(&pair().target, &topic)).filter(|seen| seen.len() as u64 >= RECORDS)
    });
    assert!(seen.keys().all(|(_, sequence)| *sequence >= RECORDS));
}
