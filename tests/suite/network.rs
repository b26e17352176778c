//! The network fails in every way it can, before the source and before the target: nothing is lost, `/ready` tells, and all heals by
//! itself.

use std::time::Duration;

use cluster::load::{Load, produce};
use cluster::{Proxy, Way, unique};

use crate::bridge::{Flow, Worker, await_all, eventually};
use crate::guarded::{Guarded, guarded};

/// Kafka's api keys of the requests whose answers are lost.
const PRODUCE: i16 = 0;
const END_TXN: i16 = 26;
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;

const BOTH: [Way; 2] = [Way::ToBroker, Way::FromBroker];

/// A flow whose worker reaches both clusters through the proxies only, and its topic.
fn flow(guarded: &Guarded, name: &str) -> (Flow, String) {
    let topic = unique(name);
    guarded.pair.source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(&guarded.pair, &[&topic])
        .with(&format!("clusters.primary.bootstrap.servers = \"{}\"", guarded.to_source.address()))
        .with(&format!("clusters.dr.bootstrap.servers = \"{}\"", guarded.to_target.address()));
    (flow, topic)
}

/// Runs `faults` while records are written, `rate` of them a second. Then all of them must arrive, and the worker must be well.
/// Returns how many arrived twice.
fn under_load(guarded: &Guarded, (worker, topic): (&Worker, &str), load: &Load, faults: impl FnOnce()) -> u64 {
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| produce(guarded.pair.source.bootstrap(), topic, load).unwrap());
        worker.await_metric("sink_record_send_total", worker.metric("sink_record_send_total") + 1);
        faults();
        writer.join().unwrap();
    });
    let arrived = await_all(&guarded.pair.target, topic, load.start + load.records);
    worker.await_ready();
    assert!(worker.is_alive());
    println!("{arrived:?}, {} acquired again", worker.metric("sink_record_redelivery_total"));
    arrived.duplicates
}

fn paced(start: u64, seconds: u64) -> Load {
    Load { start, rate: Some(1_000), ..Load::of(1_000 * seconds) }
}

#[test]
fn a_cut_network_is_told_and_mended_on_either_side() {
    let guarded = guarded();
    let (flow, topic) = flow(&guarded, "cut");
    let worker = flow.start();
    worker.await_ready();
    let cut = |proxy: &Proxy, words: &[&str]| {
        proxy.cut();
        println!("{}", worker.await_trouble(words));
        std::thread::sleep(Duration::from_secs(2));
        proxy.mend();
        worker.await_ready();
    };
    let duplicates =
        under_load(&guarded, (&worker, &topic), &paced(0, 8), || cut(&guarded.to_target, &["target", "dr"]));
    assert_eq!(duplicates, 0);
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
    under_load(&guarded, (&worker, &topic), &paced(8_000, 8), || cut(&guarded.to_source, &["source", "primary"]));
}

#[test]
fn a_source_that_goes_and_comes_costs_few_attempts() {
    let guarded = guarded();
    let (flow, topic) = flow(&guarded, "flapping");
    let worker = flow.start();
    worker.await_ready();
    const FLAPS: i64 = 8;
    under_load(&guarded, (&worker, &topic), &paced(0, 10), || {
        for _ in 0..FLAPS {
            let sent = worker.metric("sink_record_send_total");
            guarded.to_source.cut();
            eventually("the source is missed", || worker.ready().filter(|(status, _)| *status == 503));
            guarded.to_source.mend();
            worker.await_metric("sink_record_send_total", sent + 1);
        }
    });
    let again = worker.metric("sink_record_redelivery_total");
    assert!(again <= 10_000 / 2, "{again} records were acquired again");
}

#[test]
fn silence_beyond_timeouts_and_locks_is_told_and_overcome() {
    let guarded = guarded();
    let (flow, topic) = flow(&guarded, "silent");
    let worker = flow.start();
    worker.await_ready();
    // Beyond request.timeout.ms of 5 s and the lock of 11 s.
    let stall = |proxy: &Proxy, ways: &[Way], words: &[&str]| {
        proxy.stall(ways);
        println!("{}", worker.await_trouble(words));
        std::thread::sleep(Duration::from_secs(8));
        proxy.mend();
        worker.await_ready();
    };
    let duplicates = under_load(&guarded, (&worker, &topic), &paced(0, 10), || {
        stall(&guarded.to_target, &BOTH, &["dr"]);
    });
    assert_eq!(duplicates, 0);
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
    under_load(&guarded, (&worker, &topic), &paced(10_000, 10), || {
        stall(&guarded.to_source, &[Way::FromBroker], &["source", "primary"]);
    });
    under_load(&guarded, (&worker, &topic), &paced(20_000, 10), || stall(&guarded.to_source, &BOTH, &["primary"]));
    let again = worker.metric("sink_record_redelivery_total");
    assert!(again <= 30_000 / 2, "{again} records were acquired again");
}

#[test]
fn one_way_silence_before_the_target_doubles_nothing() {
    let guarded = guarded();
    let (flow, topic) = flow(&guarded, "one-way");
    let worker = flow.start();
    worker.await_ready();
    for (round, way) in (0..).zip(BOTH) {
        let duplicates = under_load(&guarded, (&worker, &topic), &paced(6_000 * round, 6), || {
            guarded.to_target.stall(&[way]);
            println!("{}", worker.await_trouble(&["dr"]));
            guarded.to_target.mend();
        });
        assert_eq!(duplicates, 0, "{way:?}");
    }
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
}

#[test]
fn a_lost_answer_is_asked_for_again_and_doubles_nothing() {
    let guarded = guarded();
    let (flow, topic) = flow(&guarded, "answers");
    let worker = flow.start();
    worker.await_ready();
    let lost = |proxy: &Proxy, api_key| {
        for _ in 0..3 {
            let (before, sent) = (proxy.lost_answers(), worker.metric("sink_record_send_total"));
            proxy.lose_answer_to(api_key);
            eventually("the answer is lost", || (proxy.lost_answers() > before).then_some(()));
            worker.await_metric("sink_record_send_total", sent + 1);
        }
    };
    let cases = [(&guarded.to_target, END_TXN), (&guarded.to_target, PRODUCE), (&guarded.to_source, SHARE_FETCH)];
    for (round, (proxy, api_key)) in (0..).zip(cases) {
        let duplicates = under_load(&guarded, (&worker, &topic), &paced(5_000 * round, 5), || lost(proxy, api_key));
        assert_eq!(duplicates, 0, "api {api_key}");
        let again = worker.metric("sink_record_redelivery_total");
        assert!(again == 0 || api_key == SHARE_FETCH, "api {api_key}: {again} acquired again");
    }
    // The source may have stored what it could not say: then nothing comes again, but nobody knows.
    under_load(&guarded, (&worker, &topic), &paced(15_000, 5), || lost(&guarded.to_source, SHARE_ACKNOWLEDGE));
}

#[test]
fn a_slow_link_is_slow_and_nothing_else() {
    let guarded = guarded();
    let (flow, topic) = flow(&guarded, "slow");
    let flow = flow
        .with("flows.f.transaction.timeout.ms = 3000")
        .with("flows.f.share.acquisition.lock.timeout.ms = 15000")
        .with("flows.f.lanes.count = 1");
    // Before the source 3 MB, all of which the second fetch would ask for, and which would take longer than request.timeout.ms.
    let mut written = 0;
    for (proxy, records, bytes_per_second) in [(&guarded.to_source, 3_000, 300_000), (&guarded.to_target, 600, 200_000)]
    {
        let batches =
            Load { compression: "none".to_owned(), value_bytes: 1_000, batch_bytes: 30_000, ..Load::of(records) };
        produce(guarded.pair.source.bootstrap(), &topic, &Load { start: written, ..batches }).unwrap();
        written += records;
        proxy.slow_down(Duration::from_millis(50), bytes_per_second);
        let mut worker = flow.start();
        assert_eq!(await_all(&guarded.pair.target, &topic, written).duplicates, 0);
        assert_eq!(worker.metric("sink_record_redelivery_total"), 0, "attempts are burnt");
        assert_eq!(worker.shut_down().code(), Some(0));
        proxy.mend();
    }
}
