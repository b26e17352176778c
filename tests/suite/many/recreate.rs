//! A topic that is deleted and created again has another id behind the same name.

use super::{flow, many_pair, spread};
use crate::stream::{await_range, write};

const RECORDS: u64 = 6_000;

#[test]
fn a_topic_made_anew_on_the_source_is_copied_from_its_start() {
    let pair = many_pair();
    let topic = spread(&pair.source, "anew");
    let worker = flow(&pair, &[&topic]).start();
    worker.await_ready();
    for round in 0..3 {
        // From the second round on, the topic goes while its records are on their way.
        write(&pair.source, &topic, 2 * round * RECORDS..(2 * round + 1) * RECORDS);
        if round == 0 {
            await_range(&pair.target, &topic, 0..RECORDS);
        }
        pair.source.delete_topic(&topic).unwrap();
        pair.source.create_topic(&topic, 6, &[]).unwrap();
        let anew = (2 * round + 1) * RECORDS..(2 * round + 2) * RECORDS;
        write(&pair.source, &topic, anew.clone());
        await_range(&pair.target, &topic, anew);
        worker.await_ready();
    }
}

#[test]
fn a_topic_made_anew_on_the_target_takes_all_that_comes_after() {
    let pair = many_pair();
    let topic = spread(&pair.source, "again");
    pair.target.create_topic(&topic, 6, &[]).unwrap();
    let worker = flow(&pair, &[&topic]).with("flows.f.sink.topic.create.enable = false").start();
    write(&pair.source, &topic, 0..RECORDS);
    await_range(&pair.target, &topic, 0..RECORDS);

    pair.target.delete_topic(&topic).unwrap();
    write(&pair.source, &topic, RECORDS..2 * RECORDS);
    println!("{}", worker.await_trouble(&[&format!("{topic}-")]));
    pair.target.create_topic(&topic, 6, &[]).unwrap();
    await_range(&pair.target, &topic, RECORDS..2 * RECORDS);
    worker.await_ready();

    // So short an absence that hardly anybody notices.
    pair.target.delete_topic(&topic).unwrap();
    pair.target.create_topic(&topic, 6, &[]).unwrap();
    write(&pair.source, &topic, 2 * RECORDS..3 * RECORDS);
    await_range(&pair.target, &topic, 2 * RECORDS..3 * RECORDS);
    worker.await_ready();
}
