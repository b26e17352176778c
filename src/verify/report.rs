//! What was found, and how it prints.

mod json;
mod table;

use super::TopicPair;
use super::digest::Digest;
use super::record::Basis;
use super::sighting::{Sighting, Surplus};
use super::survey::{TopicSurvey, extent};
use crate::limits::EXAMPLES_MAX;

/// The judgement over a partition, a topic or all of them; ordered, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Both sides hold the same records equally often, as far as retention has left them.
    Complete,
    /// The target holds all records of the source, some of them more often, and no others.
    CompleteWithDuplicates,
    /// A record is missing, extra or changed, or a side lacks the topic.
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
    /// The topic and its copy.
    pub topic: TopicPair,
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
///
/// Where retention did not interfere with the reading, both sides add up:
/// source records + source behind + source expired + extra + duplicates
/// = target records + target behind + target expired + missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Records that the target has with the same key and timestamp (on the basis of keys: the same key), but with another
    /// value or other headers. Records without a key are never changed: they are missing and extra.
    pub changed: u64,
    /// Those of the missing, extra, duplicated and changed ones that were too many to be looked for behind the cuts and behind
    /// retention. A changed one counts twice, as missing and as extra.
    pub unexplained: u64,
    /// Where some of these records are.
    pub examples: Examples,
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
    /// Records of the other side that this side has only behind its cut.
    pub behind: u64,
    /// Records of the other side that retention may have removed from this side.
    pub expired: u64,
}

/// Offsets of differing records, the lowest of each kind, at most [`EXAMPLES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// On the source.
    pub missing: Vec<i64>,
    /// On the target.
    pub extra: Vec<i64>,
    /// On the target.
    pub duplicates: Vec<i64>,
    /// On both.
    pub changed: Vec<Changed>,
}

/// Where a changed record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    /// Its offset on the source.
    pub source_offset: i64,
    /// Its offset on the target.
    pub target_offset: i64,
}

impl Report {
    /// The worst of all topics.
    pub fn verdict(&self) -> Verdict {
        worst(self.topics.iter().map(TopicReport::verdict))
    }

    /// All topics added up; the partition number means nothing, and there are no examples.
    pub fn totals(&self) -> PartitionReport {
        total(self.topics.iter().flat_map(|topic| &topic.partitions))
    }
}

impl TopicReport {
    pub(super) fn new(topic: &TopicPair, survey: &TopicSurvey, partitions: Vec<PartitionReport>) -> TopicReport {
        TopicReport {
            topic: topic.clone(),
            basis: survey.basis,
            source_partitions: survey.source.as_ref().map(|extents| extents.len()),
            target_partitions: survey.target.as_ref().map(|extents| extents.len()),
            partitions,
        }
    }

    /// The worst of its partitions; different if a side lacks the topic.
    pub fn verdict(&self) -> Verdict {
        if self.source_partitions.is_none() || self.target_partitions.is_none() {
            return Verdict::Different;
        }
        worst(self.partitions.iter().map(PartitionReport::verdict))
    }

    /// All partitions added up; the partition number means nothing, and there are no examples.
    pub fn totals(&self) -> PartitionReport {
        total(self.partitions.iter())
    }
}

impl PartitionReport {
    pub(super) fn unread(survey: &TopicSurvey, partition: i32) -> PartitionReport {
        let [source, target] = [&survey.source, &survey.target].map(|side| Content {
            undecided: extent(side, partition).unwrap_or_default().undecided,
            ..Content::default()
        });
        PartitionReport { partition, source, target, ..PartitionReport::default() }
    }

    /// The judgement over this partition.
    pub fn verdict(&self) -> Verdict {
        if self.missing > 0 || self.extra > 0 || self.changed > 0 {
            Verdict::Different
        } else if self.duplicates > 0 {
            Verdict::CompleteWithDuplicates
        } else {
            Verdict::Complete
        }
    }

    /// Adds copies that only one side has.
    pub(super) fn add(&mut self, surplus: Surplus, sighting: Sighting) {
        if sighting.copies == 0 {
            return;
        }
        let (count, examples) = match surplus {
            Surplus::Missing => (&mut self.missing, &mut self.examples.missing),
            Surplus::Extra => (&mut self.extra, &mut self.examples.extra),
            Surplus::Duplicate => (&mut self.duplicates, &mut self.examples.duplicates),
        };
        *count += sighting.copies;
        keep_lowest(examples, sighting.offset);
    }

    /// Takes the copies that are both missing and extra away, and adds them: both sides have them with another content.
    pub(super) fn take_changed(&mut self, missing: &mut Sighting, extra: &mut Sighting) {
        let copies = missing.copies.min(extra.copies);
        if copies == 0 {
            return;
        }
        missing.copies -= copies;
        extra.copies -= copies;
        self.changed += copies;
        let example = Changed { source_offset: missing.offset, target_offset: extra.offset };
        keep_lowest(&mut self.examples.changed, example);
    }
}

/// Adds an example while there are few, else in place of a higher one.
fn keep_lowest<T: Ord>(examples: &mut Vec<T>, example: T) {
    let place = examples.partition_point(|other| *other < example);
    if place < EXAMPLES_MAX {
        examples.insert(place, example);
        examples.truncate(EXAMPLES_MAX);
    }
}

impl Content {
    /// Adds what else is on the same side.
    pub(super) fn add(&mut self, other: Content) {
        self.record_count += other.record_count;
        self.digest.merge(other.digest);
        self.undecided += other.undecided;
        self.behind += other.behind;
        self.expired += other.expired;
    }
}

fn total<'a>(reports: impl Iterator<Item = &'a PartitionReport>) -> PartitionReport {
    let mut total = PartitionReport::default();
    for report in reports {
        total.source.add(report.source);
        total.target.add(report.target);
        total.missing += report.missing;
        total.extra += report.extra;
        total.duplicates += report.duplicates;
        total.changed += report.changed;
        total.unexplained += report.unexplained;
    }
    total
}

fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts.max().unwrap_or(Verdict::Complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_examples_are_kept() {
        let mut examples = Vec::new();
        for offset in (0..100).rev().chain([50]) {
            keep_lowest(&mut examples, offset);
        }
        assert_eq!(examples, (0..EXAMPLES_MAX as i32).collect::<Vec<_>>());
    }
}
