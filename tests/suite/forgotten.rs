//! The coordinator forgets a member, and even the whole group: the worker joins again, and nothing is missing.

use cluster::load::{Load, produce};
use cluster::{pair, unique};

use crate::bridge::{Flow, await_all, eventually};

const RECORDS: u64 = 5_000;

#[test]
fn a_group_deleted_while_its_worker_was_frozen_begins_again() {
    let pair = pair();
    let topic = unique("forgotten");
    pair.source.create_topic(&topic, 2, &[]).unwrap();
    let write = |round| {
        produce(pair.source.bootstrap(), &topic, &Load { start: round * RECORDS, ..Load::of(RECORDS) }).unwrap();
    };
    let flow = Flow::new(pair, &[&topic]);
    let mut worker = flow.start();
    write(0);
    await_all(&pair.target, &topic, RECORDS);
    worker.await_ready();
    worker.process.suspend().unwrap();
    // It can be deleted once the sessions of its members are over.
    eventually("the group is deleted", || {
        let delete = ["--delete", "--group", &flow.group];
        let said = pair.source.tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand", &delete).ok()?;
        said.contains("was successful").then_some(())
    });
    write(1);
    worker.process.resume().unwrap();
    worker.await_log("the group was deleted; joining again");
    await_all(&pair.target, &topic, 2 * RECORDS);
    write(2);
    println!("{:?}", await_all(&pair.target, &topic, 3 * RECORDS));
    worker.await_ready();
}
