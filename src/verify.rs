//! Compares the topics of two clusters record by record, through librdkafka.
//!
//! The reader is librdkafka on purpose: checking our work with our own client would prove little.
//!
//! ```text
//! survey ──▶ plan ──▶ read both sides ──▶ compare ──▶ report
//! offsets    rounds   hash every record   multisets   verdict
//! ```
//!
//! What is compared: the committed records between the log start and the last stable offset, both noted at the start.
//! Partitions are paired by number. Within a pair the order does not count, every field of a record does: key, value,
//! headers in their order, timestamp. Topics that are compacted on either side are compared by the last value of each key.

mod client;
mod digest;
mod error;
mod multiset;
mod plan;
mod progress;
mod reader;
mod report;
mod survey;
mod tally;

pub use client::Endpoint;
pub use digest::Digest;
pub use error::VerifyError;
pub use progress::{Bar, Progress};
pub use report::{Content, PartitionReport, Report, TopicReport, Verdict};
pub use tally::Basis;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use multiset::Multiset;
use plan::Round;
use reader::{Reading, Watch};
use survey::TopicSurvey;

use crate::limits::PROGRESS_INTERVAL;

/// What to compare with what.
pub struct Comparison {
    /// The cluster that the records came from.
    pub source: Endpoint,
    /// The cluster that they were copied to.
    pub target: Endpoint,
    /// The topics, by the name that they have on both clusters; at least one.
    pub topics: Vec<String>,
}

/// Reads the topics on both clusters and reports how they differ.
///
/// Blocks until all is read, so a caller in an async context gives it a thread. `progress` is called on the calling
/// thread, every [`PROGRESS_INTERVAL`] and once after each round of partitions.
/// Memory is bounded by [`RECORDS_PER_ROUND_MAX`](crate::limits::RECORDS_PER_ROUND_MAX) hashes for each side.
/// Errors: a cluster that does not answer, refuses, or stops delivering. Differences are no errors.
pub fn verify(comparison: &Comparison, progress: &mut dyn FnMut(Progress)) -> Result<Report, VerifyError> {
    if comparison.topics.is_empty() {
        return Err(VerifyError::NoTopics);
    }
    let topics = survey::survey(comparison)?;
    let plans = topics.iter().map(plan::rounds).collect::<Result<Vec<_>, _>>()?;
    let watch = Watch::new(plans.iter().flatten().map(Round::offset_count).sum());

    let mut report = Report { topics: Vec::new() };
    for (topic, rounds) in topics.into_iter().zip(plans) {
        let mut outcome = TopicReport::unread(&topic);
        for round in &rounds {
            let work = Work { comparison, topic: &topic, round, watch: &watch };
            work.run(&mut outcome, progress)?;
        }
        report.topics.push(outcome);
    }
    Ok(report)
}

/// One round of one topic: its partitions on both sides.
struct Work<'a> {
    comparison: &'a Comparison,
    topic: &'a TopicSurvey,
    round: &'a Round,
    watch: &'a Watch,
}

impl Work<'_> {
    fn run(&self, outcome: &mut TopicReport, progress: &mut dyn FnMut(Progress)) -> Result<(), VerifyError> {
        let [source, target] = self.read_both(progress)?;
        for (pair, (source, target)) in self.round.pairs.iter().zip(source.iter().zip(&target)) {
            outcome.add(pair.partition, source, target);
        }
        Ok(())
    }

    /// Reads both sides at once; the first error stops the other side.
    fn read_both(&self, progress: &mut dyn FnMut(Progress)) -> Result<[Vec<Multiset>; 2], VerifyError> {
        let readings = [
            self.reading(&self.comparison.source, |pair| pair.source),
            self.reading(&self.comparison.target, |pair| pair.target),
        ];
        thread::scope(|scope| {
            let (done, results) = mpsc::channel();
            for (side, reading) in readings.into_iter().enumerate() {
                let done = done.clone();
                scope.spawn(move || {
                    // The receiver leaves early only after an error, and then nobody needs this result.
                    let _ = done.send((side, reading.read(self.watch)));
                });
            }
            drop(done);
            let mut contents = [Vec::new(), Vec::new()];
            loop {
                match results.recv_timeout(PROGRESS_INTERVAL) {
                    Ok((side, Ok(content))) => contents[side] = content,
                    Ok((_, Err(error))) => {
                        self.watch.stop();
                        return Err(error);
                    }
                    Err(RecvTimeoutError::Timeout) => progress(self.progress()),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            progress(self.progress());
            Ok(contents)
        })
    }

    fn reading<'a>(&'a self, endpoint: &'a Endpoint, side: impl Fn(&plan::Pair) -> plan::Span) -> Reading<'a> {
        let pairs = self.round.pairs.iter();
        Reading {
            endpoint,
            topic: &self.topic.name,
            basis: self.topic.basis,
            slice: self.round.slice,
            spans: pairs.map(|pair| (pair.partition, side(pair))).collect(),
        }
    }

    fn progress(&self) -> Progress {
        Progress { read: self.watch.read(), total: self.watch.total(), topic: self.topic.name.clone() }
    }
}
