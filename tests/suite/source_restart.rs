//! The source goes away under load and comes back: nothing is missing.

use std::thread;

use cluster::load::{Load, produce};
use cluster::unique;

use crate::bridge::{Flow, await_all, mortal_pair};

const RECORDS: u64 = 150_000;

#[test]
fn a_source_killed_or_paused_under_load_loses_nothing() {
    let pair = mortal_pair();
    let topic = unique("restart");
    pair.source.create_topic(&topic, 4, &[]).unwrap();
    let worker = Flow::new(&pair, &[&topic]).start();
    worker.await_ready();
    let load = Load { rate: Some(10_000), batch_bytes: 50_000, ..Load::of(RECORDS) };
    thread::scope(|scope| {
        let producing = scope.spawn(|| produce(pair.source.bootstrap(), &topic, &load).unwrap());
        worker.await_metric("sink_record_send_total", 10_000);
        pair.source.kill().unwrap();
        println!("{}", worker.await_trouble(&["source"]));
        pair.source.start_again().unwrap();
        worker.await_ready();
        let sent = worker.metric("sink_record_send_total");
        worker.await_metric("sink_record_send_total", sent + 10_000);
        assert!(!producing.is_finished(), "the load ended before the pause");

        pair.source.suspend().unwrap();
        println!("{}", worker.await_trouble(&["source"]));
        println!("{}", worker.await_trouble(&["share group"]));
        pair.source.resume().unwrap();
        worker.await_ready();
    });
    let arrived = await_all(&pair.target, &topic, RECORDS);
    println!("{arrived:?} after a kill and a pause of the source");
}

#[test]
fn a_source_restarted_in_order_under_load_loses_nothing() {
    let pair = mortal_pair();
    let topic = unique("ordered");
    pair.source.create_topic(&topic, 4, &[]).unwrap();
    let worker = Flow::new(&pair, &[&topic]).start();
    worker.await_ready();
    let load = Load { rate: Some(10_000), batch_bytes: 50_000, ..Load::of(RECORDS) };
    thread::scope(|scope| {
        let producing = scope.spawn(|| produce(pair.source.bootstrap(), &topic, &load).unwrap());
        worker.await_metric("sink_record_send_total", 10_000);
        pair.source.stop().unwrap();
        println!("{}", worker.await_trouble(&["source", "primary"]));
        assert!(!producing.is_finished(), "the load ended before the restart");
        pair.source.start_again().unwrap();
        worker.await_ready();
    });
    let arrived = await_all(&pair.target, &topic, RECORDS);
    println!("{arrived:?} after an ordered restart of the source, {} lost", worker.metric("acknowledge_lost_total"));
}
