//! One bad topic never stops the others, and flows by itself once it is repaired.

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{Flow, alter_topic, arrived, await_all, commands, obey};

const RECORDS: u64 = 10_000;

/// What somebody else has to repair.
const ALONE: &str = "flows.f.sink.topic.create.enable = false";

/// Three topics on the source, the second one to be spoilt.
fn topics() -> [String; 3] {
    ["fine", "bad", "sound"].map(|name| {
        let topic = unique(name);
        pair().source.create_topic(&topic, 2, &[]).unwrap();
        topic
    })
}

fn write(topics: &[String; 3], start: u64) {
    for topic in topics {
        produce(pair().source.bootstrap(), topic, &Load { start, ..Load::of(RECORDS) }).unwrap();
    }
}

#[test]
fn a_topic_that_takes_only_small_batches_waits_for_its_config() {
    let pair = pair();
    let topics = topics();
    let [fine, bad, sound] = &topics;
    pair.target.create_topic(bad, 2, &[("max.message.bytes", "100")]).unwrap();
    write(&topics, 0);
    let worker = Flow::new(pair, &[fine, bad, sound]).start();
    await_all(&pair.target, fine, RECORDS);
    await_all(&pair.target, sound, RECORDS);
    println!("{}", worker.await_trouble(&[&format!("{bad}-")]));
    assert_eq!(arrived(&pair.target, bad).unwrap().distinct, 0);

    alter_topic(&pair.target, bad, "max.message.bytes=1048588");
    assert_eq!(await_all(&pair.target, bad, RECORDS).duplicates, 0);
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn a_topic_deleted_on_the_target_waits_until_it_is_back() {
    let pair = pair();
    let topics = topics();
    let [fine, bad, sound] = &topics;
    for topic in &topics {
        pair.target.create_topic(topic, 2, &[]).unwrap();
    }
    let worker = Flow::new(pair, &[fine, bad, sound]).with(ALONE).start();
    write(&topics, 0);
    for topic in &topics {
        await_all(&pair.target, topic, RECORDS);
    }

    pair.target.delete_topic(bad).unwrap();
    write(&topics, RECORDS);
    await_all(&pair.target, fine, 2 * RECORDS);
    await_all(&pair.target, sound, 2 * RECORDS);
    println!("{}", worker.await_trouble(&[&format!("{bad}-")]));

    pair.target.create_topic(bad, 2, &[]).unwrap();
    // What was there before went with the topic.
    await_all(&pair.target, bad, RECORDS);
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn partitions_that_the_target_lacks_wait_until_they_are_added() {
    let pair = pair();
    let topic = unique("narrow");
    pair.source.create_topic(&topic, 4, &[]).unwrap();
    pair.target.create_topic(&topic, 2, &[]).unwrap();
    let write = |start| produce(pair.source.bootstrap(), &topic, &Load { start, ..Load::of(RECORDS) }).unwrap();
    write(0);
    let worker = Flow::new(pair, &[&topic]).with(ALONE).start();
    let lines =
        [2, 3].map(|partition| worker.await_trouble(&[&format!("{topic}-{partition}: "), "dr", "2 partitions"]));
    await_all(&pair.target, &topic, RECORDS / 2);
    write(RECORDS);
    await_all(&pair.target, &topic, RECORDS);
    assert_eq!(worker.metric("held_records"), RECORDS as i64 / 2);

    lines.iter().flat_map(|line| commands(line)).for_each(|command| obey(&pair.target, command));
    assert_eq!(await_all(&pair.target, &topic, 2 * RECORDS).duplicates, 0);
    worker.await_ready();
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}
