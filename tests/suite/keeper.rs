//! The transaction keeper: what a dead worker leaves open is decided, and nothing else.

mod rounds;
mod watch;

use cluster::read::{Isolation, end_offsets};
use cluster::{pair, unique};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::bridge::{DEADLINE, Flow, eventually};

/// A producer that has written one record in a transaction and goes no further, as a worker that died.
fn left_open(topic: &str, transactional_id: &str, timeout_ms: &str) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", pair().target.bootstrap())
        .set("transactional.id", transactional_id)
        .set("transaction.timeout.ms", timeout_ms)
        .create()
        .unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::<(), str>::to(topic).payload("left open")).unwrap();
    producer.flush(DEADLINE).unwrap();
    producer
}

/// Whether readers of committed records are held up.
fn is_held_up(topic: &str) -> bool {
    let ends = |isolation| end_offsets(pair().target.bootstrap(), topic, isolation).unwrap();
    ends(Isolation::Committed) != ends(Isolation::Uncommitted)
}

#[test]
fn what_dead_workers_left_open_is_decided_and_nothing_else() {
    let (dead, alive, foreign) = (unique("dead"), unique("alive"), unique("foreign"));
    for topic in [&dead, &alive, &foreign] {
        pair().target.create_topic(topic, 1, &[]).unwrap();
    }
    let idle = unique("idle");
    pair().source.create_topic(&idle, 1, &[]).unwrap();
    let worker = Flow::new(pair(), &[&idle]).named("kept").start();
    worker.await_ready();

    let incarnation = "0123456789abcdef0123456789abcdef";
    // Its timeout is far off: whoever began it may still be at work.
    let _alive = left_open(&alive, &format!("sharebridge-kept-{incarnation}-1"), "600000");
    // The flow `kept-eu` begins with the name of ours.
    let _foreign = left_open(&foreign, &format!("sharebridge-kept-eu-{incarnation}-0"), "1000");
    let _dead = left_open(&dead, &format!("sharebridge-kept-{incarnation}-0"), "1000");
    assert!(is_held_up(&dead) && is_held_up(&alive) && is_held_up(&foreign));

    worker.await_metric("transaction_decide_total", 1);
    eventually("readers of what the dead worker wrote go on", || (!is_held_up(&dead)).then_some(()));
    // The coordinator's own sweep ends the foreign one in the end; until then and after it, the keeper has decided one.
    eventually("the coordinator has ended the foreign transaction", || (!is_held_up(&foreign)).then_some(()));
    assert_eq!(worker.metric("transaction_decide_total"), 1);
    assert!(is_held_up(&alive));
}
