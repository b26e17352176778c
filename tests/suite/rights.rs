//! A right that is withdrawn stops what needs it and nothing else; the rest waits, says so, and goes on when it is granted again.

use cluster::load::{Load, produce};
use cluster::{Cluster, unique};

use crate::bridge::{Flow, Worker, arrived, await_all, eventually};
use crate::guarded::{guarded, withdraw};
use crate::refusal::end_of;

const RECORDS: u64 = 4_000;

/// Halves of a lock after which a lock is renewed.
const RENEWALS_OF_TWO_LOCKS: i64 = 5;

fn topics(source: &Cluster) -> [String; 3] {
    ["fine", "bad", "sound"].map(|name| {
        let topic = unique(name);
        source.create_topic(&topic, 2, &[]).unwrap();
        topic
    })
}

fn write(source: &Cluster, topics: &[&String], start: u64) {
    for topic in topics {
        produce(source.bootstrap(), topic, &Load { start, ..Load::of(RECORDS) }).unwrap();
    }
}

/// Waits until what is held has been renewed so often that two locks are over.
fn await_two_locks(worker: &Worker) {
    let held = eventually("something is held", || Some(worker.metric("held_records")).filter(|held| *held > 0));
    worker.await_metric("lock_renewal_total", worker.metric("lock_renewal_total") + RENEWALS_OF_TWO_LOCKS * held);
}

/// Whether `/ready` speaks of nothing but this.
fn assert_only(worker: &Worker, word: &str) {
    let (status, body) = worker.ready().unwrap();
    assert_eq!(status, 503);
    assert!(body.lines().all(|line| line.contains(word)), "more than {word} is in trouble: {body}");
}

#[test]
fn c19_without_the_right_to_write_one_topic_waits_and_the_others_flow() {
    let guarded = guarded();
    let (source, target) = (&guarded.pair.source, &guarded.pair.target);
    let topics = topics(source);
    let [fine, bad, sound] = &topics;
    let worker = Flow::new(&guarded.pair, &[fine, bad, sound]).start();
    write(source, &[fine, bad, sound], 0);
    for topic in &topics {
        await_all(target, topic, RECORDS);
    }

    let withdrawn = withdraw(target, &["--topic", bad], "Write");
    write(source, &[fine, bad, sound], RECORDS);
    println!("{}", worker.await_trouble(&[&format!("{bad}-"), "dr", "WRITE on the topic"]));
    for topic in [fine, sound] {
        await_all(target, topic, 2 * RECORDS);
    }
    await_two_locks(&worker);
    assert_eq!(arrived(target, bad).unwrap().distinct, RECORDS);
    write(source, &[sound, fine], 2 * RECORDS);
    for topic in [fine, sound] {
        await_all(target, topic, 3 * RECORDS);
    }
    assert_only(&worker, bad);

    withdrawn.grant();
    assert_eq!(await_all(target, bad, 2 * RECORDS).duplicates, 0);
    worker.await_ready();
    for topic in [fine, sound] {
        assert_eq!(arrived(target, topic).unwrap().duplicates, 0);
    }
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn without_the_right_to_the_transactional_id_records_are_held() {
    let guarded = guarded();
    let (source, target) = (&guarded.pair.source, &guarded.pair.target);
    let topic = unique("transactional");
    source.create_topic(&topic, 2, &[]).unwrap();
    let ids = ["--transactional-id", "sharebridge-f-", "--resource-pattern-type", "prefixed"];
    let withdrawn = withdraw(target, &ids, "Write");
    let flow = Flow::new(&guarded.pair, &[&topic]);
    write(source, &[&topic], 0);
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(77));
    for word in ["target transactions", "dr", "sharebridge-f-", "WRITE on the transactional id"] {
        assert!(log.contains(word), "{word} is not named");
    }
    withdrawn.grant();
    let worker = flow.start();
    await_all(target, &topic, RECORDS);
    worker.await_ready();

    let withdrawn = withdraw(target, &ids, "Write");
    write(source, &[&topic], RECORDS);
    println!("{}", worker.await_trouble(&["dr", "WRITE on the transactional id"]));
    let acquired = worker.await_metric("sink_record_acquire_total", RECORDS as i64 + 1) - RECORDS as i64;
    worker.await_metric("lock_renewal_total", worker.metric("lock_renewal_total") + 3 * acquired);
    assert!(worker.is_alive());
    withdrawn.grant();
    assert_eq!(await_all(target, &topic, 2 * RECORDS).duplicates, 0);
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn without_the_right_to_read_a_topic_the_others_flow() {
    let guarded = guarded();
    let (source, target) = (&guarded.pair.source, &guarded.pair.target);
    let topics = topics(source);
    let [fine, bad, sound] = &topics;
    let worker = Flow::new(&guarded.pair, &[fine, bad, sound]).start();
    write(source, &[fine, bad, sound], 0);
    for topic in &topics {
        await_all(target, topic, RECORDS);
    }
    let withdrawn = withdraw(source, &["--topic", bad], "Read");
    // A fetch that waits at the broker was allowed when it came, and may still bring what is written now.
    for partition in 0..2 {
        println!("{}", worker.await_trouble(&[&format!("source {bad}-{partition}"), "primary", "READ on the topic"]));
    }
    write(source, &[bad, fine, sound], RECORDS);
    for topic in [fine, sound] {
        await_all(target, topic, 2 * RECORDS);
    }
    assert_eq!(arrived(target, bad).unwrap().distinct, RECORDS);
    assert_only(&worker, bad);
    withdrawn.grant();
    assert_eq!(await_all(target, bad, 2 * RECORDS).duplicates, 0);
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn without_the_right_to_the_group_nothing_is_lost_and_it_is_joined_again() {
    let guarded = guarded();
    let (source, target) = (&guarded.pair.source, &guarded.pair.target);
    let topic = unique("group-right");
    source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(&guarded.pair, &[&topic]);
    let worker = flow.start();
    worker.await_ready();
    let load = Load { rate: Some(1_000), ..Load::of(5 * RECORDS) };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| produce(source.bootstrap(), &topic, &load).unwrap());
        worker.await_metric("sink_record_send_total", 1);
        let withdrawn = withdraw(source, &["--group", &flow.group], "Read");
        println!("{}", worker.await_trouble(&["share group", "primary", &flow.group, "READ on the group"]));
        println!("{}", worker.await_trouble(&["source broker", "READ on the group"]));
        // The members' sessions end: 6 s here.
        eventually("the group is empty", || is_empty(source, &flow.group).then_some(()));
        writer.join().unwrap();
        assert!(worker.is_alive());
        withdrawn.grant();
    });
    println!("{:?}", await_all(target, &topic, 5 * RECORDS));
    worker.await_ready();
    let [acquired, again] =
        ["sink_record_acquire_total", "sink_record_redelivery_total"].map(|name| worker.metric(name));
    assert!(again <= 5 * RECORDS as i64 / 2, "{again} of {acquired} records were acquired again");
}

fn is_empty(source: &Cluster, group: &str) -> bool {
    let arguments = ["--describe", "--group", group, "--state"];
    let table = source.tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand", &arguments).unwrap();
    table.contains("Empty")
}
