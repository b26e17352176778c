//! A real Kafka starts, survives what the suite does to it, and leaves nothing behind.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;
use cluster::load::{self, Load, produce};
use cluster::read::{self, Isolation};
use cluster::{Cluster, Spec, pair, unique};

#[test]
fn what_was_produced_is_read_back() -> anyhow::Result<()> {
    let bootstrap = pair().source.bootstrap();
    let topic = unique("orders");
    pair().source.create_topic(&topic, 4, &[])?;
    produce(bootstrap, &topic, &Load { keys: true, ..Load::of(5_000) })?;
    produce(bootstrap, &topic, &Load { start: 5_000, headers: true, compression: "none".into(), ..Load::of(5_000) })?;

    let records = read::read_all(bootstrap, &topic, Isolation::Committed)?;
    let sequences: BTreeSet<u64> =
        records.iter().filter_map(|record| load::sequence(record.value.as_deref()?)).collect();
    assert_eq!(records.len(), 10_000);
    assert!(sequences.into_iter().eq(0..10_000));
    assert_eq!(records.iter().filter(|record| record.key.is_some()).count(), 5_000);
    let with_headers = records.iter().find(|record| !record.headers.is_empty()).context("none has headers")?;
    let names: Vec<&str> = with_headers.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["trace", "empty", "null", "trace"]);
    assert_eq!(with_headers.headers[1].1.as_deref(), Some([].as_slice()));
    assert_eq!(with_headers.headers[2].1, None);

    assert_eq!(read::end_offsets(bootstrap, &topic, Isolation::Committed)?, [2_500; 4]);
    assert_eq!(read::count(bootstrap, &topic, Isolation::Uncommitted)?, 10_000);
    Ok(())
}

#[test]
fn topics_and_configs_are_administered() -> anyhow::Result<()> {
    let source = &pair().source;
    let topic = unique("configured");
    source.create_topic(&topic, 1, &[("max.message.bytes", "2097152")])?;
    assert_eq!(source.topic_config(&topic)?.get("max.message.bytes").map(String::as_str), Some("2097152"));
    let again = source.create_topic(&topic, 1, &[]).expect_err("it exists");
    assert!(format!("{again:#}").contains(&topic), "{again:#}");
    source.alter_broker_config(&[("log.retention.ms", "86400000")])?;
    assert_eq!(source.topic_config(&topic)?.get("retention.ms").map(String::as_str), Some("86400000"));
    source.delete_topic(&topic)?;
    source.topic_config(&topic).expect_err("it is deleted");

    let group = unique("group");
    let args = ["--entity-type", "groups", "--entity-name", &group];
    let config = ["--alter", "--add-config", "share.auto.offset.reset=earliest"];
    source.tool("org.apache.kafka.tools.ConfigCommand", &[&args[..], &config].concat())?;
    let described = source.tool("org.apache.kafka.tools.ConfigCommand", &[&args[..], &["--describe"]].concat())?;
    assert!(described.contains("share.auto.offset.reset=earliest"), "{described}");
    Ok(())
}

#[test]
fn a_broker_survives_what_is_done_to_it() -> anyhow::Result<()> {
    let target = &pair().target;
    let topic = unique("faults");
    target.create_topic(&topic, 2, &[])?;
    produce(target.bootstrap(), &topic, &Load::of(1_000))?;

    target.kill()?;
    target.suspend().expect_err("it is down");
    target.start_again()?;
    target.suspend()?;
    target.resume()?;
    produce(target.bootstrap(), &topic, &Load { start: 1_000, ..Load::of(1_000) })?;
    target.suspend()?;
    target.stop()?;
    target.start_again()?;
    assert_eq!(read::count(target.bootstrap(), &topic, Isolation::Committed)?, 2_000);
    assert!(target.brokers()[0].cpu_seconds()? > 0.0);
    Ok(())
}

#[test]
fn a_dropped_cluster_leaves_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::start(Spec::named("dropped").with("num.io.threads", "2"))?;
    let broker = &cluster.brokers()[0];
    let process = PathBuf::from(format!("/proc/{}", broker.pid().context("it runs")?));
    let folder: PathBuf = broker.log().parent().context("its log lies in a folder")?.into();
    assert!(process.exists() && folder.is_dir());
    drop(cluster);
    assert!(!process.exists(), "{} is left", process.display());
    assert!(!folder.exists(), "{} is left", folder.display());
    Ok(())
}

#[test]
fn missing_jars_are_an_error_that_helps() {
    let error =
        Cluster::start(Spec { version: "0.0.0".into(), ..Spec::named("missing") }).expect_err("no such version");
    assert!(format!("{error:#}").contains("run scripts/setup 0.0.0"), "{error:#}");
}
