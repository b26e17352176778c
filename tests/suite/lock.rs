//! Locks that are lost while a transaction is open: what others get is not committed a second time.

use cluster::load::{Load, produce};
use cluster::{Cluster, unique};

use crate::bridge::{Flow, await_all, mortal_pair};

const RECORDS: u64 = 4_000;

fn write(source: &Cluster, topic: &str, round: u64) {
    let load = Load { start: round * RECORDS, batch_bytes: 50_000, ..Load::of(RECORDS) };
    produce(source.bootstrap(), topic, &load).unwrap();
}

#[test]
fn a_worker_frozen_beyond_its_lock_commits_nothing_that_another_one_got() {
    let pair = mortal_pair();
    let (source, target) = (&pair.source, &pair.target);
    let topic = unique("frozen");
    source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(&pair, &[&topic]);
    let mut first = flow.start();
    write(source, &topic, 0);
    await_all(target, &topic, RECORDS);
    // What is committed and not acknowledged yet would come again, and rightly.
    first.await_metric("sink_record_acknowledge_total", RECORDS as i64);
    target.suspend().unwrap();
    write(source, &topic, 1);
    first.await_metric("sink_record_acquire_total", RECORDS as i64 + 1);
    first.process.suspend().unwrap();
    target.resume().unwrap();

    let second = flow.start();
    await_all(target, &topic, 2 * RECORDS);
    assert!(second.metric("sink_record_redelivery_total") > 0, "the first worker held nothing");
    first.process.resume().unwrap();
    first.await_log("locks ended before they were renewed");
    assert!(first.metric("lock_lost_total") > 0, "what was lost is not counted");
    first.await_ready();
    write(source, &topic, 2);
    assert_eq!(await_all(target, &topic, 3 * RECORDS).duplicates, 0);
}

#[test]
fn a_source_killed_while_a_transaction_is_open_gives_its_records_again() {
    let pair = mortal_pair();
    let (source, target) = (&pair.source, &pair.target);
    let topic = unique("open");
    source.create_topic(&topic, 2, &[]).unwrap();
    let worker = Flow::new(&pair, &[&topic]).start();
    write(source, &topic, 0);
    await_all(target, &topic, RECORDS);
    target.suspend().unwrap();
    write(source, &topic, 1);
    worker.await_metric("sink_record_acquire_total", RECORDS as i64 + 1);
    source.kill().unwrap();
    println!("{}", worker.await_trouble(&["share group", "primary"]));
    target.resume().unwrap();
    source.start_again().unwrap();
    assert_eq!(await_all(target, &topic, 2 * RECORDS).duplicates, 0);
    worker.await_ready();
    assert!(worker.metric("sink_record_acquire_total") > 2 * RECORDS as i64, "nothing has come again");
}
