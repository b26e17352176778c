//! Every codec with everything that a record can be, through forwarding and through the codecs: the same records on both sides, as
//! librdkafka reads them and as they lie in the logs.

mod raw;

use bytes::Bytes;
use cluster::{Cluster, pair, unique};
use raw::{Packing, RawRecord, batch, records};

use crate::bridge::Flow;
use crate::flow::{assert_copied, segment};
use crate::verify::foreign;

/// Key and value of a header, and of a record.
type Header<'a> = (&'a [u8], Option<&'a [u8]>);
type Parts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Far below a batch of this module, in whatever codec, and far above any of its records.
const TARGET_BYTES_MAX: &str = "6000";

const NOW: i64 = 1_790_000_000_000;

/// Incompressible, so that every batch is larger than [`TARGET_BYTES_MAX`].
fn noise(seed: u64) -> Vec<u8> {
    let mut draw = fastrand::Rng::with_seed(seed);
    (0..1_000).map(|_| draw.u8(..)).collect()
}

/// Keys and values of every kind, timestamps whose distances take 64 bits, headers that copying could garble, and these.
fn zoo(more_headers: &[Header<'_>]) -> Vec<RawRecord> {
    let parts: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"\xff\x00\xfe"), Some(b"plain")];
    let timestamps = [NOW, 0, -1, NOW - 1, 1, NOW];
    let headers: [&[Header<'_>]; 4] = [
        &[],
        &[(b"twice", Some(b"1")), (b"once", None), (b"twice", Some(b"2")), (b"twice", Some(b"1"))],
        &[(b"null", None), (b"empty", Some(b"")), (b"", Some(b"")), (b"", None)],
        &[(b"bytes", Some(b"\xff\x00\xfe"))],
    ];
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let animal = |(number, (key, value)): (usize, Parts<'_>)| RawRecord {
        timestamp: timestamps[number % timestamps.len()],
        key: owned(key),
        value: owned(value),
        headers: headers[number % 4].iter().chain(more_headers).map(|(k, v)| (k.to_vec(), owned(*v))).collect(),
    };
    let all = parts.iter().flat_map(|key| parts.map(|value| (*key, value)));
    let noisy = |seed| RawRecord { timestamp: NOW, key: None, value: Some(noise(seed)), headers: vec![] };
    all.enumerate().map(animal).chain((0..10).map(noisy)).collect()
}

/// A topic with a partition for each way of packing, which holds a batch of these records.
fn topic(name: &str, records: &[RawRecord], config: &[(&str, &str)]) -> String {
    let topic = unique(name);
    let config = [&[("retention.ms", "-1")], config].concat();
    pair().source.create_topic(&topic, Packing::ALL.len() as i32, &config).unwrap();
    for (partition, packing) in (0..).zip(Packing::ALL) {
        let batch: Bytes = batch(packing, records);
        foreign::append(pair().source.bootstrap(), (&topic, partition), batch);
    }
    topic
}

/// What lies in the log of a partition, sorted; all batches must have this codec.
fn logged(cluster: &Cluster, (topic, partition): (&str, i32), codec: u16) -> Vec<RawRecord> {
    let batches = segment::batches(cluster, topic, partition);
    assert!(batches.iter().all(|batch| batch.codec == codec), "{topic}-{partition} has another codec");
    let mut all: Vec<RawRecord> =
        batches.iter().flat_map(|batch| records(batch.codec, batch.base_timestamp, &batch.records)).collect();
    all.sort();
    all
}

/// Each partition of the target must hold `written` in the codec of the source.
fn assert_logged(topic: &str, written: &[RawRecord]) {
    let mut written = written.to_vec();
    written.sort();
    for (partition, packing) in (0..).zip(Packing::ALL) {
        for cluster in [&pair().source, &pair().target] {
            assert!(logged(cluster, (topic, partition), packing.codec()) == written, "{topic}, {packing:?}");
        }
    }
}

fn assert_unchanged_batches(topic: &str) {
    for (partition, packing) in (0..).zip(Packing::ALL) {
        let [source, target] =
            [&pair().source, &pair().target].map(|cluster| segment::batches(cluster, topic, partition));
        assert_eq!(source.len(), 1);
        assert!(source == target, "{packing:?} was not forwarded as it is");
    }
}

fn carve_small(topic: &str) {
    let config = [("max.message.bytes", TARGET_BYTES_MAX), ("retention.ms", "-1")];
    pair().target.create_topic(topic, Packing::ALL.len() as i32, &config).unwrap();
}

#[test]
fn every_codec_and_detail_is_forwarded_byte_for_byte() {
    let zoo = zoo(&[]);
    let topic = topic("zoo", &zoo, &[]);
    let worker = Flow::new(pair(), &[&topic]).start();
    assert_eq!(assert_copied(&topic).len(), Packing::ALL.len() * zoo.len());
    assert_unchanged_batches(&topic);
    assert_logged(&topic, &zoo);
    assert_eq!(worker.metric("batch_carve_total"), 0);
}

#[test]
fn every_codec_and_detail_survives_carving() {
    let zoo = zoo(&[]);
    let small = topic("small", &zoo, &[]);
    carve_small(&small);
    // The times in these batches are those of their append: only a reader knows them.
    let append = topic("append", &zoo, &[("message.timestamp.type", "LogAppendTime")]);
    let worker = Flow::new(pair(), &[&small, &append]).start();
    for topic in [&small, &append] {
        assert_eq!(assert_copied(topic).len(), Packing::ALL.len() * zoo.len());
    }
    assert_logged(&small, &zoo);
    assert!(segment::batches(&pair().target, &small, 0).len() > 1, "nothing was carved");
    assert_eq!(worker.metric("batch_carve_total"), 2 * Packing::ALL.len() as i64);
}

#[test]
fn header_keys_that_are_no_text_are_forwarded_and_carved() {
    let zoo = zoo(&[(b"\xff\xfe", Some(b"1")), (b"\xff\xfe", None)]);
    let (plain, small) = (topic("keys", &zoo, &[]), topic("keys-small", &zoo, &[]));
    carve_small(&small);
    let worker = Flow::new(pair(), &[&plain, &small]).start();
    // Our reader would refuse to read them.
    worker.await_metric("sink_record_send_total", 2 * (Packing::ALL.len() * zoo.len()) as i64);
    for topic in [&plain, &small] {
        assert_logged(topic, &zoo);
    }
    assert_unchanged_batches(&plain);
}
