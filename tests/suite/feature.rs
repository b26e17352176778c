//! A cluster that was upgraded and whose features were not: the source waits for an administrator, the target is written all the same.

use std::sync::OnceLock;

use cluster::load::{Load, produce};
use cluster::{Cluster, Spec, pair, unique};

use crate::bridge::{Flow, await_all, commands, obey};
use crate::flow::segment::producers;
use crate::refusal::end_of;
use crate::stream::{Stream, await_range, write};

const RECORDS: u64 = 1_000;

/// Without share groups, and with transactions of version 1. Each test raises one of the two.
fn upgraded() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let features = [("share.version", 0), ("transaction.version", 1)].map(|(name, level)| (name.to_owned(), level));
    CLUSTER.get_or_init(|| Cluster::start(Spec { features: features.to_vec(), ..Spec::named("upgraded") }).unwrap())
}

/// A topic with records.
fn topic(source: &Cluster, name: &str) -> String {
    let topic = unique(name);
    source.create_topic(&topic, 1, &[]).unwrap();
    produce(source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    topic
}

#[test]
fn a_source_without_share_groups_ends_with_the_command_that_raises_them() {
    let (source, target) = (upgraded(), &pair().target);
    let topic = topic(source, "shareless");
    let flow = Flow::between((source, target), &[&topic]);
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(77));
    assert!(log.contains("share.version") && log.contains("primary"), "not named");

    commands(&log).into_iter().for_each(|command| obey(source, command));
    let _worker = flow.start();
    assert_eq!(await_all(target, &topic, RECORDS).duplicates, 0);
}

/// Writes a round of records and waits for all so far, of which none may come twice.
fn copy_round((source, target): (&Cluster, &Cluster), topic: &str, round: u64) {
    write(source, topic, round * RECORDS..(round + 1) * RECORDS);
    assert_eq!(await_all(target, topic, (round + 1) * RECORDS).duplicates, 0);
}

#[test]
fn a_target_with_old_transactions_is_written_in_them_until_they_are_raised() {
    let (source, target) = (&pair().source, upgraded());
    let topic = topic(source, "old");
    let flow = Flow::between((source, target), &[&topic])
        .patient()
        .with("flows.f.lanes.count = 1")
        .with("clusters.dr.request.timeout.ms = 1000");
    let mut worker = flow.start();
    (1..4).for_each(|round| copy_round((source, target), &topic, round));
    // Sequences go on from one transaction to the next.
    assert_eq!(producers(target, &topic, 0).len(), 1);
    assert!(worker.metric("transaction_total{outcome=committed}") > 2);

    // Doubt: the target freezes under load. Only a new epoch ends it.
    let stream = Stream::start(source, &topic, 4 * RECORDS);
    await_range(target, &topic, 4 * RECORDS..4 * RECORDS + 1);
    target.suspend().unwrap();
    let trouble = worker.await_trouble(&["dr"]);
    println!("{trouble}");
    target.resume().unwrap();
    let end = stream.end();
    assert_eq!(await_all(target, &topic, end).duplicates, 0);
    // A commit whose answer was late is no doubt: the same request, sent again, tells its fate.
    assert!(producers(target, &topic, 0).len() > 1 || trouble.contains("commit undecided"));
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);

    // A death under load, then the raise.
    let stream = Stream::start(source, &topic, end);
    await_range(target, &topic, end..end + 1);
    worker.process.kill().unwrap();
    let worker = flow.start();
    worker.await_metric("sink_record_send_total", 1);
    let raise = ["upgrade", "--feature", "transaction.version=2"];
    target.tool("org.apache.kafka.tools.FeatureCommand", &raise).unwrap();
    worker.await_log("\"to\":\"2\"");
    let end = stream.end();
    println!("{:?} of {end}", await_all(target, &topic, end));

    let before = producers(target, &topic, 0).len();
    (0..3).for_each(|round| {
        write(source, &topic, end + round * RECORDS..end + (round + 1) * RECORDS);
        await_range(target, &topic, end..end + (round + 1) * RECORDS);
    });
    assert!(producers(target, &topic, 0).len() >= before + 3, "an epoch for each transaction");
    worker.await_ready();
}
