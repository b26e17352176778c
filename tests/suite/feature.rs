//! A cluster that was upgraded and whose features were not.

use std::sync::OnceLock;

use cluster::load::{Load, produce};
use cluster::{Cluster, Spec, pair, unique};

use crate::bridge::{Flow, await_all, commands, obey};
use crate::refusal::end_of;

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

#[test]
fn a_target_with_old_transactions_is_waited_for_until_they_are_raised() {
    let (source, target) = (&pair().source, upgraded());
    let topic = topic(source, "old");
    let worker = Flow::between((source, target), &[&topic]).start();
    let line = worker.await_trouble(&["target", "dr", "transaction.version"]);
    println!("{line}");
    assert_eq!(worker.metric("sink_record_acquire_total"), 0);

    commands(&line).into_iter().for_each(|command| obey(target, command));
    assert_eq!(await_all(target, &topic, RECORDS).duplicates, 0);
    worker.await_ready();
}
