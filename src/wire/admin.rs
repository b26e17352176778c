//! The few administrative requests of a bridge: configs of groups and topics, creation of topics.

use std::collections::{BTreeMap, HashMap};

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::limits::DESCRIBED_TOPICS_MAX;
use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::error::{Code, WireError, code_of};
use crate::wire::share::{DescribeShareGroupOffsets, ShareProgress};

/// Whose configs. Source: `ConfigResource.Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A topic.
    Topic = 2,
    /// A group (KIP-848).
    Group = 32,
}

/// Effective configs by name, without those that the broker hides.
pub type Configs = BTreeMap<String, String>;

/// Reads the effective configs of a resource.
pub async fn describe_configs(client: &mut Client, resource: Resource, name: &str) -> Result<Configs, WireError> {
    let wanted = DescribeConfigsResource::default().with_resource_type(resource as i8).with_resource_name(text(name));
    let wanted = wanted.with_configuration_keys(None);
    let connection = client.anybody().await?;
    let reply = connection.call(&DescribeConfigsRequest::default().with_resources(vec![wanted])).await?;
    let mut configs = Configs::new();
    for result in reply.results {
        if let Some(code) = code_of(result.error_code) {
            let message = result.error_message.map(|words| words.to_string());
            return Err(connection.answered("DescribeConfigs", name, (code, message)));
        }
        let known = result.configs.into_iter().filter_map(|c| Some((c.name.to_string(), c.value?.to_string())));
        configs.extend(known);
    }
    Ok(configs)
}

/// Reads some configs of many topics, in requests of at most [`DESCRIBED_TOPICS_MAX`]: for each topic, in their order, the effective
/// values, or why the cluster does not tell them.
pub async fn configs_of_topics(
    client: &mut Client,
    topics: &[String],
    names: &[&str],
) -> Result<Vec<Result<Configs, WireError>>, WireError> {
    let connection = client.anybody().await?;
    let names: Vec<StrBytes> = names.iter().map(|name| text(name)).collect();
    let wanted = |topic: &String| {
        DescribeConfigsResource::default()
            .with_resource_type(Resource::Topic as i8)
            .with_resource_name(text(topic))
            .with_configuration_keys(Some(names.clone()))
    };
    let mut told = HashMap::new();
    for topics in topics.chunks(DESCRIBED_TOPICS_MAX) {
        let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(wanted).collect());
        for result in connection.call(&request).await?.results {
            let name = result.resource_name.to_string();
            let configs = match code_of(result.error_code) {
                Some(code) => Err((code, result.error_message.map(|words| words.to_string()))),
                None => Ok(result.configs.into_iter().filter_map(|c| Some((c.name.to_string(), c.value?.to_string())))),
            };
            told.insert(name, configs.map(Configs::from_iter));
        }
    }
    let silence = || Err((Code::UnknownServerError, Some("it is not in the answer".to_owned())));
    let of_topic = |topic: &String| {
        let found = told.remove(topic).unwrap_or_else(silence);
        found.map_err(|refusal| connection.answered("DescribeConfigs", &format!("topic {topic}"), refusal))
    };
    Ok(topics.iter().map(of_topic).collect())
}

/// Whether a request is carried out, or only judged as if it were to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Carried out.
    Apply,
    /// Only judged: rights and values, with nothing changed.
    Validate,
}

/// Sets configs of a group and leaves its others as they are (KIP-339). The group need not exist yet.
pub async fn set_group_configs(
    client: &mut Client,
    group: &str,
    configs: &Configs,
    mode: Mode,
) -> Result<(), WireError> {
    let set = |(name, value): (&String, &String)| {
        AlterableConfig::default().with_name(text(name)).with_config_operation(0).with_value(Some(text(value)))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(Resource::Group as i8)
        .with_resource_name(text(group))
        .with_configs(configs.iter().map(set).collect());
    let connection = client.anybody().await?;
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let reply = connection.call(&request.with_validate_only(mode == Mode::Validate)).await?;
    let refused = reply.responses.into_iter().find_map(|r| Some((code_of(r.error_code)?, r.error_message)));
    match refused {
        None => Ok(()),
        Some((code, words)) => {
            let message = words.map(|words| words.to_string());
            Err(connection.answered("IncrementalAlterConfigs", &format!("group {group}"), (code, message)))
        }
    }
}

/// A topic to be created; the replication factor is the cluster's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Name.
    pub name: String,
    /// Partitions.
    pub partitions: i32,
    /// Configs that differ from the cluster's defaults.
    pub configs: Configs,
}

/// Creates one topic.
pub async fn create_topic(client: &mut Client, topic: &NewTopic, mode: Mode) -> Result<(), WireError> {
    let config = |(name, value): (&String, &String)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let wanted = CreatableTopic::default()
        .with_name(TopicName(text(&topic.name)))
        .with_num_partitions(topic.partitions)
        .with_replication_factor(-1)
        .with_configs(topic.configs.iter().map(config).collect());
    let connection = client.controller().await?;
    let timeout_ms = i32::try_from(connection.request_timeout.as_millis()).unwrap_or(i32::MAX);
    let request = CreateTopicsRequest::default().with_topics(vec![wanted]).with_timeout_ms(timeout_ms);
    let reply = connection.call(&request.with_validate_only(mode == Mode::Validate)).await?;
    let refused = reply.topics.into_iter().find_map(|t| Some((code_of(t.error_code)?, t.error_message)));
    match refused {
        None => Ok(()),
        Some((code, words)) => {
            let message = words.map(|words| words.to_string());
            Err(connection.answered("CreateTopics", &format!("topic {}", topic.name), (code, message)))
        }
    }
}

/// How far a share group has come in each of its topic partitions.
pub async fn share_progress(client: &mut Client, group: &str) -> Result<Vec<ShareProgress>, WireError> {
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&DescribeShareGroupOffsets { group: group.to_owned() }).await?;
    reply.map_err(|code| connection.answered("DescribeShareGroupOffsets", &format!("group {group}"), (code, None)))
}

fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}
