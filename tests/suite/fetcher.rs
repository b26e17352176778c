//! Fetchers of a consumer group beside a real broker: what they bring is what librdkafka reads.

mod speed;
pub(crate) mod stage;
mod versions;

use std::collections::BTreeMap;

use cluster::load::{Load, produce};
use cluster::read::{Isolation, end_offsets, scan};
use cluster::{Cluster, pair, unique};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message};
use sharebridge::metrics::LossLabels;
use sharebridge::source::consumer::fetcher::Jump;

use crate::bridge::DEADLINE;
use stage::{ALL, Stage, reach};

/// What a fetcher may have in flight and more.
const ROOMY: usize = 64 << 20;

/// Committed offsets of each partition, as librdkafka reads them.
pub(crate) fn oracle(cluster: &Cluster, topic: &str) -> BTreeMap<i32, Vec<i64>> {
    let mut offsets: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    let note = |message: &rdkafka::message::BorrowedMessage<'_>| {
        offsets.entry(message.partition()).or_default().push(message.offset());
        Ok(())
    };
    scan(cluster.bootstrap(), topic, Isolation::Committed, note).unwrap();
    offsets
}

fn producer(cluster: &Cluster, codec: &str, transactional: bool) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap()).set("compression.type", codec).set("linger.ms", "0");
    if transactional {
        config.set("transactional.id", unique("writer"));
    }
    let producer: BaseProducer = config.create().unwrap();
    if transactional {
        producer.init_transactions(DEADLINE).unwrap();
    }
    producer
}

/// Some batches of some records each, in both partitions.
fn write(producer: &BaseProducer, topic: &str, draw: &mut fastrand::Rng) {
    for _ in 0..draw.usize(1..4) {
        for number in 0..draw.u32(1..30) {
            let value = format!("a value that is worth compressing, number {number}");
            let record: BaseRecord<'_, (), str> = BaseRecord::to(topic).partition(draw.i32(0..2)).payload(&value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(DEADLINE).unwrap();
    }
}

/// Transactions of three producers, interleaved, every other one aborted, with records outside of transactions between them.
pub(crate) fn interleave(cluster: &Cluster, topic: &str) {
    let mut draw = fastrand::Rng::with_seed(27);
    let writers = ["lz4", "gzip", "none"].map(|codec| producer(cluster, codec, true));
    let plain = producer(cluster, "zstd", false);
    for _ in 0..8 {
        writers.iter().for_each(|writer| writer.begin_transaction().unwrap());
        for _ in 0..3 {
            write(&writers[draw.usize(0..3)], topic, &mut draw);
            write(&plain, topic, &mut draw);
        }
        let mut order = [0, 1, 2];
        draw.shuffle(&mut order);
        for writer in order {
            write(&writers[writer], topic, &mut draw);
            match draw.bool() {
                true => writers[writer].commit_transaction(DEADLINE).unwrap(),
                false => writers[writer].abort_transaction(DEADLINE).unwrap(),
            }
        }
    }
}

/// Reads all of a topic from these offsets on, and compares it with what librdkafka has read.
pub(crate) async fn compare(
    (cluster, topic): (&Cluster, &str),
    oracle: &BTreeMap<i32, Vec<i64>>,
    (from, room, versions): (&[i64], usize, std::ops::RangeInclusive<i16>),
) {
    let ends = end_offsets(cluster.bootstrap(), topic, Isolation::Uncommitted).unwrap();
    let stage = Stage::of(reach(cluster.bootstrap(), None), topic, room).await;
    let mut stage = stage.speaking(versions.clone()).begin_all(from);
    stage.follow().await;
    stage.read_to(&ends).await;
    for (partition, from) in (0..).zip(from) {
        let all = oracle.get(&partition).map(|offsets| &offsets[..]).unwrap_or_default();
        let expected: Vec<i64> = all.iter().copied().filter(|offset| offset >= from).collect();
        assert!(stage.offsets(partition) == expected, "{topic}-{partition} from {from} in {versions:?}");
        assert!(stage.read.get(&partition).is_none_or(|read| read.jumps.is_empty()));
    }
    stage.close().await;
    assert_eq!((stage.room.used(), stage.health.troubles()), (0, vec![]));
}

#[tokio::test]
async fn c27_what_several_producers_have_committed_is_read_and_nothing_else() {
    let (source, topic) = (&pair().source, unique("interleaved"));
    source.create_topic(&topic, 2, &[]).unwrap();
    interleave(source, &topic);
    let expected = oracle(source, &topic);
    let records: usize = expected.values().map(Vec::len).sum();
    let ends = end_offsets(source.bootstrap(), &topic, Isolation::Uncommitted).unwrap();
    println!("{records} committed records below {ends:?}");
    assert!(records > 500 && (records as i64) < ends.iter().sum::<i64>() * 9 / 10);
    for versions in [4..=6, 7..=11, 12..=12, ALL] {
        compare((source, &topic), &expected, (&[0, 0], ROOMY, versions)).await;
    }
    // From everywhere: inside of batches, of aborted transactions, and at markers.
    for step in 1..30 {
        let from: Vec<i64> = ends.iter().map(|end| end * step / 30).collect();
        compare((source, &topic), &expected, (&from, ROOMY, ALL)).await;
    }
}

#[tokio::test]
async fn batches_that_are_larger_than_all_room_come_one_by_one() {
    const ROOM: usize = 64 << 10;
    const BATCH: usize = 300_000;
    let (source, topic) = (&pair().source, unique("narrow"));
    source.create_topic(&topic, 3, &[]).unwrap();
    let load = Load { value_bytes: 10_000, compression: "none".into(), batch_bytes: BATCH, ..Load::of(1_500) };
    produce(source.bootstrap(), &topic, &load).unwrap();
    let mut stage = Stage::of(reach(source.bootstrap(), None), &topic, ROOM).await.begin_all(&[0; 3]);
    stage.follow().await;
    let mut largest = 0;
    while stage.places.values().any(|place| place.position < 500) {
        let taken = stage.take().await;
        largest = largest.max(stage.room.used());
        drop(taken);
    }
    assert!((0..3).all(|partition| stage.offsets(partition) == (0..500).collect::<Vec<_>>()));
    assert!(largest > ROOM && largest < ROOM + BATCH + 10_000, "{largest} bytes were taken");
    stage.close().await;
    assert_eq!(stage.room.used(), 0);
}

#[tokio::test]
async fn what_retention_has_removed_is_told_and_reading_goes_on_behind_it() {
    let (source, topic) = (&pair().source, unique("expired"));
    source.create_topic(&topic, 3, &[]).unwrap();
    produce(source.bootstrap(), &topic, &Load::of(300)).unwrap();
    source.delete_records(&topic, 0, 60).unwrap();
    for versions in [4..=11, ALL] {
        let stage = Stage::of(reach(source.bootstrap(), None), &topic, ROOMY).await.speaking(versions);
        // Below the log, below it with a leader epoch, and above it, where nobody has ever been: an offset that was set by hand.
        let mut stage = stage.begin(0, (10, 0)).begin(1, (0, -1)).begin(2, (500, -1));
        stage.follow().await;
        stage.read_to(&[100, 100]).await;
        while stage.places[&2].position > 100 {
            stage.take().await;
        }
        assert_eq!(stage.read[&0].jumps, [(10, 60, Jump::Expired)]);
        assert_eq!(stage.offsets(0), (60..100).collect::<Vec<_>>());
        assert_eq!((stage.offsets(1).len(), &stage.read[&1].jumps[..]), (100, &[][..]));
        assert_eq!(stage.read[&2].jumps, [(500, 100, Jump::Truncated)]);
        let lost = stage.metrics.records_lost.get_or_create_owned(&LossLabels { cause: "retention" });
        assert_eq!((lost.get(), stage.metrics.truncated.get()), (50, 1));
        stage.close().await;
        assert_eq!(stage.health.troubles(), []);
    }
}

#[tokio::test]
async fn many_partitions_share_one_session_and_leave_it() {
    const PARTITIONS: i32 = 200;
    let (source, topic) = (&pair().source, unique("wide"));
    source.create_topic(&topic, PARTITIONS, &[]).unwrap();
    let write = |start| produce(source.bootstrap(), &topic, &Load { start, ..Load::of(10_000) }).unwrap();
    write(0);
    let positions = [0; PARTITIONS as usize];
    let mut stage = Stage::of(reach(source.bootstrap(), None), &topic, 1 << 20).await.begin_all(&positions);
    stage.follow().await;
    stage.read_to(&[50; PARTITIONS as usize]).await;
    // Half of them leave, and one begins anew.
    stage.places.retain(|partition, _| partition % 2 == 0);
    let place = stage.places.get_mut(&0).unwrap();
    (place.turn, place.position) = (2, 7);
    stage.read.clear();
    stage.follow().await;
    write(10_000);
    stage.read_to(&[100; PARTITIONS as usize]).await;
    assert_eq!(stage.offsets(0), (7..100).collect::<Vec<_>>());
    for partition in 1..PARTITIONS {
        let expected: Vec<i64> = if partition % 2 == 0 { (50..100).collect() } else { vec![] };
        assert_eq!(stage.offsets(partition), expected, "partition {partition}");
    }
    stage.close().await;
}

#[tokio::test]
async fn a_partition_in_trouble_holds_no_other() {
    let (source, topic) = (&pair().source, unique("beside"));
    source.create_topic(&topic, 1, &[]).unwrap();
    let mut stage = Stage::of(reach(source.bootstrap(), None), &topic, ROOMY).await.begin_all(&[0, 0]);
    stage.follow().await;
    let troubled = format!("source {topic}-1");
    for round in 1..=3 {
        produce(source.bootstrap(), &topic, &Load::of(10)).unwrap();
        stage.read_to(&[10 * round]).await;
        stage.await_trouble(&troubled).await;
    }
    source.grow_topic(&topic, 2).unwrap();
    produce(source.bootstrap(), &topic, &Load::of(20)).unwrap();
    stage.read_to(&[40, 10]).await;
    stage.close().await;
    assert_eq!(stage.health.troubles(), []);
}
