//! What must stand before a flow may acquire anything: the share group's configs, and the topics on the target.

use crate::config::FlowConfig;
use crate::health::Health;
use crate::limits::METADATA_AGE_MAX;
use crate::source::share::group::{self, GroupError};
use crate::wire::admin::{Configs, NewTopic, Resource, create_topic, describe_configs};
use crate::wire::backoff::Backoff;
use crate::wire::client::TopicInfo;
use crate::wire::{Client, Code, WireError};

/// Configs that a created topic takes from its source. With the defaults, old records would be deleted on arrival, compaction
/// lost, and large record batches refused.
const COPIED_CONFIGS: [&str; 4] = ["cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes"];

/// Tries until all is prepared; only a group whose configs are refused ends it early.
pub async fn prepare(flow: &FlowConfig, health: &Health) -> Result<(), GroupError> {
    let (mut source, mut target) = (Client::new(flow.source.clone()), Client::new(flow.sink.clone()));
    let mut backoff = Backoff::default();
    loop {
        match group::prepare(&mut source, &flow.group, &flow.topics).await {
            Ok(()) => break,
            Err(GroupError::Cluster(error)) => {
                health.trouble("share group", error);
                tokio::time::sleep(backoff.pause()).await;
            }
            Err(refused) => return Err(refused),
        }
    }
    health.well("share group");
    while let Err(error) = prepare_topics(flow, (&mut source, &mut target), health).await {
        health.trouble("topics", error);
        tokio::time::sleep(backoff.pause()).await;
    }
    health.well("topics");
    Ok(())
}

/// Looks again from time to time, for topics that appear at the source later. Never ends.
pub async fn keep_topics(flow: FlowConfig, health: Health) {
    let (mut source, mut target) = (Client::new(flow.source.clone()), Client::new(flow.sink.clone()));
    loop {
        tokio::time::sleep(METADATA_AGE_MAX).await;
        // The lanes tell when a cluster is out of reach.
        if let Err(error) = prepare_topics(&flow, (&mut source, &mut target), &health).await {
            tracing::debug!(flow = flow.name, %error, "topics not compared");
        }
    }
}

/// Creates the topics that are missing on the target. One that cannot be created, or that the source lacks, is told, and does not
/// stop the others: the lanes hold what is written to it.
async fn prepare_topics(
    flow: &FlowConfig,
    (source, target): (&mut Client, &mut Client),
    health: &Health,
) -> Result<(), WireError> {
    let routes = flow.targets(flow.topics.iter().map(String::as_str));
    let targets: Vec<String> = routes.values().flatten().cloned().collect();
    let existing = target.topics(&targets).await?;
    let is_missing = |name: &str| existing.iter().any(|(n, found)| n == name && is_unknown(found));
    for (name, found) in source.topics(&flow.topics).await? {
        let subject = format!("topic {name}");
        match (found, routes.get(&name)) {
            (Ok(topic), Some(Ok(target_name))) if is_missing(target_name) => {
                tell(health, &subject, create((source, target), &topic, target_name).await)?;
            }
            (Ok(_), Some(Err(error))) => health.trouble(subject, error),
            (Ok(_), _) => health.well(subject),
            (Err(error), _) => health.trouble(subject, error),
        }
    }
    Ok(())
}

fn is_unknown(found: &Result<TopicInfo, WireError>) -> bool {
    found.as_ref().is_err_and(|error| error.code() == Some(Code::UnknownTopicOrPartition))
}

fn tell(health: &Health, subject: &str, created: Result<(), WireError>) -> Result<(), WireError> {
    match created {
        Ok(()) => health.well(subject),
        Err(error) if error.code() == Some(Code::TopicAlreadyExists) => health.well(subject),
        Err(error) if error.code().is_some_and(|code| !code.is_retriable()) => health.trouble(subject, error),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Creates `name` on the target after a topic of the source.
async fn create((source, target): (&mut Client, &mut Client), topic: &TopicInfo, name: &str) -> Result<(), WireError> {
    let found = describe_configs(source, Resource::Topic, &topic.name).await?;
    let mut configs: Configs = found.into_iter().filter(|(name, _)| COPIED_CONFIGS.contains(&name.as_str())).collect();
    // Under LogAppendTime the target would put its own time over the source's.
    configs.insert("message.timestamp.type".to_owned(), "CreateTime".to_owned());
    let partitions = i32::try_from(topic.leaders.len()).unwrap_or(i32::MAX);
    let source = &topic.name;
    let topic = NewTopic { name: name.to_owned(), partitions, configs };
    create_topic(target, &topic).await?;
    tracing::info!(topic = topic.name, source, partitions, configs = ?topic.configs, "topic created on the target");
    Ok(())
}
