//! Whether the list of metrics, the document and what is scraped are the same.

use std::collections::BTreeSet;

use sharebridge::config::Protocol;
use sharebridge::metrics::{CarveLabels, ClusterMetrics, FlowMetrics, PartitionLabels, SkipLabels, registry};

use super::File;

/// Name and kind of metrics.
type Names = BTreeSet<(String, String)>;

/// What is told only once something was carved.
const RARE: &str = "sharebridge_batch_carve_total";

/// The table of the document, as far as it is about a flow that reads so.
fn documented(protocol: Protocol) -> Names {
    let other = match protocol {
        Protocol::Share => "consumer mode",
        Protocol::Consumer => "share mode",
    };
    let document = File::read("docs/OPERATIONS.md");
    let rows = document.text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `sharebridge_")?.split_once("` | ")?;
        let (kind, _) = rest.split_once(" | ")?;
        let is_told = !kind.contains(other);
        let kind = kind.split([' ', ',']).next()?;
        is_told.then(|| (format!("sharebridge_{name}"), kind.to_owned()))
    });
    rows.collect()
}

/// What a status server tells.
fn scraped(text: &str) -> Names {
    let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let named = |(name, kind): (&str, &str)| match kind {
        "counter" => (format!("{name}_total"), kind.to_owned()),
        _ => (name.to_owned(), kind.to_owned()),
    };
    described.map(named).collect()
}

/// A worker with one flow, which reads so and has copied something, tells what is documented, and nothing else.
pub(crate) fn assert_told(text: &str, protocol: Protocol) {
    let mut documented = documented(protocol);
    documented.retain(|(name, _)| name != RARE || text.contains(RARE));
    assert_eq!(documented, scraped(text), "docs/OPERATIONS.md (left) and what the worker tells");
}

#[test]
fn the_metrics_are_documented() {
    for protocol in [Protocol::Share, Protocol::Consumer] {
        let mut registry = registry();
        let metrics = FlowMetrics::register(&mut registry, "orders");
        ClusterMetrics::register(&mut registry, "primary");
        metrics.lane(0, protocol).topic("orders");
        metrics.lag.get_or_create(&PartitionLabels { topic: "orders".to_owned(), partition: 0 }).set(1);
        metrics.topics_skipped.get_or_create(&SkipLabels { reason: "internal".to_owned() }).set(1);
        metrics.carved.get_or_create(&CarveLabels { reason: "holes".to_owned() }).inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(documented(protocol), scraped(&text), "docs/OPERATIONS.md (left) and src/metrics.rs, {protocol:?}");
    }
}
