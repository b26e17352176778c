//! A group that has begun elsewhere: its start position was used, and setting it now moves nothing.

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{Flow, arrived, await_all, commands, eventually, obey};
use crate::refusal::end_of;

const RECORDS: u64 = 1_000;

/// A topic with records, a flow that wants all of them, and the same flow when it wanted only later ones.
fn begin(name: &str) -> (String, Flow, Flow) {
    let topic = unique(name);
    pair().source.create_topic(&topic, 2, &[]).unwrap();
    write(&topic, 0);
    let flow = Flow::new(pair(), &[&topic]);
    let late = flow.clone().with("flows.f.share.auto.offset.reset = \"latest\"");
    (topic, flow, late)
}

fn write(topic: &str, start: u64) {
    produce(pair().source.bootstrap(), topic, &Load { start, ..Load::of(RECORDS) }).unwrap();
}

/// It says what is wrong, and following its commands leads to a complete copy.
fn is_refused_until_it_is_moved(topic: &str, flow: &Flow, records: u64) {
    let before = arrived(&pair().target, topic).map(|arrived| arrived.distinct);
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(77));
    for words in [&*flow.group, "primary", "latest", "earliest", "share.group.id", &format!("{topic}-")] {
        assert!(log.contains(words), "{words} is not named");
    }
    assert_eq!(arrived(&pair().target, topic).map(|arrived| arrived.distinct), before);

    commands(&log).into_iter().for_each(|command| obey(&pair().source, command));
    let _worker = flow.start();
    await_all(&pair().target, topic, records);
}

#[test]
fn a_group_that_has_read_from_latest_is_refused_until_it_is_moved() {
    let (topic, flow, late) = begin("begun");
    let mut worker = late.start();
    worker.await_ready();
    // Nobody tells when a broker has read a partition for the first time, so records are written until some arrive.
    let mut records = RECORDS;
    eventually("something has arrived", || {
        write(&topic, records);
        records += RECORDS;
        arrived(&pair().target, &topic).filter(|arrived| arrived.distinct > 0)
    });
    assert_eq!(worker.shut_down().code(), Some(0));
    assert!(arrived(&pair().target, &topic).unwrap().distinct < records, "it has not begun at latest");
    is_refused_until_it_is_moved(&topic, &flow, records);

    // It was moved once; now both agree.
    flow.start().await_ready();
}

#[test]
fn a_group_that_has_joined_at_latest_is_refused_until_it_is_moved() {
    let (topic, flow, late) = begin("joined");
    let mut worker = late.start();
    worker.await_log("\"partitions\":1");
    assert_eq!(worker.shut_down().code(), Some(0));
    let mut accepted = late.start();
    accepted.await_ready();
    assert_eq!(accepted.shut_down().code(), Some(0));
    is_refused_until_it_is_moved(&topic, &flow, RECORDS);
}
