//! The main scenarios over SASL_SSL with SCRAM from the source and SSL with a client certificate to the target.

use cluster::load::{Load, produce};

use super::clusters::{PASSWORD, USER, secured, topic};
use crate::bridge::{Worker, await_all, eventually};

const RECORDS: u64 = 20_000;

/// Records of a load that takes some seconds, several sessions of a connection to the source.
fn steady(start: u64) -> Load {
    Load { start, rate: Some(4_000), ..Load::of(RECORDS) }
}

/// Connections to the source so far.
fn opened(worker: &Worker) -> u64 {
    let metrics = worker.metrics();
    let count =
        metrics.lines().find_map(|line| line.strip_prefix("sharebridge_connection_open_total{cluster=\"primary\"} "));
    count.unwrap().parse().unwrap()
}

#[test]
fn sessions_are_renewed_in_place_and_nothing_comes_twice() {
    let secured = secured();
    let (source, target) = (&secured.pair.source, &secured.pair.target);
    let topic = topic(&secured, "steady");
    let worker = secured.flow(&topic).start();
    worker.await_ready();
    // Every client of the worker has its connections once something has been copied.
    produce(source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    await_all(target, &topic, RECORDS);
    let before_load = opened(&worker);
    let before = worker.metric("reauthentication_total");
    produce(source.bootstrap(), &topic, &steady(RECORDS)).unwrap();
    let arrived = await_all(target, &topic, 2 * RECORDS);
    worker.await_metric("reauthentication_total", before + 6);
    assert_eq!(arrived.duplicates, 0);
    assert_eq!(worker.metric("sink_record_redelivery_total"), 0);
    assert_eq!(worker.metric("acknowledge_lost_total"), 0);
    // The keeper and the like may speak to a broker for the first time, but no session ends a connection.
    let more = opened(&worker) - before_load;
    assert!(more <= 4, "{more} more connections after {before_load}");
    assert_eq!(worker.metric("authentication_failure_total"), 0);
}

#[test]
fn a_killed_worker_is_replaced_and_a_stopped_target_waited_for() {
    let secured = secured();
    let (source, target) = (&secured.pair.source, &secured.pair.target);
    let topic = topic(&secured, "elastic");
    let flow = secured.flow(&topic);
    let mut first = flow.start();
    first.await_ready();
    produce(source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    first.await_metric("sink_record_send_total", 1);
    first.process.kill().unwrap();
    let second = flow.start();
    await_all(target, &topic, RECORDS);

    target.kill().unwrap();
    produce(source.bootstrap(), &topic, &Load { start: RECORDS, ..Load::of(RECORDS) }).unwrap();
    second.await_trouble(&["dr"]);
    target.start_again().unwrap();
    await_all(target, &topic, 2 * RECORDS);
    second.await_ready();
}

#[test]
fn renewed_certificates_and_passwords_count_for_new_connections() {
    let secured = secured();
    let (source, target) = (&secured.pair.source, &secured.pair.target);
    let topic = topic(&secured, "renewed");
    let good = secured.authority.issue(USER, &[]).unwrap();
    let identity = secured.write("renewed.pem", &format!("{}{}", good.chain, good.private_key));
    let password = secured.write("renewed", PASSWORD);
    let worker = secured
        .flow(&topic)
        .with(&format!("clusters.dr.ssl.keystore.location = {identity:?}"))
        .with(&format!("clusters.primary.sasl.password = \"${{file:{}}}\"", password.display()))
        .start();
    worker.await_ready();
    secured.write("renewed.pem", "neither certificate nor key");
    secured.write("renewed", "wrong-horse");
    let trouble = worker.await_trouble(&["not authenticated by SCRAM-SHA-512 as bridge"]);
    assert!(!trouble.contains("horse"), "{trouble}");
    target.kill().unwrap();
    target.start_again().unwrap();
    worker.await_log("the new ones are unusable");
    secured.write("renewed", PASSWORD);
    let fresh = secured.authority.issue(USER, &[]).unwrap();
    secured.write("renewed.pem", &format!("{}{}", fresh.chain, fresh.private_key));
    target.kill().unwrap();
    target.start_again().unwrap();
    worker.await_log("new connections use the new ones");
    produce(source.bootstrap(), &topic, &Load::of(RECORDS)).unwrap();
    await_all(target, &topic, RECORDS);
    eventually("all is well", || worker.ready().filter(|(status, _)| *status == 200));
    assert!(worker.metric("authentication_failure_total") > 0);
}
