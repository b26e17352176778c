//! While the target is away, records are held: no attempt is lost, and nothing has to be delivered again.

use std::thread;

use cluster::load::{Load, produce};
use cluster::{Cluster, unique};

use crate::bridge::{Flow, Worker, await_all, lag, mortal_pair};

const RECORDS: u64 = 6_000;

/// Waits until what is held was renewed three times, at halves of its lock: then one and a half locks are over.
fn await_three_renewals(worker: &Worker, acquired: i64) {
    let before = worker.metric("lock_renewal_total");
    worker.await_metric("lock_renewal_total", before + 3 * acquired);
}

#[test]
fn records_are_held_beyond_their_lock_while_the_target_is_away() {
    let pair = mortal_pair();
    let (source, target) = (&pair.source, &pair.target);
    let topic = unique("hold");
    source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(&pair, &[&topic]).with("bridge.drain.timeout.ms = 1000");
    let mut worker = flow.start();
    let write =
        |round| produce(source.bootstrap(), &topic, &Load { start: round * RECORDS, ..Load::of(RECORDS) }).unwrap();
    write(0);
    await_all(target, &topic, RECORDS);

    type Step = fn(&Cluster);
    let stages: [(Step, Step); 2] = [
        (|target| target.suspend().unwrap(), |target| target.resume().unwrap()),
        (|target| target.kill().unwrap(), |target| target.start_again().unwrap()),
    ];
    for (round, (leave, come_back)) in (1..).zip(stages) {
        leave(target);
        write(round);
        let acquired = worker.await_metric("sink_record_acquire_total", ((round + 1) * RECORDS) as i64);
        println!("{}", worker.await_trouble(&["target", "dr"]));
        await_three_renewals(&worker, acquired - (round * RECORDS) as i64);
        assert!(worker.is_alive());
        come_back(target);
        let arrived = await_all(target, &topic, (round + 1) * RECORDS);
        assert_eq!(arrived.duplicates, 0);
        assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
        assert_eq!(worker.metric("acknowledge_lost_total"), 0);
    }
    assert_eq!(lag(source, &flow.group), Some(0));

    target.suspend().unwrap();
    write(3);
    worker.await_metric("sink_record_acquire_total", 4 * RECORDS as i64);
    assert_eq!(worker.shut_down().code(), Some(0), "a drain that is cut short is no failure");
    target.resume().unwrap();
    let next = flow.start();
    await_all(target, &topic, 4 * RECORDS);
    assert_eq!(next.metric("sink_record_redelivery_total"), RECORDS as i64);
}

#[test]
fn a_worker_is_ready_again_once_the_target_is_back() {
    let pair = mortal_pair();
    let topic = unique("again");
    pair.source.create_topic(&topic, 1, &[]).unwrap();
    let worker = Flow::new(&pair, &[&topic]).with("flows.f.lanes.count = 2").start();
    let write = |start| produce(pair.source.bootstrap(), &topic, &Load { start, ..Load::of(100) }).unwrap();
    write(0);
    await_all(&pair.target, &topic, 100);
    worker.await_ready();
    pair.target.kill().unwrap();
    write(100);
    println!("{}", worker.await_trouble(&["target", "dr"]));
    pair.target.start_again().unwrap();
    await_all(&pair.target, &topic, 200);
    worker.await_ready();
}

#[test]
fn a_target_restarted_in_order_under_load_costs_nothing() {
    let (pair, records) = (mortal_pair(), 80_000);
    let (source, target) = (&pair.source, &pair.target);
    let topic = unique("ordered");
    source.create_topic(&topic, 4, &[]).unwrap();
    let flow = Flow::new(&pair, &[&topic]);
    let worker = flow.start();
    worker.await_ready();
    let load = Load { rate: Some(10_000), batch_bytes: 50_000, ..Load::of(records) };
    thread::scope(|scope| {
        let producing = scope.spawn(|| produce(source.bootstrap(), &topic, &load).unwrap());
        worker.await_metric("sink_record_send_total", 10_000);
        target.stop().unwrap();
        println!("{}", worker.await_trouble(&["dr"]));
        assert!(!producing.is_finished(), "the load ended before the restart");
        target.start_again().unwrap();
        worker.await_ready();
    });
    println!("{:?}", await_all(target, &topic, records));
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
    assert_eq!(worker.metric("acknowledge_lost_total"), 0);
}
