//! What was found, and how it prints.

mod table;

use super::digest::Digest;
use super::multiset::Multiset;
use super::survey::{TopicSurvey, extent};
use super::tally::Basis;

/// The judgement over a partition, a topic or all of them; ordered, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Both sides hold the same records equally often.
    Complete,
    /// The target holds all records of the source, some of them more often, and no others.
    CompleteWithDuplicates,
    /// A record is missing or extra, or a side lacks the topic.
    Different,
}

/// The outcome of a comparison.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the comparison.
    pub topics: Vec<TopicReport>,
}

/// The outcome for one topic.
#[derive(Clone, Debug)]
pub struct TopicReport {
    /// Name of the topic.
    pub topic: String,
    /// Which of its records were compared.
    pub basis: Basis,
    /// Partitions on the source; `None` if the topic does not exist there.
    pub source_partitions: Option<usize>,
    /// Partitions on the target; `None` if the topic does not exist there.
    pub target_partitions: Option<usize>,
    /// By ascending number, every partition that a side has.
    pub partitions: Vec<PartitionReport>,
}

/// The outcome for one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionReport {
    /// Number of the partition, the same on both sides.
    pub partition: i32,
    /// What the source holds.
    pub source: Content,
    /// What the target holds.
    pub target: Content,
    /// Copies that the source has and the target lacks.
    pub missing: u64,
    /// Records on the target that the source does not have.
    pub extra: u64,
    /// Copies on the target beyond the number on the source, of records that the source has.
    pub duplicates: u64,
}

/// What one side holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Records that were compared.
    pub record_count: u64,
    /// Digest over these records.
    pub digest: Digest,
    /// Offsets behind an open transaction, which were not compared.
    pub undecided: u64,
}

impl Report {
    /// The worst of all topics.
    pub fn verdict(&self) -> Verdict {
        worst(self.topics.iter().map(TopicReport::verdict))
    }

    /// All topics added up; the partition number means nothing.
    pub fn totals(&self) -> PartitionReport {
        let totals = self.topics.iter().map(TopicReport::totals);
        totals.fold(PartitionReport::default(), PartitionReport::plus)
    }
}

impl TopicReport {
    pub(super) fn unread(survey: &TopicSurvey) -> TopicReport {
        let partitions = survey.pairs().map(|pair| {
            let mut report = PartitionReport { partition: pair.partition, ..Default::default() };
            report.source.undecided = extent(&survey.source, pair.partition).undecided;
            report.target.undecided = extent(&survey.target, pair.partition).undecided;
            report
        });
        TopicReport {
            topic: survey.name.clone(),
            basis: survey.basis,
            source_partitions: survey.source.as_ref().map(|extents| extents.len()),
            target_partitions: survey.target.as_ref().map(|extents| extents.len()),
            partitions: partitions.collect(),
        }
    }

    /// Adds what a round found in a partition.
    pub(super) fn add(&mut self, partition: i32, source: &Multiset, target: &Multiset) {
        let difference = source.compare(target);
        let found = PartitionReport {
            partition,
            source: Content::of(source),
            target: Content::of(target),
            missing: difference.missing,
            extra: difference.extra,
            duplicates: difference.duplicates,
        };
        let report = self.partitions.iter_mut().find(|report| report.partition == partition);
        let report = report.expect("rounds are made from the same survey as this report");
        *report = report.plus(found);
    }

    /// The worst of its partitions; different if a side lacks the topic.
    pub fn verdict(&self) -> Verdict {
        if self.source_partitions.is_none() || self.target_partitions.is_none() {
            return Verdict::Different;
        }
        worst(self.partitions.iter().map(PartitionReport::verdict))
    }

    /// All partitions added up; the partition number means nothing.
    pub fn totals(&self) -> PartitionReport {
        let partitions = self.partitions.iter().copied();
        partitions.fold(PartitionReport::default(), PartitionReport::plus)
    }
}

impl PartitionReport {
    /// The judgement over this partition.
    pub fn verdict(&self) -> Verdict {
        if self.missing > 0 || self.extra > 0 {
            Verdict::Different
        } else if self.duplicates > 0 {
            Verdict::CompleteWithDuplicates
        } else {
            Verdict::Complete
        }
    }

    fn plus(self, other: PartitionReport) -> PartitionReport {
        PartitionReport {
            partition: self.partition,
            source: self.source.plus(other.source),
            target: self.target.plus(other.target),
            missing: self.missing + other.missing,
            extra: self.extra + other.extra,
            duplicates: self.duplicates + other.duplicates,
        }
    }
}

impl Content {
    fn of(multiset: &Multiset) -> Content {
        Content { record_count: multiset.record_count(), digest: multiset.digest(), undecided: 0 }
    }

    fn plus(mut self, other: Content) -> Content {
        self.record_count += other.record_count;
        self.digest.merge(other.digest);
        self.undecided += other.undecided;
        self
    }
}

fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts.max().unwrap_or(Verdict::Complete)
}
