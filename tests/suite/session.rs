//! Share sessions: what the bridge takes for granted of a broker, tried on one.

mod member;

use std::time::Duration;

use sharebridge::batch::OffsetRange;
use sharebridge::source::share::session::request;
use sharebridge::wire::Code;
use sharebridge::wire::share::AcknowledgeType::{Accept, Release, Renew};
use sharebridge::wire::share::{AcknowledgeType, Acknowledgement, ShareAcknowledge, SharePartitionRequest};
use tokio::time::Instant;

use member::{Group, LONG_LOCK, Lot, Member};

/// All that was acquired, with one fate: one entry for each partition.
fn all(lots: &[Lot], kind: AcknowledgeType) -> Vec<SharePartitionRequest> {
    let acknowledge = |range: &OffsetRange| Acknowledgement { range: *range, kind };
    lots.iter().map(|lot| request(lot.key, lot.ranges.iter().map(acknowledge).collect())).collect()
}

/// Some offsets of a lot's partition.
fn some(lot: &Lot, (first, last): (i64, i64), kind: AcknowledgeType) -> SharePartitionRequest {
    request(lot.key, vec![Acknowledgement { range: OffsetRange { first, last }, kind }])
}

/// Every record was delivered so many times.
fn is_delivered(lots: &[Lot], times: i16) {
    assert!(lots.iter().all(|lot| lot.delivery_counts == [times].into()), "not {times} times: {lots:?}");
}

/// Accepts everything and sees that the broker has taken it.
async fn finish(group: &mut Group, member: &mut Member, lots: &[Lot]) {
    assert!(member.acknowledge(all(lots, Accept)).await.iter().all(Option::is_none));
    group.has_lag(0).await;
}

#[tokio::test]
async fn a_topic_may_be_named_once_for_each_of_its_partitions() {
    let mut group = Group::with(50, 3, LONG_LOCK).await;
    let mut member = group.member().await;
    let lots = member.acquire(150).await;
    assert_eq!(member.acknowledge(all(&lots, Renew)).await, [None; 3]);
    finish(&mut group, &mut member, &lots).await;
}

#[tokio::test]
async fn a_session_in_disorder_is_opened_anew_and_keeps_its_locks() {
    let mut group = Group::with(50, 3, LONG_LOCK).await;
    let (mut member, mut other) = (group.member().await, group.member().await);
    let early = ShareAcknowledge { epoch: 7, ..member.session.acknowledge(vec![]) };
    assert_eq!(member.send(&early).await, Err(Code::ShareSessionNotFound));
    let lots = member.acquire(150).await;
    for epoch in [0, 7] {
        let wrong = ShareAcknowledge { epoch, ..member.session.acknowledge(all(&lots, Accept)) };
        assert_eq!(member.send(&wrong).await, Err(Code::InvalidShareSessionEpoch), "epoch {epoch}");
    }
    member.open().await;
    assert!(other.fetch().await.is_empty());
    assert_eq!(member.acknowledge(all(&lots, Renew)).await, [None; 3]);
    assert!(member.fetch().await.is_empty() && other.fetch().await.is_empty());
    finish(&mut group, &mut member, &lots).await;
}

#[tokio::test]
async fn forgotten_partitions_can_be_renewed_and_acknowledged() {
    let mut group = Group::with(50, 2, LONG_LOCK).await;
    let (mut member, mut other) = (group.member().await, group.member().await);
    let lots = member.acquire(100).await;
    member.session.want([].into());
    assert!(member.fetch().await.is_empty());
    assert_eq!(member.acknowledge(all(&lots, Renew)).await, [None; 2]);
    assert!(other.fetch().await.is_empty());
    finish(&mut group, &mut member, &lots).await;
}

#[tokio::test]
async fn what_is_released_and_closed_is_available_at_once() {
    let group = Group::with(50, 2, LONG_LOCK).await;
    let (mut member, mut other) = (group.member().await, group.member().await);
    member.acquire(100).await;
    assert!(other.fetch().await.is_empty());
    member.close().await;
    is_delivered(&other.acquire(100).await, 2);
}

#[tokio::test]
async fn closing_alone_releases_and_so_does_the_end_of_the_connection() {
    let group = Group::with(50, 2, LONG_LOCK).await;
    // Where no session of the group is left, a busy broker at times comes back with a count that is one too low.
    let mut standing = group.member().await;
    standing.open().await;
    let mut member = group.member().await;
    member.acquire(100).await;
    member.send(&member.session.close()).await.unwrap();
    let mut second = group.member().await;
    is_delivered(&second.acquire(100).await, 2);
    drop(second);
    let mut third = group.member().await;
    is_delivered(&third.acquire(100).await, 3);
}

#[tokio::test]
async fn one_lost_record_undoes_the_whole_list_of_its_partition() {
    let mut group = Group::with(100, 1, LONG_LOCK).await;
    let (mut member, mut other) = (group.member().await, group.member().await);
    let [lot] = &member.acquire(100).await[..] else { panic!("one partition, one fetch") };
    assert_eq!(member.acknowledge(vec![some(lot, (0, 49), Release)]).await, [None]);
    let taken = other.acquire(50).await;
    for kind in [Accept, Renew] {
        let mut both = some(lot, (0, 49), kind);
        both.acknowledgements.extend(some(lot, (50, 99), kind).acknowledgements);
        assert_eq!(member.acknowledge(vec![both]).await, [Some(Code::InvalidRecordState)], "{kind:?}");
    }
    assert_eq!(member.acknowledge(vec![some(lot, (50, 99), Accept)]).await, [None]);
    group.has_lag(50).await;
    finish(&mut group, &mut other, &taken).await;
    // Finished by another member, the records are below the start offset: the broker looks no further.
    for kind in [Accept, Renew] {
        assert_eq!(member.acknowledge(vec![some(lot, (0, 49), kind)]).await, [None], "{kind:?}");
    }
}

#[tokio::test]
async fn a_lock_lasts_as_long_as_it_is_renewed() {
    let lock = Duration::from_secs(3);
    let group = Group::with(50, 1, lock).await;
    let (mut member, mut other) = (group.member().await, group.member().await);
    let lots = member.acquire(50).await;
    let acquired_at = Instant::now();
    while acquired_at.elapsed() < 2 * lock {
        assert_eq!(member.acknowledge(all(&lots, Renew)).await, [None]);
        assert!(other.fetch().await.is_empty());
    }
    is_delivered(&other.acquire(50).await, 2);
    assert_eq!(member.acknowledge(all(&lots, Accept)).await, [Some(Code::InvalidRecordState)]);
}
