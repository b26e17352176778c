//! Transactions of several producers, committed and aborted in turn, with their records between each other's.

use std::time::Duration;

use cluster::read::{Isolation, Record, end_offsets, read_all};
use cluster::{pair, unique};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::ordered;
use crate::bridge::eventually;

const ROUNDS: usize = 20;
const PARTS: usize = 3;
const DEADLINE: Duration = Duration::from_secs(30);

fn producer(codec: &str) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", pair().source.bootstrap())
        .set("transactional.id", unique("writer"))
        .set("compression.type", codec)
        .set("linger.ms", "0")
        .create()
        .unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    producer
}

/// Records of all transactions that are open lie between each other; one transaction in three is aborted, and those of the first
/// producer last twice as long as the others. Returns how many records were committed.
fn write(topic: &str) -> usize {
    let producers = ["none", "gzip", "lz4", "zstd"].map(producer);
    let (mut open, mut committed) = ([0; 4], 0);
    for round in 0..ROUNDS {
        for part in 0..PARTS {
            for (index, producer) in producers.iter().enumerate() {
                if open[index] == 0 {
                    producer.begin_transaction().unwrap();
                }
                let value = format!("{round}-{index}-{part}");
                let partition = i32::try_from(part % 2).unwrap();
                let record = BaseRecord::to(topic).partition(partition).key(&value).payload(&value);
                producer.send(record).unwrap();
                // Each record is a batch of its own.
                producer.flush(DEADLINE).unwrap();
                open[index] += 1;
            }
        }
        for (index, producer) in producers.iter().enumerate() {
            if index == 0 && round % 2 == 0 {
                continue;
            }
            let records = std::mem::take(&mut open[index]);
            if (round + index) % 3 == 0 {
                producer.abort_transaction(DEADLINE).unwrap();
            } else {
                producer.commit_transaction(DEADLINE).unwrap();
                committed += records;
            }
        }
    }
    committed
}

fn values(records: Vec<Record>) -> Vec<(i32, Vec<u8>)> {
    let mut values: Vec<(i32, Vec<u8>)> =
        records.into_iter().map(|record| (record.partition, record.value.unwrap())).collect();
    // In each partition as they stand.
    values.sort_by_key(|(partition, _)| *partition);
    values
}

#[test]
fn c27_exactly_the_committed_records_come_and_in_their_order() {
    let topic = unique("interleaved");
    pair().source.create_topic(&topic, 2, &[]).unwrap();
    let flow = ordered(pair(), &[&topic]);
    let _worker = flow.start();
    let committed = write(&topic);
    let original = values(read_all(pair().source.bootstrap(), &topic, Isolation::Committed).unwrap());
    assert_eq!(original.len(), committed);
    let copy = eventually("all committed records have arrived", || {
        let copy = values(read_all(pair().target.bootstrap(), &topic, Isolation::Committed).ok()?);
        (copy.len() >= committed).then_some(copy)
    });
    assert_eq!(copy, original);
    // The last marker is passed, too: otherwise it would be read again with every start.
    let ends = end_offsets(pair().source.bootstrap(), &topic, Isolation::Committed).unwrap();
    assert_eq!(super::committed(&pair().source, &flow.consumer_group(), &topic), ends);
}
