//! The least rights: with all of them a flow runs, without any one of them it says which.

use cluster::load::{Load, produce};

use super::clusters::{PREFIX, Secured, USER, secured, topic, without};
use crate::bridge::{Flow, await_all, eventually};

/// Whose right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Target,
}

/// One right of the table in `docs/OPERATIONS.md`.
pub(super) struct Right {
    pub(super) side: Side,
    /// The argument of `kafka-acls.sh` for the kind of resource.
    pub(super) resource: &'static str,
    pub(super) operation: &'static str,
    /// What is said where it is missing.
    pub(super) says: &'static str,
}

/// All of them; one more is one line here, and one in the document.
pub(super) const RIGHTS: [Right; 7] = [
    right(Side::Source, "--topic", "Read", "READ on"),
    right(Side::Source, "--topic", "DescribeConfigs", "DESCRIBE_CONFIGS on the topic"),
    right(Side::Source, "--group", "Read", "READ"),
    right(Side::Source, "--group", "AlterConfigs", "ALTER_CONFIGS"),
    right(Side::Target, "--topic", "Write", "WRITE on"),
    right(Side::Target, "--topic", "Create", "CREATE on the topic"),
    right(Side::Target, "--transactional-id", "Write", "WRITE"),
];

const fn right(side: Side, resource: &'static str, operation: &'static str, says: &'static str) -> Right {
    Right { side, resource, operation, says }
}

impl Right {
    /// Arguments of `kafka-acls.sh` for all resources whose names begin so; those of transactional ids begin with our name.
    pub(super) fn arguments(&self, prefix: &'static str) -> [&'static str; 6] {
        let name = if self.resource == "--transactional-id" { "sharebridge-safe" } else { prefix };
        [self.resource, name, "--resource-pattern-type", "prefixed", "--operation", self.operation]
    }
}

/// A flow of this user on both sides.
fn flow_of(secured: &Secured, user: &str, topic: &str) -> Flow {
    let flow = Flow::new(&secured.pair, &[topic]).named(PREFIX).in_group(&cluster::unique(PREFIX));
    let flow = secured.scram(secured.scram(flow, "primary", user), "dr", user);
    flow.with("clusters.primary.sasl.mechanism = \"SCRAM-SHA-256\"")
}

#[test]
fn the_least_rights_suffice_and_each_missing_one_is_named() {
    let secured = secured();
    let source = &secured.pair.source;
    let all = topic(&secured, "all");
    produce(source.bootstrap(), &all, &Load::of(1_000)).unwrap();
    let worker = flow_of(&secured, USER, &all).start();
    let lacking: Vec<_> = RIGHTS
        .iter()
        .enumerate()
        .map(|(number, right)| {
            let topic = topic(&secured, "lacking");
            produce(source.bootstrap(), &topic, &Load::of(10)).unwrap();
            (right, flow_of(&secured, &without(number), &topic).start())
        })
        .collect();
    await_all(&secured.pair.target, &all, 1_000);
    worker.await_ready();
    for (right, worker) in lacking {
        let side = if right.side == Side::Source { "primary" } else { "dr" };
        let said = eventually(&format!("{} {} is named", right.resource, right.operation), || {
            let text = worker.ready().map_or_else(|| worker.process.log(), |(_, body)| body);
            let line = text.lines().find(|line| line.contains(right.says) && line.contains(side))?;
            Some(line.to_owned())
        });
        println!("without {} {}: {said}", right.resource, right.operation);
    }
}

#[test]
fn the_document_grants_them() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/OPERATIONS.md")).unwrap();
    let commands = document.lines().filter(|line| line.starts_with("kafka-acls.sh"));
    let granted: Vec<(Side, &str, Vec<&str>)> = commands
        .map(|line| {
            let side = if line.contains(" SOURCE ") { Side::Source } else { Side::Target };
            let words: Vec<&str> = line.split_whitespace().collect();
            let resource =
                words.iter().find(|word| ["--topic", "--group", "--transactional-id"].contains(word)).unwrap();
            let operations = words.windows(2).filter(|pair| pair[0] == "--operation").map(|pair| pair[1]).collect();
            (side, *resource, operations)
        })
        .collect();
    let count: usize = granted.iter().map(|(_, _, operations)| operations.len()).sum();
    assert_eq!(count, RIGHTS.len(), "the document grants something else: {granted:?}");
    for Right { side, resource, operation, .. } in &RIGHTS {
        let is_granted =
            |(s, r, operations): &(Side, &str, Vec<&str>)| s == side && r == resource && operations.contains(operation);
        assert!(granted.iter().any(is_granted), "docs/OPERATIONS.md does not grant {resource} {operation}");
    }
}
