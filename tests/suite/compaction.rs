//! Compacted topics: refused, left alone, or copied on demand with their tombstones.

use std::path::Path;

use cluster::load::{Load, produce};
use cluster::{Verification, pair, unique};

use crate::bridge::{Flow, alter_topic, arrived, await_all};
use crate::flow::{assert_copied, producer, send};
use crate::refusal::end_of;
use rdkafka::producer::Producer;

const COMPACT: [(&str, &str); 1] = [("cleanup.policy", "compact")];

const RECORDS: u64 = 2_000;

fn write(topic: &str, start: u64) {
    produce(pair().source.bootstrap(), topic, &Load { start, keys: true, ..Load::of(RECORDS) }).unwrap();
}

#[test]
fn a_compacted_topic_is_refused_with_both_ways_out() {
    let (plain, compacted) = (unique("plain"), unique("compacted"));
    pair().source.create_topic(&plain, 1, &[]).unwrap();
    pair().source.create_topic(&compacted, 1, &[("cleanup.policy", "compact,delete")]).unwrap();
    let flow = Flow::new(pair(), &[&plain, &compacted]);
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(78));
    for word in [&compacted, "primary", "allow.unordered.compacted = true", "topics.names"] {
        assert!(log.contains(word), "{word} is not named");
    }
    assert!(!log.contains(&format!("topic {plain}")), "the other topic is blamed");
}

#[test]
fn a_topic_that_becomes_compacted_is_left_alone_until_it_is_not() {
    let pair = pair();
    let [fine, changed, late] = ["fine", "changed", "late"].map(unique);
    for topic in [&fine, &changed] {
        pair.source.create_topic(topic, 2, &[]).unwrap();
    }
    let worker = Flow::new(pair, &[&fine, &changed, &late]).with("flows.f.lanes.count = 1").start();
    for topic in [&fine, &changed] {
        write(topic, 0);
        await_all(&pair.target, topic, RECORDS);
    }

    alter_topic(&pair.source, &changed, "cleanup.policy=compact");
    pair.source.create_topic(&late, 1, &COMPACT).unwrap();
    pair.target.create_topic(&late, 1, &[]).unwrap();
    for topic in [&changed, &late] {
        println!("{}", worker.await_trouble(&[&format!("policy of topic {topic}"), "primary", "compacted"]));
    }
    // A fetch that waits at the broker may still bring what is written now: so it is answered first.
    write(&fine, RECORDS);
    await_all(&pair.target, &fine, 2 * RECORDS);
    for (topic, start) in [(&late, RECORDS), (&changed, RECORDS), (&fine, 2 * RECORDS)] {
        write(topic, start);
    }
    await_all(&pair.target, &fine, 3 * RECORDS);
    assert_eq!(
        worker.metric("sink_record_acquire_total"),
        4 * RECORDS as i64,
        "not only the fine topic was acquired from"
    );
    assert_eq!(arrived(&pair.target, &late).unwrap().distinct, 0);

    for topic in [&changed, &late] {
        alter_topic(&pair.source, topic, "cleanup.policy=delete");
    }
    assert_eq!(await_all(&pair.target, &changed, 2 * RECORDS).duplicates, 0);
    assert_eq!(await_all(&pair.target, &late, RECORDS).duplicates, 0);
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn with_the_key_a_compacted_topic_is_copied_with_its_tombstones() {
    let topic = unique("tombstones");
    pair().source.create_topic(&topic, 1, &COMPACT).unwrap();
    let producer = producer(&[("compression.type", "zstd")]);
    for number in 0..200_u32 {
        send(&producer, &topic, 0, (Some(&number.to_be_bytes()), Some(b"first")));
    }
    for number in (0..200_u32).step_by(2) {
        // Deleted, and emptied, which is not the same.
        let value = (number % 4 == 0).then_some(b"".as_slice());
        send(&producer, &topic, 0, (Some(&number.to_be_bytes()), value));
    }
    producer.flush(crate::bridge::DEADLINE).unwrap();
    // One lane, which keeps the order as long as nothing goes wrong: the last values are compared.
    let flow =
        Flow::new(pair(), &[&topic]).with("flows.f.allow.unordered.compacted = true").with("flows.f.lanes.count = 1");
    let worker = flow.start();
    let copied = assert_copied(&topic);
    let count = |value: Option<&[u8]>| copied.iter().filter(|record| record.value.as_deref() == value).count();
    assert_eq!((count(Some(b"first")), count(None), count(Some(b""))), (200, 50, 50));
    assert_eq!(pair().target.topic_config(&topic).unwrap()["cleanup.policy"], "compact");
    let verified = Verification::run(Path::new(env!("CARGO_BIN_EXE_sharebridge")), &worker.process.config()).unwrap();
    println!("{}", verified.report);
    assert!(verified.is_exact());
}
