//! What the coordinator wants, the lane and the fetchers do, in all orders that matter.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::*;
use crate::wire::client::TopicInfo;

const TOPIC: Uuid = Uuid::from_u128(7);

fn key(partition: i32) -> Key {
    (TOPIC, partition)
}

fn catalog() -> Catalog {
    let info = TopicInfo { name: "t".to_owned(), id: TOPIC, leaders: vec![Some(1); 4], leader_epochs: vec![0; 4] };
    Catalog { topics: [(TOPIC, info)].into(), ..Catalog::default() }
}

fn position(offset: i64) -> Position {
    Position { offset, epoch: 5 }
}

/// A table with time.
struct Scene {
    table: Table,
    now: Instant,
}

impl Scene {
    /// These partitions are read from offset 0.
    fn reading(partitions: &[i32]) -> Self {
        let now = Instant::now();
        let mut scene = Self { table: Table::new(now), now };
        scene.assign(Some(partitions));
        for partition in partitions {
            scene.table.place(key(*partition), position(0), Some(position(0)));
        }
        scene
    }

    fn assign(&mut self, partitions: Option<&[i32]>) {
        let assignment = partitions.map(|partitions| Assignment {
            member: "m".into(),
            instance: None,
            epoch: 1,
            partitions: partitions.iter().map(|partition| key(*partition)).collect(),
            until: self.now + Duration::from_secs(45),
        });
        self.table.assign(assignment.as_ref(), &catalog(), self.now);
    }

    fn turn(&self, partition: i32) -> u64 {
        self.table.readable().iter().find(|readable| readable.key == key(partition)).expect("it is read").turn
    }

    fn fetched(&self, partition: i32, from: i64, next: i64) -> Fetched {
        Fetched {
            key: key(partition),
            turn: self.turn(partition),
            from,
            next,
            last_epoch: 5,
            records: Bytes::new(),
            visible: vec![OffsetRange { first: from, last: next - 1 }],
            jump: None,
            fetched_at: self.now,
            room: None,
        }
    }

    fn read(&mut self, partition: i32, from: i64, next: i64) -> Option<Parcel> {
        let fetched = self.fetched(partition, from, next);
        self.table.accept(fetched, 1)
    }

    fn next(&self, partition: i32) -> Option<i64> {
        self.table.readable().iter().find(|readable| readable.key == key(partition)).map(|it| it.next.offset)
    }

    fn uncommitted(&self) -> Vec<(i32, i64)> {
        self.table.uncommitted().into_iter().map(|(key, _, position)| (key.1, position.offset)).collect()
    }
}

#[test]
fn what_is_finished_in_order_is_to_be_committed() {
    let mut scene = Scene::reading(&[0, 1]);
    let (first, second) = (scene.read(0, 0, 10).unwrap(), scene.read(0, 10, 20).unwrap());
    assert_eq!(scene.uncommitted(), []);
    scene.table.settle(&first);
    assert_eq!(scene.uncommitted(), [(0, 10)]);
    scene.table.store(key(0), position(10));
    assert_eq!((scene.uncommitted(), scene.table.unfinished()), (vec![], 10));
    scene.table.settle(&second);
    assert_eq!((scene.uncommitted(), scene.table.unfinished()), (vec![(0, 20)], 0));
}

#[test]
fn a_start_that_nobody_has_committed_is_committed_at_once() {
    let mut scene = Scene::reading(&[]);
    scene.assign(Some(&[2]));
    assert_eq!(scene.table.unplaced().len(), 1);
    scene.table.place(key(2), position(70), None);
    assert_eq!((scene.table.unplaced().len(), scene.uncommitted()), (0, vec![(2, 70)]));
}

#[test]
fn what_does_not_go_on_where_the_last_parcel_ended_is_thrown_away() {
    let mut scene = Scene::reading(&[0]);
    let early = scene.fetched(0, 0, 10);
    scene.table.turn(key(0));
    assert!(scene.table.accept(early, 1).is_none(), "of an earlier turn");
    assert!(scene.read(0, 5, 10).is_none(), "a hole");
    assert!(scene.read(0, 0, 10).is_some());
    assert!(scene.read(0, 0, 10).is_none(), "once more");
}

#[test]
fn a_partition_is_given_up_once_its_parcels_are_committed_at_both_ends() {
    let mut scene = Scene::reading(&[0, 1]);
    let parcel = scene.read(0, 0, 10).unwrap();
    scene.assign(Some(&[1]));
    assert_eq!((scene.next(0), scene.next(1)), (None, Some(0)), "it is not read any more");
    assert!(scene.table.wind_up(scene.now).is_empty() && scene.table.owned().contains(&key(0)));
    scene.table.settle(&parcel);
    assert!(scene.table.wind_up(scene.now).is_empty() && scene.table.owned().contains(&key(0)), "not committed yet");
    scene.table.store(key(0), position(10));
    assert!(scene.table.wind_up(scene.now).is_empty());
    assert_eq!(scene.table.owned(), [key(1)].into());
}

#[test]
fn who_does_not_finish_in_time_may_not_commit_any_more() {
    let mut scene = Scene::reading(&[0]);
    let parcel = scene.read(0, 0, 10).unwrap();
    scene.assign(Some(&[]));
    assert_eq!(scene.table.due_at(), Some(scene.now + REVOKE_MAX));
    assert_eq!(scene.table.wind_up(scene.now + REVOKE_MAX).len(), 1);
    assert!(parcel.held().is_empty() && scene.table.owned().is_empty());
    scene.table.settle(&parcel);
    assert_eq!(scene.uncommitted(), []);
}

#[test]
fn a_partition_that_comes_back_in_time_is_read_on() {
    let mut scene = Scene::reading(&[0]);
    let parcel = scene.read(0, 0, 10).unwrap();
    scene.assign(Some(&[]));
    scene.assign(Some(&[0]));
    assert_eq!((scene.next(0), parcel.held().len(), scene.table.due_at()), (Some(10), 1, None));
}

#[test]
fn without_a_membership_nothing_is_ours() {
    let mut scene = Scene::reading(&[0]);
    let parcel = scene.read(0, 0, 10).unwrap();
    scene.assign(None);
    assert!(parcel.held().is_empty() && scene.table.owned().is_empty() && scene.table.take_changed());
    scene.assign(Some(&[0]));
    scene.table.place(key(0), position(0), Some(position(0)));
    scene.table.settle(&parcel);
    assert_eq!(scene.uncommitted(), [], "what was lost is no progress of the new membership");
}

#[test]
fn holds_last_as_long_as_the_membership_and_what_expired_is_read_again() {
    let mut scene = Scene::reading(&[0]);
    let (first, second) = (scene.read(0, 0, 10).unwrap(), scene.read(0, 10, 20).unwrap());
    scene.now += Duration::from_secs(30);
    scene.assign(Some(&[0]));
    scene.now += Duration::from_secs(30);
    assert!(!first.hold.expire(scene.now), "extended by the second heartbeat");
    scene.now += Duration::from_secs(30);
    assert!(first.hold.expire(scene.now));
    scene.assign(Some(&[0]));
    assert!(second.held().is_empty(), "it would overtake the first");
    assert_eq!(scene.next(0), Some(0));
}

#[test]
fn a_paused_partition_goes_on_behind_what_was_handed_out() {
    let mut scene = Scene::reading(&[0]);
    let parcel = scene.read(0, 0, 10).unwrap();
    let ahead = scene.fetched(0, 10, 20);
    scene.table.pause(&parcel.at);
    assert_eq!(scene.next(0), None);
    scene.table.resume(&parcel.at);
    assert!(scene.table.accept(ahead, 1).is_none());
    assert_eq!(scene.next(0), Some(10));
}

#[test]
fn a_cut_log_is_read_again_once_all_is_finished_that_was_handed_out() {
    let mut scene = Scene::reading(&[0]);
    let parcel = scene.read(0, 0, 100).unwrap();
    let cut = Fetched { visible: vec![], jump: Some(Jump::Truncated), last_epoch: 4, ..scene.fetched(0, 100, 80) };
    assert!(scene.table.accept(cut, 1).is_none());
    assert_eq!(scene.next(0), None);
    scene.table.settle(&parcel);
    assert_eq!((scene.next(0), scene.uncommitted()), (Some(80), vec![(0, 80)]));
    let readable = &scene.table.readable()[0];
    assert_eq!(readable.next, Position { offset: 80, epoch: 4 });
}

#[test]
fn what_retention_took_is_passed() {
    let mut scene = Scene::reading(&[0]);
    let expired = Fetched { visible: vec![], jump: Some(Jump::Expired), ..scene.fetched(0, 0, 500) };
    assert!(scene.table.accept(expired, 1).is_none());
    assert_eq!((scene.next(0), scene.uncommitted()), (Some(500), vec![(0, 500)]));
}
