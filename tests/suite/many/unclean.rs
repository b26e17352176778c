//! A replica that lacks records becomes leader: offsets that were copied hold other records from then on.

use cluster::unique;

use super::many_pair;
use crate::bridge::{Flow, alter_topic, await_all, eventually};
use crate::stream::write;

#[test]
fn c08_what_an_unclean_election_has_rewritten_is_copied_from_the_log() {
    let pair = many_pair();
    let topic = unique("unclean");
    pair.source.create_topic_at(&topic, &[&[1, 2], &[1, 2]]).unwrap();
    alter_topic(&pair.source, &topic, "unclean.leader.election.enable=true,min.insync.replicas=1");
    let flow = Flow::new(&pair, &[&topic]);
    let mut worker = flow.start();
    write(&pair.source, &topic, 0..160);
    await_all(&pair.target, &topic, 160);

    pair.source.broker(2).stop().unwrap();
    write(&pair.source, &topic, 160..200);
    await_all(&pair.target, &topic, 200);
    worker.await_metric("sink_record_acknowledge_total", 200);
    pair.source.broker(1).kill().unwrap();
    pair.source.broker(2).start().unwrap();
    for partition in 0..2 {
        let leads = || (pair.source.leader(&topic, partition).ok()? == 2).then_some(());
        eventually("the replica that lacks 20 records of each partition leads", leads);
    }

    // Half of the 20 offsets, then a new worker, then all of them and more.
    write(&pair.source, &topic, 200..220);
    await_all(&pair.target, &topic, 220);
    eventually("half of them are left", || (worker.metric("rewritten_offsets") == 20).then_some(()));
    worker.process.kill().unwrap();
    worker = flow.start();
    write(&pair.source, &topic, 220..290);
    assert_eq!(await_all(&pair.target, &topic, 290).duplicates, 0);
    worker.await_ready();
    eventually("nothing is left to copy", || (worker.metric("rewritten_offsets") == 0).then_some(()));
    assert_eq!(worker.metric("rewritten_record_copy_total"), 20);
}
