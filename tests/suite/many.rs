//! Clusters of three brokers: whatever happens to one of them, the others carry on, and nothing is missing in the end.

mod coordinators;
mod marker;
mod recreate;
mod replica;
mod suspend;
mod truncated;
mod unclean;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cluster::{Cluster, Pair, Spec, unique};

use crate::bridge::{Flow, Worker, await_all};
use crate::stream::{Stream, write};

/// A pair of three brokers each: one test at a time, all nodes running at its start.
fn many_pair() -> MutexGuard<'static, Pair> {
    static PAIR: OnceLock<Mutex<Pair>> = OnceLock::new();
    // A rack for each broker, from which consumers of the same rack may read.
    let source = || {
        let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        Spec::three("many-source").with("broker.rack", "rack-{broker}").with("replica.selector.class", selector)
    };
    let start = || Mutex::new(Pair::start(source(), Spec::three("many-target")).unwrap());
    let pair = PAIR.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner);
    // A test that failed may have left them in any state.
    [&pair.source, &pair.target].into_iter().for_each(|cluster| cluster.recover().unwrap());
    pair
}

/// A flow between them.
fn flow(pair: &Pair, topics: &[&str]) -> Flow {
    Flow::new(pair, topics).patient()
}

/// A topic with partitions led by every broker.
fn spread(cluster: &Cluster, name: &str) -> String {
    let topic = unique(name);
    cluster.create_topic(&topic, 6, &[]).unwrap();
    topic
}

/// The transactional ids that a cluster has ever heard of.
fn transactional_ids(cluster: &Cluster) -> BTreeSet<String> {
    let table = cluster.tool("org.apache.kafka.tools.TransactionsCommand", &["list"]).unwrap();
    table.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_broker_of_both_sides_killed_in_turn_loses_nothing() {
    const PROBE: u64 = 600;
    let pair = many_pair();
    let (topic, probe) = (spread(&pair.source, "turn"), spread(&pair.source, "probe"));
    let worker = flow(&pair, &[&topic, &probe]).start();
    worker.await_ready();
    let stream = Stream::start(&pair.source, &topic, 0);
    let brokers = pair.source.brokers().iter().zip(pair.target.brokers());
    for (round, (source, target)) in (1..).zip(brokers) {
        [source, target].into_iter().for_each(|broker| broker.kill().unwrap());
        write(&pair.source, &probe, (round - 1) * PROBE..round * PROBE);
        println!("all goes on without the brokers {round}: {:?}", await_all(&pair.target, &probe, round * PROBE));
        [&pair.source, &pair.target].into_iter().for_each(|cluster| cluster.start_again().unwrap());
        worker.await_ready();
    }
    let arrived = await_all(&pair.target, &topic, stream.end());
    println!("{arrived:?} after six kills");
    worker.await_ready();
}

#[test]
fn workers_killed_while_leaders_move_lose_nothing() {
    let pair = many_pair();
    let topic = spread(&pair.source, "moving");
    let flow = flow(&pair, &[&topic]).with("flows.f.lanes.count = 2");
    let mut workers: Vec<Worker> = (0..3).map(|_| flow.start()).collect();
    workers.iter().for_each(Worker::await_ready);
    let stream = Stream::start(&pair.source, &topic, 0);
    for cluster in [&pair.source, &pair.target] {
        workers[0].await_metric("sink_record_send_total", 1);
        cluster.broker(cluster.leader(&topic, 0).unwrap()).kill().unwrap();
        workers.remove(0).process.kill().unwrap();
        workers.push(flow.start());
        cluster.start_again().unwrap();
        cluster.elect_preferred_leaders().unwrap();
        workers[2].await_metric("sink_record_send_total", 1);
    }
    let arrived = await_all(&pair.target, &topic, stream.end());
    println!("{arrived:?} after two kills of workers and of brokers");
    workers.iter().for_each(Worker::await_ready);
}
