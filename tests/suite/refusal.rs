//! What cannot work is said: at once and with the way out where starting again would not help, in `/ready` where it may heal.

use std::net::TcpListener;

use cluster::load::{Load, produce};
use cluster::{pair, unique};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::bridge::{DEADLINE, Flow, Worker, await_all, eventually, mortal_pair};

/// Exit code and all output of a worker that ends by itself.
pub(crate) fn end_of(mut worker: Worker) -> (Option<i32>, String) {
    let status = worker.process.wait_exit(DEADLINE).unwrap();
    let log = worker.process.log();
    println!("{log}");
    (status.code(), log)
}

#[test]
fn group_configs_beyond_the_brokers_bounds_end_with_the_command_to_run() {
    let topic = unique("refused");
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    let flow = Flow::new(pair(), &[&topic]).with("flows.f.share.partition.max.record.locks = 10000");
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(77));
    assert!(log.contains("kafka-configs.sh --bootstrap-server"), "no command");
    assert!(log.contains(&flow.group) && log.contains("share.partition.max.record.locks=10000"), "not what differs");
}

#[test]
fn a_bad_configuration_ends_at_once() {
    let (code, log) = end_of(Flow::new(pair(), &["t"]).with("flows.f.lane.count = 2").start());
    assert_eq!(code, Some(78));
    assert!(log.contains("lane.count") && log.contains("did you mean lanes.count?"), "not named");
}

#[test]
fn two_flows_with_one_group_on_one_source_end_at_once() {
    let flow = Flow::new(pair(), &["t"]);
    let group = format!("flows.g.share.group.id = \"{}\"", flow.group);
    let second =
        ["flows.g.source.cluster = \"primary\"", "flows.g.sink.cluster = \"dr\"", "flows.g.topics.names = [\"u\"]"];
    let flow = second.into_iter().fold(flow.with(&group), |flow, line| flow.with(line));
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(78));
    let line = log.lines().find(|line| line.contains("[flows.g] share.group.id")).unwrap();
    assert!(line.contains(&flow.group) && line.contains("[flows.f]"), "{line}");
}

#[test]
fn a_status_address_in_use_ends_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (code, log) = end_of(Flow::new(pair(), &["t"]).start_at(address));
    assert_eq!(code, Some(75));
    assert!(log.contains(&format!("status.address {address}")) && log.contains("in use"), "not named");
}

#[test]
fn a_consumer_group_of_the_same_id_is_named_and_left_alone() {
    let pair = pair();
    let topic = unique("occupied");
    pair.source.create_topic(&topic, 1, &[]).unwrap();
    let flow = Flow::new(pair, &[&topic]);
    commit(&flow.group, &topic);
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(78));
    let line = log.lines().find(|line| line.contains("misconfigured")).unwrap();
    assert!(line.contains(&flow.group) && line.contains("share.group.id"), "no way out");
}

/// Makes a consumer group by committing an offset.
fn commit(group: &str, topic: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", pair().source.bootstrap()).set("group.id", group);
    let consumer: BaseConsumer = config.create().unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, 0, Offset::Offset(0)).unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
}

#[test]
fn clusters_that_are_down_at_the_start_are_waited_for() {
    let pair = mortal_pair();
    let topic = unique("early");
    pair.source.create_topic(&topic, 1, &[]).unwrap();
    produce(pair.source.bootstrap(), &topic, &Load::of(1_000)).unwrap();
    pair.source.kill().unwrap();
    pair.target.kill().unwrap();

    let worker = Flow::new(&pair, &[&topic]).start();
    let (first_status, _) = eventually("/ready answers", || worker.ready());
    println!("{}", worker.await_trouble(&["primary"]));
    pair.source.start_again().unwrap();
    println!("{}", worker.await_trouble(&["dr"]));
    assert!(worker.is_alive());
    pair.target.start_again().unwrap();
    worker.await_ready();
    assert_eq!(await_all(&pair.target, &topic, 1_000).duplicates, 0);
    assert_eq!(first_status, 503, "it said to be ready before it had reached a cluster");
}
