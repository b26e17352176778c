//! Through a consumer group: everything arrives, and each partition in its order, whoever comes, goes or dies.

pub(crate) mod order;
mod transactions;

use std::time::Instant;

use cluster::load::{Load, produce};
use cluster::{Cluster, Pair, Spec, pair, unique};

use crate::bridge::{Flow, Worker, eventually};
use crate::stream::Stream;
use order::{Order, await_in_order};

/// A flow that keeps the order.
fn ordered(pair: &Pair, topics: &[&str]) -> Flow {
    Flow::new(pair, topics).with("flows.f.group.protocol = \"consumer\"").with("flows.f.session.timeout.ms = 6000")
}

/// Three brokers each, of these versions.
fn start(source: &str, target: &str) -> Pair {
    let three =
        |name: &str, version: &str| Spec { version: version.to_owned(), ..Spec::three(&format!("{name}-{version}")) };
    Pair::start(three("ordered-source", source), three("ordered-target", target)).unwrap()
}

/// What happens to a flow in one round.
const ROUNDS: [&str; 5] = ["join", "kill", "source leader", "leave", "target leader"];

/// Lets workers come, go and die, and brokers of both sides die, one after the other while records are written; then compares.
fn torment(pair: &Pair, rounds: usize) -> Order {
    let begun = Instant::now();
    let topic = unique("torment");
    pair.source.create_topic(&topic, 6, &[]).unwrap();
    let flow = ordered(pair, &[&topic]).patient();
    let mut workers: Vec<Worker> = (0..2).map(|_| flow.start()).collect();
    let stream = Stream::start(&pair.source, &topic, 0);
    workers[0].await_metric("sink_record_send_total", 1);
    for round in 0..rounds {
        let what = ROUNDS[round % ROUNDS.len()];
        println!("{:5.1} s, round {round}: {what}", begun.elapsed().as_secs_f64());
        let partition = i32::try_from(round / ROUNDS.len() % 6).unwrap();
        match what {
            "join" => workers.push(flow.start()),
            "kill" => {
                workers.remove(0).process.kill().unwrap();
                workers.push(flow.start());
            }
            "leave" => {
                workers.remove(0).shut_down();
            }
            _ => {
                let cluster = if what == "source leader" { &pair.source } else { &pair.target };
                let known = || cluster.leader(&topic, partition).ok();
                cluster.broker(eventually("somebody leads the partition", known)).kill().unwrap();
                cluster.start_again().unwrap();
                cluster.elect_preferred_leaders().unwrap();
            }
        }
        await_progress(&workers);
    }
    let order = await_in_order((&pair.source, &pair.target), &topic, stream.end());
    println!("{order:?} after {rounds} rounds in {:.0} s", begun.elapsed().as_secs_f64());
    workers.iter().for_each(Worker::await_ready);
    order
}

/// Waits until every worker that has partitions goes on, as far as the sum tells.
fn await_progress(workers: &[Worker]) {
    let sent = || workers.iter().map(|worker| worker.metric("sink_record_send_total")).sum::<i64>();
    let before = sent();
    eventually("something is copied", || (sent() > before + 100).then_some(()));
}

#[test]
fn everything_arrives_in_order_whoever_comes_goes_or_dies() {
    let pair = start("4.4.0", "4.4.0");
    torment(&pair, ROUNDS.len());
}

/// Their jars come first: `for version in 3.9.2 4.1.1; do scripts/setup $version; done`. Then
/// `scripts/test --test suite ordered::fifty -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes for each of three versions"]
fn fifty_changes_leave_the_order_on_every_version() {
    for source in ["3.9.2", "4.1.1", "4.4.0"] {
        println!("source {source}");
        torment(&start(source, "4.4.0"), 50);
    }
}

#[test]
fn more_lanes_than_partitions_and_a_second_worker_share_them() {
    const RECORDS: u64 = 20_000;
    let topic = unique("shared");
    pair().source.create_topic(&topic, 3, &[]).unwrap();
    let flow = ordered(pair(), &[&topic]);
    let workers = [flow.start(), flow.start()];
    workers.iter().for_each(Worker::await_ready);
    produce(pair().source.bootstrap(), &topic, &Load { batch_bytes: 10_000, ..Load::of(RECORDS) }).unwrap();
    let order = await_in_order((&pair().source, &pair().target), &topic, RECORDS);
    assert_eq!(order.duplicates, 0);
    assert_eq!(committed(&pair().source, &flow.consumer_group(), &topic), ends(&pair().source, &topic));
}

#[test]
fn a_target_that_is_away_is_waited_for_and_nothing_is_repeated() {
    const RECORDS: u64 = 4_000;
    let pair = crate::bridge::mortal_pair();
    let topic = unique("away");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    let worker = ordered(&pair, &[&topic]).start();
    let write = |round: u64| {
        let load = Load { start: round * RECORDS, batch_bytes: 20_000, ..Load::of(RECORDS) };
        produce(pair.source.bootstrap(), &topic, &load).unwrap();
    };
    write(0);
    await_in_order((&pair.source, &pair.target), &topic, RECORDS);
    pair.target.kill().unwrap();
    write(1);
    println!("{}", worker.await_trouble(&["target"]));
    pair.target.start_again().unwrap();
    assert_eq!(await_in_order((&pair.source, &pair.target), &topic, 2 * RECORDS).duplicates, 0);
    worker.await_ready();
}

#[test]
fn a_restart_goes_on_where_the_group_stands() {
    const RECORDS: u64 = 3_000;
    let topic = unique("again");
    pair().source.create_topic(&topic, 2, &[]).unwrap();
    let flow = ordered(pair(), &[&topic]);
    for round in 0..3 {
        let load = Load { start: round * RECORDS, batch_bytes: 5_000, ..Load::of(RECORDS) };
        produce(pair().source.bootstrap(), &topic, &load).unwrap();
        let mut worker = flow.start();
        let order = await_in_order((&pair().source, &pair().target), &topic, (round + 1) * RECORDS);
        assert_eq!(order.duplicates, 0);
        assert!(worker.shut_down().success());
    }
}

/// What a group has committed for each partition, as Kafka's own tool shows it.
pub(crate) fn committed(cluster: &Cluster, group: &str, topic: &str) -> Vec<i64> {
    let partitions = ends(cluster, topic).len();
    eventually("the group has committed all", || {
        let arguments = ["--describe", "--group", group, "--offsets"];
        let table = cluster.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &arguments).ok()?;
        let mut lines =
            table.lines().filter(|line| !line.is_empty()).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let head = lines.find(|fields| fields.contains(&"CURRENT-OFFSET"))?;
        let column = |name: &str| head.iter().position(|field| *field == name);
        let (topic_at, partition_at, offset_at) = (column("TOPIC")?, column("PARTITION")?, column("CURRENT-OFFSET")?);
        let rows = lines.filter(|fields| fields.get(topic_at) == Some(&topic));
        let mut offsets: Vec<(i32, i64)> = rows
            .filter_map(|fields| Some((fields[partition_at].parse().ok()?, fields[offset_at].parse().ok()?)))
            .collect();
        offsets.sort_unstable();
        let offsets: Vec<i64> = offsets.into_iter().map(|(_, offset)| offset).collect();
        (offsets.len() == partitions && offsets == ends(cluster, topic)).then_some(offsets)
    })
}

fn ends(cluster: &Cluster, topic: &str) -> Vec<i64> {
    cluster::read::end_offsets(cluster.bootstrap(), topic, cluster::read::Isolation::Committed).unwrap()
}
