//! Ranges of offsets.

use std::fmt;

/// Offsets `first..=last` of one partition; both ends belong to it, as in Kafka's share requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OffsetRange {
    /// The first offset.
    pub first: i64,
    /// The last offset, not before the first.
    pub last: i64,
}

impl OffsetRange {
    /// How many offsets there are; 0 if the last comes before the first.
    pub fn count(&self) -> u64 {
        u64::try_from(self.last.saturating_sub(self.first).saturating_add(1)).unwrap_or(0)
    }

    /// Whether `ranges` (ascending, disjoint, possibly adjacent) hold every offset of this one.
    pub fn is_covered_by(&self, ranges: &[OffsetRange]) -> bool {
        let mut next = self.first;
        for range in ranges {
            if range.first > next {
                return false;
            }
            if range.last >= self.last {
                return true;
            }
            next = next.max(range.last + 1);
        }
        false
    }
}

/// What is left of `ranges` (ascending, disjoint) without the offsets of `gone`.
pub fn without(ranges: &[OffsetRange], gone: OffsetRange) -> Vec<OffsetRange> {
    let parts = ranges.iter().flat_map(|range| {
        [
            OffsetRange { first: range.first, last: range.last.min(gone.first.saturating_sub(1)) },
            OffsetRange { first: range.first.max(gone.last.saturating_add(1)), last: range.last },
        ]
    });
    parts.filter(|part| part.first <= part.last).collect()
}

/// What lies of `ranges` (ascending, disjoint) within `span`.
pub fn within(ranges: &[OffsetRange], span: OffsetRange) -> Vec<OffsetRange> {
    let clip =
        |range: &OffsetRange| OffsetRange { first: range.first.max(span.first), last: range.last.min(span.last) };
    ranges.iter().map(clip).filter(|part| part.first <= part.last).collect()
}

/// Puts a range behind `ranges` (ascending), or lengthens the last of them where it follows at once.
pub fn append(ranges: &mut Vec<OffsetRange>, range: OffsetRange) {
    match ranges.last_mut() {
        Some(last) if last.last.checked_add(1) == Some(range.first) => last.last = range.last,
        _ => ranges.push(range),
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(ends: &[(i64, i64)]) -> Vec<OffsetRange> {
        ends.iter().map(|&(first, last)| OffsetRange { first, last }).collect()
    }

    #[test]
    fn ranges_are_cut_where_others_begin_and_end() {
        let all = ranges(&[(0, 9), (20, 29)]);
        assert_eq!(without(&all, OffsetRange { first: 5, last: 22 }), ranges(&[(0, 4), (23, 29)]));
        assert_eq!(without(&all, OffsetRange { first: 3, last: 4 }), ranges(&[(0, 2), (5, 9), (20, 29)]));
        assert_eq!(without(&all, OffsetRange { first: 10, last: 19 }), all);
        assert_eq!(without(&all, OffsetRange { first: 0, last: i64::MAX }), []);
        assert_eq!(within(&all, OffsetRange { first: 5, last: 22 }), ranges(&[(5, 9), (20, 22)]));
        assert_eq!(within(&all, OffsetRange { first: 10, last: 19 }), []);
    }

    #[test]
    fn covered_across_adjacent_ranges_but_not_across_a_hole() {
        let batch = OffsetRange { first: 10, last: 19 };
        assert!(batch.is_covered_by(&ranges(&[(10, 19)])));
        assert!(batch.is_covered_by(&ranges(&[(0, 5), (8, 14), (15, 30)])));
        assert!(batch.is_covered_by(&ranges(&[(0, i64::MAX)])));
        assert!(!batch.is_covered_by(&ranges(&[(10, 14), (16, 30)])));
        assert!(!batch.is_covered_by(&ranges(&[(11, 19)])));
        assert!(!batch.is_covered_by(&ranges(&[(10, 18)])));
        assert!(!batch.is_covered_by(&[]));
    }
}
