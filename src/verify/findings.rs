//! What differs in one partition, and how it is explained.

use std::collections::HashMap;

use super::error::VerifyError;
use super::horizon::Horizon;
use super::plan::Pair;
use super::record::{Basis, RecordHash};
use super::report::{Content, PartitionReport};
use super::sighting::{Sighting, Sightings, Surplus};
use super::tail::Search;

/// The differences of one partition, before they are explained.
pub(super) struct Findings {
    basis: Basis,
    pair: Pair,
    report: PartitionReport,
    missing: Vec<Unexplained>,
    extra: Vec<Unexplained>,
    duplicates: Vec<Unexplained>,
}

/// Equal records that one side has more of.
#[derive(Clone, Copy, Debug)]
struct Unexplained {
    hash: RecordHash,
    sighting: Sighting,
}

impl Findings {
    /// Nothing is known to differ yet.
    pub(super) fn new(basis: Basis, pair: Pair, report: PartitionReport) -> Findings {
        Findings { basis, pair, report, missing: Vec::new(), extra: Vec::new(), duplicates: Vec::new() }
    }

    pub(super) fn pair(&self) -> Pair {
        self.pair
    }

    /// Adds what the sides hold.
    pub(super) fn count(&mut self, [source, target]: [Content; 2]) {
        self.report.source.add(source);
        self.report.target.add(target);
    }

    /// Adds how the sides differ in what was selected. `room`: how many more differences of the topic may be remembered; if
    /// these do not fit, they are judged at once.
    pub(super) fn compare(&mut self, [source, target]: [&Sightings<'_>; 2], room: &mut usize) {
        let mut count = 0;
        source.compare(target, &mut |_, _, _| count += 1);
        let Some(rest) = room.checked_sub(count) else {
            return self.judge(source, target);
        };
        *room = rest;
        source.compare(target, &mut |surplus, hash, sighting| {
            let list = match surplus {
                Surplus::Missing => &mut self.missing,
                Surplus::Extra => &mut self.extra,
                Surplus::Duplicate => &mut self.duplicates,
            };
            list.push(Unexplained { hash, sighting });
        });
    }

    /// Judges differences without what explains them. Records of one identity are in one bucket, so what changed is seen.
    fn judge(&mut self, source: &Sightings<'_>, target: &Sightings<'_>) {
        let report = &mut self.report;
        let mut missing: HashMap<u64, Sighting> = HashMap::new();
        source.compare(target, &mut |surplus, hash, mut sighting| {
            report.unexplained += sighting.copies;
            if surplus == Surplus::Missing {
                let known = missing.entry(hash.identity).or_insert(Sighting { copies: 0, ..sighting });
                known.copies += sighting.copies;
                return;
            }
            if surplus == Surplus::Extra
                && let Some(missing) = missing.get_mut(&hash.identity)
            {
                report.take_changed(missing, &mut sighting);
            }
            report.add(surplus, sighting);
        });
        missing.into_values().for_each(|sighting| report.add(Surplus::Missing, sighting));
    }

    /// Is there anything to explain?
    pub(super) fn is_clean(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.duplicates.is_empty()
    }

    /// The outcome where there is nothing to explain.
    pub(super) fn report(self) -> PartitionReport {
        self.report
    }

    /// What to look for behind the cuts of source and target.
    pub(super) fn searches(&self) -> [Search; 2] {
        let surplus = self.extra.iter().chain(&self.duplicates);
        let wanted: [Vec<&Unexplained>; 2] = match self.basis {
            Basis::EveryRecord => [surplus.collect(), self.missing.iter().collect()],
            Basis::LastPerKey => [0, 1].map(|_| self.missing.iter().chain(&self.extra).collect()),
        };
        wanted.map(|wanted| {
            let wanted = wanted.into_iter().map(|found| (found.hash, found.sighting.copies));
            Search::new(self.basis, wanted)
        })
    }

    /// Explains what can be, by what was found behind the cuts and by what retention has removed.
    pub(super) fn explain(mut self, behind: [Search; 2], [mut source, mut target]: [Horizon; 2]) -> PartitionReport {
        let by_offset = |found: &Unexplained| found.sighting.offset;
        for list in [&mut self.missing, &mut self.extra, &mut self.duplicates] {
            list.sort_unstable_by_key(by_offset);
        }
        self.take_behind(&behind);
        self.pair_changed();
        for found in &mut self.missing {
            self.report.target.expired += target.take(&mut found.sighting);
        }
        for found in &mut self.extra {
            self.report.source.expired += source.take(&mut found.sighting);
        }
        let kinds =
            [(Surplus::Missing, self.missing), (Surplus::Extra, self.extra), (Surplus::Duplicate, self.duplicates)];
        for (surplus, list) in kinds {
            list.iter().for_each(|found| self.report.add(surplus, found.sighting));
        }
        self.report
    }

    /// Takes what was found behind the cuts. On the basis of keys, a key that either side has written again is in motion:
    /// what it was at the cuts tells nothing.
    fn take_behind(&mut self, [source, target]: &[Search; 2]) {
        let basis = self.basis;
        let take = |found: &mut Unexplained, own: &Search, other: &Search| {
            let copies = match basis {
                Basis::EveryRecord => own.found(found.hash),
                Basis::LastPerKey => own.found(found.hash) + other.found(found.hash),
            };
            let taken = copies.min(found.sighting.copies);
            found.sighting.copies -= taken;
            taken
        };
        for found in &mut self.missing {
            self.report.target.behind += take(found, target, source);
        }
        for found in self.extra.iter_mut().chain(&mut self.duplicates) {
            self.report.source.behind += take(found, source, target);
        }
    }

    /// Takes those that are missing and extra with the same identity: the record is there, its content is another.
    fn pair_changed(&mut self) {
        let mut by_identity: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, found) in self.extra.iter().enumerate().rev() {
            by_identity.entry(found.hash.identity).or_default().push(index);
        }
        for missing in &mut self.missing {
            let Some(candidates) = by_identity.get_mut(&missing.hash.identity) else {
                continue;
            };
            while let Some(index) = candidates.last() {
                let extra = &mut self.extra[*index];
                self.report.take_changed(&mut missing.sighting, &mut extra.sighting);
                if extra.sighting.copies > 0 {
                    break;
                }
                candidates.pop();
            }
        }
    }
}

/// Compares all partitions of a topic as one set, where those of the target are not those of the source: what is missing in one and
/// there in another is taken out of both. What is extra is a duplicate where the source has such a record in another partition.
///
/// Errors: [`VerifyError::TooLarge`] where more differs between partitions than was remembered.
pub(super) fn join(topic: &str, all: &mut [Findings]) -> Result<(), VerifyError> {
    if let Some(judged) = all.iter().find(|findings| findings.report.unexplained > 0) {
        return Err(VerifyError::TooLarge { topic: topic.to_owned(), partition: judged.pair.partition });
    }
    // Copies that the source has more of in some partition, and those that others of the target hold.
    let mut wanted: HashMap<RecordHash, [u64; 2]> = HashMap::new();
    for missing in all.iter().flat_map(|findings| &findings.missing) {
        wanted.entry(missing.hash).or_default()[0] += missing.sighting.copies;
    }
    for findings in &mut *all {
        for surplus in findings.extra.iter_mut().chain(&mut findings.duplicates) {
            let Some([wanted, found]) = wanted.get_mut(&surplus.hash) else { continue };
            let taken = surplus.sighting.copies.min(*wanted - *found);
            surplus.sighting.copies -= taken;
            *found += taken;
        }
        let (known, extra) = findings.extra.drain(..).partition(|surplus| wanted.contains_key(&surplus.hash));
        findings.extra = extra;
        findings.duplicates.extend::<Vec<Unexplained>>(known);
        findings.duplicates.retain(|surplus| surplus.sighting.copies > 0);
    }
    for findings in all {
        for missing in &mut findings.missing {
            let found = wanted.get_mut(&missing.hash).map(|[_, found]| found).expect("all that is missing is wanted");
            let taken = missing.sighting.copies.min(*found);
            missing.sighting.copies -= taken;
            *found -= taken;
        }
        findings.missing.retain(|missing| missing.sighting.copies > 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::plan::{Span, passes};
    use crate::verify::reader::Tally;
    use crate::verify::record::{Fields, RecordHasher};
    use crate::verify::report::Changed;

    const MINUTE: i64 = 60_000;

    fn findings(basis: Basis) -> Findings {
        let pair = Pair { partition: 0, spans: [Span { low: 0, end: 100 }; 2], exists: [true; 2] };
        Findings::new(basis, pair, PartitionReport::default())
    }

    fn unexplained(hash: RecordHash, copies: u64, offset: i64) -> Unexplained {
        Unexplained { hash, sighting: Sighting { copies, offset, timestamp: offset * MINUTE } }
    }

    fn hash(identity: u64, content: u64) -> RecordHash {
        RecordHash { identity, content }
    }

    #[test]
    fn missing_and_extra_records_of_one_identity_are_changed() {
        let mut found = findings(Basis::EveryRecord);
        found.missing = vec![unexplained(hash(1, 1), 2, 10), unexplained(hash(2, 1), 1, 11)];
        found.extra =
            vec![unexplained(hash(1, 3), 1, 21), unexplained(hash(1, 2), 3, 20), unexplained(hash(3, 1), 1, 22)];
        found.duplicates = vec![unexplained(hash(2, 9), 1, 23)];
        let searches = found.searches();
        let report = found.explain(searches, [Horizon::new(0, None); 2]);
        assert_eq!((report.changed, report.missing, report.extra, report.duplicates), (2, 1, 3, 1));
        assert_eq!(report.examples.changed, [Changed { source_offset: 10, target_offset: 20 }]);
        assert_eq!(report.examples.extra, [20, 21, 22]);
    }

    #[test]
    fn partitions_are_one_set_where_records_are_mapped() {
        let mut all: Vec<Findings> = (0..3)
            .map(|partition| {
                let mut found = findings(Basis::EveryRecord);
                found.pair.partition = partition;
                found
            })
            .collect();
        // Two copies are elsewhere, and one more; one of three is; one is nowhere; one comes from nowhere.
        all[0].missing = vec![unexplained(hash(1, 1), 2, 10), unexplained(hash(2, 1), 2, 11)];
        all[1].missing = vec![unexplained(hash(2, 1), 1, 12), unexplained(hash(3, 1), 1, 13)];
        all[1].extra = vec![unexplained(hash(1, 1), 1, 20), unexplained(hash(4, 1), 1, 21)];
        all[2].extra = vec![unexplained(hash(1, 1), 2, 30)];
        all[2].duplicates = vec![unexplained(hash(2, 1), 1, 31)];
        join("orders", &mut all).unwrap();
        let counts = |list: &[Unexplained]| list.iter().map(|found| found.sighting.copies).sum::<u64>();
        let found: Vec<[u64; 3]> =
            all.iter().map(|f| [&f.missing, &f.extra, &f.duplicates].map(|list| counts(list))).collect();
        assert_eq!(found, [[1, 0, 0], [2, 1, 0], [0, 0, 1]]);
        assert_eq!(all[1].extra[0].hash, hash(4, 1));

        all[2].report.unexplained = 1;
        assert!(matches!(join("orders", &mut all), Err(VerifyError::TooLarge { partition: 2, .. })));
    }

    #[test]
    fn what_does_not_fit_is_judged_alike_at_once() {
        let pair = findings(Basis::EveryRecord).pair();
        let selection = passes("orders", &[(pair, pair.all_buckets())]).unwrap().remove(0).remove(0);
        let side = |records: &[(u8, u8)]| {
            let mut side = Sightings::new(Basis::EveryRecord, &selection);
            for (offset, (key, value)) in (0..).zip(records) {
                let [key, value] = [key, value].map(|byte| Some(std::slice::from_ref(byte)));
                side.add(offset, &Fields { key, value, ..Fields::default() }).unwrap();
            }
            side
        };
        let source = side(&[(1, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        let target = side(&[(1, 2), (2, 1), (2, 1), (3, 2), (3, 3), (5, 1)]);
        let report = |mut room: usize| {
            let mut found = findings(Basis::EveryRecord);
            found.compare([&source, &target], &mut room);
            let searches = found.searches();
            found.explain(searches, [Horizon::new(0, None); 2])
        };
        let (fits, does_not) = (report(8), report(7));
        let counts = |report: &PartitionReport| [report.missing, report.extra, report.duplicates, report.changed];
        assert_eq!(counts(&fits), [2, 2, 1, 2]);
        assert_eq!(counts(&does_not), counts(&fits));
        assert_eq!((fits.unexplained, does_not.unexplained), (0, 9));
    }

    #[test]
    fn what_was_found_behind_the_cuts_is_explained_copy_by_copy() {
        let fields = |value: &'static [u8]| Fields { key: Some(b"k"), value: Some(value), ..Fields::default() };
        let mut hasher = RecordHasher::new(Basis::EveryRecord);
        let [late, ahead] = [b"late!", b"ahead"].map(|value| hasher.hash(&fields(value)));
        let mut found = findings(Basis::EveryRecord);
        found.missing = vec![unexplained(late, 2, 1)];
        found.duplicates = vec![unexplained(ahead, 2, 2)];
        let mut searches = found.searches();
        searches[1].add(0, &fields(b"late!")).unwrap();
        (0..3).for_each(|_| searches[0].add(0, &fields(b"ahead")).unwrap());
        let report = found.explain(searches, [Horizon::new(0, None); 2]);
        assert_eq!((report.target.behind, report.source.behind), (1, 2));
        assert_eq!((report.missing, report.duplicates, report.changed), (1, 0, 0));
    }

    #[test]
    fn what_retention_may_have_removed_is_expired() {
        let mut found = findings(Basis::EveryRecord);
        found.missing = (0..10).map(|number| unexplained(hash(number, 0), 1, number as i64)).collect();
        found.extra = (20..30).map(|number| unexplained(hash(number, 0), 1, number as i64)).collect();
        let searches = found.searches();
        let horizons = [Horizon::new(2, Some(30 * MINUTE)), Horizon::new(100, Some(4 * MINUTE))];
        let report = found.explain(searches, horizons);
        assert_eq!((report.source.expired, report.extra), (2, 8));
        assert_eq!((report.target.expired, report.missing), (6, 4));
        assert_eq!(report.examples.missing, [6, 7, 8, 9]);
    }
}
