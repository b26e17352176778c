//! Whatever source and sink do: each record is committed once, and after that settled once, or it was lost.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::stage::{Answer, Errors, Event, Piece, Script, parcel};
use crate::batch::OffsetRange;
use crate::limits::HOLD_RETRY;
use crate::sink::Fate;
use crate::source::Parcel;
use crate::wire::Code;

/// What was settled, piece by piece.
pub(super) fn settled(journal: &[Event]) -> impl Iterator<Item = Piece> {
    let settled = journal.iter().filter_map(|event| match event {
        Event::Settled(pieces) => Some(pieces),
        _ => None,
    });
    settled.flatten().copied()
}

fn offsets(pieces: &[Piece]) -> impl Iterator<Item = (i32, i64)> {
    pieces.iter().flat_map(|(partition, first, last)| (*first..=*last).map(|offset| (*partition, offset)))
}

/// Panics where something was committed twice, settled twice, settled without a commit, or rejected after one. Returns what was settled,
/// rejected or lost.
pub(super) fn check(journal: &[Event]) -> BTreeSet<(i32, i64)> {
    let (mut committed, mut finished, mut written) = (BTreeSet::new(), BTreeSet::new(), &vec![]);
    for event in journal {
        match event {
            Event::Wrote(pieces) => written = pieces,
            Event::Committed => {
                for offset in offsets(written) {
                    assert!(!finished.contains(&offset) && committed.insert(offset), "{offset:?} committed again");
                }
            }
            Event::Settled(pieces) => {
                for offset in offsets(pieces) {
                    assert!(committed.contains(&offset) && finished.insert(offset), "{offset:?} wrongly settled");
                }
            }
            Event::Rejected(pieces) => {
                for offset in offsets(pieces) {
                    assert!(!committed.contains(&offset) && finished.insert(offset), "{offset:?} wrongly rejected");
                }
            }
            Event::Lost(pieces) => finished.extend(offsets(pieces)),
            _ => {}
        }
    }
    finished
}

prop_compose! {
    fn shipment()(parcels in prop::collection::vec((0..4i32, 1..4usize, prop::bool::weighted(0.2)), 0..4))
        -> Vec<(i32, usize, bool)>
    {
        parcels
    }
}

/// Parcels of each partition follow one another.
fn shipments(drawn: Vec<Vec<(i32, usize, bool)>>) -> Vec<Vec<Parcel>> {
    let mut next = [0; 4];
    let mut draw = |(partition, batches, fragile): (i32, usize, bool)| {
        let first = &mut next[partition as usize];
        let drawn = Parcel { fragile, ..parcel(partition, *first, &vec![3; batches]) };
        *first = drawn.span.last + 1;
        drawn
    };
    drawn.into_iter().map(|parcels| parcels.into_iter().map(&mut draw).collect()).collect()
}

fn answer() -> impl Strategy<Value = Answer> {
    let codes = vec![
        Code::NotLeaderOrFollower,
        Code::TopicAuthorizationFailed,
        Code::InvalidRecord,
        Code::OutOfOrderSequenceNumber,
    ];
    prop_oneof![
        Just(Answer::Fine),
        (0..30u64).prop_map(|seconds| Answer::Down(Duration::from_secs(seconds))),
        (0..4i32, prop::sample::select(codes)).prop_map(|(partition, code)| Answer::Refuse(partition, code)),
        (0..4i32, 0..20i64).prop_map(|(partition, first)| Answer::Lose(partition, first)),
        (0..4u32, prop::bool::ANY).prop_map(|(unanswered, committed)| {
            Answer::Decide(unanswered, if committed { Fate::Committed } else { Fate::NotCommitted })
        }),
    ]
}

proptest! {
    #[test]
    fn each_record_is_committed_then_settled_once_or_it_was_lost(
        drawn in prop::collection::vec(shipment(), 0..6),
        answers in prop::collection::vec(answer(), 0..12),
        poison in prop::collection::vec(0..20i64, 0..3),
        policy in prop::sample::select(vec![Errors::Skip, Errors::DeadLetter(0), Errors::DeadLetter(3)]),
        keeps_order in prop::bool::ANY,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let shipments = shipments(drawn);
        let spans: Vec<(i32, OffsetRange)> = shipments.iter().flatten().map(|p| (p.at.partition, p.span)).collect();
        let answers_count = answers.len() as u32;
        let journal = runtime.block_on(async {
            let stage = Script { poison, policy, keeps_order, ..Script::of(shipments, answers) }.play();
            // Each answer costs at most its own time and that of one trial.
            stage.pass((answers_count + 2) * (HOLD_RETRY + Duration::from_secs(40))).await;
            assert!(stage.troubles().is_empty(), "{:?}", stage.troubles());
            stage.drained().await
        });
        let given: Vec<Piece> = spans.into_iter().map(|(partition, span)| (partition, span.first, span.last)).collect();
        prop_assert_eq!(check(&journal), offsets(&given).collect::<BTreeSet<_>>());
    }
}
