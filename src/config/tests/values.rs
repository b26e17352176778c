//! Values that are refused by themselves.

use super::*;
use crate::limits::{FLOW_COUNT_MAX, PATTERN_COUNT_MAX, TOPIC_COUNT_MAX};

#[test]
fn numbers_must_be_whole_and_in_range() {
    for value in [
        "0",
        "65",
        "-1",
        "'+1'",
        "1.0",
        "1e1",
        "true",
        "''",
        "'1 '",
        "2026-11-30",
        "1_000_000_000_000_000_000_000_000_000_000_000_000_000",
    ] {
        let given = value.trim_matches('\'').replace('_', "");
        line_says(
            &format!("lanes.count = {value}"),
            &format!("[flows.f] lanes.count: cannot be \"{given}\", give a whole number of lanes from 1 to 64"),
        );
    }
    for (value, given) in [("[1]", "an array"), ("{}", "a table")] {
        line_says(
            &format!("lanes.count = {value}"),
            &format!("[flows.f] lanes.count: cannot be {given}, give a whole number of lanes from 1 to 64"),
        );
    }
}

#[test]
fn texts_and_policies_are_checked() {
    for (line, expected) in [
        ("share.group.id = ''", "share.group.id: cannot be \"\", give text of 1 to 255 characters on one line"),
        (
            "share.group.id = \"a\\nb\"",
            "share.group.id: cannot be \"a\\nb\", give text of 1 to 255 characters on one line",
        ),
        ("allow.unordered.compacted = 'yes'", "allow.unordered.compacted: cannot be \"yes\", give true or false"),
        (
            "share.auto.offset.reset = 'none'",
            "share.auto.offset.reset: cannot be \"none\", give earliest, latest or by_duration:<ISO-8601> such as by_duration:PT1H",
        ),
        (
            "start.position = '2026-01-31'",
            "start.position: cannot be \"2026-01-31\", give auto, earliest, latest, group:<id of another group>, or a time such as 2026-01-31T12:00:00Z",
        ),
        (
            "limit.bytes.per.second = -1",
            "limit.bytes.per.second: cannot be \"-1\", give a whole number of bytes a second from 0 to 1099511627776",
        ),
    ] {
        line_says(line, &format!("[flows.f] {expected}"));
    }
}

#[test]
fn bridge_values_are_checked() {
    let levels = "give trace, debug, info, warn, error or off, or a list such as info,sharebridge::lane=debug";
    for (line, expected) in [
        (
            "status.address = 'localhost:1'",
            "status.address: cannot be \"localhost:1\", give an IP address and a port such as 127.0.0.1:9470",
        ),
        ("log.format = 'xml'", "log.format: cannot be \"xml\", give one of auto, text, json"),
        ("log.level = 'inof'", &format!("log.level: cannot be \"inof\", {levels}")),
        ("log.level = 'x=loud'", &format!("log.level: cannot be \"x=loud\", {levels}")),
    ] {
        says(&with_flow(&format!("[bridge]\n{line}")), &[&format!("f.toml:10: [bridge] {expected}")]);
    }
}

#[test]
fn servers_must_be_hosts_with_ports() {
    let servers =
        ["", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:+1", "::1:9092", "[::1]", "[x]:1", "a b:1", "http://a:1"];
    for server in servers {
        let text = with_flow("").replace("b1:9092", &format!("b1:9092,{server}"));
        says(
            &text,
            &[&format!(
                "f.toml:4: [clusters.b] bootstrap.servers: cannot be \"{server}\", give host:port, several with commas between, IPv6 in brackets"
            )],
        );
    }
}

#[test]
fn topics_must_be_legal_and_unique() {
    let takes = "give an array of topic names such as [\"orders\"], each 1 to 249 characters of A-Z a-z 0-9 . _ -";
    let long = "x".repeat(250);
    for (value, expected) in [
        ("'t'", format!("cannot be \"t\", {takes}")),
        ("[]", "is empty, and so is topics.regex: nothing would be copied, give a name or a pattern".to_owned()),
        ("['a/b']", format!("cannot be \"a/b\", {takes}")),
        ("['..']", format!("cannot be \"..\", {takes}")),
        ("['']", format!("cannot be \"\", {takes}")),
        ("[['t']]", format!("cannot be an array in an array, {takes}")),
        ("[{}]", format!("cannot be a table in an array, {takes}")),
        (&format!("['{long}']"), format!("cannot be \"{}...\", {takes}", &long[..80])),
        ("['t', 'u', 't']", "names \"t\" twice, remove one".to_owned()),
        (
            "['__consumer_offsets']",
            "names \"__consumer_offsets\", an internal topic of Kafka that must not be copied, remove it".to_owned(),
        ),
    ] {
        let text = with_flow("").replace("['t']", value);
        says(&text, &[&format!("f.toml:8: [flows.f] topics.names: {expected}")]);
    }
}

#[test]
fn patterns_must_be_legal_and_may_not_exclude_names() {
    let takes = "give an array of regular expressions such as [\"payments-.*\"], each for whole topic names";
    for (line, expected) in [
        ("topics.regex = 'a'", format!("topics.regex: cannot be \"a\", {takes}")),
        ("topics.regex = [['a']]", format!("topics.regex: cannot be an array in an array, {takes}")),
        (
            "topics.regex = ['a', 'b(']",
            "topics.regex: \"b(\" is no pattern of topic names: unclosed group, correct it".to_owned(),
        ),
        (
            "topics.exclude = ['T|t']",
            "topics.exclude: excludes \"t\", which topics.names names, remove it from one of the two".to_owned(),
        ),
        (
            &format!("topics.exclude = {:?}", vec!["x"; PATTERN_COUNT_MAX + 1]),
            "topics.exclude: has 101 patterns, give at most 100: one pattern may have many branches, (a|b|c)"
                .to_owned(),
        ),
    ] {
        line_says(line, &format!("[flows.f] {expected}"));
    }
}

#[test]
fn keys_of_target_topics_are_checked() {
    for (line, expected) in [
        (
            "topics.refresh.interval.ms = 499",
            "topics.refresh.interval.ms: cannot be \"499\", give a whole number of ms from 500 to 3600000",
        ),
        (
            "sink.topic.create.replication.factor = 0",
            "sink.topic.create.replication.factor: cannot be \"0\", give default or a whole number from 1 to 100",
        ),
        ("sink.topic.create.enable = 'no'", "sink.topic.create.enable: cannot be \"no\", give true or false"),
        (
            "sink.topic.config.exclude = ['min.insync.replicas']",
            "sink.topic.config.exclude: cannot be \"min.insync.replicas\", give an array of these: cleanup.policy, retention.ms, \
             retention.bytes, max.message.bytes, segment.ms, segment.bytes, delete.retention.ms, min.compaction.lag.ms, \
             max.compaction.lag.ms, min.cleanable.dirty.ratio",
        ),
    ] {
        line_says(line, &format!("[flows.f] {expected}"));
    }
}

#[test]
fn counts_are_bounded() {
    let topics: Vec<_> = (0..=TOPIC_COUNT_MAX).map(|n| format!("'{n}'")).collect();
    let text = with_flow("").replace("'t'", &topics.join(","));
    says(
        &text,
        &["f.toml:8: [flows.f] topics.names: has 10001 topics, give at most 10000 and make another flow of the rest"],
    );

    let flows: Vec<_> = (0..=FLOW_COUNT_MAX).map(|n| format!("flows.f{n}.lanes.count = 1")).collect();
    says(&flows.join("\n"), &["f.toml: there are 1001 flows, give at most 1000 a process"]);
}
