//! What both clusters say of a flow's topics.

use std::collections::HashMap;

use uuid::Uuid;

use crate::config::Selection;
use crate::wire::client::Described;
use crate::wire::topics::{Settings, settings};
use crate::wire::{Client, Code, WireError};

/// The topics that a selection may choose from: all that we may see where it has patterns, and those that it names in any case.
pub async fn list(client: &mut Client, selection: &Selection) -> Result<Vec<Described>, WireError> {
    let mut listed = if selection.patterns.is_empty() { vec![] } else { client.all_topics().await? };
    let is_listed: std::collections::HashSet<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    let others: Vec<String> =
        selection.names.iter().filter(|name| !is_listed.contains(name.as_str())).cloned().collect();
    if !others.is_empty() {
        listed.extend(client.topics(&others).await?);
    }
    Ok(listed)
}

/// A topic on the target.
#[derive(Debug)]
pub enum Target {
    /// There is none.
    Absent,
    /// It is there.
    Present(Present),
    /// The target does not say.
    Unknown(WireError),
}

/// A topic that is there.
#[derive(Debug)]
pub struct Present {
    /// Its id.
    pub id: Uuid,
    /// Partitions.
    pub partitions: i32,
    /// Its configs, where they were asked for and told.
    pub settings: Option<Result<Settings, WireError>>,
}

/// Looks at topics on the target, and at some of their configs unless there are none to look at.
pub async fn targets(
    client: &mut Client,
    topics: &[String],
    configs: &[&'static str],
) -> Result<HashMap<String, Target>, WireError> {
    if topics.is_empty() {
        return Ok(HashMap::new());
    }
    let described = client.topics(topics).await?;
    let present: Vec<&str> =
        described.iter().filter(|(_, found)| found.is_ok()).map(|(name, _)| name.as_str()).collect();
    let mut told = if configs.is_empty() { HashMap::new() } else { settings(client, &present, configs).await? };
    let target = |(name, found): Described| {
        let target = match found {
            Ok(topic) => Target::Present(Present {
                id: topic.id,
                partitions: topic.partition_count(),
                settings: told.remove(&name),
            }),
            Err(error) if error.code() == Some(Code::UnknownTopicOrPartition) => Target::Absent,
            Err(error) => Target::Unknown(error),
        };
        (name, target)
    };
    Ok(described.into_iter().map(target).collect())
}
