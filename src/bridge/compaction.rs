//! Compacted topics: copied only where the flow allows it.
//!
//! A share group knows no order between deliveries, so an older value of a key may arrive after a newer one, and compaction on the
//! target would keep the older one for ever. A flow that names a compacted topic is refused at its start; a topic that becomes one
//! later is not acquired from any more, while the others flow.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use crate::config::FlowConfig;
use crate::health::Health;
use crate::limits::{NAMED_TOPICS_MAX, POLICIES_EVERY};
use crate::source::share::Admitted;
use crate::wire::admin::config_of_topics;
use crate::wire::backoff::Backoff;
use crate::wire::{Client, Code, WireError};

/// Kafka's topic config that says whether a topic is compacted.
const POLICY: &str = "cleanup.policy";

/// A flow whose topics are compacted, which it does not allow.
#[derive(Debug, thiserror::Error)]
#[error(
    "flow {flow}: compacted on cluster {cluster} ({POLICY} has compact): {topics}. A share group keeps no order, so that an older value \
     of a key may arrive after a newer one, and compaction would keep the older one. Set allow.unordered.compacted = true in \
     [flows.{flow}] to accept that, or take the topic out of topics.names and leave it to a tool that keeps the order of a partition"
)]
pub struct Compacted {
    flow: String,
    cluster: String,
    topics: String,
}

/// What the policies of a flow's topics mean for it.
#[derive(Debug, Default)]
struct Survey {
    /// Topics to acquire from, by their ids.
    admitted: BTreeSet<Uuid>,
    /// Topics that are compacted.
    compacted: Vec<String>,
    /// Topics whose policy the cluster does not tell.
    unknown: Vec<(String, WireError)>,
}

/// Looks at all topics until the cluster answers; returns from which of them records may be acquired.
pub async fn admit(flow: &FlowConfig, health: &Health) -> Result<watch::Sender<Admitted>, Compacted> {
    let mut client = Client::new(flow.source.clone());
    let mut backoff = Backoff::default();
    loop {
        match survey(&mut client, flow).await {
            Ok(survey) if survey.compacted.is_empty() => {
                health.well("policies");
                tell(&survey, flow, health);
                return Ok(watch::Sender::new(Arc::new(survey.admitted)));
            }
            Ok(survey) => return Err(refusal(flow, &survey.compacted)),
            Err(error) => health.trouble("policies", error),
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Looks again from time to time, for topics that appear, are created anew, or get another policy. Never ends.
pub async fn keep(flow: FlowConfig, admitted: watch::Sender<Admitted>, health: Health) {
    let mut client = Client::new(flow.source.clone());
    loop {
        tokio::time::sleep(POLICIES_EVERY).await;
        match survey(&mut client, &flow).await {
            Ok(survey) => {
                tell(&survey, &flow, &health);
                let found = Arc::new(survey.admitted);
                admitted.send_if_modified(|known| std::mem::replace(known, found.clone()) != found);
            }
            // The lanes tell when the cluster is out of reach.
            Err(error) => tracing::debug!(flow = flow.name, %error, "policies of topics unknown"),
        }
    }
}

/// Ids first, policies second: a topic that is deleted and created again in between has an id that is not admitted yet.
async fn survey(client: &mut Client, flow: &FlowConfig) -> Result<Survey, WireError> {
    let topics = client.topics(&flow.topics.names.iter().cloned().collect::<Vec<_>>()).await?;
    let existing: Vec<(String, Uuid)> =
        topics.into_iter().filter_map(|(name, topic)| Some((name, topic.ok()?.id))).collect();
    if flow.allow_unordered_compacted {
        return Ok(Survey { admitted: existing.into_iter().map(|(_, id)| id).collect(), ..Survey::default() });
    }
    let names: Vec<String> = existing.iter().map(|(name, _)| name.clone()).collect();
    let policies = config_of_topics(client, &names, POLICY).await?;
    Ok(judge(existing.into_iter().zip(policies)))
}

/// Judges topics by their policies (pure).
fn judge(topics: impl Iterator<Item = ((String, Uuid), Result<String, WireError>)>) -> Survey {
    let mut survey = Survey::default();
    for ((name, id), policy) in topics {
        match policy {
            Ok(policy) if policy.split(',').any(|word| word.trim() == "compact") => survey.compacted.push(name),
            Ok(_) => {
                survey.admitted.insert(id);
            }
            // Deleted meanwhile.
            Err(error) if error.code() == Some(Code::UnknownTopicOrPartition) => {}
            Err(error) => survey.unknown.push((name, error)),
        }
    }
    survey
}

fn tell(survey: &Survey, flow: &FlowConfig, health: &Health) {
    let subject = |topic: &str| format!("policy of topic {topic}");
    for topic in &survey.compacted {
        let reason = format!(
            "the topic is compacted on cluster {} now ({POLICY} has compact), and a share group keeps no order: nothing is acquired from \
             it until its policy is changed back, or allow.unordered.compacted = true is set in [flows.{}]",
            flow.source.name, flow.name
        );
        health.trouble(subject(topic), reason);
    }
    for (topic, error) in &survey.unknown {
        let reason = format!(
            "{error}: nothing is acquired from the topic while it may be compacted, unless allow.unordered.compacted = true is set in \
             [flows.{}]",
            flow.name
        );
        health.trouble(subject(topic), reason);
    }
    let is_told = |topic: &&String| {
        survey.compacted.contains(topic) || survey.unknown.iter().any(|(unknown, _)| unknown == *topic)
    };
    flow.topics.names.iter().filter(|topic| !is_told(topic)).for_each(|topic| health.well(subject(topic)));
}

fn refusal(flow: &FlowConfig, compacted: &[String]) -> Compacted {
    let named = compacted.iter().take(NAMED_TOPICS_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let topics = match compacted.len().saturating_sub(NAMED_TOPICS_MAX) {
        0 => format!("topic {named}"),
        more => format!("topics {named} and {more} more"),
    };
    Compacted { flow: flow.name.clone(), cluster: flow.source.name.clone(), topics }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::wire::error::Place;

    fn flow() -> FlowConfig {
        let text = "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\n\
                    source.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t0', 't1', 't2', 't3', 't4']\n";
        Config::parse(std::path::Path::new("f.toml"), text).expect("the file is good").flows.remove(0)
    }

    fn answered(code: Code) -> WireError {
        let place = Place { cluster: "a".into(), address: "a:1".into() };
        WireError::Answered { place, api: "DescribeConfigs", what: "topic".into(), code, message: None }
    }

    fn judged(policies: Vec<Result<&str, Code>>) -> Survey {
        let topic = |(number, policy): (usize, Result<&str, Code>)| {
            ((format!("t{number}"), Uuid::from_u128(number as u128)), policy.map(str::to_owned).map_err(answered))
        };
        judge(policies.into_iter().enumerate().map(topic))
    }

    #[test]
    fn only_topics_that_are_known_not_to_be_compacted_are_admitted() {
        let survey = judged(vec![
            Ok("delete"),
            Ok("compact"),
            Ok("delete, compact"),
            Ok(""),
            Err(Code::UnknownTopicOrPartition),
            Err(Code::TopicAuthorizationFailed),
        ]);
        assert_eq!(survey.admitted, [0, 3].map(Uuid::from_u128).into());
        assert_eq!(survey.compacted, ["t1", "t2"]);
        assert_eq!(survey.unknown.len(), 1);
        assert_eq!(survey.unknown[0].0, "t5");
    }

    #[test]
    fn a_compacted_topic_is_told_until_its_policy_is_changed_back() {
        let (flow, health) = (flow(), Health::default());
        tell(&judged(vec![Ok("delete"), Ok("compact"), Err(Code::TopicAuthorizationFailed)]), &flow, &health);
        let subjects: Vec<String> = health.troubles().into_iter().map(|(subject, _)| subject).collect();
        assert_eq!(subjects, ["policy of topic t1", "policy of topic t2"]);
        tell(&judged(vec![Ok("delete"), Ok("delete"), Ok("delete")]), &flow, &health);
        assert!(health.troubles().is_empty());
    }

    #[test]
    fn a_refusal_names_the_topics_and_both_ways_out() {
        let many: Vec<String> = (0..NAMED_TOPICS_MAX + 2).map(|number| format!("t{number}")).collect();
        let words = refusal(&flow(), &many).to_string();
        for word in ["flow f", "cluster a", "t0, t1", "and 2 more", "allow.unordered.compacted = true", "topics.names"]
        {
            assert!(words.contains(word), "{word} is not in: {words}");
        }
        assert!(refusal(&flow(), &many[..1]).to_string().contains("topic t0."));
    }
}
