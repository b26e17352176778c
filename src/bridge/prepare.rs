//! What must stand before a flow may acquire anything: the share group's configs, and the topics on the target.

use crate::config::FlowConfig;
use crate::health::Health;
use crate::limits::METADATA_AGE_MAX;
use crate::source::share::group::{self, GroupError};
use crate::source::share::start::Placement;
use crate::wire::admin::{Configs, NewTopic, Resource, create_topic, describe_configs};
use crate::wire::backoff::Backoff;
use crate::wire::client::TopicInfo;
use crate::wire::{Client, Code, WireError};

/// Configs that a created topic takes from its source. With the defaults, old records would be deleted on arrival, compaction
/// lost, and large record batches refused.
const COPIED_CONFIGS: [&str; 4] = ["cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes"];

/// Tries until all is prepared; only a group that can't be brought to its configs or its start position ends it early.
pub async fn prepare(flow: &FlowConfig, health: &Health) -> Result<(), GroupError> {
    let (mut source, mut target) = (Client::new(flow.source.clone()), Client::new(flow.sink.clone()));
    let mut backoff = Backoff::default();
    let mut placement = Placement::new(flow.group.clone());
    loop {
        let prepared = match group::prepare(&mut source, &flow.group, &flow.topics).await {
            Ok(()) => placement.place(&mut source, &flow.topics).await,
            failed => failed,
        };
        match prepared {
            Ok(()) => break,
            Err(GroupError::Cluster(error)) => {
                source.forget_coordinators();
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
    let existing = target.topics(&flow.topics).await?;
    let is_missing = |name: &str| existing.iter().any(|(n, found)| n == name && is_unknown(found));
    for (name, found) in source.topics(&flow.topics).await? {
        match found {
            Ok(topic) if is_missing(&name) => tell(health, &name, create(source, target, &topic).await)?,
            Ok(_) => health.well(format_args!("topic {name}")),
            Err(error) => health.trouble(format_args!("topic {name}"), error),
        }
    }
    Ok(())
}

fn is_unknown(found: &Result<TopicInfo, WireError>) -> bool {
    found.as_ref().is_err_and(|error| error.code() == Some(Code::UnknownTopicOrPartition))
}

fn tell(health: &Health, topic: &str, created: Result<(), WireError>) -> Result<(), WireError> {
    let subject = format!("topic {topic}");
    match created {
        Ok(()) => health.well(subject),
        Err(error) if error.code() == Some(Code::TopicAlreadyExists) => health.well(subject),
        Err(error) if error.code().is_some_and(|code| !code.is_retriable()) => health.trouble(subject, error),
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn create(source: &mut Client, target: &mut Client, topic: &TopicInfo) -> Result<(), WireError> {
    let found = describe_configs(source, Resource::Topic, &topic.name).await?;
    let mut configs: Configs = found.into_iter().filter(|(name, _)| COPIED_CONFIGS.contains(&name.as_str())).collect();
    // Under LogAppendTime the target would put its own time over the source's.
    configs.insert("message.timestamp.type".to_owned(), "CreateTime".to_owned());
    let partitions = i32::try_from(topic.leaders.len()).unwrap_or(i32::MAX);
    let topic = NewTopic { name: topic.name.clone(), partitions, configs };
    create_topic(target, &topic).await?;
    tracing::info!(topic = topic.name, partitions, configs = ?topic.configs, "topic created on the target");
    Ok(())
}
