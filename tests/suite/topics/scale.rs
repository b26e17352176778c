//! Many topics, which are added, grown, deleted and made anew while records are written to all of them.

use std::thread;
use std::time::{Duration, Instant};

use cluster::{Pair, Spec, unique};

use super::flow;
use super::herd::{Herd, await_herd};
use crate::bridge::{Worker, eventually};

/// How long idle workers are watched.
const IDLE: Duration = Duration::from_secs(30);

/// Topics that are added, grown, deleted, and made anew.
const CHANGED: usize = 5;

/// Two workers on so many topics of five partitions each, while a load goes over all of them.
fn change_under_load(topic_count: usize) -> (Pair, Vec<Worker>) {
    let pair = Pair::start(Spec::named("scale-source"), Spec::named("scale-target")).unwrap();
    let name = unique("scale");
    let mut topics: Vec<(String, i32)> = (0..topic_count).map(|number| (format!("{name}-{number:04}"), 5)).collect();
    pair.source.create_topics(&topics).unwrap();
    let begun = Instant::now();
    let flow = flow(&pair, &format!("{name}-.*"), "none");
    let workers = vec![flow.start(), flow.start()];
    workers.iter().for_each(Worker::await_ready);
    println!("{topic_count} topics: ready after {:?}", begun.elapsed());

    let herd = Herd::start(&pair.source, &topics);
    let added: Vec<(String, i32)> = (0..CHANGED).map(|number| (format!("{name}-added-{number}"), 5)).collect();
    pair.source.create_topics(&added).unwrap();
    added.iter().for_each(|(topic, partitions)| herd.write_to(topic, *partitions));
    for (topic, partitions) in &mut topics[..CHANGED] {
        *partitions = 8;
        pair.source.grow_topic(topic, 8).unwrap();
        herd.write_to(topic, 8);
    }
    let deleted: Vec<String> = topics[CHANGED..3 * CHANGED].iter().map(|(topic, _)| topic.clone()).collect();
    for topic in &deleted {
        herd.leave(topic);
        pair.source.delete_topic(topic).unwrap();
    }
    let anew: Vec<(String, i32)> = deleted[..CHANGED].iter().map(|topic| (topic.clone(), 5)).collect();
    pair.source.create_topics(&anew).unwrap();
    anew.iter().for_each(|(topic, partitions)| herd.write_to(topic, *partitions));

    let remaining = topic_count as i64;
    for worker in &workers {
        eventually("all changes are found", || (worker.metric("topics") == remaining).then_some(()));
    }
    let enough = herd.written() + 5 * topic_count as u64;
    eventually("more is written", || (herd.written() >= enough).then_some(()));
    let (expected, written) = (herd.end(), Instant::now());
    let records: usize = expected.values().map(|records| records.len()).sum();
    let again = await_herd(&pair.target, &expected);
    println!("{records} records, the last of them read back after {:?}; {again} came twice", written.elapsed());
    workers.iter().for_each(Worker::await_ready);
    (pair, workers)
}

#[test]
fn topics_are_added_grown_deleted_and_made_anew_under_load() {
    change_under_load(40);
}

#[test]
#[ignore = "measures memory and idle processor time with 1,000 partitions, for minutes"]
fn figures_of_two_hundred_topics() {
    let (_pair, workers) = change_under_load(200);
    let before: Vec<f64> = workers.iter().map(|worker| worker.process.cpu_seconds().unwrap()).collect();
    thread::sleep(IDLE);
    for (worker, before) in workers.iter().zip(before) {
        let cpu = (worker.process.cpu_seconds().unwrap() - before) / IDLE.as_secs_f64();
        let rss = worker.process.peak_rss_bytes().unwrap() as f64 / f64::from(1 << 20);
        println!("idle: {:.2} % of a core; at most {rss:.0} MiB of memory", 100.0 * cpu);
    }
}
