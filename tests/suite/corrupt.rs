//! Record batches that were damaged on the source's disk.

use cluster::load::{Load, produce};
use cluster::{Cluster, unique};

use crate::bridge::{Flow, arrived, await_all, eventually, mortal_pair};
use crate::flow::segment::{Byte, flip};

const RECORDS: u64 = 2_000;

/// Neither the first batch nor the last one.
const BATCH: usize = 5;

/// Damages, or repairs, a batch in partition 0 of a topic; returns its offset.
fn damage(source: &Cluster, damaged: &[(&str, Byte)]) -> Vec<i64> {
    // In order: after a crash a broker looks through its log, and cuts it off at the damage.
    source.stop().unwrap();
    let offsets = damaged.iter().map(|(topic, byte)| flip(source, topic, (BATCH, *byte))).collect();
    source.start_again().unwrap();
    offsets
}

#[test]
fn corrupt_batches_hold_their_partitions_until_they_are_repaired() {
    let pair = mortal_pair();
    let (source, target) = (&pair.source, &pair.target);
    let topics = ["payload", "magic", "length", "sound"].map(unique);
    let write = |start| {
        for topic in &topics {
            produce(source.bootstrap(), topic, &Load { start, batch_bytes: 5_000, ..Load::of(RECORDS) }).unwrap();
        }
    };
    topics.iter().for_each(|topic| source.create_topic(topic, 2, &[]).unwrap());
    write(0);
    let [payload, magic, length, sound] = &topics;
    let damaged: [(&str, Byte); 3] = [(payload, Byte::LastOfPayload), (magic, Byte::Magic), (length, Byte::Length)];
    let offsets = damage(source, &damaged);

    // One lane: one share session for all of them.
    let flow = Flow::new(&pair, &topics.each_ref().map(String::as_str)).with("flows.f.lanes.count = 1");
    let worker = flow.start();
    let at_offset = |number: usize| format!("offset {} ", offsets[number]);
    println!("{}", worker.await_trouble(&[&format!("{payload}-0: source "), &at_offset(0), "corrupt"]));
    println!("{}", worker.await_trouble(&[&format!("{magic}-0: source "), &at_offset(1), "magic"]));
    println!("{}", worker.await_trouble(&[&format!("source {length}-0: "), "CorruptMessage"]));
    write(RECORDS);
    await_all(target, sound, 2 * RECORDS);
    for topic in [magic, length] {
        // The other partition has half of the records.
        assert_eq!(await_all(target, topic, RECORDS).duplicates, 0);
    }
    // Where it is known which batch is damaged, those that were acquired with it have arrived, too.
    let arrived = eventually("the neighbours have arrived", || {
        arrived(target, payload).filter(|arrived| arrived.distinct > RECORDS + RECORDS / 4)
    });
    assert!(arrived.distinct < RECORDS + RECORDS / 2 && arrived.duplicates == 0, "{arrived:?}");
    let well = format!("\"well again\",\"subject\":\"f/lane-0/source {length}-0\"");
    assert!(!worker.process.log().contains(&well), "it was said to be well");
    // The fetch that was refused as a whole had acquired records of other partitions, whose locks had to end. Never again, though.
    let again = worker.metric("sink_record_redelivery_total");
    assert!(again <= 7 * RECORDS as i64 / 2, "{again} records have come again: attempts are used up");

    damage(source, &damaged);
    for topic in &topics {
        assert_eq!(await_all(target, topic, 2 * RECORDS).duplicates, 0);
    }
    worker.await_ready();
}
