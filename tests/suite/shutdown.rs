//! Asked to end, a worker finishes what it holds and leaves nothing for others to repeat.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{Flow, Worker, await_all};

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
