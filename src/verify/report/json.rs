//! The report as JSON. Its field names are promised in `docs/VERIFY.md`.

use serde_json::{Value, json};

use super::{Changed, Content, PartitionReport, Report, TopicReport, Verdict};
use crate::verify::record::Basis;

impl Report {
    /// The report as a JSON object, as `docs/VERIFY.md` describes it.
    pub fn json(&self) -> Value {
        let topics: Vec<Value> = self.topics.iter().map(topic).collect();
        json!({ "verdict": verdict(self.verdict()), "totals": counts(&self.totals()), "topics": topics })
    }
}

fn topic(report: &TopicReport) -> Value {
    let partitions: Vec<Value> = report.partitions.iter().map(partition).collect();
    json!({
        "source_topic": report.topic.source,
        "target_topic": report.topic.target,
        "source_partitions": report.source_partitions,
        "target_partitions": report.target_partitions,
        "compared": match report.basis {
            Basis::EveryRecord => "every_record",
            Basis::LastPerKey => "last_per_key",
        },
        "verdict": verdict(report.verdict()),
        "totals": counts(&report.totals()),
        "partitions": partitions,
    })
}

fn partition(report: &PartitionReport) -> Value {
    let changed = report.examples.changed.iter();
    let changed: Vec<Value> = changed.map(|Changed { source_offset, target_offset }| {
        json!({ "source_offset": source_offset, "target_offset": target_offset })
    }).collect();
    let mut value = counts(report);
    value["partition"] = json!(report.partition);
    value["verdict"] = json!(verdict(report.verdict()));
    value["examples"] = json!({
        "missing_source_offsets": report.examples.missing,
        "extra_target_offsets": report.examples.extra,
        "duplicate_target_offsets": report.examples.duplicates,
        "changed": changed,
    });
    value
}

fn counts(report: &PartitionReport) -> Value {
    json!({
        "source": content(&report.source),
        "target": content(&report.target),
        "missing": report.missing,
        "extra": report.extra,
        "duplicates": report.duplicates,
        "changed": report.changed,
        "unexplained": report.unexplained,
    })
}

fn content(content: &Content) -> Value {
    json!({
        "records": content.record_count,
        "digest": content.digest.to_string(),
        "undecided_offsets": content.undecided,
        "behind": content.behind,
        "expired": content.expired,
    })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Complete => "complete",
        Verdict::CompleteWithDuplicates => "complete_with_duplicates",
        Verdict::Different => "different",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::TopicPair;
    use crate::verify::report::Examples;

    #[test]
    fn field_names_are_stable() {
        let partition = PartitionReport {
            partition: 3,
            source: Content { record_count: 7, ..Content::default() },
            target: Content { record_count: 6, behind: 1, expired: 2, undecided: 4, ..Content::default() },
            missing: 1,
            changed: 1,
            examples: Examples {
                missing: vec![5],
                changed: vec![Changed { source_offset: 1, target_offset: 2 }],
                ..Examples::default()
            },
            ..PartitionReport::default()
        };
        let topic = TopicReport {
            topic: TopicPair { source: "orders".into(), target: "copies".into(), is_mapped: false },
            basis: Basis::LastPerKey,
            source_partitions: Some(4),
            target_partitions: None,
            partitions: vec![partition],
        };
        let zeros = "0".repeat(32);
        let counts = json!({
            "source": { "records": 7, "digest": zeros, "undecided_offsets": 0, "behind": 0, "expired": 0 },
            "target": { "records": 6, "digest": zeros, "undecided_offsets": 4, "behind": 1, "expired": 2 },
            "missing": 1, "extra": 0, "duplicates": 0, "changed": 1, "unexplained": 0,
        });
        let mut partition = counts.clone();
        partition["partition"] = json!(3);
        partition["verdict"] = json!("different");
        partition["examples"] = json!({
            "missing_source_offsets": [5],
            "extra_target_offsets": [],
            "duplicate_target_offsets": [],
            "changed": [{ "source_offset": 1, "target_offset": 2 }],
        });
        let expected = json!({
            "verdict": "different",
            "totals": counts,
            "topics": [{
                "source_topic": "orders",
                "target_topic": "copies",
                "source_partitions": 4,
                "target_partitions": null,
                "compared": "last_per_key",
                "verdict": "different",
                "totals": counts,
                "partitions": [partition],
            }],
        });
        assert_eq!(Report { topics: vec![topic] }.json(), expected);
    }
}
