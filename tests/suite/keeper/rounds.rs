//! Workers are killed under load, again and again: readers of the target wait until a keeper has decided what was left open, and no
//! keeper decides the transaction of a lane that lives, not even of one that crawls.

use std::time::Duration;

use cluster::read::{Isolation, end_offsets};
use cluster::{pair, unique};

use super::watch::Watch;
use crate::bridge::{Flow, Worker, await_all, eventually};
use crate::stream::Stream;

const PARTITIONS: i32 = 4;

/// What readers may wait at most after a kill, with the default `transaction.timeout.ms`. Only a machine that does nothing else keeps
/// it.
const STALL_MAX: Duration = Duration::from_secs(6);

/// Bytes per second that the target takes from a worker that crawls, so that its transactions last as long as they may. Those to be
/// killed crawl as well: hardly one of them dies without an open transaction.
const CRAWL_BYTES: u32 = 10_000;

/// What the rounds have shown.
struct Proof {
    /// The longest wait of readers, by round.
    stalls: Vec<Duration>,
    /// Transactions of dead workers that keepers have decided.
    decided: i64,
    /// Transactions of living workers that somebody else has decided, but for the crawling one.
    fenced: i64,
    /// Those of the crawling one.
    fenced_crawling: i64,
}

/// The same for workers that the target throttles, all of them together.
fn throttled(flow: &Flow, name: &str) -> Flow {
    let client_id = unique(name);
    let quota = format!("producer_byte_rate={CRAWL_BYTES}");
    let arguments = ["--alter", "--add-config", &quota, "--entity-type", "clients", "--entity-name", &client_id];
    pair().target.tool("org.apache.kafka.tools.ConfigCommand", &arguments).unwrap();
    flow.clone().with(&format!("clusters.dr.client.id = \"{client_id}\""))
}

/// Waits until readers of committed records have got as far as records reach now.
fn await_readers(topic: &str) {
    let ends = |isolation| end_offsets(pair().target.bootstrap(), topic, isolation).unwrap();
    let all = ends(Isolation::Uncommitted);
    eventually("readers have passed what was there when the worker died", || {
        ends(Isolation::Committed).iter().zip(&all).all(|(committed, end)| committed >= end).then_some(())
    });
}

fn play(rounds: usize) -> Proof {
    let topic = unique("rounds");
    for cluster in [&pair().source, &pair().target] {
        cluster.create_topic(&topic, PARTITIONS, &[]).unwrap();
    }
    let flow = Flow::new(pair(), &[&topic]).patient();
    let [crawling, mortal] = ["crawling", "mortal"].map(|name| throttled(&flow, name));
    let (crawling, lasting, mut victim) = (crawling.start(), flow.start(), mortal.start());
    let is_sending = |worker: &Worker| {
        worker.await_metric("sink_record_send_total", 1);
    };
    let stream = Stream::start(&pair().source, &topic, 0);
    [&crawling, &lasting].into_iter().for_each(is_sending);
    let watch = Watch::start(pair().target.bootstrap(), &topic);
    let (mut stalls, mut decided) = (vec![], 0);
    for round in 1..=rounds {
        is_sending(&victim);
        watch.take_longest();
        decided += victim.metric("transaction_decide_total");
        victim.process.kill().unwrap();
        let next = mortal.start();
        await_readers(&topic);
        stalls.push(watch.take_longest());
        println!("round {round}: readers waited {:?}", stalls[round - 1]);
        victim = next;
    }
    drop(watch);
    let sum = |metric| [&crawling, &lasting, &victim].map(|worker| worker.metric(metric)).iter().sum::<i64>();
    let fenced_crawling = crawling.metric("transaction_total{outcome=fenced}");
    let fenced = sum("transaction_total{outcome=fenced}") - fenced_crawling;
    decided += sum("transaction_decide_total");
    println!(
        "keepers decided {decided}; crawling: {} commits, {} aborts",
        crawling.metric("transaction_total{outcome=committed}"),
        crawling.metric("transaction_total{outcome=aborted}")
    );
    let written = stream.end();
    // What they hold would come at their pace.
    drop((crawling, victim));
    println!("{:?} of {written}", await_all(&pair().target, &topic, written));
    Proof { stalls, decided, fenced, fenced_crawling }
}

#[test]
fn kills_under_load_never_hurt_a_lane_that_lives() {
    let proof = play(5);
    assert_eq!((proof.fenced, proof.fenced_crawling), (0, 0));
}

/// `scripts/test --test suite keeper::rounds::a_hundred_kills -- --ignored --nocapture`: some 15 minutes on a quiet machine.
#[test]
#[ignore = "takes a quarter of an hour and a machine that does nothing else"]
fn a_hundred_kills_hold_readers_up_for_seconds() {
    let mut proof = play(100);
    proof.stalls.sort();
    let [half, most] = [49, 99].map(|rank| proof.stalls[rank]);
    println!("readers waited {half:?} in the median, {most:?} at most; keepers decided {}", proof.decided);
    assert_eq!((proof.fenced, proof.fenced_crawling), (0, 0));
    assert!(proof.decided > 0 && most <= STALL_MAX);
}
