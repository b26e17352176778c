//! Topics that are found by pattern, come, grow and go; and the topics of the target that are made for them.

mod follow;
mod found;
mod herd;
mod refused;
mod scale;

use cluster::{Cluster, Pair};

use crate::bridge::{Flow, eventually};

/// A flow of the topics that match `regex`, except those that match `exclude`.
fn flow(pair: &Pair, regex: &str, exclude: &str) -> Flow {
    Flow::new(pair, &[])
        .with(&format!("flows.f.topics.regex = ['{regex}']"))
        .with(&format!("flows.f.topics.exclude = ['{exclude}']"))
        .with("flows.f.topics.refresh.interval.ms = 1000")
}

/// Waits until a topic has a config; `None` says: none that was set on it.
fn await_config(cluster: &Cluster, topic: &str, (config, value): (&str, &str)) {
    eventually(&format!("{config} of {topic} is {value}"), || {
        cluster.topic_config(topic).ok().filter(|configs| configs.get(config).is_some_and(|found| found == value))
    });
}
