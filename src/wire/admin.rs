//! Configs of resources, and the progress of share groups.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use kafka_protocol::protocol::StrBytes;

use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::error::{WireError, code_of};
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

/// How far a share group has come in each of its topic partitions.
pub async fn share_progress(client: &mut Client, group: &str) -> Result<Vec<ShareProgress>, WireError> {
    let connection = client.coordinator(CoordinatorKind::Group, group).await?;
    let reply = connection.call(&DescribeShareGroupOffsets { group: group.to_owned() }).await?;
    reply.map_err(|code| connection.answered("DescribeShareGroupOffsets", &format!("group {group}"), (code, None)))
}

/// A text of a message.
pub(super) fn text(words: &str) -> StrBytes {
    StrBytes::from_string(words.to_owned())
}
