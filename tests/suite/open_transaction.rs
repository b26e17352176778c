//! Transactions that stay open at the source: what is behind them waits, and nothing else.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::read::{Isolation, scan};
use cluster::{pair, unique};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message};

use crate::bridge::{DEADLINE, Flow, eventually};

/// Longer than the locks of the group.
const OPEN: Duration = Duration::from_secs(13);

fn producer(transactional_id: Option<&str>) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", pair().source.bootstrap());
    transactional_id.map(|id| config.set("transactional.id", id));
    let producer: BaseProducer = config.create().unwrap();
    if transactional_id.is_some() {
        producer.init_transactions(DEADLINE).unwrap();
        producer.begin_transaction().unwrap();
    }
    producer
}

fn send(producer: &BaseProducer, (topic, partition): (&str, i32), words: &str) {
    producer.send(BaseRecord::<(), str>::to(topic).partition(partition).payload(words)).map_err(|(e, _)| e).unwrap();
    producer.flush(DEADLINE).unwrap();
}

/// How often each payload has arrived.
fn payloads(topic: &str) -> Option<BTreeMap<String, u32>> {
    let mut seen = BTreeMap::new();
    scan(pair().target.bootstrap(), topic, Isolation::Committed, |message| {
        let words = String::from_utf8_lossy(message.payload().unwrap()).into_owned();
        *seen.entry(words).or_insert(0) += 1;
        Ok(())
    })
    .ok()?;
    Some(seen)
}

#[test]
fn records_of_an_open_transaction_come_when_it_commits_and_never_when_it_aborts() {
    let topic = unique("open");
    pair().source.create_topic(&topic, 3, &[]).unwrap();
    let (committing, aborting) = (producer(Some(&unique("commits"))), producer(Some(&unique("aborts"))));
    let plain = producer(None);
    send(&committing, (&topic, 0), "committed");
    send(&aborting, (&topic, 1), "aborted");
    send(&plain, (&topic, 0), "behind the one");
    send(&plain, (&topic, 1), "behind the other");
    let worker = Flow::new(pair(), &[&topic]).start();
    worker.await_ready();

    let (begun, mut beside) = (Instant::now(), BTreeMap::new());
    while begun.elapsed() < OPEN {
        let words = format!("beside, {}", beside.len());
        send(&plain, (&topic, 2), &words);
        beside.insert(words, 1);
        eventually("what is beside the open transactions flows", || payloads(&topic).filter(|seen| *seen == beside));
    }
    assert_eq!(worker.ready().unwrap().0, 200, "waiting for a producer is no trouble");

    committing.commit_transaction(DEADLINE).unwrap();
    aborting.abort_transaction(DEADLINE).unwrap();
    let late = ["committed", "behind the one", "behind the other"].map(|words| (words.to_owned(), 1));
    let all: BTreeMap<_, _> = beside.into_iter().chain(late).collect();
    eventually("all but the aborted record has arrived once", || payloads(&topic).filter(|seen| *seen == all));
    eventually("the worker sees no backlog", || (worker.metric("group_backlog") == 0).then_some(()));
    assert_eq!(payloads(&topic), Some(all));
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}
