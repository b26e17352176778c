//! Versions of Kafka on either side, with a worker that is killed on the way.
//!
//! Their jars come first: `for version in 3.9.2 4.1.1 4.2.1 4.3.1; do scripts/setup $version; done`. Then
//! `scripts/test --test suite matrix:: -- --ignored --nocapture`.

use std::time::Instant;

use cluster::load::{Load, produce};
use cluster::{Cluster, Spec, pair, unique};

use crate::bridge::{Flow, await_all};

const RECORDS: u64 = 10_000;

/// So slow that a worker is sure to be killed on the way.
const RECORDS_PER_SECOND: u64 = 2_000;

/// A cluster of this version. `features`: levels that differ from those of a fresh one.
fn start(version: &str, features: &[(&str, u16)]) -> Cluster {
    let features = features.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
    Cluster::start(Spec { version: version.to_owned(), features, ..Spec::named(&format!("kafka-{version}")) }).unwrap()
}

/// Copies a topic; the first worker is killed on the way.
fn copy(name: &str, (source, target): (&Cluster, &Cluster)) {
    let begun = Instant::now();
    let topic = unique("matrix");
    source.create_topic(&topic, 3, &[]).unwrap();
    produce(source.bootstrap(), &topic, &Load { batch_bytes: 20_000, ..Load::of(RECORDS) }).unwrap();
    let flow = Flow::between((source, target), &[&topic]).patient().with("flows.f.start.position = \"earliest\"");
    let mut victim = flow.clone().with(&format!("flows.f.limit.records.per.second = {RECORDS_PER_SECOND}")).start();
    victim.await_metric("sink_record_send_total", 1);
    victim.process.kill().unwrap();
    let worker = flow.start();
    let arrived = await_all(target, &topic, RECORDS);
    worker.await_ready();
    println!("| {name} | {arrived:?} | {:.1} s |", begun.elapsed().as_secs_f64());
}

/// Copies in transactions of version 1, and of version 2 after the raise.
fn copy_in_both(version: &str, target: &Cluster) {
    copy(&format!("4.4.0 to {version}, version 1"), (&pair().source, target));
    let raise = ["upgrade", "--feature", "transaction.version=2"];
    target.tool("org.apache.kafka.tools.FeatureCommand", &raise).unwrap();
    copy(&format!("4.4.0 to {version}, version 2"), (&pair().source, target));
}

#[test]
#[ignore = "needs the jars of five versions of Kafka"]
fn every_supported_version_of_kafka_is_read_and_written() {
    let old = [("transaction.version", 1)];
    copy("4.4.0 to 3.9.2, version 1", (&pair().source, &start("3.9.2", &[])));
    copy_in_both("4.1.1", &start("4.1.1", &old));
    let both_ways = start("4.2.1", &old);
    copy("4.2.1 to 4.4.0, version 2", (&both_ways, &pair().target));
    copy_in_both("4.2.1", &both_ways);
    drop(both_ways);
    copy("4.3.1 to 4.4.0, version 2", (&start("4.3.1", &[]), &pair().target));
    copy_in_both("4.4.0", &start("4.4.0", &old));
}
