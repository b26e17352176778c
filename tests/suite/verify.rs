//! `verify` against real clusters: what it must see, and what must not disturb it.

mod command;
pub(crate) mod foreign;
mod motion;

use std::time::Duration;

use cluster::{Cluster, pair, unique};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use sharebridge::verify::{
    Basis, Changed, Comparison, Endpoint, PartitionReport, Report, TopicPair, Verdict, VerifyError, verify,
};

const DEADLINE: Duration = Duration::from_secs(30);

/// The records of these tests are years old: retention would remove them at any moment.
const KEPT: (&str, &str) = ("retention.ms", "-1");

/// A record to write; equal ones make equal records.
#[derive(Clone, Default)]
struct Written {
    key: Option<&'static [u8]>,
    value: Option<&'static [u8]>,
    timestamp: i64,
    headers: Vec<(&'static str, Option<&'static [u8]>)>,
}

fn written(key: &'static [u8], value: &'static [u8]) -> Written {
    Written { key: Some(key), value: Some(value), timestamp: 1_700_000_000_000, headers: Vec::new() }
}

/// Removes the records below an offset, as retention does.
fn remove_below(cluster: &Cluster, topic: &str, offset: i64) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap());
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(admin.delete_records(&offsets, &AdminOptions::new())).unwrap();
}

fn producer(cluster: &Cluster, transactional_id: Option<&str>) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap());
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    let producer: BaseProducer = config.create().unwrap();
    if transactional_id.is_some() {
        producer.init_transactions(DEADLINE).unwrap();
    }
    producer
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, records: &[Written]) {
    for record in records {
        let mut message = BaseRecord::<[u8], [u8]>::to(topic).partition(partition);
        message.key = record.key;
        message.payload = record.value;
        message.timestamp = Some(record.timestamp);
        if !record.headers.is_empty() {
            let headers = record.headers.iter();
            let headers =
                headers.fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: *value }));
            message = message.headers(headers);
        }
        producer.send(message).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
}

fn write(cluster: &Cluster, topic: &str, partition: i32, records: &[Written]) {
    send(&producer(cluster, None), topic, partition, records);
}

fn create_on_both(name: &str, partitions: i32) -> String {
    let topic = unique(name);
    for cluster in [&pair().source, &pair().target] {
        cluster.create_topic(&topic, partitions, &[KEPT]).unwrap();
    }
    topic
}

fn endpoint(name: &str, bootstrap: &str) -> Endpoint {
    Endpoint { cluster: name.to_owned(), bootstrap: bootstrap.to_owned(), properties: Vec::new() }
}

fn comparison(topic: &str) -> Comparison {
    Comparison {
        source: endpoint("primary", pair().source.bootstrap()),
        target: endpoint("dr", pair().target.bootstrap()),
        topics: vec![TopicPair::same(topic)],
        wait: Duration::ZERO,
        without_header: None,
    }
}

fn compare(topic: &str) -> Report {
    let report = verify(&comparison(topic), &mut |_| {}).unwrap();
    println!("{report}");
    report
}

/// Records of the source and the target, then those missing, extra and duplicated.
fn counts(report: &PartitionReport) -> [u64; 5] {
    [report.source.record_count, report.target.record_count, report.missing, report.extra, report.duplicates]
}

/// The original, then variants that differ from it in one detail each.
fn nearly_equal() -> Vec<Written> {
    let original = Written {
        key: Some(b"\xff\xfe\x00\x80"),
        value: Some(b""),
        timestamp: 1_700_000_000_000,
        headers: vec![("a", None), ("b", Some(b"")), ("b", Some(b"\xffx"))],
    };
    let vary = |change: fn(&mut Written)| {
        let mut record = original.clone();
        change(&mut record);
        record
    };
    vec![
        original.clone(),
        vary(|r| r.key = Some(b"\xff\xfe\x00\x81")),
        vary(|r| r.key = Some(b"")),
        vary(|r| r.key = None),
        vary(|r| r.value = None),
        vary(|r| r.timestamp += 1),
        vary(|r| r.headers[0].1 = Some(b"")),
        vary(|r| r.headers[1].1 = None),
        vary(|r| r.headers.swap(1, 2)),
        vary(|r| r.headers[1].0 = "a"),
        vary(|r| r.headers.truncate(2)),
        vary(|r| r.headers.clear()),
    ]
}

#[test]
fn c12_c13_c14_c15_every_detail_of_a_record_counts() {
    let records = nearly_equal();
    let topic = create_on_both("details", records.len() as i32);
    let original = &records[0];
    for (partition, record) in (0..).zip(&records) {
        let pair = pair();
        write(&pair.source, &topic, partition, std::slice::from_ref(original));
        write(&pair.target, &topic, partition, std::slice::from_ref(record));
    }
    let report = compare(&topic);
    let partitions = &report.topics[0].partitions;
    assert_eq!(counts(&partitions[0]), [1, 1, 0, 0, 0]);
    assert_eq!(partitions[0].source.digest, partitions[0].target.digest);
    for (partition, record) in partitions[1..].iter().zip(&records[1..]) {
        let is_same_record = (record.key, record.timestamp) == (original.key, original.timestamp);
        let expected = if is_same_record { ([1, 1, 0, 0, 0], 1) } else { ([1, 1, 1, 1, 0], 0) };
        assert_eq!((counts(partition), partition.changed), expected, "variant {}", partition.partition);
        assert_ne!(partition.source.digest, partition.target.digest);
    }
    assert_eq!(report.verdict(), Verdict::Different);
}

#[test]
fn order_does_not_count_and_copies_do() {
    let topic = create_on_both("copies", 4);
    let [a, b, c] = [&b"a"[..], b"b", b"c"].map(|key| written(key, b"v"));
    let sides: [(&[&Written], &[&Written]); 4] = [
        (&[&a, &b, &b, &c], &[&c, &b, &a, &b]),
        (&[&a, &b, &b], &[&a, &a, &a, &b, &b]),
        (&[&a, &b, &b], &[&a, &b]),
        (&[&a], &[&a, &c, &c]),
    ];
    for (partition, (source, target)) in (0..).zip(sides) {
        let owned = |side: &[&Written]| side.iter().map(|r| (*r).clone()).collect::<Vec<_>>();
        write(&pair().source, &topic, partition, &owned(source));
        write(&pair().target, &topic, partition, &owned(target));
    }
    let report = compare(&topic);
    let partitions = report.topics[0].partitions.iter();
    let found: Vec<_> = partitions.map(|p| (counts(p), p.verdict())).collect();
    let expected = [
        ([4, 4, 0, 0, 0], Verdict::Complete),
        ([3, 5, 0, 0, 2], Verdict::CompleteWithDuplicates),
        ([3, 2, 1, 0, 0], Verdict::Different),
        ([1, 3, 0, 2, 0], Verdict::Different),
    ];
    assert_eq!(found, expected);
}

/// Different for each number, and that many milliseconds later.
fn numbered(number: u32) -> Written {
    const VALUES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let record = written(b"k", VALUES[number as usize % 4]);
    Written { timestamp: record.timestamp + i64::from(number), ..record }
}

#[test]
fn each_kind_of_difference_is_told_with_its_offsets() {
    let topic = create_on_both("kinds", 1);
    let records: Vec<Written> = (0..20_000).map(numbered).collect();
    write(&pair().source, &topic, 0, &records);
    let mut copies = records.clone();
    copies[12_345].value = Some(b"changed");
    copies.remove(7_000);
    copies.push(records[3].clone());
    copies.push(numbered(1_000_000));
    write(&pair().target, &topic, 0, &copies);

    let report = compare(&topic);
    let found = &report.topics[0].partitions[0];
    assert_eq!((counts(found), found.changed), ([20_000, 20_001, 1, 1, 1], 1));
    assert_eq!(found.examples.missing, [7_000]);
    assert_eq!(found.examples.extra, [20_000]);
    assert_eq!(found.examples.duplicates, [19_999]);
    assert_eq!(found.examples.changed, [Changed { source_offset: 12_345, target_offset: 12_344 }]);
}

#[test]
fn what_was_on_the_target_before_is_extra() {
    let topic = create_on_both("before", 1);
    write(&pair().target, &topic, 0, &[numbered(900), numbered(901)]);
    let records: Vec<Written> = (0..10).map(numbered).collect();
    write(&pair().source, &topic, 0, &records);
    write(&pair().target, &topic, 0, &records);
    let report = compare(&topic);
    assert_eq!(counts(&report.totals()), [10, 12, 0, 2, 0]);
    assert_eq!(report.topics[0].partitions[0].examples.extra, [0, 1]);
}

#[test]
fn aborted_records_and_trailing_markers_do_not_disturb() {
    let topic = create_on_both("aborted", 2);
    let kept = [written(b"k", b"1"), written(b"k", b"2")];
    let producer = producer(&pair().source, Some(&topic));
    for partition in 0..2 {
        producer.begin_transaction().unwrap();
        send(&producer, &topic, partition, &kept);
        producer.commit_transaction(DEADLINE).unwrap();
        write(&pair().target, &topic, partition, &kept);
    }
    producer.begin_transaction().unwrap();
    send(&producer, &topic, 1, &[written(b"k", b"aborted")]);
    producer.abort_transaction(DEADLINE).unwrap();

    let report = compare(&topic);
    assert_eq!(report.verdict(), Verdict::Complete);
    assert_eq!(counts(&report.totals()), [4, 4, 0, 0, 0]);
}

#[test]
fn an_open_transaction_is_noted_and_not_waited_for() {
    let topic = create_on_both("open", 1);
    let records = [written(b"k", b"1"), written(b"k", b"2")];
    write(&pair().source, &topic, 0, &records);
    let producer = producer(&pair().target, Some(&topic));
    producer.begin_transaction().unwrap();
    send(&producer, &topic, 0, &records);

    let report = compare(&topic);
    assert_eq!(counts(&report.totals()), [2, 0, 2, 0, 0]);
    assert_eq!(report.totals().target.undecided, 2);
    producer.commit_transaction(DEADLINE).unwrap();
    assert_eq!(compare(&topic).verdict(), Verdict::Complete);
}

#[test]
fn a_missing_topic_and_missing_partitions_are_findings() {
    let (source, target) = (&pair().source, &pair().target);
    let topic = unique("absent");
    source.create_topic(&topic, 2, &[KEPT]).unwrap();
    write(source, &topic, 1, &[written(b"k", b"1")]);
    let report = compare(&topic);
    assert_eq!(report.topics[0].target_partitions, None);
    assert_eq!(counts(&report.totals()), [1, 0, 1, 0, 0]);
    assert_eq!(report.verdict(), Verdict::Different);

    target.create_topic(&topic, 1, &[KEPT]).unwrap();
    write(target, &topic, 0, &[written(b"k", b"1")]);
    let report = compare(&topic);
    assert_eq!(report.topics[0].target_partitions, Some(1));
    assert_eq!(counts(&report.totals()), [1, 1, 1, 1, 0]);

    let nowhere = compare(&unique("nowhere"));
    assert_eq!(nowhere.verdict(), Verdict::Different);
}

#[test]
fn c24_a_compacted_topic_is_compared_by_its_last_values() {
    let topic = unique("compacted");
    let (source, target) = (&pair().source, &pair().target);
    source.create_topic(&topic, 1, &[("cleanup.policy", "compact,delete"), ("retention.ms", "-1")]).unwrap();
    target.create_topic(&topic, 1, &[KEPT]).unwrap();
    let tombstone = Written { value: None, ..written(b"gone", b"") };
    let dirty = [written(b"k", b"1"), written(b"gone", b"1"), written(b"empty", b""), tombstone, written(b"k", b"2")];
    write(source, &topic, 0, &dirty);
    write(target, &topic, 0, &[written(b"empty", b""), written(b"k", b"2")]);
    let report = compare(&topic);
    assert_eq!(report.topics[0].basis, Basis::LastPerKey);
    assert_eq!(counts(&report.totals()), [2, 2, 0, 0, 0]);

    write(target, &topic, 0, &[written(b"k", b"3")]);
    let report = compare(&topic);
    assert_eq!((counts(&report.totals()), report.totals().changed), ([2, 2, 0, 0, 0], 1));
    let changed = [Changed { source_offset: 4, target_offset: 2 }];
    assert_eq!(report.topics[0].partitions[0].examples.changed, changed);
}

#[test]
fn progress_ends_at_its_total() {
    let topic = create_on_both("progress", 3);
    for partition in 0..3 {
        let records = vec![written(b"k", b"v"); 5_000];
        write(&pair().source, &topic, partition, &records);
        write(&pair().target, &topic, partition, &records[1..]);
    }
    let mut last = None;
    let report = verify(&comparison(&topic), &mut |progress| last = Some(progress)).unwrap();
    let last = last.expect("a pass reports its end");
    // All are read twice: they share a bucket.
    assert_eq!((last.read, last.total, last.topic), (2 * 29_997, 2 * 29_997, topic));
    assert_eq!(counts(&report.totals()), [15_000, 14_997, 3, 0, 0]);
}

#[test]
fn a_header_key_that_is_not_utf8_is_refused_by_its_offset() {
    let topic = create_on_both("foreign", 1);
    write(&pair().source, &topic, 0, &[written(b"k", b"v")]);
    foreign::write(pair().source.bootstrap(), &topic, b"\xff\xfe");
    let error = verify(&comparison(&topic), &mut |_| {}).unwrap_err();
    assert!(matches!(error, VerifyError::HeaderKey { offset: 1, .. }), "{error}");
}

#[test]
fn a_cluster_that_does_not_answer_is_named() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap().to_string();
    drop(unused);
    let mut comparison = comparison("orders");
    comparison.target = endpoint("dr", &address);
    let error = verify(&comparison, &mut |_| {}).unwrap_err();
    assert!(matches!(error, VerifyError::Unreachable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("cluster \"dr\"") && text.contains(&address), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[test]
fn comparing_nothing_is_an_error() {
    let mut comparison = comparison("orders");
    comparison.topics.clear();
    let error = verify(&comparison, &mut |_| {}).unwrap_err();
    assert!(matches!(error, VerifyError::NoTopics));
}
