//! Membership in consumer groups on real brokers, by both protocols: whatever comes and goes, no partition is two readers', and none is
//! nobody's for long.

mod foreign;
mod group;
mod ledger;
mod reader;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cluster::{Cluster, Spec, pair};
use sharebridge::health::Health;
use sharebridge::source::consumer::membership::Membership;
use sharebridge::wire::client::CoordinatorKind;
use sharebridge::wire::group::{Joined, LEAVE, Member, Offer, heartbeat, join, leave, sync};
use sharebridge::wire::offsets::set_share_offsets;
use sharebridge::wire::subscription::Subscription;
use sharebridge::wire::{Client, Connection};
use tokio::sync::oneshot;
use tokio::time::Instant;

use foreign::Librdkafka;
use group::Group;
use reader::Reader;

/// For what a healthy group does soon.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster that leads no groups: the feature is off, as after an upgrade.
fn classic() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let features = vec![("group.version".to_owned(), 0)];
    CLUSTER.get_or_init(|| Cluster::start(Spec { features, ..Spec::named("classic") }).unwrap())
}

/// Members come, go and die, topics come and grow.
async fn come_and_go(cluster: &'static Cluster) {
    let mut group = Group::new(cluster, &[6, 4]).await;
    let a = group.join("a", 0);
    group.settled(&["a"]).await;
    // Each comes while what the one before shall have is still being given up, which takes longer than it takes to hear of it.
    group.transaction_ms.store(1_000, Ordering::Relaxed);
    let mut herd = vec![];
    for (lane, name) in (1..).zip(["b", "c", "x"]) {
        let mut reader = group.join(name, lane);
        reader.joined().await;
        herd.push(reader);
    }
    group.settled(&["a", "b", "c", "x"]).await;
    group.transaction_ms.store(150, Ordering::Relaxed);
    let [b, c, x] = <[Reader; 3]>::try_from(herd).ok().unwrap();
    x.leave().await;
    group.settled(&["a", "b", "c"]).await;
    let topic = group.add(5).await;
    group.settled(&["a", "b", "c"]).await;
    group.grow(&topic, 9).await;
    group.settled(&["a", "b", "c"]).await;
    a.leave().await;
    group.settled(&["b", "c"]).await;
    let d = group.join("d", 3);
    group.settled(&["b", "c", "d"]).await;
    b.kill().await;
    group.settled(&["c", "d"]).await;
    // All at once.
    let (e, ()) = (group.join("e", 4), c.leave().await);
    group.grow(&topic, 12).await;
    d.kill().await;
    let f = group.join("f", 5);
    group.settled(&["e", "f"]).await;
    let moves = group.ledger.moves();
    e.leave().await;
    let shares = group.settled(&["f"]).await;
    // Who stays keeps what it has.
    assert_eq!(group.ledger.moves() - moves, shares["f"].len() / 2);
    f.leave().await;
    group.ledger.check();
}

/// A static member that comes back within its session finds what it had, and nobody else notices.
async fn come_back(cluster: &'static Cluster) {
    let group = Group::with(cluster, &[8], (6_000, "group.instance.id = \"w\"")).await;
    let (a, mut b) = (group.join("a", 0), group.join("b", 1));
    let before = group.settled(&["a", "b"]).await;
    let (moves, epoch) = (group.ledger.moves(), b.assignment().epoch);
    a.leave().await;
    b.beats(1).await;
    let a = group.join("a", 0);
    assert_eq!(group.settled(&["a", "b"]).await, before);
    b.beats(2).await;
    assert_eq!((group.ledger.moves(), b.assignment().epoch), (moves + before["a"].len(), epoch));
    assert_eq!(a.assignment().instance.as_deref(), Some("w-0"));
    a.leave().await;
    b.leave().await;
}

/// Somebody else removes a member: it drops everything, and joins again.
async fn fall_out(cluster: &'static Cluster, remove: impl AsyncFn(&Group, &Reader)) {
    let group = Group::new(cluster, &[8]).await;
    let (a, mut b) = (group.join("a", 0), group.join("b", 1));
    group.settled(&["a", "b"]).await;
    b.seen.mark_unchanged();
    remove(&group, &b).await;
    let lost = b.seen.wait_for(Option::is_none);
    tokio::time::timeout(DEADLINE, lost).await.unwrap().unwrap();
    group.settled(&["a", "b"]).await;
    a.leave().await;
    b.leave().await;
    group.ledger.check();
}

/// Readers of librdkafka and ours are in one group; each of them leads it once.
async fn mix(cluster: &'static Cluster) {
    let mut group = Group::new(cluster, &[6, 5]).await;
    let x = Librdkafka::join(&group, "x");
    group.settled(&["x"]).await;
    let (a, b) = (group.join("a", 0), group.join("b", 1));
    group.settled(&["a", "b", "x"]).await;
    let topic = group.topics.keys().next().unwrap().clone();
    group.grow(&topic, 9).await;
    group.settled(&["a", "b", "x"]).await;
    x.leave();
    group.settled(&["a", "b"]).await;
    let y = Librdkafka::join(&group, "y");
    group.settled(&["a", "b", "y"]).await;
    group.grow(&topic, 12).await;
    group.settled(&["a", "b", "y"]).await;
    b.kill().await;
    group.settled(&["a", "y"]).await;
    a.leave().await;
    group.settled(&["y"]).await;
    y.leave();
    group.ledger.check();
}

/// A consumer of Kafka's own is in the group for a while.
async fn mix_with_java(cluster: &'static Cluster) {
    let group = Group::new(cluster, &[6]).await;
    let (a, b) = (group.join("a", 0), group.join("b", 1));
    group.settled(&["a", "b"]).await;
    let (topic, id) = (group.topics.keys().next().unwrap().clone(), group.flow.consumer.id.clone());
    let java = std::thread::spawn(move || {
        let assignor = "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        let options = ["--topic", &topic, "--group", &id, "--timeout-ms", "4000", "--consumer-property", assignor];
        cluster.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &options)
    });
    group.holds(4).await;
    group.holds(6).await;
    // It ends by force of its timeout, which it calls an error.
    println!("{:?}", java.join().unwrap());
    group.settled(&["a", "b"]).await;
    a.leave().await;
    b.leave().await;
    group.ledger.check();
}

/// A member that does not come when the group forms anew holds all others up, for longer than their sessions last.
async fn wait_for_a_sleeper(cluster: &'static Cluster) {
    let group = Group::new(cluster, &[6]).await;
    let a = group.join("a", 0);
    group.settled(&["a"]).await;
    let connection = sleep_in(&group).await;
    let b = group.join("b", 1);
    let begun = Instant::now();
    while b.seen.borrow().is_none() {
        let ours = a.assignment();
        assert!(ours.until > Instant::now(), "the session of a waiting member has ended: {ours:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() > group.flow.consumer.session, "nobody had to wait for long");
    drop(connection);
    group.settled(&["a", "b"]).await;
    a.leave().await;
    b.leave().await;
    group.ledger.check();
}

/// Joins as one that wants nothing, and is silent from then on: the others wait until its session ends.
async fn sleep_in(group: &Group) -> Arc<Connection> {
    let (mut client, id) = (Client::new(group.flow.source.clone()), &group.flow.consumer.id);
    let connection = client.coordinator(CoordinatorKind::Group, id).await.unwrap();
    let offer = Offer {
        assignor: "cooperative-sticky",
        subscription: Subscription::default(),
        session: Duration::from_secs(8),
        rebalance: Duration::from_secs(8),
    };
    let mut sleeper = String::new();
    let generation = loop {
        let member = Member { id: &sleeper, ..Member::nobody(id) };
        match join(&connection, &member, &offer).await.unwrap() {
            Joined::Named(id) => sleeper = id,
            Joined::Formed(generation) => break generation,
        }
    };
    let member = Member { group: id, id: &generation.member, instance: None, epoch: generation.id };
    assert!(sync(&connection, &member, (&offer, Default::default())).await.unwrap().is_empty());
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_waits_for_others_is_not_taken_for_dead() {
    wait_for_a_sleeper(classic()).await;
}

#[tokio::test]
async fn a_group_of_another_type_is_told() {
    let group = Group::new(&pair().source, &[1]).await;
    let mut client = Client::new(group.flow.source.clone());
    let start = [((group.topics.keys().next().unwrap().clone(), 0), 0)].into();
    let deadline = Instant::now() + DEADLINE;
    while let Err(error) = set_share_offsets(&mut client, &group.flow.consumer.id, &start).await {
        // A fresh cluster first has to make its coordinators.
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let health = Health::default();
    let (membership, _watched) = Membership::new(&group.flow, 0, group.catalog.subscribe(), health.clone());
    let (leave, left) = oneshot::channel();
    let member = tokio::spawn(membership.run(left));
    while !health.troubles().iter().any(|(_, reason)| reason.contains("choose another group.id")) {
        assert!(Instant::now() < deadline, "{:?}", health.troubles());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{:?}", health.troubles());
    leave.send(()).unwrap();
    member.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_shared_with_librdkafka() {
    mix(classic()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_shared_with_java() {
    mix_with_java(classic()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_by_heartbeats() {
    come_and_go(&pair().source).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_by_joining() {
    come_and_go(classic()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_comes_back_by_heartbeats() {
    come_back(&pair().source).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_comes_back_by_joining() {
    come_back(classic()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_member_joins_again_by_heartbeats() {
    fall_out(&pair().source, async |group: &Group, reader: &Reader| {
        let (mut client, id) = (Client::new(group.flow.source.clone()), &group.flow.consumer.id);
        let connection = client.coordinator(CoordinatorKind::Group, id).await.unwrap();
        let member = Member { group: id, id: &reader.assignment().member, instance: None, epoch: LEAVE };
        heartbeat(&connection, &member, &Default::default()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_member_joins_again_by_joining() {
    fall_out(classic(), leave_for).await;
}

async fn leave_for(group: &Group, reader: &Reader) {
    let (mut client, id) = (Client::new(group.flow.source.clone()), &group.flow.consumer.id);
    let connection = client.coordinator(CoordinatorKind::Group, id).await.unwrap();
    let member = Member { group: id, id: &reader.assignment().member, instance: None, epoch: -1 };
    leave(&connection, &member).await.unwrap();
}

/// The version that many run, which has no heartbeats of KIP-848 to offer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the jars of Kafka 3.9.2"]
async fn all_of_it_works_with_kafka_3_9() {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let spec = Spec { version: "3.9.2".to_owned(), ..Spec::named("kafka-3.9.2") };
    let cluster = CLUSTER.get_or_init(|| Cluster::start(spec).unwrap());
    come_and_go(cluster).await;
    come_back(cluster).await;
    fall_out(cluster, leave_for).await;
    wait_for_a_sleeper(cluster).await;
    mix(cluster).await;
    mix_with_java(cluster).await;
}
