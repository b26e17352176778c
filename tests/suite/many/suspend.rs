//! A broker that hangs: its connections stay open and nobody answers. Only what it alone has waits for it.

use cluster::{Cluster, Coordinated, Pair, unique};

use super::{flow, many_pair, transactional_ids};
use crate::bridge::{Flow, await_all};
use crate::stream::{Stream, write};

const RECORDS: u64 = 3_000;

/// Topics with one partition on one broker each, and one topic whose partitions have replicas on all brokers.
struct Topics {
    /// By node.id minus 1.
    alone: [String; 3],
    everywhere: String,
}

impl Topics {
    fn create(pair: &Pair) -> Self {
        let topics = Self { alone: [1, 2, 3].map(|id| unique(&format!("on-{id}"))), everywhere: unique("everywhere") };
        for cluster in [&pair.source, &pair.target] {
            for (id, topic) in (1..).zip(&topics.alone) {
                cluster.create_topic_at(topic, &[&[id]]).unwrap();
            }
            cluster.create_topic_at(&topics.everywhere, &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]).unwrap();
        }
        topics
    }

    fn flow(&self, pair: &Pair) -> Flow {
        let [one, two, three] = &self.alone;
        flow(pair, &[one, two, three, &self.everywhere])
    }

    /// Copies the first round of all: then every connection stands.
    fn copy_once(&self, pair: &Pair) {
        let all: Vec<&str> = self.alone.iter().chain([&self.everywhere]).map(String::as_str).collect();
        copy(pair, &all, 0);
    }

    /// The topic that only this broker has.
    fn on(&self, broker: i32) -> &str {
        &self.alone[usize::try_from(broker - 1).unwrap()]
    }

    /// All other topics.
    fn elsewhere(&self, broker: i32) -> Vec<&str> {
        let names = self.alone.iter().chain([&self.everywhere]).map(String::as_str);
        names.filter(|name| *name != self.on(broker)).collect()
    }
}

/// The coordinator of a share group in the words of Kafka's own tool: its id in parentheses.
fn told_coordinator(cluster: &Cluster, group: &str) -> String {
    let arguments = ["--describe", "--group", group, "--state"];
    let table = cluster.tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand", &arguments).unwrap();
    table.lines().last().unwrap().split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn a_target_broker_that_hangs_holds_up_only_what_it_alone_has() {
    let pair = many_pair();
    let topics = Topics::create(&pair);
    let before = transactional_ids(&pair.target);
    let worker = topics.flow(&pair).start();
    topics.copy_once(&pair);
    let ids = transactional_ids(&pair.target);
    let id = ids.difference(&before).next().unwrap();
    let victim = pair.target.coordinator(Coordinated::Transaction(id)).unwrap();
    let (stuck, others) = (topics.on(victim), topics.elsewhere(victim));

    pair.target.broker(victim).suspend().unwrap();
    write(&pair.source, stuck, RECORDS..2 * RECORDS);
    println!("{}", worker.await_trouble(&[&format!("{stuck}-0")]));
    for round in 1..3 {
        copy(&pair, &others, round);
    }
    println!("{}", worker.await_trouble(&[&format!("{stuck}-0")]));

    pair.target.broker(victim).resume().unwrap();
    println!("{:?}", await_all(&pair.target, stuck, 2 * RECORDS));
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn a_target_broker_that_dies_in_a_transaction_holds_up_only_what_it_alone_has() {
    let pair = many_pair();
    let topics = Topics::create(&pair);
    let before = transactional_ids(&pair.target);
    // One lane: no other one can do its work.
    let worker = topics.flow(&pair).with("flows.f.lanes.count = 1").start();
    topics.copy_once(&pair);
    let ids = transactional_ids(&pair.target);
    let id = ids.difference(&before).next().unwrap();
    let coordinator = pair.target.coordinator(Coordinated::Transaction(id)).unwrap();
    let victim = coordinator % 3 + 1;
    let (stuck, others) = (topics.on(victim), topics.elsewhere(victim));

    let stream = Stream::start(&pair.source, stuck, RECORDS);
    worker.await_metric("sink_record_send_total", 4 * RECORDS as i64 + 1);
    pair.target.broker(victim).kill().unwrap();
    println!("{}", worker.await_trouble(&[&format!("{stuck}-0")]));
    for round in 1..3 {
        copy(&pair, &others, round);
    }

    pair.target.start_again().unwrap();
    println!("{:?}", await_all(&pair.target, stuck, stream.end()));
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn a_source_broker_that_hangs_holds_up_only_what_it_alone_has() {
    let pair = many_pair();
    let topics = Topics::create(&pair);
    let flow = topics.flow(&pair);
    let worker = flow.start();
    topics.copy_once(&pair);
    let victim = pair.source.coordinator(Coordinated::Group(&flow.group)).unwrap();
    assert_eq!(told_coordinator(&pair.source, &flow.group), format!("({victim})"));
    let (stuck, others) = (topics.on(victim), topics.elsewhere(victim));

    write(&pair.source, stuck, RECORDS..2 * RECORDS);
    pair.source.broker(victim).suspend().unwrap();
    // Its silence is told at first, and then, for as long as it lasts, that nobody leads what it alone has.
    println!("{}", worker.await_trouble(&[&format!("source leader of {stuck}-0")]));
    for round in 1..3 {
        copy(&pair, &others, round);
    }

    pair.source.broker(victim).resume().unwrap();
    write(&pair.source, stuck, 2 * RECORDS..3 * RECORDS);
    println!("{:?}", await_all(&pair.target, stuck, 3 * RECORDS));
    worker.await_ready();
}

/// Copies the records of one round.
fn copy(pair: &Pair, topics: &[&str], round: u64) {
    topics.iter().for_each(|topic| write(&pair.source, topic, round * RECORDS..(round + 1) * RECORDS));
    topics.iter().for_each(|topic| println!("{topic}: {:?}", await_all(&pair.target, topic, (round + 1) * RECORDS)));
}
