//! The engine that reads through librdkafka: a consumer group, each partition in order, records as they were.

use std::collections::HashSet;
use std::thread;

use cluster::load::{Load, produce};
use cluster::read::{Isolation, Record, read_all};
use cluster::{Cluster, Pair, pair, unique};
use rdkafka::producer::Producer;

use crate::bridge::{DEADLINE, Flow, Worker, eventually, mortal_pair};
use crate::flow::{producer, send, send_oddities};

/// A flow that reads through librdkafka.
fn flow(pair: &Pair, topics: &[&str]) -> Flow {
    Flow::new(pair, topics)
        .with("flows.f.group.protocol = \"consumer\"")
        .with("flows.f.consumer.engine = \"librdkafka\"")
        .with("flows.f.session.timeout.ms = 6000")
}

/// Records by partition, in their order; offsets are those of the log that they lie in.
fn by_partition(cluster: &Cluster, topic: &str) -> Option<Vec<Vec<Record>>> {
    let records = read_all(cluster.bootstrap(), topic, Isolation::Committed).ok()?;
    let mut partitions = vec![];
    for mut record in records {
        let partition = usize::try_from(record.partition).unwrap();
        partitions.resize(partitions.len().max(partition + 1), vec![]);
        record.offset = 0;
        partitions[partition].push(record);
    }
    Some(partitions)
}

/// Waits until as much has arrived as there was; then nothing has come twice or in another order.
pub(crate) fn assert_same(pair: &Pair, topic: &str) {
    let source = by_partition(&pair.source, topic).unwrap();
    let target = eventually(&format!("as many records of {topic} have arrived as there are"), || {
        let target = by_partition(&pair.target, topic)?;
        source.iter().zip(&target).all(|(source, target)| target.len() >= source.len()).then_some(target)
    });
    for (partition, (source, target)) in source.iter().zip(&target).enumerate() {
        let differing = source.iter().zip(target).position(|(a, b)| a != b);
        assert_eq!(differing, None, "{topic}-{partition}");
        assert_eq!(source.len(), target.len(), "{topic}-{partition}");
    }
}

/// Waits until all that was there has arrived; then each partition is in its order, whatever came twice. Values are unique.
/// Returns how many did.
fn repeated_in_order(pair: &Pair, topic: &str) -> usize {
    let source = by_partition(&pair.source, topic).unwrap();
    let (mut repeated, mut target) = (0, vec![]);
    eventually(&format!("all records of {topic} have arrived"), || {
        target = by_partition(&pair.target, topic)?;
        repeated = target.iter_mut().map(drop_repeated).sum();
        source.iter().zip(&target).all(|(source, target)| target.len() >= source.len()).then_some(())
    });
    for (partition, (source, target)) in source.iter().zip(&target).enumerate() {
        let differing = source.iter().zip(target).position(|(a, b)| a != b);
        assert_eq!(differing, None, "{topic}-{partition}");
    }
    repeated
}

/// Leaves the first of each value; returns how many others there were.
fn drop_repeated(records: &mut Vec<Record>) -> usize {
    let (mut seen, before) = (HashSet::new(), records.len());
    records.retain(|record| seen.insert(record.value.clone()));
    before - records.len()
}

fn committed(cluster: &Cluster, group: &str) -> Option<u64> {
    let arguments = ["--describe", "--group", group, "--offsets"];
    let table = cluster.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &arguments).unwrap();
    let mut lines = table.lines().filter(|line| !line.is_empty()).map(str::split_whitespace);
    let column = lines.next()?.position(|name| name == "CURRENT-OFFSET")?;
    lines.map(|mut fields| fields.nth(column)?.parse::<u64>().ok()).sum()
}

/// Transactions of several producers at once, some of them aborted.
fn send_transactions(topic: &str) {
    let producers: Vec<_> = (0..3).map(|_| producer(&[("transactional.id", &unique("writer"))])).collect();
    producers.iter().for_each(|producer| producer.init_transactions(DEADLINE).unwrap());
    for round in 0..6u8 {
        producers.iter().for_each(|producer| producer.begin_transaction().unwrap());
        for number in 0..30u8 {
            for (writer, producer) in (0u8..).zip(&producers) {
                let value = [round, writer, number];
                send(producer, topic, i32::from(number % 4), (Some(&[writer]), Some(&value)));
                producer.flush(DEADLINE).unwrap();
            }
        }
        for (writer, producer) in producers.iter().enumerate() {
            if (usize::from(round) + writer) % 2 == 0 {
                producer.abort_transaction(DEADLINE).unwrap();
            } else {
                producer.commit_transaction(DEADLINE).unwrap();
            }
        }
    }
}

#[test]
fn records_arrive_as_they_were_and_in_their_order() {
    let pair = pair();
    let (topic, append) = (unique("engine"), unique("engine-append"));
    pair.source.create_topic(&topic, 4, &[("retention.ms", "-1")]).unwrap();
    pair.source.create_topic(&append, 1, &[("message.timestamp.type", "LogAppendTime")]).unwrap();
    for (start, codec) in (0..).step_by(2_000).zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
        let load = Load { start, compression: codec.to_owned(), keys: true, headers: true, ..Load::of(2_000) };
        produce(pair.source.bootstrap(), &topic, &load).unwrap();
    }
    send_oddities(&topic);
    send_transactions(&topic);
    produce(pair.source.bootstrap(), &append, &Load::of(500)).unwrap();
    let flow = flow(pair, &[&topic, &append]);
    let group = format!("{}-ordered", flow.group);
    let mut worker = flow.start();
    assert_same(pair, &topic);
    assert_same(pair, &append);
    worker.await_ready();
    // Where a log ends in a marker, librdkafka does not tell that it was passed: so it is the other topic that is looked at.
    crate::ordered::committed(&pair.source, &group, &append);
    assert!(worker.shut_down().success());

    // What is committed is not read again, and what came meanwhile is.
    assert!(committed(&pair.source, &group).is_some_and(|offsets| offsets > 10_500));
    send_oddities(&topic);
    let _worker = flow.start();
    assert_same(pair, &topic);
}

#[test]
fn workers_take_turns_and_the_death_of_one_loses_nothing() {
    let pair = pair();
    let topic = unique("engine-turns");
    pair.source.create_topic(&topic, 4, &[]).unwrap();
    let flow = flow(pair, &[&topic]).with("flows.f.lanes.count = 2");
    let first = flow.start();
    first.await_ready();
    let load = Load { rate: Some(4_000), batch_bytes: 20_000, ..Load::of(60_000) };
    let repeated = thread::scope(|scope| {
        let producing = scope.spawn(|| produce(pair.source.bootstrap(), &topic, &load).unwrap());
        let sent = |worker: &Worker, more: i64| {
            worker.await_metric("sink_record_send_total", worker.metric("sink_record_send_total") + more);
        };
        sent(&first, 1_000);
        let mut second = flow.start();
        sent(&second, 1_000);
        assert_eq!(repeated_in_order(pair, &topic), 0, "something came twice though nobody died");
        assert!(second.shut_down().success());
        let mut third = flow.start();
        sent(&third, 1_000);
        third.process.kill().unwrap();
        producing.join().unwrap();
        repeated_in_order(pair, &topic)
    });
    println!("{repeated} records came again after a kill");
    first.await_ready();
}

#[test]
fn records_are_held_while_the_target_is_away() {
    let pair = mortal_pair();
    let topic = unique("engine-hold");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    let worker = flow(&pair, &[&topic]).start();
    let write = |round: u64| {
        produce(pair.source.bootstrap(), &topic, &Load { start: round * 2_000, ..Load::of(2_000) }).unwrap();
    };
    write(0);
    assert_same(&pair, &topic);
    pair.target.kill().unwrap();
    write(1);
    worker.await_metric("sink_record_read_total", 2_001);
    println!("{}", worker.await_trouble(&["target", "dr"]));
    assert!(worker.is_alive());
    pair.target.start_again().unwrap();
    assert_same(&pair, &topic);
    worker.await_ready();
}
