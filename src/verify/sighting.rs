//! The second pass: every record of the buckets that differ, with an example of where it lies.

use std::collections::HashMap;

use super::digest::Digest;
use super::plan::Selection;
use super::reader::{Tally, TooMany};
use super::record::{Basis, Fields, RecordHash, RecordHasher};
use super::report::Content;
use crate::limits::RECORDS_PER_PASS_MAX;

/// Where equal records were seen on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) copies: u64,
    /// Of the last one.
    pub(super) offset: i64,
    /// Milliseconds since 1970, or -1 for none.
    pub(super) timestamp: i64,
}

/// What one side holds in the buckets of a selection.
pub(super) struct Sightings<'a> {
    selection: &'a Selection,
    hasher: RecordHasher,
    seen: Seen,
}

enum Seen {
    Every(HashMap<RecordHash, Sighting>),
    /// By identity, which is the key's: what the last record holds, and where it is.
    Last(HashMap<u64, (u64, Sighting)>),
}

/// In which way a side has more of a record than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surplus {
    /// The source has more copies than the target.
    Missing,
    /// The target has it, the source has not.
    Extra,
    /// Both have it, the target more often.
    Duplicate,
}

impl<'a> Sightings<'a> {
    pub(super) fn new(basis: Basis, selection: &'a Selection) -> Sightings<'a> {
        let seen = match basis {
            Basis::EveryRecord => Seen::Every(HashMap::with_capacity(selection.capacity())),
            Basis::LastPerKey => Seen::Last(HashMap::with_capacity(selection.capacity())),
        };
        Sightings { selection, hasher: RecordHasher::new(basis), seen }
    }

    /// All that was selected.
    pub(super) fn content(&self) -> Content {
        let (mut record_count, mut digest) = (0, Digest::default());
        for (hash, sighting) in self.iter() {
            record_count += sighting.copies;
            (0..sighting.copies).for_each(|_| digest.add(hash));
        }
        Content { record_count, digest, ..Content::default() }
    }

    /// Hands out what this source and a target have not equally often: the copies that a side has more than the other,
    /// with the sighting on that side. What is missing comes first.
    pub(super) fn compare(&self, target: &Sightings<'_>, note: &mut dyn FnMut(Surplus, RecordHash, Sighting)) {
        for (hash, sighting) in self.iter() {
            let copies = sighting.copies.saturating_sub(target.copies(hash));
            if copies > 0 {
                note(Surplus::Missing, hash, Sighting { copies, ..sighting });
            }
        }
        for (hash, sighting) in target.iter() {
            let on_source = self.copies(hash);
            let surplus = if on_source == 0 { Surplus::Extra } else { Surplus::Duplicate };
            let copies = sighting.copies.saturating_sub(on_source);
            if copies > 0 {
                note(surplus, hash, Sighting { copies, ..sighting });
            }
        }
    }

    fn copies(&self, hash: RecordHash) -> u64 {
        match &self.seen {
            Seen::Every(records) => records.get(&hash).map_or(0, |sighting| sighting.copies),
            Seen::Last(keys) => keys.get(&hash.identity).map_or(0, |(content, _)| u64::from(*content == hash.content)),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (RecordHash, Sighting)> + '_> {
        match &self.seen {
            Seen::Every(records) => Box::new(records.iter().map(|(hash, sighting)| (*hash, *sighting))),
            Seen::Last(keys) => Box::new(keys.iter().map(|(identity, (content, sighting))| {
                (RecordHash { identity: *identity, content: *content }, *sighting)
            })),
        }
    }
}

impl Tally for Sightings<'_> {
    fn add(&mut self, offset: i64, fields: &Fields<'_>) -> Result<(), TooMany> {
        let hash = self.hasher.hash(fields);
        if !self.selection.contains(hash) {
            return Ok(());
        }
        let sighting = Sighting { copies: 1, offset, timestamp: fields.timestamp };
        let distinct = match &mut self.seen {
            Seen::Every(records) => {
                let seen = records.entry(hash).or_insert(Sighting { copies: 0, ..sighting });
                *seen = Sighting { copies: seen.copies + 1, ..sighting };
                records.len()
            }
            Seen::Last(keys) => {
                if fields.key.is_some() && fields.value.is_some() {
                    keys.insert(hash.identity, (hash.content, sighting));
                } else if fields.key.is_some() {
                    keys.remove(&hash.identity);
                }
                keys.len()
            }
        };
        if distinct as u64 > RECORDS_PER_PASS_MAX { Err(TooMany) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::verify::plan::{Pair, Span, passes};

    type Record = (Option<u8>, Option<u8>);

    fn whole() -> Selection {
        let pair = Pair { partition: 0, spans: [Span { low: 0, end: 100 }; 2], exists: [true; 2] };
        passes("orders", &[(pair, pair.all_buckets())]).unwrap().remove(0).remove(0)
    }

    fn sightings<'a>(basis: Basis, selection: &'a Selection, records: &[Record]) -> Sightings<'a> {
        let mut sightings = Sightings::new(basis, selection);
        for (offset, (key, value)) in (0..).zip(records) {
            let fields = Fields {
                key: key.as_ref().map(std::slice::from_ref),
                value: value.as_ref().map(std::slice::from_ref),
                ..Fields::default()
            };
            sightings.add(offset, &fields).unwrap();
        }
        sightings
    }

    /// Copies that are missing, extra and duplicated.
    fn counts(source: &Sightings<'_>, target: &Sightings<'_>) -> [u64; 3] {
        let mut counts = [0; 3];
        source.compare(target, &mut |surplus, _, sighting| counts[surplus as usize] += sighting.copies);
        counts
    }

    /// The same by one map and no cleverness.
    fn model(source: &[Record], target: &[Record]) -> [u64; 3] {
        let mut copies: HashMap<Record, (u64, u64)> = HashMap::new();
        source.iter().for_each(|record| copies.entry(*record).or_default().0 += 1);
        target.iter().for_each(|record| copies.entry(*record).or_default().1 += 1);
        let mut counts = [0; 3];
        for (source, target) in copies.into_values() {
            match (source, target) {
                (0, extra) => counts[1] += extra,
                (s, t) if s > t => counts[0] += s - t,
                (s, t) => counts[2] += t - s,
            }
        }
        counts
    }

    fn record() -> impl Strategy<Value = Record> {
        (proptest::option::of(0u8..3), proptest::option::of(0u8..3))
    }

    proptest! {
        #[test]
        fn comparing_agrees_with_a_plain_count(source in vec(record(), 0..40), target in vec(record(), 0..40)) {
            let selection = whole();
            let side = |records: &[Record]| sightings(Basis::EveryRecord, &selection, records);
            let (left, right) = (side(&source), side(&target));
            let [missing, extra, duplicates] = counts(&left, &right);
            prop_assert_eq!([missing, extra, duplicates], model(&source, &target));
            prop_assert_eq!(left.content().record_count, source.len() as u64);
            prop_assert_eq!(
                right.content().record_count + missing,
                left.content().record_count + extra + duplicates
            );
        }
    }

    #[test]
    fn the_last_copy_is_the_example() {
        let selection = whole();
        let (a, b) = ((Some(1), Some(1)), (Some(2), Some(2)));
        let source = sightings(Basis::EveryRecord, &selection, &[a]);
        let target = sightings(Basis::EveryRecord, &selection, &[a, b, a, b]);
        let mut found = Vec::new();
        source.compare(&target, &mut |surplus, _, sighting| found.push((surplus, sighting.copies, sighting.offset)));
        found.sort_by_key(|(_, _, offset)| *offset);
        assert_eq!(found, [(Surplus::Duplicate, 1, 2), (Surplus::Extra, 2, 3)]);
    }

    #[test]
    fn c24_compaction_changes_nothing_that_counts() {
        let dirty = [(Some(1), Some(1)), (Some(2), Some(1)), (Some(1), None), (Some(2), Some(2)), (None, Some(9))];
        let clean = [(Some(2), Some(2))];
        let altered = [(Some(2), Some(3))];
        let selection = whole();
        let of = |records: &[Record]| sightings(Basis::LastPerKey, &selection, records);
        assert_eq!(counts(&of(&dirty), &of(&clean)), [0, 0, 0]);
        assert_eq!(of(&dirty).content(), of(&clean).content());
        assert_eq!(counts(&of(&dirty), &of(&altered)), [1, 1, 0]);
    }
}
