//! A flow's position is moved between its share group and its consumer group: what is copied afterwards is the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cluster::load::{Load, produce, sequence};
use cluster::read::{Isolation, read_all};
use cluster::{Cluster, pair, unique};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::bridge::{DEADLINE, Flow, eventually, mortal_pair};
use crate::stream::write;

const PARTITIONS: i32 = 3;
const RECORDS: u64 = 9_000;

/// What is left of it when the worker is stopped on the way.
const COPIED_AT_LEAST: i64 = 1_500;

const SHARE_GROUPS: &str = "org.apache.kafka.tools.consumer.group.ShareGroupCommand";
const CONSUMER_GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";

/// Runs a verb on the file of a flow; returns its exit code, and what it says on both outputs.
fn run(flow: &Flow, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sharebridge.toml");
    std::fs::write(&file, flow.text()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sharebridge"));
    let output = command.args(arguments).arg("--config").arg(&file).output().unwrap();
    let [said, complained] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    println!("{arguments:?}: {:?}\n{said}{complained}", output.status.code());
    (output.status.code(), said, complained)
}

/// Switches, and returns the offset of each partition afterwards, how many records are repeated at most, and how many were moved.
fn switch(flow: &Flow, arguments: &[&str]) -> (BTreeMap<i32, i64>, u64, u64) {
    let (code, said, _) = run(flow, &[&["switch", "f", "--json"][..], arguments].concat());
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&said).unwrap();
    let number = |value: &Value| value.as_i64().unwrap();
    let partition = |partition: &Value| (number(&partition["partition"]) as i32, number(&partition["after"]));
    let after = document["partitions"].as_array().unwrap().iter().map(partition).collect();
    (after, document["repeated_at_most"].as_u64().unwrap(), document["moved"].as_u64().unwrap())
}

/// A column of a group's offsets by partition, as Kafka's own tool shows them; none where it knows nothing.
fn offsets(cluster: &Cluster, tool: &str, (group, column): (&str, &str)) -> BTreeMap<i32, i64> {
    let table = cluster.tool(tool, &["--describe", "--offsets", "--group", group]).unwrap_or_default();
    println!("{table}");
    let mut lines = table.lines().skip_while(|line| !line.contains("PARTITION")).filter(|line| !line.is_empty());
    let Some(head) = lines.next() else { return BTreeMap::new() };
    let at = |name: &str| head.split_whitespace().position(|word| word == name).unwrap();
    let (partition, column) = (at("PARTITION"), at(column));
    let fields = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    // A share partition that has not begun has a dash.
    let begun = fields.filter(|fields| fields[column] != "-");
    begun.map(|fields| (fields[partition].parse().unwrap(), fields[column].parse().unwrap())).collect()
}

/// How often each sequence number is on the target.
fn copies(topic: &str) -> BTreeMap<u64, u32> {
    let mut copies = BTreeMap::new();
    for record in read_all(pair().target.bootstrap(), topic, Isolation::Committed).unwrap() {
        *copies.entry(sequence(&record.value.unwrap()).unwrap()).or_default() += 1;
    }
    copies
}

/// A member of a consumer group under the new protocol (KIP-848), by librdkafka.
fn member(group: &str, topic: &str) -> BaseConsumer {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", pair().source.bootstrap()).set("group.id", group);
    settings.set("group.protocol", "consumer").set("enable.auto.commit", "false").set("auto.offset.reset", "error");
    let consumer: BaseConsumer = settings.create().unwrap();
    consumer.subscribe(&[topic]).unwrap();
    consumer
}

/// Reads so many records, and commits behind the last of each partition.
fn read(consumer: &BaseConsumer, topic: &str, count: usize) -> BTreeSet<u64> {
    let (mut seen, mut behind) = (BTreeSet::new(), BTreeMap::new());
    eventually("the rest is read", || {
        while seen.len() < count {
            let message = consumer.poll(std::time::Duration::from_millis(100))?.unwrap();
            assert!(seen.insert(sequence(message.payload().unwrap()).unwrap()), "read twice");
            behind.insert(message.partition(), message.offset() + 1);
        }
        Some(())
    });
    let mut list = TopicPartitionList::new();
    for (partition, offset) in behind {
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    }
    consumer.commit(&list, CommitMode::Sync).unwrap();
    seen
}

/// A flow whose worker was stopped on the way; with what it has copied.
fn half_copied(topic: &str, consumer_group: &str) -> (Flow, BTreeSet<u64>) {
    for cluster in [&pair().source, &pair().target] {
        cluster.create_topic(topic, PARTITIONS, &[]).unwrap();
    }
    // In batches of some 50 records, so that a window is acquired and finished in pieces.
    produce(pair().source.bootstrap(), topic, &Load { batch_bytes: 5_000, ..Load::of(RECORDS) }).unwrap();
    let flow = Flow::new(pair(), &[topic]).with(&format!("flows.f.group.id = \"{consumer_group}\""));
    let mut worker = flow.clone().with("flows.f.limit.records.per.second = 1500").start();
    worker.await_metric("sink_record_send_total", COPIED_AT_LEAST);
    let (code, _, complaint) = run(&flow, &["switch", "f", "--to", "consumer"]);
    assert!(code == Some(75) && complaint.contains(&flow.group) && complaint.contains("Stop all workers"));
    assert_eq!(worker.shut_down().code(), Some(0));
    let copied = copies(topic);
    assert!(copied.values().all(|count| *count == 1), "copied twice");
    assert!((copied.len() as u64) < RECORDS, "nothing is left");
    (flow, copied.into_keys().collect())
}

#[test]
fn what_is_left_is_copied_through_either_group() {
    let source = &pair().source;
    let (topic, group) = (unique("switched"), unique("ordered"));
    let (flow, copied) = half_copied(&topic, &group);
    let to_consumer = ["--to", "consumer"];
    let planned = switch(&flow, &[&to_consumer[..], &["--dry-run"]].concat());
    assert_eq!(offsets(source, CONSUMER_GROUPS, (&group, "CURRENT-OFFSET")), BTreeMap::new(), "a dry run has moved it");
    let (after, repeated, moved) = switch(&flow, &to_consumer);
    assert_eq!(planned, (after.clone(), repeated, moved));
    assert_eq!(moved, PARTITIONS as u64);
    assert_eq!(offsets(source, CONSUMER_GROUPS, (&group, "CURRENT-OFFSET")), after);
    let starts = offsets(source, SHARE_GROUPS, (&flow.group, "START-OFFSET"));
    assert!(starts.iter().all(|(partition, start)| after[partition] >= *start), "{starts:?} {after:?}");
    let left: u64 = after.values().map(|offset| RECORDS / PARTITIONS as u64 - *offset as u64).sum();
    let plan = |flow: &Flow| {
        let (_, said, _) = run(flow, &["plan", "--json"]);
        serde_json::from_str::<Value>(&said).unwrap()["flows"][0]["topics"][0]["records"].clone()
    };
    assert_eq!(plan(&flow.clone().with("flows.f.group.protocol = \"consumer\"")), json!(left));
    assert_eq!(switch(&flow, &to_consumer), (after, 0, 0), "it stands there already");

    // The other group reads a part of it, and is not to be moved meanwhile.
    let consumer = member(&group, &topic);
    let read = read(&consumer, &topic, left as usize / 2);
    let again = read.intersection(&copied).count() as u64;
    assert!(again <= repeated, "{again} were repeated, not {repeated}");
    let (code, _, complaint) = run(&flow, &["switch", "f", "--to", "share"]);
    assert!(code == Some(75) && complaint.contains(&group) && complaint.contains("rdkafka"), "{complaint}");
    drop(consumer);
    eventually("the member has left", || {
        (run(&flow, &["switch", "f", "--to", "share", "--dry-run"]).0 == Some(0)).then_some(())
    });
    let (code, _, complaint) = run(&flow, &["switch", "f", "--to", "consumer"]);
    let command = format!("--delete-offsets --group {group} --topic {topic}");
    assert!(code == Some(77) && complaint.contains(&command), "the consumer group would go back: {complaint}");

    // Back, and a worker copies exactly what neither has.
    let (after, repeated, _) = switch(&flow, &["--to", "share"]);
    assert_eq!(offsets(source, SHARE_GROUPS, (&flow.group, "START-OFFSET")), after);
    let _worker = flow.start();
    let all = |copies: &BTreeMap<u64, u32>| (0..RECORDS).all(|n| copies.contains_key(&n) || read.contains(&n));
    let copies = eventually("the rest has arrived", || Some(copies(&topic)).filter(all));
    let mut repeats = 0;
    for number in 0..RECORDS {
        let count = copies.get(&number).copied().unwrap_or(0);
        match (copied.contains(&number), read.contains(&number)) {
            (true, _) => repeats += u64::from(count - 1),
            (false, true) => assert_eq!(count, 0, "{number}: read through the consumer group, and copied again"),
            (false, false) => assert_eq!(count, 1, "{number}: left by both"),
        }
    }
    assert!(repeats <= repeated, "{repeats} were repeated, not {repeated}");
    // The group that goes on may have members as little as the one that is left, even for a look.
    let (code, _, complaint) = run(&flow, &["switch", "f", "--to", "share", "--dry-run"]);
    assert!(code == Some(75) && complaint.contains(&flow.group) && complaint.contains("has members"), "{complaint}");
}

/// Commits an offset of partition 0 for a consumer group.
fn commit(cluster: &Cluster, group: &str, (topic, offset): (&str, i64)) {
    let mut settings = ClientConfig::new();
    let consumer: BaseConsumer =
        settings.set("bootstrap.servers", cluster.bootstrap()).set("group.id", group).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

#[test]
fn a_share_group_that_never_was_goes_on_where_the_consumer_group_stands() {
    let (topic, group) = (unique("taken-over"), unique("ordered"));
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    write(&pair().source, &topic, 0..100);
    commit(&pair().source, &group, (&topic, 40));
    // Another topic of the flow, which is not named below and stays where it is.
    let other = unique("left-alone");
    pair().source.create_topic(&other, 1, &[]).unwrap();
    write(&pair().source, &other, 0..20);
    commit(&pair().source, &group, (&other, 10));
    let flow = Flow::new(pair(), &[&topic, &other]).with(&format!("flows.f.group.id = \"{group}\""));
    assert_eq!(switch(&flow, &["--to", "share", "--topic", &topic]), ([(0, 40)].into(), 0, 1));
    let _worker = flow.start();
    let copies = eventually("the rest has arrived", || {
        let is_there = pair().target.topic_config(&topic).is_ok();
        is_there.then(|| copies(&topic)).filter(|copies| copies.len() >= 60)
    });
    assert_eq!(copies, (40..100).map(|number| (number, 1)).collect());
}

/// The id of a topic, as Kafka's own tool shows it.
fn topic_id(cluster: &Cluster, topic: &str) -> Uuid {
    let table = cluster.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", topic]).unwrap();
    let id = table.split_once("TopicId: ").unwrap().1.split_whitespace().next().unwrap();
    Uuid::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(id).unwrap()).unwrap()
}

#[test]
fn what_an_unclean_election_has_rewritten_is_copied_before_the_groups_change() {
    let (source, topic) = (&pair().source, unique("rewritten"));
    source.create_topic(&topic, 1, &[]).unwrap();
    write(source, &topic, 0..100);
    let flow = Flow::new(pair(), &[&topic]);
    // As the workers of the share group remember it: offsets 10 to 19 are still to be copied.
    let mut settings = ClientConfig::new();
    let settings = settings.set("bootstrap.servers", source.bootstrap());
    let consumer: BaseConsumer = settings.set("group.id", format!("{}-rewritten", flow.group)).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic, 0, Offset::Offset(10)).unwrap();
    list.find_partition(&topic, 0).unwrap().set_metadata(format!("{} 20", topic_id(source, &topic)));
    consumer.commit(&list, CommitMode::Sync).unwrap();
    let (code, _, complaint) = run(&flow, &["switch", "f", "--to", "consumer", "--dry-run"]);
    assert!(code == Some(75) && complaint.contains(&format!("rewritten offsets of {topic}-0")), "{complaint}");
}

#[test]
fn nothing_is_moved_without_a_position() {
    let topic = unique("unmoved");
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    let flow = Flow::new(pair(), &[&topic]).with(&format!("flows.f.group.id = \"{}\"", unique("nobody")));
    for side in ["consumer", "share"] {
        let (code, _, complaint) = run(&flow, &["switch", "f", "--to", side]);
        assert!(code == Some(77) && complaint.contains("has no offset in any topic"), "{complaint}");
    }
    let (code, _, complaint) = run(&flow, &["switch", "f", "--to", "share", "--topic", "other"]);
    assert!(code == Some(64) && complaint.contains("copies no topic other"), "{complaint}");
    assert_eq!(run(&flow, &["switch", "g", "--to", "share"]).0, Some(64));
}

/// Leader epochs that a group has committed with its first offsets, by partition, as Kafka's own tool reads them from where they are kept.
fn epochs(cluster: &Cluster, group: &str) -> BTreeMap<i64, i64> {
    let formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter";
    let arguments =
        ["--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "3000", "--formatter", formatter];
    let said = cluster.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments).unwrap();
    let kept = serde_json::Deserializer::from_str(&said).into_iter::<Value>().map_while(Result::ok);
    let ours = kept.filter(|kept| kept["key"]["data"]["group"] == group && !kept["value"].is_null());
    let number = |value: &Value| value.as_i64().unwrap();
    let mut epochs = BTreeMap::new();
    for kept in ours {
        // The first one: whoever joins afterwards commits, too.
        let epoch = number(&kept["value"]["data"]["leaderEpoch"]);
        epochs.entry(number(&kept["key"]["data"]["partition"])).or_insert(epoch);
    }
    epochs
}

#[test]
fn an_offset_is_committed_with_the_leader_epoch_of_the_record_before_it() {
    let pair = mortal_pair();
    let (topic, group, other) = (unique("epochs"), unique("ordered"), unique("other"));
    for cluster in [&pair.source, &pair.target] {
        cluster.create_topic(&topic, 2, &[]).unwrap();
    }
    // 50 records in each partition under each of two leader epochs.
    write(&pair.source, &topic, 0..100);
    pair.source.kill().unwrap();
    pair.source.start_again().unwrap();
    write(&pair.source, &topic, 100..200);
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", pair.source.bootstrap()).set("group.id", &other);
    let consumer: BaseConsumer = settings.create().unwrap();
    let mut list = TopicPartitionList::new();
    for (partition, offset) in [(0, 50), (1, 51)] {
        list.add_partition_offset(&topic, partition, Offset::Offset(offset)).unwrap();
    }
    consumer.commit(&list, CommitMode::Sync).unwrap();
    let lines = [
        "group.protocol = \"consumer\"",
        &format!("start.position = \"group:{other}\""),
        &format!("group.id = \"{group}\""),
    ];
    let flow = Flow::new(&pair, &[&topic]).with_all(&lines.map(|line| format!("flows.f.{line}")));
    flow.start().await_log("start offsets set");
    let epochs = epochs(&pair.source, &group);
    assert!(epochs.len() == 2 && epochs[&0] == 0 && epochs[&1] > 0, "{epochs:?}");
}

#[test]
fn a_new_consumer_group_is_put_to_its_start() {
    let (topic, group) = (unique("placed"), unique("ordered"));
    for cluster in [&pair().source, &pair().target] {
        cluster.create_topic(&topic, 2, &[]).unwrap();
    }
    write(&pair().source, &topic, 0..1_000);
    let lines = ["group.protocol = \"consumer\"", "start.position = \"latest\"", &format!("group.id = \"{group}\"")];
    let lines = lines.map(|line| format!("flows.f.{line}"));
    let flow = Flow::new(pair(), &[&topic]).with_all(&lines);
    let (_, said, _) = run(&flow, &["plan"]);
    assert!(said.contains(&format!("consumer group {group}: set the start offsets of 2 partitions")), "{said}");
    let worker = flow.start();
    worker.await_log("start offsets set");
    let settings = [("bootstrap.servers", pair().source.bootstrap()), ("group.id", &group)];
    let consumer: BaseConsumer = settings
        .into_iter()
        .fold(ClientConfig::new(), |mut all, (key, value)| {
            all.set(key, value);
            all
        })
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..2 {
        list.add_partition(&topic, partition);
    }
    let committed = consumer.committed_offsets(list, DEADLINE).unwrap();
    assert!(committed.elements().iter().all(|at| at.offset() == Offset::Offset(500)), "{committed:?}");
}
