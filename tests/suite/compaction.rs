//! Compacted topics: copied in order beside the others, with their tombstones and holes.

use std::path::Path;

use cluster::load::{Load, produce};
use cluster::read::{Isolation, Record, count, read_all};
use cluster::{Verification, pair, unique};

use crate::bridge::{Flow, alter_topic, arrived, await_all, eventually};
use crate::flow::{assert_copied, producer, send};
use crate::ordered::order::await_in_order;
use crate::tidy::metrics::assert_told;
use rdkafka::producer::Producer;
use sharebridge::config::Protocol;

const COMPACT: [(&str, &str); 1] = [("cleanup.policy", "compact")];

const RECORDS: u64 = 2_000;

fn write(topic: &str, start: u64) {
    produce(pair().source.bootstrap(), topic, &Load { start, keys: true, ..Load::of(RECORDS) }).unwrap();
}

#[test]
fn a_compacted_topic_is_copied_in_order_beside_the_others() {
    let (plain, compacted) = (unique("plain"), unique("compacted"));
    pair().source.create_topic(&plain, 2, &[]).unwrap();
    pair().source.create_topic(&compacted, 2, &[("cleanup.policy", "compact,delete")]).unwrap();
    let flow = Flow::new(pair(), &[&plain, &compacted]);
    let worker = flow.start();
    for topic in [&plain, &compacted] {
        write(topic, 0);
        write(topic, RECORDS);
    }
    await_all(&pair().target, &plain, 2 * RECORDS);
    let order = await_in_order((&pair().source, &pair().target), &compacted, 2 * RECORDS);
    assert_eq!(order.duplicates, 0);
    worker.await_ready();
    // Each lane has the sensors of the way that it reads: the last one reads what is compacted.
    let lanes = |name: &str| worker.metrics().lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(worker.metric(&format!("sink_record_acquire_total{{topic={compacted}}}")), 0);
    assert_eq!(worker.metric(&format!("sink_record_read_total{{topic={compacted}}}")), 2 * RECORDS as i64);
    assert_eq!((lanes("sharebridge_partition_count{"), worker.metric("partition_count")), (1, 2));
}

#[test]
fn a_topic_that_becomes_compacted_is_left_alone_until_the_next_start() {
    let pair = pair();
    let [fine, changed, late] = ["fine", "changed", "late"].map(unique);
    for topic in [&fine, &changed] {
        pair.source.create_topic(topic, 2, &[]).unwrap();
    }
    let flow = Flow::new(pair, &[&fine, &changed, &late]).with("flows.f.lanes.count = 1");
    let mut worker = flow.start();
    for topic in [&fine, &changed] {
        write(topic, 0);
        await_all(&pair.target, topic, RECORDS);
    }

    alter_topic(&pair.source, &changed, "cleanup.policy=compact");
    pair.source.create_topic(&late, 1, &COMPACT).unwrap();
    println!("{}", worker.await_trouble(&[&format!("policy of topic {changed}"), "primary", "compacted"]));
    // A fetch that waits at the broker may still bring what is written now: so it is answered first.
    write(&fine, RECORDS);
    await_all(&pair.target, &fine, 2 * RECORDS);
    for (topic, start) in [(&changed, RECORDS), (&fine, 2 * RECORDS), (&late, 0)] {
        write(topic, start);
    }
    await_all(&pair.target, &fine, 3 * RECORDS);
    await_in_order((&pair.source, &pair.target), &late, RECORDS);
    assert_eq!(arrived(&pair.target, &changed).unwrap().distinct, RECORDS, "it was acquired from all the same");
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);

    // From its next start on, its consumer group goes on from where the share group stands: it has done more than its start offset tells.
    assert!(worker.shut_down().success());
    let worker = flow.start();
    let again = await_in_order((&pair.source, &pair.target), &changed, 2 * RECORDS);
    assert!(again.duplicates <= usize::try_from(RECORDS).unwrap(), "{again:?}");
    worker.await_ready();
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
    worker.await_metric("sink_record_acknowledge_total", 300);
    eventually("all lags are told", || worker.metrics().contains("sharebridge_group_lag{").then_some(()));
    assert_told(&worker.metrics(), Protocol::Share);
    assert!(
        worker.metric("acknowledge_time_seconds_count") > 0 && worker.metric("replication_latency_seconds_count") > 0
    );
    assert_eq!(worker.metric("in_flight_window_records"), 4_000);
    let count = |value: Option<&[u8]>| copied.iter().filter(|record| record.value.as_deref() == value).count();
    assert_eq!((count(Some(b"first")), count(None), count(Some(b""))), (200, 50, 50));
    assert_eq!(pair().target.topic_config(&topic).unwrap()["cleanup.policy"], "compact");
    let verified = Verification::run(Path::new(env!("CARGO_BIN_EXE_sharebridge")), &worker.process.config()).unwrap();
    println!("{}", verified.report);
    assert!(verified.is_exact());
}

#[test]
fn what_compaction_has_left_is_copied_as_it_is() {
    let topic = unique("holes");
    let eager = [("cleanup.policy", "compact"), ("segment.ms", "200"), ("min.cleanable.dirty.ratio", "0.001")];
    pair().source.create_topic(&topic, 2, &eager).unwrap();
    let source = pair().source.bootstrap();
    let mut written = 0;
    eventually("compaction has taken some records", || {
        // Each write closes the segment before it, which only then may be compacted.
        write(&topic, written);
        written += RECORDS;
        (count(source, &topic, Isolation::Committed).ok()? < written).then_some(())
    });
    pair().source.set_topic_config(&topic, &[("cleanup.policy", "delete"), ("segment.ms", "600000")]).unwrap();
    let original = eventually("compaction is over", || {
        let records = read_all(source, &topic, Isolation::Committed).ok()?;
        (records == read_all(source, &topic, Isolation::Committed).ok()?).then_some(records)
    });
    println!("{} of {written} records are left", original.len());
    let worker = Flow::new(pair(), &[&topic]).with("flows.f.group.protocol = \"consumer\"").start();
    let contents = |records: &[Record]| -> Vec<_> {
        let mut contents: Vec<_> = records.iter().map(|r| (r.partition, r.key.clone(), r.value.clone())).collect();
        contents.sort_by_key(|(partition, ..)| *partition);
        contents
    };
    let copy = eventually("all that is left has arrived", || {
        let copy = read_all(pair().target.bootstrap(), &topic, Isolation::Committed).ok()?;
        (copy.len() >= original.len()).then_some(copy)
    });
    assert_eq!(contents(&copy), contents(&original));
    worker.await_metric("offset_commit_completion_total", 1);
    eventually("all lags are told", || worker.metrics().contains("sharebridge_group_lag{").then_some(()));
    assert_told(&worker.metrics(), Protocol::Consumer);
    let read = worker.metric("sink_record_read_total");
    assert!(read >= i64::try_from(original.len()).unwrap(), "{read} of {}", original.len());
}
