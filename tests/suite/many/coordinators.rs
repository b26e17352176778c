//! Coordinators move when their brokers die: the group's, the share group's state, and the transactions'.

use cluster::{Cluster, Coordinated, Pair};

use super::{flow, many_pair, spread, transactional_ids};
use crate::bridge::{Worker, await_all};
use crate::stream::{Stream, write};

const PROBE: u64 = 600;

#[test]
fn coordinators_that_die_one_after_the_other_lose_nothing() {
    let pair = many_pair();
    let Pair { source, target } = &*pair;
    let (topic, probe) = (spread(source, "coordinated"), spread(source, "probe"));
    let before = transactional_ids(target);
    let flow = flow(&pair, &[&topic, &probe]);
    let workers = [flow.start(), flow.start()];
    workers.iter().for_each(Worker::await_ready);
    let stream = Stream::start(source, &topic, 0);
    let ids = transactional_ids(target);
    let id = ids.difference(&before).next().unwrap();
    let stages: [(&Cluster, Coordinated<'_>); 3] = [
        (source, Coordinated::Group(&flow.group)),
        (source, Coordinated::Share(&flow.group, (&topic, 0))),
        (target, Coordinated::Transaction(id)),
    ];
    for (round, (cluster, of)) in (1..).zip(stages) {
        let victim = cluster.broker(cluster.coordinator(of).unwrap());
        victim.kill().unwrap();
        write(source, &probe, (round - 1) * PROBE..round * PROBE);
        println!("all goes on without the coordinator of {of:?}: {:?}", await_all(target, &probe, round * PROBE));
        cluster.start_again().unwrap();
    }
    println!("{:?} after three kills", await_all(target, &topic, stream.end()));
    workers.iter().for_each(Worker::await_ready);
}
