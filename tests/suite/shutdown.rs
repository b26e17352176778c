//! Asked to end, a worker finishes what it holds and leaves nothing for others to repeat.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{DEADLINE, Flow, Worker, await_all, eventually, mortal_pair};

const RECORDS: u64 = 80_000;

/// As configured below, with room for a busy machine.
const DRAIN: Duration = Duration::from_secs(10);

/// Runs a load, ends its worker in the middle by `stop`, and lets another one finish.
fn leaves_nothing_behind(name: &str, stop: fn(&mut Worker)) {
    let pair = pair();
    let topic = unique(name);
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(pair, &[&topic]).with("bridge.drain.timeout.ms = 10000");
    let mut first = flow.start();
    first.await_ready();
    let load = Load { rate: Some(20_000), batch_bytes: 50_000, ..Load::of(RECORDS) };
    thread::scope(|scope| {
        let producing = scope.spawn(|| produce(pair.source.bootstrap(), &topic, &load).unwrap());
        first.await_metric("sink_record_send_total", 5_000);
        assert!(!producing.is_finished(), "the load ended before the worker was asked to");
        let asked_at = Instant::now();
        stop(&mut first);
        let status = first.process.wait_exit(DRAIN).unwrap();
        println!("{name}: ended with {status} after {:?}", asked_at.elapsed());
        assert_eq!(status.code(), Some(0));
    });
    let second = flow.start();
    let arrived = await_all(&pair.target, &topic, RECORDS);
    assert_eq!(arrived.duplicates, 0, "something was written and not acknowledged");
    let again = second.metric("sink_record_redelivery_total");
    println!("{name}: {again} records were on their way to the first worker when it ended");
    // At most the window of both partitions (share.partition.max.record.locks), which ends at whole batches.
    assert!(again < 10_000, "{again} records were let go");
}

#[test]
fn sigterm_ends_in_order() {
    leaves_nothing_behind("sigterm", |worker| worker.process.terminate().unwrap());
}

#[test]
fn sigint_ends_in_order() {
    leaves_nothing_behind("sigint", |worker| interrupt(worker.process.pid()));
}

#[test]
fn asking_again_changes_nothing() {
    leaves_nothing_behind("again", |worker| {
        worker.process.terminate().unwrap();
        interrupt(worker.process.pid());
    });
}

fn interrupt(pid: u32) {
    let status = Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Workers one after the other.
const WORKERS: u64 = 12;

#[test]
fn each_worker_of_a_row_begins_where_the_one_before_has_ended() {
    let (pair, records) = (pair(), 4_000);
    let topic = unique("row");
    pair.source.create_topic(&topic, 3, &[]).unwrap();
    let flow = Flow::new(pair, &[&topic]).with("bridge.drain.timeout.ms = 10000");
    let mut again = 0;
    for number in 0..WORKERS {
        let load = Load { start: number * records, rate: Some(4_000), batch_bytes: 5_000, ..Load::of(records) };
        thread::scope(|scope| {
            scope.spawn(|| produce(pair.source.bootstrap(), &topic, &load).unwrap());
            let mut worker = flow.start();
            // Before it has joined, in its first transactions, and in the midst of many.
            match number % 4 {
                0 => eventually("it is alive", || worker.is_alive().then_some(())),
                1 => drop(worker.await_metric("sink_record_acquire_total", 1)),
                2 => drop(worker.await_metric("transaction_total{outcome=committed}", 1)),
                _ => drop(worker.await_metric("sink_record_send_total", 300 * number as i64)),
            }
            again += worker.metric("sink_record_redelivery_total");
            assert_eq!(worker.shut_down().code(), Some(0));
            assert!(worker.process.log().contains("all that was acquired is finished"), "not in order");
        });
    }
    let last = flow.start();
    assert_eq!(await_all(&pair.target, &topic, WORKERS * records).duplicates, 0);
    again += last.metric("sink_record_redelivery_total");
    println!("{again} records were delivered again");
}

#[test]
fn while_one_end_hangs_a_worker_ends_in_order_all_the_same() {
    let pair = mortal_pair();
    let (source, target) = (&pair.source, &pair.target);
    let topic = unique("hangs");
    source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(&pair, &[&topic]).with("bridge.drain.timeout.ms = 10000");
    let write =
        |round: u64| produce(source.bootstrap(), &topic, &Load { start: round * 5_000, ..Load::of(5_000) }).unwrap();

    let mut worker = flow.start();
    write(0);
    await_all(target, &topic, 5_000);
    target.suspend().unwrap();
    write(1);
    worker.await_metric("sink_record_acquire_total", 10_000);
    worker.process.terminate().unwrap();
    worker.await_log("draining");
    target.resume().unwrap();
    assert_eq!(worker.process.wait_exit(DEADLINE).unwrap().code(), Some(0));
    assert!(worker.process.log().contains("all that was acquired is finished"), "it has not waited for the target");
    assert_eq!(await_all(target, &topic, 10_000).duplicates, 0);

    let mut worker = flow.start();
    write(2);
    await_all(target, &topic, 15_000);
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
    source.suspend().unwrap();
    println!("{}", worker.await_trouble(&["source"]));
    assert_eq!(worker.shut_down().code(), Some(0));
    source.resume().unwrap();
    write(3);
    let _last = flow.start();
    println!("{:?}", await_all(target, &topic, 20_000));
}
