//! Divides the partitions of a topic into rounds that fit in memory.

use super::error::VerifyError;
use super::survey::TopicSurvey;
use super::tally::Slice;
use crate::limits::{RECORDS_PER_ROUND_MAX, ROUNDS_PER_PARTITION_MAX};

/// Offsets from `low` up to, not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) low: i64,
    pub(super) end: i64,
}

impl Span {
    /// Offsets in the span: at least as many as records, since some are markers or were cleaned away.
    pub(super) fn len(self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.low)).unwrap_or(0)
    }
}

/// A partition on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) partition: i32,
    pub(super) source: Span,
    pub(super) target: Span,
}

impl Pair {
    fn len(self) -> u64 {
        self.source.len().max(self.target.len())
    }
}

/// What is read in one go: several partitions whole, or a slice of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) pairs: Vec<Pair>,
    pub(super) slice: Slice,
}

impl Round {
    /// Offsets to read on both sides.
    pub(super) fn offset_count(&self) -> u64 {
        let lens = self.pairs.iter();
        lens.map(|pair| pair.source.len().saturating_add(pair.target.len())).fold(0, u64::saturating_add)
    }
}

/// The rounds of a topic, in the order of partitions.
///
/// Errors: [`VerifyError::TooLarge`] for a partition beyond [`ROUNDS_PER_PARTITION_MAX`].
pub(super) fn rounds(topic: &TopicSurvey) -> Result<Vec<Round>, VerifyError> {
    let mut rounds = Vec::new();
    let mut shared = Round { pairs: Vec::new(), slice: Slice::WHOLE };
    let mut shared_len = 0;
    for pair in topic.pairs() {
        let count = pair.len().div_ceil(RECORDS_PER_ROUND_MAX);
        if count > ROUNDS_PER_PARTITION_MAX {
            return Err(VerifyError::TooLarge {
                topic: topic.name.clone(),
                partition: pair.partition,
                offset_count: pair.len(),
            });
        }
        if count > 1 {
            let count = count as u32;
            let slices = (0..count).map(|index| Slice { index, count });
            rounds.extend(slices.map(|slice| Round { pairs: vec![pair], slice }));
            continue;
        }
        if shared_len + pair.len() > RECORDS_PER_ROUND_MAX {
            let pairs = std::mem::take(&mut shared.pairs);
            rounds.push(Round { pairs, slice: Slice::WHOLE });
            shared_len = 0;
        }
        shared_len += pair.len();
        shared.pairs.push(pair);
    }
    if !shared.pairs.is_empty() {
        rounds.push(shared);
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::verify::survey::Extent;
    use crate::verify::tally::Basis;

    fn topic(lens: &[(u64, u64)]) -> TopicSurvey {
        let side = |len: fn(&(u64, u64)) -> u64| {
            let extents =
                lens.iter().map(|lens| Extent { span: Span { low: 5, end: 5 + len(lens) as i64 }, undecided: 0 });
            Some((0..).zip(extents).collect::<BTreeMap<i32, Extent>>())
        };
        TopicSurvey {
            name: "orders".into(),
            basis: Basis::EveryRecord,
            source: side(|lens| lens.0),
            target: side(|lens| lens.1),
        }
    }

    proptest! {
        #[test]
        fn rounds_read_everything_once_and_fit(
            lens in proptest::collection::vec(
                (0..3 * RECORDS_PER_ROUND_MAX, 0..3 * RECORDS_PER_ROUND_MAX), 0..20),
        ) {
            let topic = topic(&lens);
            let rounds = rounds(&topic).unwrap();
            let mut whole = BTreeMap::new();
            for round in &rounds {
                let hashes: u64 = round.pairs.iter().map(|pair| pair.len()).sum();
                prop_assert!(hashes <= RECORDS_PER_ROUND_MAX * u64::from(round.slice.count));
                prop_assert!(round.slice.count == 1 || round.pairs.len() == 1);
                for pair in &round.pairs {
                    whole.entry(pair.partition).or_insert_with(Vec::new).push(round.slice);
                }
            }
            prop_assert_eq!(whole.len(), lens.len());
            for slices in whole.values() {
                let count = slices[0].count;
                let expected: Vec<_> = (0..count).map(|index| Slice { index, count }).collect();
                prop_assert_eq!(slices, &expected);
            }
        }
    }

    #[test]
    fn small_partitions_share_a_round() {
        let rounds = rounds(&topic(&[(10, 10), (0, 0), (20, 25)])).unwrap();
        assert_eq!(rounds.len(), 1);
        assert_eq!(rounds[0].offset_count(), 65);
    }

    #[test]
    fn an_absurd_offset_is_refused_before_memory_is_taken() {
        let error = rounds(&topic(&[(i64::MAX as u64 - 5, 0)])).unwrap_err();
        assert!(matches!(error, VerifyError::TooLarge { partition: 0, .. }));
    }
}
