//! What was written behind the cuts explains much of what differs between them: copies take time, and traffic goes on.

use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use super::error::VerifyError;
use super::findings::Findings;
use super::horizon::{Horizon, Oldest};
use super::plan::Span;
use super::reader::{Part, Tally, TooMany};
use super::record::{Basis, Fields, RecordHash, RecordHasher};
use super::report::PartitionReport;
use super::scan::Scan;
use super::survey::{Extent, Surveyor};
use crate::limits::PROGRESS_INTERVAL;

/// Looks for certain records, as often as they are wanted; for a record of their key on the basis of keys.
pub(super) struct Search {
    basis: Basis,
    hasher: RecordHasher,
    sought: HashMap<RecordHash, Sought>,
    /// Copies that are still to be found.
    open: u64,
}

#[derive(Default)]
struct Sought {
    wanted: u64,
    found: u64,
}

impl Search {
    pub(super) fn new(basis: Basis, wanted: impl Iterator<Item = (RecordHash, u64)>) -> Search {
        let mut search = Search { basis, hasher: RecordHasher::new(basis), sought: HashMap::new(), open: 0 };
        for (hash, copies) in wanted {
            let sought = search.sought.entry(name(basis, hash)).or_default();
            let wanted = match basis {
                Basis::EveryRecord => copies,
                Basis::LastPerKey => 1,
            };
            search.open += wanted.saturating_sub(sought.wanted);
            sought.wanted = sought.wanted.max(wanted);
        }
        search
    }

    /// Copies that were found, at most as many as were wanted.
    pub(super) fn found(&self, hash: RecordHash) -> u64 {
        self.sought.get(&name(self.basis, hash)).map_or(0, |sought| sought.found)
    }
}

/// What is looked for in order to find a record.
fn name(basis: Basis, hash: RecordHash) -> RecordHash {
    match basis {
        Basis::EveryRecord => hash,
        Basis::LastPerKey => RecordHash { content: 0, ..hash },
    }
}

impl Tally for Search {
    fn add(&mut self, _offset: i64, fields: &Fields<'_>) -> Result<(), TooMany> {
        let name = name(self.basis, self.hasher.hash(fields));
        if let Some(sought) = self.sought.get_mut(&name)
            && sought.found < sought.wanted
        {
            sought.found += 1;
            self.open -= 1;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.open == 0
    }
}

/// The part of a partition behind its cuts.
struct Tail {
    findings: Findings,
    /// By side, as what follows.
    searches: [Search; 2],
    /// Up to where was searched.
    ends: [i64; 2],
    log_starts: [i64; 2],
}

/// Explains the findings of a topic. Looks behind both cuts once, and again while something is missing on the target and
/// the comparison may wait.
pub(super) fn explain(scan: &mut Scan<'_>, findings: Vec<Findings>) -> Result<Vec<PartitionReport>, VerifyError> {
    let (clean, open): (Vec<Findings>, Vec<Findings>) = findings.into_iter().partition(Findings::is_clean);
    let mut reports: Vec<PartitionReport> = clean.into_iter().map(Findings::report).collect();
    if !open.is_empty() {
        let mut tails: Vec<Tail> = open.into_iter().map(Tail::new).collect();
        let begin = Instant::now();
        let comparison = scan.comparison;
        let surveyors = [Surveyor::connect(&comparison.source)?, Surveyor::connect(&comparison.target)?];
        loop {
            look(scan, &surveyors, &mut tails)?;
            if tails.iter().all(|tail| tail.searches[1].is_done()) || begin.elapsed() >= comparison.wait {
                break;
            }
            thread::park_timeout(PROGRESS_INTERVAL);
        }
        let horizons = horizons(scan, &tails)?;
        let explained = tails.into_iter().zip(horizons);
        reports.extend(explained.map(|(tail, horizons)| tail.findings.explain(tail.searches, horizons)));
        reports.sort_by_key(|report| report.partition);
    }
    Ok(reports)
}

/// Searches what has come behind the cuts since the last look.
fn look(scan: &mut Scan<'_>, surveyors: &[Surveyor<'_>; 2], tails: &mut [Tail]) -> Result<(), VerifyError> {
    let mut parts = [Vec::new(), Vec::new()];
    for tail in tails.iter_mut() {
        let pair = tail.findings.pair();
        for (side, surveyor) in surveyors.iter().enumerate() {
            let extent = match pair.exists[side] {
                true => surveyor.extent(scan.topic.names()[side], pair.partition)?,
                false => Extent::default(),
            };
            tail.log_starts[side] = extent.span.low;
            let span = Span { low: tail.ends[side], end: extent.span.end };
            tail.ends[side] = span.end.max(span.low);
            let idle = Search::new(Basis::EveryRecord, std::iter::empty());
            let tally = std::mem::replace(&mut tail.searches[side], idle);
            let span = if tally.is_done() { Span::default() } else { span };
            parts[side].push(Part { partition: pair.partition, span, tally });
        }
    }
    let [source, target] = scan.more(parts)?;
    for (tail, searches) in tails.iter_mut().zip(source.into_iter().zip(target)) {
        tail.searches = searches.into();
    }
    Ok(())
}

/// How far back both sides of each partition still reach.
fn horizons(scan: &mut Scan<'_>, tails: &[Tail]) -> Result<Vec<[Horizon; 2]>, VerifyError> {
    let parts = [0, 1].map(|side| {
        let parts = tails.iter().map(|tail| {
            let pair = tail.findings.pair();
            let low = tail.log_starts[side];
            // Where nothing was removed, nothing needs to be read.
            let span = if low == 0 { Span::default() } else { Span { low, end: pair.spans[side].end } };
            Part { partition: pair.partition, span, tally: Oldest::default() }
        });
        parts.collect()
    });
    let [source, target] = scan.more(parts)?;
    let oldest = source.into_iter().zip(target);
    let horizons = tails.iter().zip(oldest).map(|(tail, (source, target))| {
        let [source_start, target_start] = tail.log_starts;
        [Horizon::new(source_start, source.timestamp), Horizon::new(target_start, target.timestamp)]
    });
    Ok(horizons.collect())
}

impl Tail {
    fn new(findings: Findings) -> Tail {
        let ends = findings.pair().spans.map(|span| span.end);
        Tail { searches: findings.searches(), ends, log_starts: [0; 2], findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(key: &'static [u8], value: &'static [u8]) -> Fields<'static> {
        Fields { key: Some(key), value: Some(value), ..Fields::default() }
    }

    #[test]
    fn as_many_copies_are_found_as_are_wanted() {
        let mut hasher = RecordHasher::new(Basis::EveryRecord);
        let [a, b] = [b"a", b"b"].map(|value| hasher.hash(&fields(b"k", value)));
        let mut search = Search::new(Basis::EveryRecord, [(a, 2), (b, 1)].into_iter());
        for _ in 0..3 {
            search.add(0, &fields(b"k", b"a")).unwrap();
        }
        search.add(0, &fields(b"k", b"c")).unwrap();
        assert_eq!((search.found(a), search.found(b), search.open), (2, 0, 1));
    }

    #[test]
    fn on_the_basis_of_keys_any_record_of_the_key_is_found() {
        let mut hasher = RecordHasher::new(Basis::LastPerKey);
        let [old, new] = [b"a", b"b"].map(|value| hasher.hash(&fields(b"k", value)));
        let other = hasher.hash(&fields(b"other", b"a"));
        let mut search = Search::new(Basis::LastPerKey, [(old, 1), (new, 1), (other, 1)].into_iter());
        search.add(0, &Fields { value: None, ..fields(b"k", b"") }).unwrap();
        assert_eq!((search.found(old), search.found(new), search.found(other), search.open), (1, 1, 0, 1));
    }
}
