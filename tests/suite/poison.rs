//! Records that cannot be delivered: found among their neighbours, and dealt with as `errors.tolerance` says.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use cluster::load::{Load, produce, sequence};
use cluster::read::{Isolation, Record, read_all};
use cluster::{pair, unique};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::bridge::{Flow, alter_topic, await_all, eventually};

/// Records before the poison, and behind it.
const NEIGHBOURS: u64 = 50_000;

/// A record over this limit of the target is poison.
const TARGET_BYTES_MAX: usize = 200_000;

/// Larger than the target takes, and of bytes that no codec makes smaller.
fn large() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..TARGET_BYTES_MAX + 1_000).map(|_| next()).collect()
}

/// A topic of two loads with a poison record between, and its copy, which does not take that.
fn poisoned() -> String {
    let topic = unique("poisoned");
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    pair().target.create_topic(&topic, 1, &[]).unwrap();
    alter_topic(&pair().target, &topic, &format!("max.message.bytes={TARGET_BYTES_MAX}"));
    let load = |start| Load { start, ..Load { batch_bytes: 20_000, ..Load::of(NEIGHBOURS) } };
    produce(pair().source.bootstrap(), &topic, &load(0)).unwrap();
    write(&topic, None);
    produce(pair().source.bootstrap(), &topic, &load(NEIGHBOURS)).unwrap();
    topic
}

/// Writes a record that the target does not take: for its size, or for its time.
fn write(topic: &str, timestamp_ms: Option<i64>) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", pair().source.bootstrap()).set("message.max.bytes", "1000000");
    let producer: BaseProducer = config.create().unwrap();
    let value = if timestamp_ms.is_some() { b"late".to_vec() } else { large() };
    let headers = OwnedHeaders::new().insert(Header { key: "kept", value: None::<&[u8]> });
    let record = BaseRecord::to(topic).key(b"\xff\x00").payload(&value).headers(headers);
    let record = timestamp_ms.into_iter().fold(record, BaseRecord::timestamp);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(Duration::from_secs(30)).unwrap();
}

fn flow(topic: &str, lines: &[&str]) -> Flow {
    let flow = Flow::new(pair(), &[topic]).with("flows.f.sink.topic.config.sync.enable = false");
    lines.iter().fold(flow, |flow, line| flow.with(line))
}

/// The letters in a topic of a cluster, once there are so many.
fn letters(bootstrap: &str, topic: &str, count: usize) -> Vec<Record> {
    eventually(&format!("{count} letters in {topic}"), || {
        read_all(bootstrap, topic, Isolation::Committed).ok().filter(|letters| letters.len() >= count)
    })
}

fn headers(letter: &Record) -> BTreeMap<&str, String> {
    let text = |value: &Option<Vec<u8>>| String::from_utf8(value.clone().unwrap_or_default()).unwrap();
    letter.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// Whether it is the poison of [`poisoned`], unchanged, with all that Kafka Connect's tools look for.
fn check_letter(letter: &Record, topic: &str) {
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&b"\xff\x00"[..]), Some(&large()[..])));
    assert_eq!(letter.headers[0], ("kept".to_owned(), None));
    let headers = headers(letter);
    let named = |name: &str| headers[format!("__connect.errors.{name}").as_str()].as_str();
    assert_eq!((named("topic"), named("partition")), (topic, "0"));
    assert_eq!(named("offset"), NEIGHBOURS.to_string());
    assert_eq!((named("connector.name"), named("source.cluster"), named("delivery.count")), ("f", "primary", "1"));
    assert_eq!(named("exception.class.name"), "RecordTooLarge");
    assert!(named("exception.message").contains("max.message.bytes"), "{}", named("exception.message"));
}

#[test]
fn c16_a_poison_record_ends_where_the_policy_says_and_100_000_neighbours_arrive_once() {
    let dead = unique("dead");
    let topic_line = format!("flows.f.errors.deadletterqueue.topic.name = \"{dead}\"");
    let all = "flows.f.errors.tolerance = \"all\"";
    let policies: [(&str, Vec<&str>); 4] = [
        ("stop", vec![]),
        ("skip", vec![all]),
        ("dead_letter", vec![all, &topic_line]),
        ("dead_letter", vec![all, &topic_line, "flows.f.errors.deadletterqueue.cluster = \"source\""]),
    ];
    let started = policies.map(|(outcome, lines)| {
        let topic = poisoned();
        let flow = flow(&topic, &lines);
        (outcome, topic, flow.start())
    });
    for (outcome, topic, worker) in &started {
        println!("{outcome}");
        eventually("it is counted", || {
            let told = worker.metrics();
            let mut counts = told.lines().filter(|line| line.starts_with("sharebridge_sink_record_error_total"));
            counts.find(|line| line.contains(&format!("outcome=\"{outcome}\"")) && !line.ends_with(" 0")).map(drop)
        });
        if *outcome == "stop" {
            worker.await_trouble(&[topic, "max.message.bytes"]);
        } else {
            assert_eq!(await_all(&pair().target, topic, 2 * NEIGHBOURS).duplicates, 0);
            worker.await_ready();
            // Rejected, so that the group is done with it.
            worker.await_metric("sink_record_reject_total", 1);
            worker.await_metric("sink_record_acknowledge_total", i64::try_from(2 * NEIGHBOURS).unwrap());
        }
        assert_eq!(worker.metric("sink_record_redelivery_total"), 0, "one delivery, not the limit");
    }
    for (cluster, (_, topic, _)) in [(&pair().target, &started[2]), (&pair().source, &started[3])] {
        let letters = letters(cluster.bootstrap(), &dead, 1);
        assert_eq!(letters.len(), 1);
        check_letter(&letters[0], topic);
    }
    // What was held goes on once somebody has acted, and with it what the window of the group had no room for.
    let (_, topic, worker) = &started[0];
    alter_topic(&pair().target, topic, "max.message.bytes=1000000");
    let copied = eventually("the record that was held has arrived", || {
        let copied = read_all(pair().target.bootstrap(), topic, Isolation::Committed).ok()?;
        (copied.len() as u64 > 2 * NEIGHBOURS).then_some(copied)
    });
    let neighbours: HashSet<u64> = copied.iter().filter_map(|record| sequence(record.value.as_deref()?)).collect();
    assert_eq!((neighbours.len() as u64, copied.len() as u64), (2 * NEIGHBOURS, 2 * NEIGHBOURS + 1));
    worker.await_ready();
    replayed(&started[2].1, &dead);
}

/// With a target that takes the record, its letter is delivered, once, as the record that it was.
fn replayed(topic: &str, dead: &str) {
    let letters = format!("flows.f.errors.deadletterqueue.topic.name = \"{dead}\"");
    let flow = flow(topic, &["flows.f.errors.tolerance = \"all\"", &letters]);
    let ask = |words: &[&str]| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(flow.text().as_bytes()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sharebridge"));
        let output = command.arg("dead-letters").args(words).arg("--config").arg(file.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, listed) = ask(&["list", "f"]);
    let place = format!("{topic}-0:{NEIGHBOURS}");
    assert!(code == Some(0) && listed.contains("0:0\twaits\t") && listed.contains(&place), "{listed}");
    let (code, shown) = ask(&["show", "f", "0:0"]);
    assert!(code == Some(0) && shown.contains("header kept: null") && shown.contains("key: base64 /wA="), "{shown}");
    let (code, refused) = ask(&["replay", "f"]);
    assert!(code == Some(1) && refused.contains("letter 0:0") && refused.contains("max.message.bytes"), "{refused}");
    alter_topic(&pair().target, topic, "max.message.bytes=1000000");
    let (_, dry) = ask(&["replay", "f", "--dry-run"]);
    assert!(dry.contains("1 letters would be replayed"), "{dry}");
    for expected in ["1 letters replayed", "0 letters replayed"] {
        let (code, said) = ask(&["replay", "f"]);
        assert!(code == Some(0) && said.contains(expected), "{said}");
    }
    assert!(ask(&["list", "f"]).1.contains("0:0\treplayed\t"));
    let copies = read_all(pair().target.bootstrap(), topic, Isolation::Committed).unwrap();
    let large = large();
    let replayed: Vec<&Record> = copies.iter().filter(|record| record.value.as_deref() == Some(&large)).collect();
    assert_eq!((replayed.len(), &replayed[0].headers), (1, &vec![("kept".to_owned(), None)]));
}

#[test]
fn c15_a_time_that_the_target_refuses_is_the_fault_of_its_record_in_both_modes() {
    const RECORDS: u64 = 1_000;
    for protocol in ["share", "consumer"] {
        let (topic, dead) = (unique("late"), unique("dead"));
        pair().source.create_topic(&topic, 1, &[]).unwrap();
        pair().target.create_topic(&topic, 1, &[]).unwrap();
        alter_topic(&pair().target, &topic, "message.timestamp.before.max.ms=86400000");
        produce(pair().source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
        write(&topic, Some(1_000));
        produce(pair().source.bootstrap(), &topic, &Load { start: RECORDS, ..Load::of(RECORDS) }).unwrap();
        let protocol_line = format!("flows.f.group.protocol = \"{protocol}\"");
        let topic_line = format!("flows.f.errors.deadletterqueue.topic.name = \"{dead}\"");
        let worker = flow(&topic, &[&protocol_line, "flows.f.errors.tolerance = \"all\"", &topic_line]).start();
        let letters = letters(pair().target.bootstrap(), &dead, 1);
        assert_eq!(letters.len(), 1, "{protocol}");
        assert_eq!((letters[0].timestamp_ms, letters[0].value.as_deref()), (Some(1_000), Some(&b"late"[..])));
        assert_eq!(headers(&letters[0])["__connect.errors.exception.class.name"], "InvalidTimestamp");
        assert_eq!(await_all(&pair().target, &topic, 2 * RECORDS).duplicates, 0, "{protocol}");
        worker.await_ready();
    }
}
