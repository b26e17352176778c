//! What a lane promises, played between a scripted source and a scripted sink in paused time.

use std::num::NonZeroU64;
use std::time::Duration;

use super::Wish;
use crate::batch::OffsetRange;
use crate::config::RateLimits;
use crate::limits::{FETCH_BYTES_MIN, HOLD_RETRY, RETRY_MIN};
use crate::sink::Fate;
use crate::source::Parcel;
use crate::wire::Code;

mod fault;
mod random;
mod stage;

use stage::Event::{
    Aborted, Closed, Committed, Gathered, Lost, NotCommitted, Opened, Paused, Polled, Resumed, Settled, Undecided,
    Wrote,
};
use stage::{Answer, Piece, Script, gap, parcel};

const SECOND: Duration = Duration::from_secs(1);
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// Five records of partition 0 and five of partition 1.
const BOTH: [Piece; 2] = [(0, 0, 4), (1, 0, 4)];

/// One shipment with [`BOTH`].
fn both(answers: &[Answer]) -> Script {
    Script::of(vec![vec![parcel(0, 0, &[5]), parcel(1, 0, &[5])]], answers.to_vec())
}

#[tokio::test(start_paused = true)]
async fn records_are_settled_once_after_their_commit() {
    let stage = both(&[]).play();
    stage.pass(SECOND).await;
    assert!(stage.troubles().is_empty());
    assert_eq!((stage.metrics.sent(), stage.metrics.ended("committed").get()), (10, 1));
    assert_eq!((stage.metrics.lanes.sum(|topic| topic.read.total()), stage.metrics.in_flight.get()), (10, 0));
    let told = stage.told();
    for line in [
        "replication_latency_seconds_count{flow=\"f\"} 2",
        "pipeline_latency_seconds_count{flow=\"f\"} 2",
        "sink_record_send_total{flow=\"f\",lane=\"0\",topic=\"t\"} 10",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} is not in {told}");
    }
    let whole = [Opened, Polled, Wrote(BOTH.into()), Committed, Settled(BOTH.into()), Polled, Closed];
    assert_eq!(stage.drained().await, whole);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_polled_before_the_sink_has_opened() {
    let stage = Script { down: TEN_MINUTES, ..both(&[]) }.play();
    stage.pass(TEN_MINUTES - SECOND).await;
    assert_eq!((stage.journal(), stage.troubles()), (vec![], vec!["target".to_owned()]));
    stage.pass(10 * SECOND).await;
    assert_eq!(stage.journal()[..2], [Opened, Polled]);
    assert!(stage.troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_brake_keeps_a_lane_to_its_limit() {
    let shipments: Vec<_> = (0..20).map(|round| vec![parcel(0, 500 * round, &[500])]).collect();
    let bytes = shipments.iter().flatten().map(Parcel::size).sum::<usize>() as u64;
    let limits = RateLimits { bytes: NonZeroU64::new(bytes / 20), ..RateLimits::default() };
    let stage = Script { limits, ..Script::of(shipments, vec![]) }.play();
    for second in 1..=20 {
        stage.pass(SECOND).await;
        let expected = 500 * second;
        assert!(stage.metrics.sent().abs_diff(expected) <= 500, "{} after {second} s", stage.metrics.sent());
    }
    stage.pass(SECOND).await;
    assert_eq!(stage.metrics.sent(), 10_000);
    assert!(stage.troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_costs_nothing_but_time() {
    let stage = both(&[Answer::Down(TEN_MINUTES)]).play();
    stage.pass(TEN_MINUTES - SECOND).await;
    let begin = [Opened, Polled, Wrote(BOTH.into()), Aborted];
    assert_eq!((stage.journal(), stage.troubles()), (begin.to_vec(), vec!["target".to_owned()]));
    assert_eq!((stage.metrics.in_flight.get(), stage.metrics.held.get()), (10, 0));
    stage.pass(10 * SECOND).await;
    assert!(stage.troubles().is_empty());
    let end = [Opened, Wrote(BOTH.into()), Committed, Settled(BOTH.into()), Polled, Closed];
    assert_eq!(stage.drained().await, [&begin[..], &end].concat());
}

#[tokio::test(start_paused = true)]
async fn an_undecided_commit_is_asked_for_until_it_is_decided() {
    let stage = both(&[Answer::Decide(3, Fate::Committed)]).play();
    stage.pass(60 * SECOND).await;
    let begin = [Opened, Polled, Wrote(BOTH.into())];
    let asked = [Undecided, Undecided, Undecided, Committed, Settled(BOTH.into()), Polled, Closed];
    assert!(stage.troubles().is_empty());
    assert_eq!(stage.drained().await, [&begin[..], &asked].concat());
}

#[tokio::test(start_paused = true)]
async fn what_was_not_committed_is_written_again() {
    let stage = both(&[Answer::Decide(1, Fate::NotCommitted)]).play();
    stage.pass(60 * SECOND).await;
    assert_eq!(
        (stage.metrics.sent(), stage.metrics.ended("aborted").get(), stage.metrics.ended("fenced").get()),
        (10, 0, 1)
    );
    let begin = [Opened, Polled, Wrote(BOTH.into()), Undecided, NotCommitted];
    let again = [Opened, Wrote(BOTH.into()), Committed, Settled(BOTH.into()), Polled, Closed];
    assert_eq!(stage.drained().await, [&begin[..], &again].concat());
}

/// Partition 1 is refused with `code` in the first write: what happens until only partition 0 is settled.
fn refused() -> Vec<stage::Event> {
    let begin = [Opened, Polled, Wrote(BOTH.into()), Aborted, Paused(1)];
    [&begin[..], &[Opened, Wrote(vec![BOTH[0]]), Committed, Settled(vec![BOTH[0]]), Polled]].concat()
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_partition_holds_only_this_one_until_its_trial() {
    let stage = both(&[Answer::Refuse(1, Code::TopicAuthorizationFailed)]).play();
    stage.pass(HOLD_RETRY - SECOND).await;
    assert_eq!((stage.journal(), stage.troubles()), (refused(), vec!["t-1".to_owned()]));
    assert_eq!(stage.metrics.held.get(), 5);
    stage.pass(2 * SECOND).await;
    assert!(stage.troubles().is_empty());
    assert_eq!((stage.metrics.held.get(), stage.metrics.held_bytes.get()), (0, 0));
    let trial = [Wrote(vec![BOTH[1]]), Committed, Settled(vec![BOTH[1]]), Resumed(1), Polled, Closed];
    assert_eq!(stage.drained().await, [&refused()[..], &trial].concat());
}

#[tokio::test(start_paused = true)]
async fn what_should_heal_by_itself_is_tried_within_a_second() {
    let stage = both(&[Answer::Refuse(1, Code::NotLeaderOrFollower)]).play();
    stage.pass(SECOND).await;
    assert_eq!((stage.metrics.sent(), stage.troubles()), (10, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_fails_takes_no_other_partition_along() {
    let refuse = |partition| Answer::Refuse(partition, Code::TopicAuthorizationFailed);
    let mut script = both(&[refuse(1), refuse(2), Answer::Fine, refuse(1)]);
    script.shipments[0].push(parcel(2, 0, &[5]));
    let stage = script.play();
    stage.pass(3 * HOLD_RETRY).await;
    let (zero, one, two) = (BOTH[0], BOTH[1], (2, 0, 4));
    let writes: Vec<_> = stage.journal().into_iter().filter(|event| matches!(event, Wrote(_))).collect();
    let expected = [vec![zero, one, two], vec![zero, two], vec![zero], vec![one], vec![two], vec![one]];
    assert_eq!(writes, expected.map(Wrote));
    assert!(stage.troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_trials_of_some_leave_the_others_their_turn() {
    let healthy = (0..30).map(|round| vec![parcel(0, 5 * round, &[5])]);
    let mut shipments = vec![vec![parcel(1, 0, &[5]), parcel(2, 0, &[5]), parcel(3, 0, &[5])]];
    shipments.extend(healthy);
    let mut script = Script::of(shipments, vec![]);
    script.silent = vec![1, 2, 3];
    let stage = script.play();
    stage.pass(600 * SECOND).await;
    assert_eq!(stage.metrics.sent(), 150);
    assert_eq!(stage.troubles(), ["t-1", "t-2", "t-3"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_what_was_not_written_does_not_spin() {
    let stage = both(&vec![Answer::Refuse(7, Code::MessageTooLarge); 5]).play();
    stage.pass(RETRY_MIN / 4).await;
    assert_eq!(stage.journal(), [Opened, Polled, Wrote(BOTH.into()), Aborted]);
    stage.pass(10 * SECOND).await;
    let journal = stage.drained().await;
    assert!(journal.contains(&Settled(BOTH.into())) && !journal.contains(&Paused(7)), "{journal:?}");
}

#[tokio::test(start_paused = true)]
async fn records_lost_while_they_were_written_are_neither_committed_nor_settled() {
    let stage = both(&[Answer::Lose(1, 3)]).play();
    stage.pass(SECOND).await;
    let rest = vec![(0, 0, 4), (1, 0, 2)];
    let begin = [Opened, Polled, Wrote(BOTH.into()), Lost(vec![(1, 3, 4)]), Aborted];
    let again = [Opened, Wrote(rest.clone()), Committed, Settled(rest), Polled, Closed];
    assert_eq!(stage.drained().await, [&begin[..], &again].concat());
}

#[tokio::test(start_paused = true)]
async fn a_load_of_gaps_only_is_settled_without_a_transaction() {
    let stage = Script::of(vec![vec![gap(0, OffsetRange { first: 3, last: 3 })]], vec![]).play();
    stage.pass(SECOND).await;
    assert_eq!(stage.metrics.sent(), 0);
    let piece = vec![(0, 3, 3)];
    assert_eq!(stage.drained().await, [Opened, Polled, Wrote(piece.clone()), Settled(piece), Polled, Closed]);
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_while_it_is_held_is_forgotten_and_its_partition_resumed() {
    let script = both(&[Answer::Refuse(1, Code::TopicAuthorizationFailed)]);
    let hold = script.shipments[0][1].hold.clone();
    let stage = script.play();
    stage.pass(SECOND).await;
    hold.drop_all();
    stage.pass(HOLD_RETRY).await;
    assert!(stage.troubles().is_empty());
    assert_eq!(stage.drained().await, [&refused()[..], &[Resumed(1), Polled, Closed]].concat());
}

#[tokio::test(start_paused = true)]
async fn with_memory_full_of_held_records_nothing_more_is_acquired() {
    let large =
        Script::of(vec![vec![parcel(0, 0, &[100])]; 2], vec![Answer::Refuse(0, Code::TopicAuthorizationFailed)]);
    let stage = Script { bytes_max: FETCH_BYTES_MIN + 1_000, ..large }.play();
    stage.pass(HOLD_RETRY - SECOND).await;
    let piece = vec![(0, 0, 99)];
    assert_eq!(stage.journal(), [Opened, Polled, Wrote(piece.clone()), Aborted, Paused(0), Opened]);
    assert_eq!(stage.troubles(), ["memory", "t-0"]);
    stage.pass(2 * SECOND).await;
    assert!(stage.troubles().is_empty());
    let trial = [Wrote(piece.clone()), Committed, Settled(piece), Resumed(0), Polled];
    assert_eq!(stage.journal()[6..11], trial);
}

#[tokio::test(start_paused = true)]
async fn draining_finishes_what_was_polled_and_what_is_in_flight() {
    let script = both(&[Answer::Down(10 * SECOND)]);
    let mut stage = Script { in_flight: vec![parcel(2, 0, &[5])], ..script }.play();
    stage.pass(SECOND).await;
    stage.tell(Wish::Drain);
    assert_eq!(stage.left().await, 0);
    let begin = [Opened, Polled, Wrote(BOTH.into()), Aborted, Opened, Wrote(BOTH.into()), Committed];
    let late = vec![(2, 0, 4)];
    let end = [Settled(BOTH.into()), Gathered, Wrote(late.clone()), Committed, Settled(late), Closed];
    assert_eq!(stage.journal(), [&begin[..], &end].concat());
}

#[tokio::test(start_paused = true)]
async fn asked_to_drain_at_whatever_step_all_that_was_polled_is_settled_and_nothing_more_is_polled() {
    let pace = Duration::from_millis(100);
    let mut steps = std::collections::BTreeSet::new();
    for moment in 0..60 {
        let script = both(&[Answer::Refuse(1, Code::NotLeaderOrFollower), Answer::Decide(2, Fate::Committed)]);
        let mut stage = Script { pace, ..script }.play();
        stage.pass(moment * pace / 2).await;
        let before = stage.journal();
        steps.insert(before.len());
        stage.tell(Wish::Drain);
        assert_eq!(stage.left().await, 0, "moment {moment}");
        let journal = stage.journal();
        random::check(&journal);
        let settled: i64 = random::settled(&journal).map(|(_, first, last)| last - first + 1).sum();
        assert_eq!(settled, if before.contains(&Polled) { 10 } else { 0 }, "moment {moment}: {journal:?}");
        assert!(!journal[before.len()..].contains(&Polled), "moment {moment}: {journal:?}");
    }
    assert!(steps.len() >= 10, "only these steps were met: {steps:?}");
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_should_heal_and_not_for_what_should_not() {
    for (code, released) in [(Code::NotLeaderOrFollower, 0), (Code::TopicAuthorizationFailed, 5)] {
        let mut stage = both(&[Answer::Down(SECOND), Answer::Refuse(1, code)]).play();
        stage.pass(SECOND / 2).await;
        stage.tell(Wish::Drain);
        assert_eq!(stage.left().await, released, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_aborts_the_open_transaction_and_releases() {
    let mut stage = both(&[Answer::Hang]).play();
    stage.pass(SECOND).await;
    stage.tell(Wish::Drain);
    stage.pass(SECOND).await;
    stage.tell(Wish::Leave);
    assert_eq!(stage.left().await, 10);
    assert_eq!(stage.journal(), [Opened, Polled, Wrote(BOTH.into()), Aborted, Closed]);
}

#[tokio::test(start_paused = true)]
async fn a_load_too_large_for_the_sink_gets_through_in_parts() {
    let script = Script::of(vec![vec![parcel(0, 0, &[500; 40]), parcel(1, 0, &[500; 40])]], vec![]);
    let stage = Script { write_bytes_max: 100_000, ..script }.play();
    stage.pass(TEN_MINUTES).await;
    let journal = stage.drained().await;
    random::check(&journal);
    let settled: i64 = random::settled(&journal).map(|(_, first, last)| last - first + 1).sum();
    assert_eq!(settled, 40_000);
}
