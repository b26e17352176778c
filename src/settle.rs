//! From the fate of a parcel to acknowledgements (pure).

use crate::batch::OffsetRange;
use crate::wire::share::{AcknowledgeType, Acknowledgement};

/// Acknowledges every offset of `held` once: `kind` where a record stands, GAP where none does.
///
/// Both lists ascend and don't overlap; so does the result. A range of `held` is the unit in which the source acquired, so
/// results never reach over its borders: the loss of one does not undo another.
/// Source: KIP-932, ShareAcknowledgeRequest.json.
pub fn acknowledgements(
    held: &[OffsetRange],
    (written, kind): (&[OffsetRange], AcknowledgeType),
) -> Vec<Acknowledgement> {
    let mut result = Vec::with_capacity(held.len());
    let mut written = written.iter().peekable();
    for range in held {
        let mut next = range.first;
        while next <= range.last {
            while written.next_if(|w| w.last < next).is_some() {}
            let (last, kind) = match written.peek() {
                Some(w) if w.first <= next => (w.last.min(range.last), kind),
                Some(w) if w.first <= range.last => (w.first - 1, AcknowledgeType::Gap),
                _ => (range.last, AcknowledgeType::Gap),
            };
            result.push(Acknowledgement { range: OffsetRange { first: next, last }, kind });
            next = last + 1;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: i64, last: i64) -> OffsetRange {
        OffsetRange { first, last }
    }

    #[test]
    fn markers_and_holes_are_gaps() {
        let acks = acknowledgements(
            &[range(10, 19), range(20, 20), range(30, 39)],
            (&[range(10, 15), range(17, 32)], AcknowledgeType::Accept),
        );
        let shown: Vec<_> = acks.iter().map(|a| (a.range.first, a.range.last, a.kind)).collect();
        use AcknowledgeType::{Accept, Gap};
        assert_eq!(
            shown,
            [(10, 15, Accept), (16, 16, Gap), (17, 19, Accept), (20, 20, Accept), (30, 32, Accept), (33, 39, Gap)]
        );
    }

    prop_compose! {
        fn ascending()(steps in prop::collection::vec((1i64..5, 0i64..5), 0..12)) -> Vec<OffsetRange> {
            let mut next = 0;
            steps.into_iter().map(|(skip, length)| {
                let first = next + skip;
                next = first + length;
                range(first, next)
            }).collect()
        }
    }

    proptest! {
        /// Every held offset ends in exactly one acknowledgement, of the right kind, and no other offset in any.
        #[test]
        fn each_held_offset_once(held in ascending(), written in ascending()) {
            let acks = acknowledgements(&held, (&written, AcknowledgeType::Accept));
            let inside = |ranges: &[OffsetRange], offset| ranges.iter().any(|r| (r.first..=r.last).contains(&offset));
            for offset in 0..200 {
                let kinds: Vec<_> = acks.iter().filter(|a| (a.range.first..=a.range.last).contains(&offset)).collect();
                prop_assert_eq!(kinds.len(), usize::from(inside(&held, offset)));
                if let [ack] = kinds[..] {
                    prop_assert_eq!(ack.kind == AcknowledgeType::Accept, inside(&written, offset));
                }
            }
            prop_assert!(acks.windows(2).all(|pair| pair[0].range.last < pair[1].range.first));
        }
    }
}
