//! Compares the topics of two clusters record by record, through librdkafka.
//!
//! The reader is librdkafka on purpose: checking our work with our own client would prove little.
//!
//! ```text
//! survey ──▶ census ──────────▶ sightings ────────────▶ tails ──────────────▶ report
//! offsets    every record into  records of the buckets  what differs, behind  verdict
//!            buckets            that differ             the cuts
//! ```
//!
//! What is compared: the committed records between the log start and the last stable offset (the cut), both noted at the
//! start, first on the source. Partitions are paired by number. Within a pair the order does not count, every field of a
//! record does: key, value, headers in their order, timestamp. Topics that are compacted on either side are compared by
//! the last value of each key. `docs/VERIFY.md` says what is told apart, and how.

mod census;
mod client;
mod digest;
mod error;
mod findings;
mod horizon;
mod plan;
mod progress;
mod reader;
mod record;
mod report;
mod scan;
mod sighting;
mod survey;
mod tail;

pub use client::Endpoint;
pub use digest::Digest;
pub use error::VerifyError;
pub use progress::{Bar, Progress};
pub use record::Basis;
pub use report::{Changed, Content, Examples, PartitionReport, Report, TopicReport, Verdict};

use std::time::Duration;

use census::Census;
use findings::Findings;
use plan::{Crowd, Pair, Selection};
use reader::{Part, Tally, Watch};
use scan::Scan;
use sighting::Sightings;
use survey::TopicSurvey;

use crate::limits::UNEXPLAINED_MAX;

/// What to compare with what.
pub struct Comparison {
    /// The cluster that the records came from.
    pub source: Endpoint,
    /// The cluster that they were copied to.
    pub target: Endpoint,
    /// The topics; at least one.
    pub topics: Vec<TopicPair>,
    /// How long to wait for records that the target lacks: it may be about to get them.
    pub wait: Duration,
    /// A header that does not count: what the copying has added on purpose.
    pub without_header: Option<&'static str>,
}

/// A topic and its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPair {
    /// Its name on the source.
    pub source: String,
    /// Its name on the target.
    pub target: String,
    /// Whether records may lie in other partitions there: then all partitions of a side are one set.
    pub is_mapped: bool,
}

impl TopicPair {
    /// A topic that has the same name on both clusters, and its records in the same partitions.
    pub fn same(name: &str) -> TopicPair {
        TopicPair { source: name.to_owned(), target: name.to_owned(), is_mapped: false }
    }

    fn names(&self) -> [&str; 2] {
        [&self.source, &self.target]
    }
}

/// Reads the topics on both clusters and reports how they differ.
///
/// Blocks until all is read, so a caller in an async context gives it a thread. `progress` is called on the calling
/// thread, every [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL) and once after each pass over some partitions.
/// Memory is bounded, whatever the number of records: by
/// [`BUCKETS_PER_ROUND_MAX`](crate::limits::BUCKETS_PER_ROUND_MAX), then by
/// [`RECORDS_PER_PASS_MAX`](crate::limits::RECORDS_PER_PASS_MAX), on each side.
/// Errors: a cluster that does not answer, refuses, or stops delivering. Differences are no errors.
pub fn verify(comparison: &Comparison, progress: &mut dyn FnMut(Progress)) -> Result<Report, VerifyError> {
    if comparison.topics.is_empty() {
        return Err(VerifyError::NoTopics);
    }
    let surveys = survey::survey(comparison)?;
    let watch = Watch::new();
    let counted = surveys.iter().filter(|survey| survey.basis == Basis::EveryRecord);
    watch.expect(counted.flat_map(TopicSurvey::pairs).map(Pair::len).fold(0, u64::saturating_add));

    let mut topics = Vec::new();
    for (topic, survey) in comparison.topics.iter().zip(&surveys) {
        let scan = Scan { comparison, topic, watch: &watch, progress };
        topics.push(Work { survey, scan, room: UNEXPLAINED_MAX }.run()?);
    }
    Ok(Report { topics })
}

/// The comparison of one topic.
struct Work<'a> {
    survey: &'a TopicSurvey,
    scan: Scan<'a>,
    /// How many more differences may be remembered.
    room: usize,
}

impl Work<'_> {
    fn run(mut self) -> Result<TopicReport, VerifyError> {
        let mut all = Vec::new();
        for round in plan::rounds(self.survey.pairs()) {
            let mut findings: Vec<Findings> = round.iter().map(|pair| self.unread(*pair)).collect();
            let crowded = match self.survey.basis {
                Basis::EveryRecord => self.census(&mut findings)?,
                Basis::LastPerKey => round.iter().map(|pair| (*pair, pair.all_buckets())).collect(),
            };
            let passes = plan::passes(&self.scan.topic.source, &crowded)?;
            for pass in &passes {
                self.scan.expect(pass.iter().map(|selection| selection.pair().len()).sum());
            }
            for pass in &passes {
                self.examine(pass, &mut findings)?;
            }
            all.append(&mut findings);
        }
        if self.scan.topic.is_mapped {
            findings::join(&self.scan.topic.source, &mut all)?;
        }
        let partitions = tail::explain(&mut self.scan, all)?;
        Ok(TopicReport::new(self.scan.topic, self.survey, partitions))
    }

    fn unread(&self, pair: Pair) -> Findings {
        Findings::new(self.survey.basis, pair, PartitionReport::unread(self.survey, pair.partition))
    }

    /// Counts all records, and finds the buckets that differ.
    fn census(&mut self, findings: &mut [Findings]) -> Result<Vec<(Pair, Vec<Crowd>)>, VerifyError> {
        let pairs: Vec<Pair> = findings.iter().map(Findings::pair).collect();
        let parts = parts(pairs.iter().map(|pair| (*pair, || Census::new(pair.bucket_count()))));
        let [source, target] = self.scan.both(parts)?;
        let mut crowded = Vec::new();
        for (findings, (source, target)) in findings.iter_mut().zip(source.iter().zip(&target)) {
            findings.count([source.content(), target.content()]);
            crowded.push((findings.pair(), source.differing(target)));
        }
        Ok(crowded)
    }

    /// Compares the records of some buckets one by one.
    fn examine(&mut self, pass: &[Selection], findings: &mut [Findings]) -> Result<(), VerifyError> {
        let basis = self.survey.basis;
        let parts = parts(pass.iter().map(|selection| (selection.pair(), || Sightings::new(basis, selection))));
        let [source, target] = self.scan.both(parts)?;
        for (selection, (source, target)) in pass.iter().zip(source.iter().zip(&target)) {
            let found = findings.iter_mut().find(|findings| findings.pair() == selection.pair());
            let found = found.expect("a pass selects from the partitions of its round");
            if basis == Basis::LastPerKey {
                found.count([source.content(), target.content()]);
            }
            found.compare([source, target], &mut self.room);
        }
        Ok(())
    }
}

/// The parts of source and target, with a tally of its own for each.
fn parts<T: Tally>(pairs: impl Iterator<Item = (Pair, impl Fn() -> T)>) -> [Vec<Part<T>>; 2] {
    let mut parts = [Vec::new(), Vec::new()];
    for (pair, tally) in pairs {
        for (parts, span) in parts.iter_mut().zip(pair.spans) {
            parts.push(Part { partition: pair.partition, span, tally: tally() });
        }
    }
    parts
}
