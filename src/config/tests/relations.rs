//! Values that contradict each other.

use super::*;

const LOOP_REMEDY: &str = "take the topic out of one of these flows, give it another name there by sink.topic.name, or set \
                           sink.hop.header.enable = true in all of them";

#[test]
fn within_a_cluster_every_topic_needs_another_name() {
    let error = |way: &str| format!("f.toml:8: [flows.f] topics.names: records would loop: {way}; {LOOP_REMEDY}");
    let same = with_flow("").replace("sink.cluster = 'b'", "sink.cluster = 'a'");
    says(&same, &[&error("t on a -[f]-> t on a")]);
    assert!(parse(&(same.clone() + "sink.topic.name = '${topic}.copy'")).is_ok());
    let chain = same.replace("['t']", "['t', 't.copy']") + "sink.topic.name = '${topic}.copy'";
    says(&chain, &[&error("t on a -[f]-> t.copy on a")]);
    let one_broker = with_flow("").replace("b1:9092", "b1:9092, a2:9092");
    says(&one_broker, &[&error("t on a -[f]-> t on a")]);
}

#[test]
fn clusters_must_be_known() {
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
        "[flows.f] start.position: names the flow's own group \"sharebridge-f\", name the group to go on from",
    );
    // Only the keys of the group that is read through count.
    let consumer = "group.protocol = 'consumer'\nstart.position = 'group:sharebridge-f-ordered'";
    says(
        &with_flow(&format!("{consumer}\nauto.offset.reset = 'latest'")),
        &[
            &format!("f.toml:10: [flows.f] start.position: contradicts auto.offset.reset of latest: {why}"),
            "f.toml:10: [flows.f] start.position: names the flow's own group \"sharebridge-f-ordered\", name the group to go on from",
        ],
    );
    for good in [
        "share.auto.offset.reset = 'latest'",
        "start.position = 'latest'",
        "start.position = 2026-01-31T12:00:00Z",
        "start.position = 'group:sharebridge-f-ordered'",
        "group.protocol = 'consumer'\nstart.position = 'group:sharebridge-f'\nshare.auto.offset.reset = 'latest'",
    ] {
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
    let flow = |(name, ends, topics): &(&str, &str, &str)| {
        let (source, sink) = ends.split_once('>').unwrap();
        format!("[flows.{name}]\nsource.cluster = '{source}'\nsink.cluster = '{sink}'\ntopics.names = {topics}\n")
    };
    let flows: String = flows.iter().map(flow).collect();
    format!("{CLUSTERS}[clusters.c]\nbootstrap.servers = 'c1:9092'\n{flows}")
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
fn a_topic_may_be_copied_twice_under_two_names() {
    let names = "['t']\nsink.topic.name = '${flow}.${topic}'";
    assert!(parse(&with_flows(&[("f", "a>b", names), ("g", "a>b", names)])).is_ok());
    assert!(parse(&with_flows(&[("f", "a>b", "['t']"), ("g", "a>b", names)])).is_ok());
}

#[test]
fn flows_may_not_loop() {
    let error = |line: usize, name: &str, way: &str| {
        format!("f.toml:{line}: [flows.{name}] topics.names: records would loop: {way}; {LOOP_REMEDY}")
    };
    let two = with_flows(&[("f", "a>b", "['t']"), ("g", "b>a", "['u', 't']")]);
    says(&two, &[&error(10, "f", "t on a -[f]-> t on b -[g]-> t on a")]);
    let three = with_flows(&[("f", "c>a", "['t']"), ("g", "a>b", "['t']"), ("h", "b>c", "['t']")]);
    says(&three, &[&error(10, "f", "t on c -[f]-> t on a -[g]-> t on b -[h]-> t on c")]);
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
        says_of(["a>b", "b>a"], topics, "records would loop: ");
    }
    let apart = flows([("f", "a>b", pattern), ("g", "b>a", "topics.names = ['x']")]);
    assert!(parse(&apart).is_ok());
}

#[test]
fn records_end_where_every_flow_of_a_way_back_has_a_hop_header() {
    let hops = "['t']\nsink.hop.header.enable = true";
    assert!(parse(&with_flows(&[("f", "a>b", hops), ("g", "b>a", hops)])).is_ok());
    assert!(parse(&with_flows(&[("f", "a>b", hops), ("g", "b>a", "['t']")])).is_err());
    // The shorter way back has hop headers, the longer one has not.
    let ways = [("f", "a>b", hops), ("g", "b>a", hops), ("h", "b>c", hops), ("i", "c>a", "['t']")];
    let said = parse(&with_flows(&ways)).unwrap_err();
    assert!(said.contains("t on a -[f]-> t on b -[h]-> t on c -[i]-> t on a;"), "{said}");
    // Both ways pass the last flow, the endless one after the other.
    let last = [("f", "a>b", hops), ("g", "b>c", hops), ("h", "b>d", "['t']"), ("i", "d>c", hops), ("j", "c>a", hops)];
    let said = parse(&(with_flows(&last) + "[clusters.d]\nbootstrap.servers = 'd1:9092'\n")).unwrap_err();
    assert!(said.contains("t on a -[f]-> t on b -[h]-> t on d -[i]-> t on c -[j]-> t on a;"), "{said}");
    let within = with_flow("sink.topic.name = '${topic}.copy'\nsink.hop.header.enable = true")
        .replace("sink.cluster = 'b'", "sink.cluster = 'a'");
    let problem = "is of no use within one cluster, where every record has been: a second copy would drop all of them, remove the line";
    says(&within, &[&format!("f.toml:10: [flows.f] sink.hop.header.enable: {problem}")]);
}

#[test]
fn renamed_topics_may_not_come_back_under_whatever_name() {
    let there = "['t', 'back.out.t']\nsink.topic.name = 'out.${topic}'";
    let back = "['out.t']\nsink.topic.name = 'back.${topic}'";
    let said = parse(&with_flows(&[("f", "a>b", there), ("g", "b>a", back)])).unwrap_err();
    assert!(said.contains("t on a -[f]-> out.t on b -[g]-> back.out.t on a"), "{said}");
    let renamed = [("f", "a>b", "['t']\nsink.topic.name = 'from-${source}.${topic}'"), ("g", "b>a", "['t']")];
    assert!(parse(&with_flows(&renamed)).is_ok());
}

#[test]
fn topics_of_a_flow_need_names_of_their_own_on_the_sink() {
    line_says(
        "sink.topic.name = '${topic} copy'",
        "[flows.f] sink.topic.name: cannot be \"${topic} copy\": it has the character ' ', give a name with ${topic} in it, or ${1} or \
         ${name} for what a group of topics.regex has captured; also ${source} and ${flow}",
    );
    line_says(
        "sink.topic.name = '${1}.x'",
        "[flows.f] sink.topic.name: sink.topic.name has ${1}, which no regex of topics.regex has captured from t: give the regex such a \
         group, or the topic a flow of its own",
    );
}
