//! Delivery attempts: a broker archives a record without a word once they are used up.

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{Flow, Worker, alter_topic, arrived, eventually, lag};

const RECORDS: u64 = 5_000;

/// Two fewer than the limit of 10: one attempt is left for a worker that lives.
const KILLS: usize = 8;

/// A topic with records, of which none fits into the one of the same name on the target: workers acquire and hold, whatever they
/// try.
fn stuck(name: &str) -> String {
    let topic = unique(name);
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    pair().target.create_topic(&topic, 1, &[("max.message.bytes", "60")]).unwrap();
    let load = Load { batch_bytes: 20_000, ..Load::of(RECORDS) };
    produce(pair().source.bootstrap(), &topic, &load).unwrap();
    topic
}

/// A worker that has joined and holds the first records.
fn holder(flow: &Flow) -> Worker {
    let worker = flow.start();
    worker.await_metric("sink_record_acquire_total", 1);
    worker
}

/// How often the first record has been delivered, as Kafka's own share consumer sees it when it takes it next.
fn next_delivery(flow: &Flow, topic: &str) -> u32 {
    let group = ["--group", &flow.group, "--topic", topic, "--max-messages", "1", "--timeout-ms", "30000"];
    let shown = ["--formatter-property", "print.delivery=true", "--formatter-property", "print.offset=true"];
    let main_class = "org.apache.kafka.tools.consumer.ConsoleShareConsumer";
    let line = pair().source.tool(main_class, &[&group[..], &shown].concat()).unwrap();
    println!("{line}");
    let delivery = line.strip_prefix("Offset:0\tDelivery:").unwrap();
    delivery.split('\t').next().unwrap().parse().unwrap()
}

#[test]
fn a_kill_costs_one_attempt_whatever_the_number_of_lanes() {
    for lanes in [1, 2] {
        let topic = stuck("cost");
        let flow = Flow::new(pair(), &[&topic]).with(&format!("flows.f.lanes.count = {lanes}"));
        holder(&flow).process.kill().unwrap();
        assert_eq!(next_delivery(&flow, &topic), 2, "{lanes} lanes");
    }
}

/// Kills workers that hold the first records, then lets one finish.
fn survive(lanes: u32) {
    let (pair, topic) = (pair(), stuck("attempts"));
    let flow = Flow::new(pair, &[&topic])
        .with(&format!("flows.f.lanes.count = {lanes}"))
        .with("flows.f.share.max.delivery.count = 10");
    for kill in 1..=KILLS {
        let mut worker = holder(&flow);
        println!("{lanes} lanes, kill {kill}: {} records acquired", worker.metric("sink_record_acquire_total"));
        worker.process.kill().unwrap();
    }
    assert_eq!(arrived(&pair.target, &topic).unwrap().distinct, 0);

    alter_topic(&pair.target, &topic, "max.message.bytes=1048588");
    let _last = holder(&flow);
    eventually("the group has no lag", || lag(&pair.source, &flow.group).filter(|lag| *lag == 0));
    let arrived = arrived(&pair.target, &topic).unwrap();
    assert_eq!(arrived.distinct, RECORDS, "the group is done, and yet records are missing: they were archived");
    assert_eq!(arrived.duplicates, 0, "nothing was committed before, so nothing can be double");
}

#[test]
fn the_first_records_of_a_window_survive_eight_kills_of_one_lane() {
    survive(1);
}

#[test]
fn the_first_records_of_a_window_survive_eight_kills_of_two_lanes() {
    survive(2);
}
