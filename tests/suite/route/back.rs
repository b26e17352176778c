//! Ways that lead back to where records came from.

use cluster::load::{Load, produce};
use cluster::read::{Isolation, count, read_all};
use cluster::{pair, unique};

use super::{RECORDS, also, verified};
use crate::bridge::{Flow, await_all, eventually};
use crate::refusal::end_of;

#[test]
fn two_names_of_one_cluster_are_found_out_by_its_id() {
    let pair = pair();
    let topic = unique("namesakes");
    pair.source.create_topic(&topic, 1, &[]).unwrap();
    let namesake = pair.source.bootstrap().replace("127.0.0.1", "localhost");
    let flow = Flow::new(pair, &[&topic]).with(&format!("clusters.dr.bootstrap.servers = \"{namesake}\""));
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(78));
    assert!(log.contains(&format!("{topic} on primary -[f]-> {topic} on primary")), "the way is not shown");
    assert_eq!(count(pair.source.bootstrap(), &topic, Isolation::Committed).unwrap(), 0);
}

#[test]
fn a_way_back_in_one_file_is_refused_with_the_way() {
    let flow = also(Flow::new(pair(), &["t"]), ("g", "t"), ("dr", "primary"), &[]);
    let (code, log) = end_of(flow.start());
    assert_eq!(code, Some(78));
    assert!(log.contains("t on primary -[f]-> t on dr -[g]-> t on primary"), "the way is not shown");
}

#[test]
fn records_with_hop_headers_go_both_ways_and_end() {
    let pair = pair();
    let topic = unique("both-ways");
    for cluster in [&pair.source, &pair.target] {
        cluster.create_topic(&topic, 2, &[]).unwrap();
    }
    let hops = "sink.hop.header.enable = true";
    let flow = Flow::new(pair, &[&topic]).with(&format!("flows.f.{hops}")).patient();
    let flow = also(flow, ("back", &topic), ("dr", "primary"), &[hops]);
    produce(pair.source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    produce(pair.target.bootstrap(), &topic, &Load { start: RECORDS, ..Load::of(RECORDS) }).unwrap();
    let worker = flow.start();
    for cluster in [&pair.source, &pair.target] {
        assert_eq!(await_all(cluster, &topic, 2 * RECORDS).duplicates, 0);
    }
    // Each record comes back once, and ends there.
    worker.await_metric("sink_record_loop_drop_total", 2 * RECORDS as i64);
    eventually("nothing is left to do", || (worker.metric("group_backlog") == 0).then_some(()));
    assert_eq!(worker.metric("sink_record_send_total"), 2 * RECORDS as i64);
    for cluster in [&pair.source, &pair.target] {
        let records = read_all(cluster.bootstrap(), &topic, Isolation::Committed).unwrap();
        let hops: Vec<_> = records.iter().map(|record| record.headers.len()).collect();
        assert_eq!(hops.iter().sum::<usize>() as u64, RECORDS, "one header for each record from the other side");
        assert!(hops.iter().all(|hops| *hops <= 1));
    }
    assert!(verified(&worker).is_exact());
}
