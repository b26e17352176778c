//! Workers come and go: each gets its share, and none takes a record with it.

use std::thread;

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{Flow, await_all};

const RECORDS: u64 = 120_000;

#[test]
fn workers_share_one_partition_and_the_death_of_one_loses_nothing() {
    let pair = pair();
    let topic = unique("elastic");
    pair.source.create_topic(&topic, 1, &[]).unwrap();
    let flow = Flow::new(pair, &[&topic]).with("flows.f.lanes.count = 2");
    let (mut first, second) = (flow.start(), flow.start());
    first.await_ready();
    second.await_ready();
    let load = Load { rate: Some(15_000), batch_bytes: 50_000, ..Load::of(RECORDS) };
    thread::scope(|scope| {
        let producing = scope.spawn(|| produce(pair.source.bootstrap(), &topic, &load).unwrap());
        first.await_metric("sink_record_send_total", 1);
        second.await_metric("sink_record_send_total", 1);
        assert!(!producing.is_finished(), "the load ended before the kill");
        first.process.kill().unwrap();
        let third = flow.start();
        third.await_metric("sink_record_send_total", 1);
        let arrived = await_all(&pair.target, &topic, RECORDS);
        println!("{arrived:?} after one kill");
    });
}
