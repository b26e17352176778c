//! A real Kafka starts, survives what the suite does to it, and leaves nothing behind.

use std::path::PathBuf;

use anyhow::Context;
use cluster::{Pair, Spec};

#[test]
fn a_pair_starts_answers_and_leaves_nothing() -> anyhow::Result<()> {
    let pair = Pair::start(Spec::named("source"), Spec::named("target"))?;
    let source = &pair.source;
    source.create_topic("orders", 3, &[("max.message.bytes", "2097152")])?;
    assert_eq!(source.topic_config("orders")?.get("max.message.bytes").map(String::as_str), Some("2097152"));
    source.alter_broker_config(&[("group.share.max.record.lock.duration.ms", "120000")]).context("alter")?;

    let pids: Vec<u32> = [source, &pair.target].iter().filter_map(|cluster| cluster.brokers()[0].pid()).collect();
    let folder: PathBuf = source.brokers()[0].log().parent().context("a log lies in the folder")?.into();
    assert!(folder.is_dir());
    assert_eq!(pids.len(), 2);
    drop(pair);
    assert!(!folder.exists(), "{} is left", folder.display());
    for pid in pids {
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "broker {pid} is left");
    }
    Ok(())
}
