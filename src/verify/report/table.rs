//! The report as text: a line for each topic, its partitions where they matter, notes, and the verdict last.

use std::fmt::{self, Display, Formatter};

use super::{Changed, Content, PartitionReport, Report, TopicReport, Verdict};
use crate::verify::TopicPair;
use crate::verify::record::Basis;

/// A single topic with at most this many partitions shows all of them.
const PARTITIONS_SHOWN_ALWAYS: usize = 8;

const HEAD: [&str; COLUMNS] =
    ["topic", "source", "target", "missing", "extra", "duplicates", "changed", "digest", "verdict"];
const COLUMNS: usize = 9;

/// The columns of numbers, which are aligned to the right.
const NUMBERS: std::ops::Range<usize> = 1..7;

enum Line {
    Row([String; COLUMNS]),
    Note(String),
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut lines = vec![Line::Row(HEAD.map(str::to_owned))];
        for topic in &self.topics {
            let all = self.topics.len() == 1 && topic.partitions.len() <= PARTITIONS_SHOWN_ALWAYS;
            topic_lines(topic, all, &mut lines);
        }
        write_lines(f, &lines)?;
        let totals = self.totals();
        write!(
            f,
            "verdict: {}: {} on the source, {} on the target, {} missing, {} extra, {} duplicates, {} changed",
            self.verdict(),
            records(totals.source.record_count),
            totals.target.record_count,
            totals.missing,
            totals.extra,
            totals.duplicates,
            totals.changed,
        )
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Complete => "complete",
            Verdict::CompleteWithDuplicates => "complete with duplicates",
            Verdict::Different => "different",
        })
    }
}

fn topic_lines(topic: &TopicReport, all_partitions: bool, lines: &mut Vec<Line>) {
    lines.push(row(title(&topic.topic), &topic.totals(), topic.verdict()));
    for partition in &topic.partitions {
        if all_partitions || partition.verdict() != Verdict::Complete {
            let name = format!("  partition {}", partition.partition);
            lines.push(row(name, partition, partition.verdict()));
            lines.extend(examples(partition).map(|example| Line::Note(format!("    {example}"))));
        }
    }
    let notes = notes(topic).into_iter();
    lines.extend(notes.map(|note| Line::Note(format!("  note: {note}"))));
}

fn title(topic: &TopicPair) -> String {
    if topic.source == topic.target { topic.source.clone() } else { format!("{} -> {}", topic.source, topic.target) }
}

/// A line for each kind of difference that there is, with the offsets of its first records.
fn examples(report: &PartitionReport) -> impl Iterator<Item = String> {
    let offsets = |offsets: &[i64]| offsets.iter().map(i64::to_string).collect::<Vec<_>>();
    let pair = |changed: &Changed| format!("{}/{}", changed.source_offset, changed.target_offset);
    let examples = &report.examples;
    let kinds = [
        ("missing, source", report.missing, offsets(&examples.missing)),
        ("extra, target", report.extra, offsets(&examples.extra)),
        ("duplicates, target", report.duplicates, offsets(&examples.duplicates)),
        ("changed, source/target", report.changed, examples.changed.iter().map(pair).collect()),
    ];
    kinds.into_iter().filter(|(_, _, offsets)| !offsets.is_empty()).map(|(kind, count, offsets)| {
        let more = if count > offsets.len() as u64 { ", ..." } else { "" };
        format!("{kind} offsets: {}{more}", offsets.join(", "))
    })
}

fn row(name: String, report: &PartitionReport, verdict: Verdict) -> Line {
    Line::Row([
        name,
        report.source.record_count.to_string(),
        report.target.record_count.to_string(),
        report.missing.to_string(),
        report.extra.to_string(),
        report.duplicates.to_string(),
        report.changed.to_string(),
        digests(&report.source, &report.target),
        verdict.to_string(),
    ])
}

/// Both digests, shortened, or the one that they share.
fn digests(source: &Content, target: &Content) -> String {
    if source.digest == target.digest {
        format!("{:.16}", source.digest)
    } else {
        format!("{:.8}/{:.8}", source.digest, target.digest)
    }
}

fn notes(topic: &TopicReport) -> Vec<String> {
    let mut notes = Vec::new();
    match (topic.source_partitions, topic.target_partitions) {
        (None, None) => notes.push("the topic exists on neither cluster".to_owned()),
        (None, Some(_)) => notes.push("the topic does not exist on the source".to_owned()),
        (Some(_), None) => notes.push("the topic does not exist on the target".to_owned()),
        (Some(source), Some(target)) if source != target => {
            notes.push(format!("{source} partitions on the source, {target} on the target; compared by number"))
        }
        (Some(_), Some(_)) => {}
    }
    if topic.basis == Basis::LastPerKey {
        notes.push("compacted: the last value of each key is compared".to_owned());
    }
    let totals = topic.totals();
    notes.extend(side_notes("source", "target", totals.source));
    notes.extend(side_notes("target", "source", totals.target));
    if totals.unexplained > 0 {
        notes.push(format!("{} of the differences were too many to be explained", totals.unexplained));
    }
    notes
}

fn side_notes(side: &str, other: &str, content: Content) -> impl Iterator<Item = String> {
    let notes = [
        (content.undecided, format!("offsets on the {side} are behind an open transaction and were not compared")),
        (content.behind, format!("records of the {other} came to the {side} after verify had begun")),
        (content.expired, format!("records of the {other} are older than what retention left on the {side}")),
    ];
    notes.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}"))
}

fn write_lines(f: &mut Formatter<'_>, lines: &[Line]) -> fmt::Result {
    let mut widths = [0; COLUMNS];
    for line in lines {
        if let Line::Row(cells) = line {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.len().max(*width);
            }
        }
    }
    // The last column needs no padding.
    widths[COLUMNS - 1] = 0;
    for line in lines {
        match line {
            Line::Note(note) => writeln!(f, "{note}")?,
            Line::Row(cells) => write_row(f, cells, &widths)?,
        }
    }
    Ok(())
}

fn write_row(f: &mut Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let gap = if column == 0 { "" } else { "  " };
        if NUMBERS.contains(&column) {
            write!(f, "{gap}{cell:>width$}")?;
        } else {
            write!(f, "{gap}{cell:width$}")?;
        }
    }
    writeln!(f)
}

fn records(count: u64) -> String {
    match count {
        1 => "1 record".to_owned(),
        _ => format!("{count} records"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(partition: i32, source: u64, target: u64) -> PartitionReport {
        let content = |record_count| Content { record_count, ..Content::default() };
        PartitionReport {
            partition,
            source: content(source),
            target: content(target),
            missing: source.saturating_sub(target),
            duplicates: target.saturating_sub(source),
            ..PartitionReport::default()
        }
    }

    fn topic(name: &str, partitions: Vec<PartitionReport>) -> TopicReport {
        TopicReport {
            topic: TopicPair::same(name),
            basis: Basis::EveryRecord,
            source_partitions: Some(partitions.len()),
            target_partitions: Some(partitions.len()),
            partitions,
        }
    }

    #[test]
    fn partitions_are_shown_where_they_differ() {
        let topics = vec![
            topic("orders", vec![partition(0, 5, 5), partition(1, 12, 11)]),
            topic("bills", vec![partition(0, 1, 3)]),
            topic("calm", vec![partition(0, 1, 1)]),
        ];
        let report = Report { topics };
        assert_eq!(report.verdict(), Verdict::Different);
        let expected = "\
topic          source  target  missing  extra  duplicates  changed  digest            verdict
orders             17      16        1      0           0        0  0000000000000000  different
  partition 1      12      11        1      0           0        0  0000000000000000  different
bills               1       3        0      0           2        0  0000000000000000  complete with duplicates
  partition 0       1       3        0      0           2        0  0000000000000000  complete with duplicates
calm                1       1        0      0           0        0  0000000000000000  complete
verdict: different: 19 records on the source, 20 on the target, 1 missing, 0 extra, 2 duplicates, 0 changed";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn examples_stand_below_their_partition() {
        let mut orders = topic("orders", vec![partition(0, 12, 11)]);
        orders.topic.target = "copies".into();
        let found = &mut orders.partitions[0];
        (found.missing, found.changed) = (2, 1);
        found.examples.missing = vec![3];
        found.examples.changed = vec![Changed { source_offset: 8, target_offset: 9 }];
        let text = Report { topics: vec![orders] }.to_string();
        assert!(text.contains("\norders -> copies "), "{text}");
        assert!(text.contains("\n    missing, source offsets: 3, ...\n"), "{text}");
        assert!(text.contains("\n    changed, source/target offsets: 8/9\n"), "{text}");
        assert!(!text.contains("extra, target"), "{text}");
    }

    #[test]
    fn what_a_reader_must_know_is_noted() {
        let mut orders = topic("orders", vec![partition(0, 2, 2)]);
        orders.target_partitions = Some(3);
        orders.basis = Basis::LastPerKey;
        orders.partitions[0].target.undecided = 4;
        orders.partitions[0].target.behind = 5;
        orders.partitions[0].source.expired = 6;
        let text = Report { topics: vec![orders] }.to_string();
        assert!(text.contains("  partition 0"), "a small single topic shows all: {text}");
        assert!(text.contains("note: 1 partitions on the source, 3 on the target"));
        assert!(text.contains("note: compacted"));
        assert!(text.contains("note: 4 offsets on the target are behind an open transaction"));
        assert!(text.contains("note: 5 records of the source came to the target after"));
        assert!(text.contains("note: 6 records of the target are older than what retention left on the source"));
        assert!(text.contains("verdict: complete: 2 records"));
    }

    #[test]
    fn a_topic_that_a_side_lacks_is_different_even_if_empty() {
        let mut orders = topic("orders", Vec::new());
        assert_eq!(orders.verdict(), Verdict::Complete);
        orders.target_partitions = None;
        assert_eq!(orders.verdict(), Verdict::Different);
        let text = Report { topics: vec![orders] }.to_string();
        assert!(text.contains("note: the topic does not exist on the target"));
    }
}
