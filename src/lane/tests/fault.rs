//! Records that cannot be delivered: they are found among their neighbours, and the flow's policy says what becomes of them.

use std::collections::BTreeSet;

use super::stage::{DELIVERY_COUNT_MAX, Errors, Event, Piece, Script, parcel};
use super::{SECOND, random};
use crate::limits::{HOLD_RETRY, LONE_RECORDS_MAX};
use crate::source::Parcel;

/// Offsets 0 to 59 of partition 0 in three parcels, and those of partition 1 in one, of which the sink refuses some.
fn poisoned(poison: &[i64], policy: Errors) -> Script {
    let first = vec![parcel(0, 0, &[10, 10]), parcel(1, 0, &[10])];
    let script = Script::of(vec![first, vec![parcel(0, 20, &[1, 19]), parcel(0, 40, &[20])]], vec![]);
    Script { poison: poison.to_vec(), policy, ..script }
}

fn offsets(journal: &[Event], of: impl Fn(&Event) -> Option<&Vec<Piece>>) -> Vec<(i32, i64)> {
    let pieces = journal.iter().filter_map(of).flatten();
    pieces.flat_map(|(partition, first, last)| (*first..=*last).map(|offset| (*partition, offset))).collect()
}

fn settled(journal: &[Event]) -> Vec<(i32, i64)> {
    offsets(journal, |event| if let Event::Settled(pieces) = event { Some(pieces) } else { None })
}

fn rejected(journal: &[Event]) -> Vec<(i32, i64)> {
    offsets(journal, |event| if let Event::Rejected(pieces) = event { Some(pieces) } else { None })
}

fn kept(journal: &[Event]) -> Vec<(i32, i64)> {
    offsets(journal, |event| if let Event::Kept(pieces) = event { Some(pieces) } else { None })
}

/// All 70 offsets without these of partition 0.
fn all_but(gone: &[i64]) -> BTreeSet<(i32, i64)> {
    let zero = (0..60).filter(|offset| !gone.contains(offset)).map(|offset| (0, offset));
    zero.chain((0..10).map(|offset| (1, offset))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_poison_record_ends_where_the_policy_says_and_its_neighbours_arrive_once() {
    for poison in [vec![0], vec![25], vec![59], vec![5, 6, 20, 33]] {
        let expected: Vec<(i32, i64)> = poison.iter().map(|offset| (0, *offset)).collect();
        for (policy, is_kept) in [(Errors::Skip, false), (Errors::DeadLetter(0), true), (Errors::DeadLetter(2), true)] {
            for keeps_order in [false, true] {
                let stage = Script { keeps_order, ..poisoned(&poison, policy) }.play();
                stage.pass(60 * SECOND).await;
                assert!(stage.troubles().is_empty(), "{:?}", stage.troubles());
                let journal = stage.drained().await;
                random::check(&journal);
                assert_eq!(settled(&journal).into_iter().collect::<BTreeSet<_>>(), all_but(&poison));
                let sorted = |mut offsets: Vec<(i32, i64)>| {
                    offsets.sort_unstable();
                    offsets
                };
                assert_eq!(sorted(rejected(&journal)), expected);
                assert_eq!(sorted(kept(&journal)), if is_kept { expected.clone() } else { vec![] });
                if keeps_order {
                    assert!(is_in_order(&journal), "{journal:?}");
                }
            }
        }
    }
}

/// Whether partition 0 was finished in order.
fn is_in_order(journal: &[Event]) -> bool {
    let finished = offsets(journal, |event| match event {
        Event::Settled(pieces) | Event::Rejected(pieces) => Some(pieces),
        _ => None,
    });
    let zero: Vec<i64> =
        finished.into_iter().filter(|(partition, _)| *partition == 0).map(|(_, offset)| offset).collect();
    zero.is_sorted()
}

#[tokio::test(start_paused = true)]
async fn nothing_tolerated_holds_the_record_and_nothing_else_where_no_order_is_kept() {
    let stage = poisoned(&[25], Errors::Stop).play();
    stage.pass(3 * HOLD_RETRY).await;
    assert_eq!(stage.troubles(), ["t-0"]);
    let journal = stage.journal();
    assert_eq!(settled(&journal).into_iter().collect::<BTreeSet<_>>(), all_but(&[25]));
    assert!(journal.contains(&Event::Paused(0)) && !journal.contains(&Event::Resumed(0)), "{journal:?}");
    assert!(rejected(&journal).is_empty() && stage.metrics.held.get() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_takes_no_record_is_not_searched_record_by_record() {
    let all: Vec<i64> = (0..60).collect();
    let stage = poisoned(&all, Errors::Stop).play();
    let writes = |journal: &[Event]| journal.iter().filter(|event| matches!(event, Event::Wrote(_))).count();
    stage.pass(HOLD_RETRY / 2).await;
    let searched = writes(&stage.journal());
    assert!((LONE_RECORDS_MAX..3 * LONE_RECORDS_MAX).contains(&searched), "{searched} transactions");
    stage.pass(10 * HOLD_RETRY).await;
    let tried = writes(&stage.journal()) - searched;
    assert!(tried <= 11 * (LONE_RECORDS_MAX + 1), "{tried} more in ten trials");
    assert_eq!((stage.troubles(), settled(&stage.journal()).len()), (vec!["t-0".to_owned()], 10));
}

#[tokio::test(start_paused = true)]
async fn nothing_tolerated_holds_all_behind_the_record_where_order_is_kept() {
    let stage = Script { keeps_order: true, ..poisoned(&[25], Errors::Stop) }.play();
    stage.pass(3 * HOLD_RETRY).await;
    assert_eq!(stage.troubles(), ["t-0"]);
    let expected: BTreeSet<_> = all_but(&(25..60).collect::<Vec<_>>());
    assert_eq!(settled(&stage.journal()).into_iter().collect::<BTreeSet<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_is_not_rejected_before_its_letter_is_written() {
    let stage = poisoned(&[25], Errors::DeadLetter(u32::MAX)).play();
    stage.pass(60 * SECOND).await;
    let journal = stage.journal();
    assert!(rejected(&journal).is_empty() && kept(&journal).is_empty());
    assert_eq!((stage.troubles(), settled(&journal).len()), (vec!["t-0".to_owned()], 69));
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_while_its_letter_is_written_is_not_rejected() {
    let script = poisoned(&[25], Errors::DeadLetter(1));
    let hold = script.shipments[1][0].hold.clone();
    let stage = Script { loses: Some(hold), ..script }.play();
    stage.pass(60 * SECOND).await;
    let journal = stage.journal();
    assert_eq!((kept(&journal), rejected(&journal)), (vec![(0, 25)], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_cannot_be_read_is_given_up_as_a_whole() {
    let mut script = poisoned(&[], Errors::DeadLetter(0));
    let mut broken = script.shipments[0][0].records.to_vec();
    *broken.last_mut().unwrap() ^= 1;
    script.shipments[0][0].records = broken.into();
    script.reads_batches = true;
    let stage = script.play();
    stage.pass(SECOND).await;
    let journal = stage.drained().await;
    assert_eq!(rejected(&journal), (10..20).map(|offset| (0, offset)).collect::<Vec<_>>());
    assert_eq!(kept(&journal), [(0, 10)], "one letter with the batch");
    assert_eq!(settled(&journal).len(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_a_sink_refuses_for_a_while_is_tried_again_alone() {
    let refused = vec![(5, 1, false), (6, 4, false)];
    let stage = Script { refused, ..poisoned(&[], Errors::Stop) }.play();
    stage.pass(60 * SECOND).await;
    assert!(stage.troubles().is_empty(), "{:?}", stage.troubles());
    let journal = stage.drained().await;
    assert_eq!(settled(&journal).len(), 70, "each is settled once: {journal:?}");
    assert_eq!(settled(&journal).into_iter().collect::<BTreeSet<_>>(), all_but(&[]));
    let alone = |offset| journal.iter().filter(|event| **event == Event::Wrote(vec![(0, offset, offset)])).count();
    assert_eq!((alone(5), alone(6)), (1, 4));
    assert!(!journal.contains(&Event::Paused(0)), "the neighbours go on");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_a_sink_refuses_for_good_is_given_up_and_the_others_are_settled() {
    for keeps_order in [false, true] {
        let refused = vec![(5, 0, true), (30, 2, true)];
        let stage = Script { refused, keeps_order, ..poisoned(&[], Errors::DeadLetter(0)) }.play();
        stage.pass(60 * SECOND).await;
        let journal = stage.drained().await;
        assert_eq!(settled(&journal).into_iter().collect::<BTreeSet<_>>(), all_but(&[5, 30]));
        assert_eq!(
            (settled(&journal).len(), rejected(&journal), kept(&journal)),
            (68, vec![(0, 5), (0, 30)], vec![(0, 5), (0, 30)])
        );
        assert!(!keeps_order || is_in_order(&journal), "{journal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_its_last_delivery_a_record_becomes_a_letter_instead_of_being_tried() {
    for (policy, delivery_count, is_kept) in [
        (Errors::DeadLetter(0), DELIVERY_COUNT_MAX, true),
        (Errors::DeadLetter(0), DELIVERY_COUNT_MAX - 1, false),
        (Errors::Skip, DELIVERY_COUNT_MAX, false),
    ] {
        let last = Parcel { delivery_count, fragile: true, ..parcel(0, 0, &[3]) };
        let stage = Script { policy, ..Script::of(vec![vec![last]], vec![]) }.play();
        stage.pass(SECOND).await;
        let journal = stage.drained().await;
        let all = [(0, 0), (0, 1), (0, 2)];
        assert_eq!(kept(&journal), if is_kept { &all[..] } else { &[] });
        assert_eq!(rejected(&journal), kept(&journal));
        assert_eq!(settled(&journal).len(), if is_kept { 0 } else { 3 });
    }
}
