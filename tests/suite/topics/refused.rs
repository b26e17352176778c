//! Rights that are missing on the target: what may not be changed there stops nothing else.

use cluster::unique;

use super::flow;
use crate::bridge::await_all;
use crate::guarded::{guarded, withdraw};
use crate::stream::write;

const RECORDS: u64 = 1_000;

#[test]
fn c18_without_rights_to_change_the_target_all_that_can_flow_flows() {
    let guarded = guarded();
    let (source, target) = (&guarded.pair.source, &guarded.pair.target);
    let name = unique("refused");
    let [there, late] = ["-there", "-late"].map(|rest| format!("{name}{rest}"));
    source.create_topic(&there, 1, &[("segment.ms", "90000")]).unwrap();
    target.create_topic(&there, 1, &[]).unwrap();
    // Both, since who may create topics of the cluster may create each of them.
    let cluster = withdraw(target, &["--cluster"], "Create");
    let others = ["--operation", "Alter", "--operation", "AlterConfigs"];
    let topics = withdraw(target, &[&["--topic", &there, "--topic", &late][..], &others].concat(), "Create");
    let worker = flow(&guarded.pair, &format!("{name}.*"), "none").start();
    write(source, &there, 0..RECORDS);
    await_all(target, &there, RECORDS);
    worker.await_ready();
    worker.await_log("grant ALTER_CONFIGS on the topic");

    source.create_topic(&late, 1, &[]).unwrap();
    write(source, &late, 0..RECORDS);
    println!("{}", worker.await_trouble(&[&format!("topic {late}"), "dr", "CREATE on the topic"]));
    source.grow_topic(&there, 2).unwrap();
    println!("{}", worker.await_trouble(&[&format!("topic {there}"), "dr", "ALTER on the topic"]));
    write(source, &there, RECORDS..2 * RECORDS);
    // The first partition flows, the second is held; of the late topic nothing is acquired.
    println!("{}", worker.await_trouble(&[&format!("{there}-1: "), "kafka-topics.sh"]));
    await_all(target, &there, RECORDS + RECORDS / 2);
    assert_eq!(worker.metric("sink_record_acquire_total"), 2 * RECORDS as i64);
    let told = worker.process.log().matches("not kept in step").count();
    assert_eq!(told, 1, "the log tells it with each look");

    [cluster, topics].into_iter().for_each(|withdrawn| withdrawn.grant());
    await_all(target, &there, 2 * RECORDS);
    await_all(target, &late, RECORDS);
    super::await_config(target, &there, ("segment.ms", "90000"));
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}
