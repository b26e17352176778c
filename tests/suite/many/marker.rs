//! What Kafka 4.4.0 does with the commit marker of a partition that nobody leads.

use cluster::read::{Isolation, count, end_offsets};
use cluster::{Coordinated, unique};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::many_pair;
use crate::bridge::{DEADLINE, eventually};

fn write(producer: &BaseProducer, topic: &str) {
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::<(), str>::to(topic).payload("a record")).unwrap();
    producer.flush(DEADLINE).unwrap();
}

/// The coordinator gives up the marker of a partition whose only broker was fenced before it had the marker, and calls the
/// transaction complete. The record stays hidden, and the next abort of the same producer makes it an aborted one.
///
/// No test of the bridge: it fails once Kafka keeps the marker. `--ignored` runs it.
#[test]
#[ignore = "shows what a broker does, not what the bridge does"]
fn a_commit_marker_that_finds_no_leader_is_given_up() {
    let pair = many_pair();
    let target = &pair.target;
    let (topic, id) = (unique("marker"), unique("committed"));
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", target.bootstrap()).set("transactional.id", &id).create().unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    let victim = target.coordinator(Coordinated::Transaction(&id)).unwrap() % 3 + 1;
    target.create_topic_at(&topic, &[&[victim]]).unwrap();
    write(&producer, &topic);
    target.broker(victim).suspend().unwrap();
    producer.commit_transaction(DEADLINE).unwrap();
    target.broker(victim).kill().unwrap();
    eventually("the coordinator calls the transaction complete", || {
        let list = target.tool("org.apache.kafka.tools.TransactionsCommand", &["list"]).unwrap();
        list.lines().any(|line| line.contains(&id) && line.contains("CompleteCommit")).then_some(())
    });
    target.start_again().unwrap();

    let visible = || count(target.bootstrap(), &topic, Isolation::Committed).unwrap();
    assert_eq!((visible(), count(target.bootstrap(), &topic, Isolation::Uncommitted).unwrap()), (0, 1));
    write(&producer, &topic);
    producer.abort_transaction(DEADLINE).unwrap();
    eventually("the abort has its marker", || {
        let ends = |isolation| end_offsets(target.bootstrap(), &topic, isolation).unwrap();
        (ends(Isolation::Committed) == ends(Isolation::Uncommitted)).then_some(())
    });
    assert_eq!(visible(), 0, "a record whose commit was answered with success");
}
