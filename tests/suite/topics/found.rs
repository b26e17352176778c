//! What a pattern finds, at the start and later on.

use std::collections::BTreeSet;

use cluster::read::{Isolation, read_all};
use cluster::{pair, unique};

use super::flow;
use crate::bridge::{await_all, eventually};
use crate::stream::{Stream, write};

const RECORDS: u64 = 2_000;

#[test]
fn a_pattern_copies_what_it_matches_and_tells_what_it_leaves_out() {
    let (pair, name) = (pair(), unique("pattern"));
    let topic = |rest: &str| format!("{name}{rest}");
    let [one, other] = ["-one", "-other"].map(topic);
    let left = ["-tmp", ".checkpoints.internal"].map(topic);
    pair.source
        .create_topics(&[(one.clone(), 3), (other.clone(), 1), (left[0].clone(), 1), (left[1].clone(), 1)])
        .unwrap();
    for topic in [&one, &other].into_iter().chain(&left) {
        write(&pair.source, topic, 0..RECORDS);
    }
    let worker = flow(pair, &format!("{name}.*"), ".*-tmp").start();
    for topic in [&one, &other] {
        assert_eq!(await_all(&pair.target, topic, RECORDS).duplicates, 0);
    }
    worker.await_ready();
    assert_eq!((worker.metric("topics"), worker.metric("topics_skipped")), (2, 2));
    for topic in &left {
        assert!(pair.target.topic_config(topic).is_err(), "{topic} is on the target");
    }
}

#[test]
fn c06_new_topics_and_partitions_are_found_by_all_workers_under_load() {
    let (pair, name) = (pair(), unique("finding"));
    let [first, second] = ["-first", "-second"].map(|rest| format!("{name}{rest}"));
    pair.source.create_topic(&first, 3, &[]).unwrap();
    let flow = flow(pair, &format!("{name}.*"), "none");
    let workers = [flow.start(), flow.start(), flow.start()];
    workers.iter().for_each(|worker| worker.await_ready());
    let stream = Stream::start(&pair.source, &first, 0);
    pair.source.grow_topic(&first, 6).unwrap();
    pair.source.create_topic(&second, 2, &[]).unwrap();
    write(&pair.source, &second, 0..RECORDS);
    for worker in &workers {
        worker.await_metric("topics", 2);
    }
    await_all(&pair.target, &second, RECORDS);
    // The stream sees the new partitions with its next piece.
    eventually("the new partitions are copied", || {
        let records = read_all(pair.target.bootstrap(), &first, Isolation::Committed).ok()?;
        let partitions: BTreeSet<i32> = records.iter().map(|record| record.partition).collect();
        (partitions.len() == 6).then_some(())
    });
    let end = stream.end();
    println!("{:?}", await_all(&pair.target, &first, end));
    workers.iter().for_each(|worker| worker.await_ready());
    let redelivered: i64 = workers.iter().map(|worker| worker.metric("sink_record_redelivery_total")).sum();
    assert_eq!(redelivered, 0, "the partitions waited for the target instead of being held");
}

#[test]
fn a_flow_without_topics_says_so_and_begins_with_the_first() {
    let (pair, name) = (pair(), unique("nothing"));
    let worker = flow(pair, &format!("{name}.*"), "none").start();
    println!("{}", worker.await_trouble(&["topics of the flow", "primary", &name]));
    let topic = format!("{name}-late");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    write(&pair.source, &topic, 0..RECORDS);
    assert_eq!(await_all(&pair.target, &topic, RECORDS).duplicates, 0);
    worker.await_ready();
}
