//! What is looked at on the target: transactions, the topics that are written, and what they do to records.

use std::collections::HashMap;

use super::source::{count, forbidden, lacking, missing_right};
use super::{Finding, Verdict, is_refusal, refusal};
use crate::bridge::discovery::Seen;
use crate::bridge::discovery::apply::apply;
use crate::bridge::discovery::look::Target;
use crate::bridge::discovery::plan::Plan;
use crate::flow::Flow;
use crate::sink::kafka::identity::prefix;
use crate::wire::admin::Mode;
use crate::wire::probe::{Operation, allowed, may_write_transactions};
use crate::wire::topics::{Settings, settings};
use crate::wire::transaction::TransactionVersion;
use crate::wire::{Client, WireError};

/// Configs of a topic that matter to what is copied into it.
const LOOKED_AT: [&str; 5] = [
    "max.message.bytes",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "compression.type",
];

/// Bounds on the times of records, with Kafka's defaults, which only clocks that are wrong exceed.
const TIME_BOUNDS: [(&str, i64); 2] =
    [("message.timestamp.before.max.ms", i64::MAX), ("message.timestamp.after.max.ms", 3_600_000)];

/// Looks at the topics that are written, and has judged what is to be changed of them.
pub(super) async fn topics(client: &mut Client, seen: &Seen, plan: &Plan) -> Result<Vec<Finding>, WireError> {
    let targets = seen.targets.as_ref().map_err(Clone::clone)?;
    let mut findings = vec![];
    for (name, target) in targets {
        if let Target::Unknown(error) = target {
            findings.extend(refusal(&format!("target topic {name}"), Err(error.clone()))?);
        }
    }
    findings.extend(changes(client, seen, plan).await?);
    let mut existing: Vec<&str> = targets
        .iter()
        .filter(|(_, found)| matches!(found, Target::Present(_)))
        .map(|(name, _)| name.as_str())
        .collect();
    existing.sort_unstable();
    let names: Vec<String> = existing.iter().map(|name| (*name).to_owned()).collect();
    let forbidden = forbidden(&allowed(client, &names).await?, Operation::Write);
    findings.extend(missing_right(("target topics", "WRITE"), (client.cluster(), seen), &forbidden));
    findings.extend(configs(client, seen, &existing).await?);
    findings.push(Finding::new("target topics", Verdict::Fine, format!("{} there", count(existing.len(), "topic"))));
    Ok(findings)
}

/// Changes that are not allowed stop no data, except where a topic or partition is missing.
async fn changes(client: &mut Client, seen: &Seen, plan: &Plan) -> Result<Vec<Finding>, WireError> {
    let mut findings = vec![];
    let outcomes = apply(client, &plan.changes, Mode::Validate).await;
    for (change, outcome) in plan.changes.iter().zip(outcomes) {
        let subject = format!("target topic {}", change.topic());
        findings.push(match outcome {
            Ok(()) => Finding::new(subject, Verdict::Note, format!("run does this: {change}")),
            Err(error) if !is_refusal(&error) => return Err(error),
            Err(error) if change.is_needed() => {
                Finding::new(subject, lacking(seen, change.topic()), format!("{error}: {change}"))
            }
            Err(error) => {
                Finding::new(subject, Verdict::Warning, format!("{error}: its configs stay as they are ({change})"))
            }
        });
    }
    for (topic, difference) in &plan.left {
        let says = format!("set by hand and left alone: {difference}");
        findings.push(Finding::new(format!("target topic {topic}"), Verdict::Note, says));
    }
    Ok(findings)
}

async fn configs(client: &mut Client, seen: &Seen, existing: &[&str]) -> Result<Vec<Finding>, WireError> {
    let copied = seen.sorted.copied.iter();
    let sources: HashMap<&str, &Option<Settings>> =
        copied.map(|copied| (copied.target.as_str(), &copied.settings)).collect();
    let mut told = settings(client, existing, &LOOKED_AT).await?;
    let mut findings = vec![];
    for name in existing {
        let subject = format!("target topic {name}");
        let nothing = Settings::new();
        let source = sources.get(name).and_then(|own| own.as_ref()).unwrap_or(&nothing);
        match told.remove(*name) {
            Some(Ok(configs)) => findings.extend(judge_configs(&subject, source, &configs)),
            Some(Err(error)) if is_refusal(&error) => {
                let says = format!("{error}: its max.message.bytes is taken to be Kafka's default");
                findings.push(Finding::new(subject, Verdict::Note, says));
            }
            Some(Err(error)) => return Err(error),
            None => {}
        }
    }
    Ok(findings)
}

/// Looks at transactions: their version, and whether they may be written.
pub(in crate::bridge) async fn transactions(client: &mut Client, flow: &Flow) -> Result<Finding, WireError> {
    let subject = "target transactions";
    let level = client.anybody().await?.feature(TransactionVersion::FEATURE).await?;
    let version = TransactionVersion::of(level);
    let answer = may_write_transactions(client, &format!("{}check", prefix(&flow.name))).await;
    let fine = || Finding::new(subject, Verdict::Fine, format!("version {version}, under {}*", prefix(&flow.name)));
    Ok(refusal(subject, answer)?.unwrap_or_else(fine))
}

/// What a target's configs do to records that its source has (pure).
fn judge_configs(subject: &str, source: &Settings, target: &Settings) -> Vec<Finding> {
    let mut findings = vec![];
    let mut warn = |says: String| findings.push(Finding::new(subject, Verdict::Warning, says));
    let number = |configs: &Settings, name: &str| configs.get(name).and_then(|found| found.value.parse::<i64>().ok());
    let sizes = (number(source, "max.message.bytes"), number(target, "max.message.bytes"));
    if let (Some(source), Some(target)) = sizes
        && target < source
    {
        warn(format!(
            "max.message.bytes is {target}, and {source} at the source: larger batches are taken apart, and a larger record is held; \
             raise it to {source}"
        ));
    }
    if target.get("message.timestamp.type").is_some_and(|kind| kind.value == "LogAppendTime") {
        warn("message.timestamp.type is LogAppendTime: the time of copying takes the place of a record's own; set CreateTime".to_owned());
    }
    for (name, default) in TIME_BOUNDS {
        if let Some(bound) = number(target, name).filter(|bound| *bound < default) {
            warn(format!(
                "{name} is {bound}: records with times beyond it are refused, and held; raise it to {default}"
            ));
        }
    }
    if let Some(codec) = target.get("compression.type").map(|codec| &codec.value).filter(|codec| *codec != "producer") {
        warn(format!(
            "compression.type is {codec}: the broker compresses anew whatever comes with another codec; set producer to save its CPU"
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::topics::Setting;

    fn configs(pairs: &[(&'static str, &str)]) -> Settings {
        pairs.iter().map(|(name, value)| (*name, Setting { value: value.to_string(), is_own: false })).collect()
    }

    #[test]
    fn defaults_are_nothing_to_speak_of() {
        let defaults = configs(&[
            ("max.message.bytes", "1048588"),
            ("message.timestamp.type", "CreateTime"),
            ("message.timestamp.before.max.ms", "9223372036854775807"),
            ("message.timestamp.after.max.ms", "3600000"),
            ("compression.type", "producer"),
        ]);
        assert_eq!(judge_configs("t", &defaults, &defaults), []);
        assert_eq!(judge_configs("t", &Settings::new(), &Settings::new()), []);
    }

    #[test]
    fn each_config_that_changes_or_refuses_records_is_warned_about() {
        let source = configs(&[("max.message.bytes", "2000")]);
        for (name, value, remedy) in [
            ("max.message.bytes", "1999", "raise it to 2000"),
            ("message.timestamp.type", "LogAppendTime", "set CreateTime"),
            ("message.timestamp.before.max.ms", "86400000", "raise it to 9223372036854775807"),
            ("message.timestamp.after.max.ms", "1000", "raise it to 3600000"),
            ("compression.type", "zstd", "set producer"),
        ] {
            let found = judge_configs("target topic t", &source, &configs(&[(name, value)]));
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].verdict, Verdict::Warning);
            assert!(found[0].says.contains(name) && found[0].says.contains(remedy), "{}", found[0].says);
        }
    }
}
