//! What is looked at on the target: transactions, the topics that are written, and what they do to records.

use super::source::{SourceTopic, count, forbidden};
use super::{Finding, Verdict, is_forbidden, named, refusal};
use crate::flow::Flow;
use crate::sink::kafka::identity::prefix;
use crate::wire::admin::{Configs, Mode, NewTopic, configs_of_topics, create_topic};
use crate::wire::client::TopicInfo;
use crate::wire::probe::{Operation, allowed, may_write_transactions};
use crate::wire::{Client, Code, WireError};

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

/// Looks at the target for what comes from these topics.
pub(super) async fn look(client: &mut Client, flow: &Flow, sources: &[SourceTopic]) -> Result<Vec<Finding>, WireError> {
    let mut findings = vec![transactions(client, flow).await?];
    let names: Vec<String> = sources.iter().map(|topic| topic.info.name.clone()).collect();
    let mut existing = vec![];
    for ((name, found), source) in client.topics(&names).await?.into_iter().zip(sources) {
        let subject = format!("target topic {name}");
        match found {
            Ok(info) => {
                findings.extend(partitions(&subject, (&source.info, &info), client.cluster()));
                existing.push((info, source));
            }
            Err(error) if error.code() == Some(Code::UnknownTopicOrPartition) => {
                findings.push(missing(client, &subject, &source.info).await?);
            }
            Err(error) => findings.extend(refusal(&subject, Err(error))?),
        }
    }
    let names: Vec<String> = existing.iter().map(|(info, _)| info.name.clone()).collect();
    let forbidden = forbidden(&allowed(client, &names).await?, Operation::Write);
    if !forbidden.is_empty() {
        let says = format!("cluster {}: grant WRITE on the topics {}", client.cluster(), named(&forbidden));
        findings.push(Finding::new("target topics", Verdict::NotPermitted, says));
    }
    for ((info, source), configs) in existing.iter().zip(configs_of_topics(client, &names, &LOOKED_AT).await?) {
        let subject = format!("target topic {}", info.name);
        match configs {
            Ok(configs) => findings.extend(judge_configs(&subject, &source.configs, &configs)),
            Err(error) if is_forbidden(&error) => {
                let says = format!("{error}: its max.message.bytes is taken to be Kafka's default");
                findings.push(Finding::new(subject, Verdict::Note, says));
            }
            Err(error) => return Err(error),
        }
    }
    findings.push(Finding::new("target topics", Verdict::Fine, format!("{} there", count(existing.len(), "topic"))));
    Ok(findings)
}

async fn transactions(client: &mut Client, flow: &Flow) -> Result<Finding, WireError> {
    let subject = "target transactions";
    let version = client.anybody().await?.require("transaction.version", 2);
    if let Some(finding) = refusal(subject, version)? {
        return Ok(finding);
    }
    let answer = may_write_transactions(client, &format!("{}check", prefix(&flow.name))).await;
    let fine = || Finding::new(subject, Verdict::Fine, format!("version 2, under {}*", prefix(&flow.name)));
    Ok(refusal(subject, answer)?.unwrap_or_else(fine))
}

/// A target may have more partitions than its source.
fn partitions(subject: &str, (source, target): (&TopicInfo, &TopicInfo), cluster: &str) -> Option<Finding> {
    let (wanted, found) = (source.leaders.len(), target.leaders.len());
    let says = || {
        format!(
            "has {found} of the {wanted} partitions of its source on cluster {cluster}: what has none is held until there are more"
        )
    };
    (found < wanted).then(|| Finding::new(subject, Verdict::Warning, says()))
}

async fn missing(client: &mut Client, subject: &str, source: &TopicInfo) -> Result<Finding, WireError> {
    let partitions = i32::try_from(source.leaders.len()).unwrap_or(i32::MAX);
    let topic = NewTopic { name: source.name.clone(), partitions, configs: Configs::new() };
    let fine = || Finding::new(subject, Verdict::Note, format!("run creates it, with {partitions} partitions"));
    Ok(refusal(subject, create_topic(client, &topic, Mode::Validate).await)?.unwrap_or_else(fine))
}

/// What a target's configs do to records that its source has (pure).
fn judge_configs(subject: &str, source: &Configs, target: &Configs) -> Vec<Finding> {
    let mut findings = vec![];
    let mut warn = |says: String| findings.push(Finding::new(subject, Verdict::Warning, says));
    let number = |configs: &Configs, name: &str| configs.get(name).and_then(|value| value.parse::<i64>().ok());
    let sizes = (number(source, "max.message.bytes"), number(target, "max.message.bytes"));
    if let (Some(source), Some(target)) = sizes
        && target < source
    {
        warn(format!(
            "max.message.bytes is {target}, and {source} at the source: larger batches are taken apart, and a larger record is held; \
             raise it to {source}"
        ));
    }
    if target.get("message.timestamp.type").is_some_and(|kind| kind == "LogAppendTime") {
        warn("message.timestamp.type is LogAppendTime: the time of copying takes the place of a record's own; set CreateTime".to_owned());
    }
    for (name, default) in TIME_BOUNDS {
        if let Some(bound) = number(target, name).filter(|bound| *bound < default) {
            warn(format!(
                "{name} is {bound}: records with times beyond it are refused, and held; raise it to {default}"
            ));
        }
    }
    if let Some(codec) = target.get("compression.type").filter(|codec| *codec != "producer") {
        warn(format!(
            "compression.type is {codec}: the broker compresses anew whatever comes with another codec; set producer to save its CPU"
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> Configs {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
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
        assert_eq!(judge_configs("t", &Configs::new(), &Configs::new()), []);
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
