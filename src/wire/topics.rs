//! Topics as a whole: their configs, creation, growth. Every request is cut to a bound, and answers are for each topic by itself.

use std::collections::{BTreeMap, HashMap};

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::limits::{ALTERED_TOPICS_MAX, DESCRIBED_TOPICS_MAX};
use crate::wire::admin::{Configs, Mode, Resource, text};
use crate::wire::client::Client;
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};

/// Where a value comes from that was set on the topic itself. Source: DescribeConfigsResponse.json, `ConfigSource`.
const DYNAMIC_TOPIC_CONFIG: i8 = 1;

/// Operations of IncrementalAlterConfigs (KIP-339).
const SET: i8 = 0;
const DELETE: i8 = 1;

/// A config of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value in force.
    pub value: String,
    /// Whether it was set on the topic itself, and is no default of the brokers.
    pub is_own: bool,
}

/// Configs of a topic by name, as far as its cluster has them.
pub type Settings = BTreeMap<&'static str, Setting>;

/// An answer of a broker about one topic: name, error code, and its words.
type Outcome = (StrBytes, i16, Option<StrBytes>);

/// Reads some configs of many topics, in requests of at most [`DESCRIBED_TOPICS_MAX`]: by topic its settings, or why the cluster does
/// not tell them.
pub async fn settings(
    client: &mut Client,
    topics: &[&str],
    configs: &[&'static str],
) -> Result<HashMap<String, Result<Settings, WireError>>, WireError> {
    let connection = client.anybody().await?;
    let keys: Vec<StrBytes> = configs.iter().map(|config| text(config)).collect();
    let wanted = |topic: &&str| {
        DescribeConfigsResource::default()
            .with_resource_type(Resource::Topic as i8)
            .with_resource_name(text(topic))
            .with_configuration_keys(Some(keys.clone()))
    };
    let mut told = HashMap::new();
    for topics in topics.chunks(DESCRIBED_TOPICS_MAX) {
        let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(wanted).collect());
        for result in connection.call(&request).await?.results {
            let topic = result.resource_name.to_string();
            let settings = match code_of(result.error_code) {
                Some(code) => Err(refusal(&connection, "DescribeConfigs", &topic, (code, result.error_message))),
                None => Ok(settings_of(&result, configs)),
            };
            told.insert(topic, settings);
        }
    }
    for topic in topics.iter().filter(|topic| !told.contains_key(**topic)).copied().collect::<Vec<_>>() {
        let silence = (Code::UnknownServerError, Some(text("the topic is not in the answer")));
        told.insert(topic.to_owned(), Err(refusal(&connection, "DescribeConfigs", topic, silence)));
    }
    Ok(told)
}

fn settings_of(result: &DescribeConfigsResult, configs: &[&'static str]) -> Settings {
    let setting = |config: &&'static str| {
        let found = result.configs.iter().find(|found| &*found.name == *config)?;
        let is_own = found.config_source == DYNAMIC_TOPIC_CONFIG;
        Some((*config, Setting { value: found.value.as_ref()?.to_string(), is_own }))
    };
    configs.iter().filter_map(setting).collect()
}

/// A topic to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Name.
    pub name: String,
    /// Partitions.
    pub partitions: i32,
    /// Replicas; `None` is the cluster's default.
    pub replication: Option<i16>,
    /// Configs that are set on it.
    pub configs: Configs,
}

/// Creates topics; how it went for each, in their order.
pub async fn create_topics(client: &mut Client, topics: &[NewTopic], mode: Mode) -> Vec<Result<(), WireError>> {
    let mut outcomes = vec![];
    for topics in topics.chunks(ALTERED_TOPICS_MAX) {
        let names = topics.iter().map(|topic| topic.name.as_str());
        outcomes.extend(answers(names, create(client, topics, mode).await));
    }
    outcomes
}

async fn create(client: &mut Client, topics: &[NewTopic], mode: Mode) -> Result<Answers, WireError> {
    let config = |(name, value): (&String, &String)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let wanted = |topic: &NewTopic| {
        CreatableTopic::default()
            .with_name(TopicName(text(&topic.name)))
            .with_num_partitions(topic.partitions)
            .with_replication_factor(topic.replication.unwrap_or(-1))
            .with_configs(topic.configs.iter().map(config).collect())
    };
    let connection = client.controller().await?;
    let request = CreateTopicsRequest::default()
        .with_topics(topics.iter().map(wanted).collect())
        .with_timeout_ms(timeout_ms(&connection))
        .with_validate_only(mode == Mode::Validate);
    let reply = connection.call(&request).await?;
    let outcomes = reply.topics.into_iter().map(|topic| (topic.name.0, topic.error_code, topic.error_message));
    Ok(Answers::of(&connection, "CreateTopics", outcomes))
}

/// Grows topics to a number of partitions; how it went for each, in their order.
pub async fn grow_topics(client: &mut Client, topics: &[(&str, i32)], mode: Mode) -> Vec<Result<(), WireError>> {
    let mut outcomes = vec![];
    for topics in topics.chunks(ALTERED_TOPICS_MAX) {
        outcomes.extend(answers(topics.iter().map(|(name, _)| *name), grow(client, topics, mode).await));
    }
    outcomes
}

async fn grow(client: &mut Client, topics: &[(&str, i32)], mode: Mode) -> Result<Answers, WireError> {
    let wanted = |(name, count): &(&str, i32)| {
        CreatePartitionsTopic::default().with_name(TopicName(text(name))).with_count(*count).with_assignments(None)
    };
    let connection = client.controller().await?;
    let request = CreatePartitionsRequest::default()
        .with_topics(topics.iter().map(wanted).collect())
        .with_timeout_ms(timeout_ms(&connection))
        .with_validate_only(mode == Mode::Validate);
    let reply = connection.call(&request).await?;
    let outcomes = reply.results.into_iter().map(|topic| (topic.name.0, topic.error_code, topic.error_message));
    Ok(Answers::of(&connection, "CreatePartitions", outcomes))
}

/// Configs to set on a topic, or to remove where there is no value.
pub type Alterations = BTreeMap<&'static str, Option<String>>;

/// Alters configs of topics and leaves their others as they are (KIP-339); how it went for each, in their order.
pub async fn alter_topics(
    client: &mut Client,
    topics: &[(&str, &Alterations)],
    mode: Mode,
) -> Vec<Result<(), WireError>> {
    let mut outcomes = vec![];
    for topics in topics.chunks(ALTERED_TOPICS_MAX) {
        outcomes.extend(answers(topics.iter().map(|(name, _)| *name), alter(client, topics, mode).await));
    }
    outcomes
}

async fn alter(client: &mut Client, topics: &[(&str, &Alterations)], mode: Mode) -> Result<Answers, WireError> {
    let config = |(name, value): (&&str, &Option<String>)| {
        let operation = if value.is_some() { SET } else { DELETE };
        let value = value.as_deref().map(text);
        AlterableConfig::default().with_name(text(name)).with_config_operation(operation).with_value(value)
    };
    let wanted = |(name, configs): &(&str, &Alterations)| {
        AlterConfigsResource::default()
            .with_resource_type(Resource::Topic as i8)
            .with_resource_name(text(name))
            .with_configs(configs.iter().map(config).collect())
    };
    let connection = client.anybody().await?;
    let request = IncrementalAlterConfigsRequest::default().with_resources(topics.iter().map(wanted).collect());
    let reply = connection.call(&request.with_validate_only(mode == Mode::Validate)).await?;
    let outcomes =
        reply.responses.into_iter().map(|topic| (topic.resource_name, topic.error_code, topic.error_message));
    Ok(Answers::of(&connection, "IncrementalAlterConfigs", outcomes))
}

/// What a broker said of each topic; of those that it did not mention nothing is known to be wrong.
struct Answers(HashMap<String, WireError>);

impl Answers {
    fn of(connection: &Connection, api: &'static str, outcomes: impl Iterator<Item = Outcome>) -> Self {
        let refused = outcomes.filter_map(|(topic, code, words)| {
            Some((topic.to_string(), refusal(connection, api, &topic, (code_of(code)?, words))))
        });
        Self(refused.collect())
    }
}

fn answers<'a>(
    topics: impl Iterator<Item = &'a str>,
    answers: Result<Answers, WireError>,
) -> impl Iterator<Item = Result<(), WireError>> {
    topics.map(move |topic| match &answers {
        Ok(Answers(refused)) => refused.get(topic).map_or(Ok(()), |error| Err(error.clone())),
        Err(error) => Err(error.clone()),
    })
}

fn refusal(
    connection: &Connection,
    api: &'static str,
    topic: &str,
    (code, words): (Code, Option<StrBytes>),
) -> WireError {
    connection.answered(api, &format!("topic {topic}"), (code, words.map(|words| words.to_string())))
}

fn timeout_ms(connection: &Connection) -> i32 {
    i32::try_from(connection.request_timeout.as_millis()).unwrap_or(i32::MAX)
}
