//! What is looked at on the source: share groups, the flow's own group, and its topics.

mod consumer;

use super::{Finding, Verdict, refusal};
use crate::bridge::compaction::{POLICY, some};
use crate::bridge::discovery::Seen;
use crate::bridge::discovery::judge::{Copied, Skip};
use crate::config::Protocol;
use crate::flow::Flow;
use crate::limits::SHARE_STATE_BROKERS;
use crate::source::share::group;
use crate::source::share::rewritten;
use crate::wire::admin::{Configs, Mode, Resource, describe_configs, set_group_configs};
use crate::wire::client::TopicInfo;
use crate::wire::probe::{Allowed, Operation, allowed, group_type, may_commit_offsets, may_join};
use crate::wire::share::ShareFetch;
use crate::wire::{Client, Code, WireError};

/// Kafka's topic with the state of share groups.
const STATE_TOPIC: &str = "__share_group_state";

/// Looks at the flow's group, and at share groups as such where it is one.
pub(super) async fn look(client: &mut Client, flow: &Flow) -> Result<Vec<Finding>, WireError> {
    match flow.protocol {
        Protocol::Share => share(client, flow).await,
        Protocol::Consumer => consumer::look(client, flow).await,
    }
}

async fn share(client: &mut Client, flow: &Flow) -> Result<Vec<Finding>, WireError> {
    let subject = "source share groups";
    let broker = client.anybody().await?;
    let mut findings = vec![];
    match group::check_broker(&broker).and_then(|()| broker.version_of::<ShareFetch>()) {
        Ok(version) => findings.push(Finding::new(subject, Verdict::Fine, format!("ShareFetch v{version}"))),
        Err(error) => return Ok(vec![Finding::new(subject, Verdict::NotPermitted, error.to_string())]),
    }
    findings.push(state_topic(client).await?);
    findings.extend(share_group(client, flow).await?);
    Ok(findings)
}

async fn state_topic(client: &mut Client) -> Result<Finding, WireError> {
    let brokers = client.brokers().await?.len();
    let mut topics = client.topics(&[STATE_TOPIC.to_owned()]).await?;
    Ok(judge_state_topic(topics.pop().map(|(_, found)| found), brokers))
}

fn judge_state_topic(found: Option<Result<TopicInfo, WireError>>, brokers: usize) -> Finding {
    let finding = |verdict, says| Finding::new("source share state", verdict, says);
    let is_missing = |error: &WireError| error.code() == Some(Code::UnknownTopicOrPartition);
    match found {
        Some(Ok(topic)) => {
            let leaderless = topic.leaders.iter().filter(|leader| leader.is_none()).count();
            let count = topic.leaders.len();
            match leaderless {
                0 => finding(Verdict::Fine, format!("{STATE_TOPIC} has {count} partitions, all with a leader")),
                _ => finding(
                    Verdict::Warning,
                    format!(
                        "{STATE_TOPIC}: {leaderless} of {count} partitions have no leader, and share groups whose state lies there stand \
                         still: see to the brokers that hold them"
                    ),
                ),
            }
        }
        Some(Err(error)) if is_missing(&error) && brokers < SHARE_STATE_BROKERS => finding(
            Verdict::Warning,
            format!(
                "{STATE_TOPIC} does not exist yet, and the cluster has {brokers} of the {SHARE_STATE_BROKERS} brokers that creating it takes \
                 by default: see that share.coordinator.state.topic.replication.factor of the brokers is not above their number"
            ),
        ),
        Some(Err(error)) if is_missing(&error) => {
            finding(Verdict::Note, format!("{STATE_TOPIC} does not exist yet: the first share group makes it"))
        }
        _ => finding(Verdict::Note, format!("{STATE_TOPIC} may not be described, which nothing needs")),
    }
}

async fn share_group(client: &mut Client, flow: &Flow) -> Result<Vec<Finding>, WireError> {
    let id = &flow.group.id;
    let subject = "source share group";
    if let Some(kind) = group_type(client, id).await?.filter(|kind| kind != "share") {
        let says = format!(
            "cluster {} has a {kind} group {id}: choose another share.group.id, or delete that group if nobody needs it",
            client.cluster()
        );
        return Ok(vec![Finding::new(subject, Verdict::Misconfigured, says)]);
    }
    let mut findings = vec![];
    findings.extend(refusal(subject, may_join(client, id).await)?);
    findings.extend(refusal(subject, may_commit_offsets(client, &rewritten::group(id)).await)?);
    match describe_configs(client, Resource::Group, id).await {
        Ok(found) => findings.push(group_configs(client, flow, &found).await?),
        Err(error) => findings.extend(refusal("source group configs", Err(error))?),
    }
    if findings.iter().all(|finding| finding.subject != subject) {
        findings.push(Finding::new(subject, Verdict::Fine, format!("{id} may be joined")));
    }
    Ok(findings)
}

async fn group_configs(client: &mut Client, flow: &Flow, found: &Configs) -> Result<Finding, WireError> {
    let subject = "source group configs";
    let differing = group::differing(&group::wanted(&flow.group), found);
    if differing.is_empty() {
        return Ok(Finding::new(subject, Verdict::Fine, "as configured"));
    }
    let answer = set_group_configs(client, &flow.group.id, &differing, Mode::Validate).await;
    Ok(match refusal(subject, answer)? {
        None => Finding::new(subject, Verdict::Note, format!("run sets them: {}", group::describe(&differing, found))),
        Some(mut finding) => {
            let command = group::command(client, &flow.group.id, &differing);
            finding.says = format!("{}; an administrator can set them with: {command}", finding.says);
            finding
        }
    })
}

/// Looks at what the flow copies.
pub(super) async fn topics(client: &mut Client, flow: &Flow, seen: &Seen) -> Result<Vec<Finding>, WireError> {
    let mut findings = judge_topics(flow, seen);
    let names: Vec<String> = seen.sorted.copied.iter().map(|copied| copied.topic.name.clone()).collect();
    let forbidden = forbidden(&allowed(client, &names).await?, Operation::Read);
    findings.extend(missing_right(("source topics", "READ"), (client.cluster(), seen), &forbidden));
    Ok(findings)
}

/// A right that is missing on topics: what is named is needed, what a pattern matches is held.
pub(super) fn missing_right(
    (subject, right): (&str, &str),
    (cluster, seen): (&str, &Seen),
    topics: &[String],
) -> Option<Finding> {
    let verdict = topics.iter().map(|topic| lacking(seen, topic)).max()?;
    let says = format!("cluster {cluster}: grant {right} on the topics {}", some(topics));
    Some(Finding::new(subject, verdict, says))
}

/// How bad it is that something is not allowed on a topic of the source or its target: a pattern may match what was never meant.
pub(super) fn lacking(seen: &Seen, topic: &str) -> Verdict {
    let copied = seen.sorted.copied.iter().find(|copied| copied.target == topic);
    let topic = copied.map_or(topic, |copied| copied.topic.name.as_str());
    let is_named = seen.chosen.wanted.get(topic).is_some_and(|wanted| wanted.is_named);
    if is_named { Verdict::NotPermitted } else { Verdict::Warning }
}

fn judge_topics(flow: &Flow, seen: &Seen) -> Vec<Finding> {
    let subject = "source topics";
    let mut findings = vec![];
    let copied = &seen.sorted.copied;
    let partitions: usize = copied.iter().map(|copied| copied.topic.leaders.len()).sum();
    let verdict = if copied.is_empty() { Verdict::Warning } else { Verdict::Fine };
    let says = format!("{} with {} to copy", count(copied.len(), "topic"), count(partitions, "partition"));
    findings.push(Finding::new(subject, verdict, says));
    for reason in Skip::ALL {
        let skipped: Vec<&str> =
            seen.chosen.skipped.iter().filter(|(_, skip)| **skip == reason).map(|(topic, _)| topic.as_str()).collect();
        if !skipped.is_empty() {
            findings.push(Finding::new(subject, Verdict::Note, format!("not {}: {reason}", some(&skipped))));
        }
    }
    let topic = |name: &str, verdict, says: String| Finding::new(format!("source topic {name}"), verdict, says);
    for (name, error) in &seen.sorted.missing {
        findings.push(topic(name, Verdict::Warning, format!("{error}: it is waited for")));
    }
    let is_ordered = |copied: &&Copied| copied.protocol == Protocol::Consumer && flow.protocol == Protocol::Share;
    let ordered: Vec<&str> = copied.iter().filter(is_ordered).map(|copied| copied.topic.name.as_str()).collect();
    if !ordered.is_empty() {
        let says = format!(
            "compacted ({POLICY} has compact), thus read in order, through consumer group {}: {}",
            flow.consumer.id,
            some(&ordered)
        );
        findings.push(Finding::new(subject, Verdict::Note, says));
    }
    for (name, reason) in &seen.sorted.unroutable {
        findings.push(topic(name, Verdict::Warning, format!("not copied: {reason}")));
    }
    for (name, error) in &seen.sorted.unknown {
        let says =
            format!("{error}; or set allow.unordered.compacted = true, so that nobody need know its cleanup.policy");
        findings.push(topic(name, lacking(seen, name), says));
    }
    findings
}

/// Topics on which an operation is not allowed.
pub(super) fn forbidden(allowed: &[(String, Allowed)], operation: Operation) -> Vec<String> {
    allowed.iter().filter(|(_, allowed)| !allowed.has(operation)).map(|(topic, _)| topic.clone()).collect()
}

/// A number with its noun.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::error::Place;
    use uuid::Uuid;

    fn state(leaders: &[Option<i32>]) -> Option<Result<TopicInfo, WireError>> {
        let (name, id) = (STATE_TOPIC.to_owned(), Uuid::nil());
        Some(Ok(TopicInfo { name, id, leaders: leaders.to_vec(), leader_epochs: vec![0; leaders.len()] }))
    }

    fn refused(code: Code) -> Option<Result<TopicInfo, WireError>> {
        let place = Place { cluster: "a".into(), address: "a:1".into() };
        Some(Err(WireError::Answered { place, api: "Metadata", what: STATE_TOPIC.to_owned(), code, message: None }))
    }

    #[test]
    fn the_state_of_share_groups_needs_leaders_or_brokers_to_be_made_on() {
        let verdict = |found, brokers| judge_state_topic(found, brokers).verdict;
        assert_eq!(verdict(state(&[Some(1), Some(2)]), 1), Verdict::Fine);
        assert_eq!(verdict(refused(Code::UnknownTopicOrPartition), 3), Verdict::Note);
        assert_eq!(verdict(refused(Code::UnknownTopicOrPartition), 2), Verdict::Warning);
        assert_eq!(verdict(refused(Code::TopicAuthorizationFailed), 1), Verdict::Note);
        let found = judge_state_topic(state(&[Some(1), None, None]), 3);
        assert_eq!(found.verdict, Verdict::Warning);
        assert!(found.says.contains("2 of 3 partitions have no leader"), "{}", found.says);
    }
}
