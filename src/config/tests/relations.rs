//! Values that contradict each other.

use super::*;

#[test]
fn source_and_sink_must_differ() {
    let text = with_flow("").replace("sink.cluster = 'b'", "sink.cluster = 'a'");
    says(
        &text,
        &[
            "f.toml:7: [flows.f] sink.cluster: is the source.cluster too and records would loop, name another cluster than \"a\"",
        ],
    );
    let text = with_flow("").replace("b1:9092", "b1:9092, a2:9092");
    says(
        &text,
        &[
            "f.toml:7: [flows.f] sink.cluster: has the broker a2:9092 in common with the source.cluster \"a\" and records would loop, name another cluster",
        ],
    );
    says(
        "[flows.f]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t']",
        &[
            "f.toml:2: [flows.f] source.cluster: there is no cluster \"a\", add a table [clusters.<name>]",
            "f.toml:3: [flows.f] sink.cluster: there is no cluster \"b\", add a table [clusters.<name>]",
        ],
    );
}

#[test]
fn a_transaction_must_end_before_the_lock() {
    let why = "the open transaction of a dead worker should be decided before its records come back, lower it or raise the lock timeout";
    line_says(
        "transaction.timeout.ms = 20000",
        &format!(
            "[flows.f] transaction.timeout.ms: is 20000 ms, and with 10000 ms for the coordinator not less than share.acquisition.lock.timeout.ms of 30000 ms: {why}"
        ),
    );
    assert!(parse(&with_flow("transaction.timeout.ms = 19999")).is_ok());
}

#[test]
fn a_start_position_stands_alone() {
    let why = "partitions that are created later begin at their beginning, leave one of the two out";
    for reset in ["latest", "by_duration:PT1H"] {
        let line = format!("share.auto.offset.reset = '{reset}'\nstart.position = 'latest'");
        says(
            &with_flow(&line),
            &[&format!("f.toml:10: [flows.f] start.position: contradicts share.auto.offset.reset of {reset}: {why}")],
        );
    }
    line_says(
        "start.position = 'group:sharebridge-f'",
        "[flows.f] start.position: names the flow's own share.group.id \"sharebridge-f\", name the group to go on from",
    );
    for good in
        ["share.auto.offset.reset = 'latest'", "start.position = 'latest'", "start.position = 2026-01-31T12:00:00Z"]
    {
        assert!(parse(&with_flow(good)).is_ok(), "{good}");
    }
}

#[test]
fn every_lane_needs_memory() {
    line_says(
        "memory.max.bytes = 1048577",
        "[flows.f] memory.max.bytes: is 1048577 bytes for lanes.count of 2: a lane needs 1048576 or more to take one fetch, raise it or run fewer lanes",
    );
    assert!(parse(&with_flow("memory.max.bytes = 2097152")).is_ok());
}

#[test]
fn backoff_must_not_shrink() {
    let text = CLUSTERS.to_owned() + "reconnect.backoff.ms = 1001\n" + &with_flow("")[CLUSTERS.len()..];
    says(
        &text,
        &[
            "f.toml:3: [clusters.b] reconnect.backoff.max.ms: is 1000 ms, less than reconnect.backoff.ms of 1001 ms, raise it or lower the other",
        ],
    );
}

/// Three clusters on lines 1 to 6, then flows of four lines each.
fn with_flows(flows: &[(&str, &str, &str)]) -> String {
    let mut text = format!("{CLUSTERS}[clusters.c]\nbootstrap.servers = 'c1:9092'\n");
    for (name, ends, topics) in flows {
        let (source, sink) = ends.split_once('>').unwrap();
        text +=
            &format!("[flows.{name}]\nsource.cluster = '{source}'\nsink.cluster = '{sink}'\ntopics.names = {topics}\n");
    }
    text
}

#[test]
fn flows_may_not_share_a_group_on_a_source() {
    let group = "[defaults]\nshare.group.id = 'g'\n";
    let same = with_flows(&[("f", "a>b", "['t']"), ("g", "a>c", "['u']")]);
    says(
        &(same + group),
        &[
            "f.toml:11: [flows.g] share.group.id: is \"g\" in [flows.f] too: two flows may not share a group on the same source cluster, give each its own",
        ],
    );
    let differing = with_flows(&[("f", "a>b", "['t']"), ("g", "b>c", "['u']")]);
    assert!(parse(&(differing + group)).is_ok());
}

#[test]
fn flows_may_not_copy_a_topic_twice() {
    let again = with_flows(&[("f", "a>b", "['t', 'u']"), ("g", "a>b", "['v', 'u']")]);
    says(
        &again,
        &[
            "f.toml:14: [flows.g] topics.names: copies \"u\" between the clusters of [flows.f], so that every record would arrive twice, remove it from one",
        ],
    );
    let fan_out_and_in = [("f", "a>b", "['t']"), ("g", "a>c", "['t']"), ("h", "c>b", "['t']")];
    assert!(parse(&with_flows(&fan_out_and_in)).is_ok());
}

#[test]
fn flows_may_not_loop() {
    let error = |line: usize, name: &str, other: &str| {
        format!(
            "f.toml:{line}: [flows.{name}] topics.names: sends \"t\" back to its source through [flows.{other}] and records would loop, remove it from one"
        )
    };
    let two = with_flows(&[("f", "a>b", "['t']"), ("g", "b>a", "['u', 't']")]);
    says(&two, &[&error(14, "g", "f")]);
    let three = with_flows(&[("f", "c>a", "['t']"), ("g", "a>b", "['t']"), ("h", "b>c", "['t']")]);
    says(&three, &[&error(18, "h", "g")]);
    let apart = with_flows(&[("f", "a>b", "['t']"), ("g", "b>a", "['u']"), ("h", "b>c", "['t']")]);
    assert!(parse(&apart).is_ok());
}

#[test]
fn patterns_may_not_copy_twice_or_loop_as_far_as_names_tell() {
    let flows = |flows: [(&str, &str, &str); 2]| {
        let text = with_flows(&flows.map(|(name, ends, _)| (name, ends, "[]")));
        flows.iter().fold(text, |text, (.., topics)| text.replacen("topics.names = []", topics, 1))
    };
    let (name, pattern) = ("topics.names = ['orders']", "topics.regex = ['o.*']");
    let says_of = |ends: [&str; 2], topics: [&str; 2], words: &str| {
        let said = parse(&flows([("f", ends[0], topics[0]), ("g", ends[1], topics[1])])).unwrap_err();
        assert!(said.contains(words), "{topics:?}: {said}");
    };
    for topics in [[name, pattern], [pattern, name], [pattern, pattern]] {
        says_of(["a>b", "a>b"], topics, "between the clusters of [flows.f]");
        says_of(["a>b", "b>a"], topics, "back to its source through [flows.f] and records would loop");
    }
    let apart = flows([("f", "a>b", pattern), ("g", "b>a", "topics.names = ['x']")]);
    assert!(parse(&apart).is_ok());
}
