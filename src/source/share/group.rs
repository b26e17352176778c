//! The share group's configs: set before the first member joins, and read back.
//!
//! The lock time, the delivery limit and the start position belong to the group, not to a member (KIP-932, KIP-1302), and the start
//! position is looked at only once. So nobody joins before they are as configured.

use tokio::time::Instant;

use crate::config::{GroupConfig, Selection};
use crate::limits::CONFIRM_MAX;
use crate::wire::admin::{Configs, Mode, Resource, describe_configs, set_group_configs, share_progress};
use crate::wire::backoff::Backoff;
use crate::wire::share::{ShareAcknowledge, ShareFetch};
use crate::wire::{Client, Code, Connection, WireError};

/// The config with the start position.
const RESET: &str = "share.auto.offset.reset";

/// Why a group is not as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The cluster does not answer, or not yet: try again.
    #[error(transparent)]
    Cluster(WireError),
    /// The cluster has no share groups of the kind that is needed.
    #[error("share groups with renewal need Kafka 4.2 or later, with the feature share.version at 1 or more: {0}")]
    Unsupported(WireError),
    /// The cluster refuses the configs.
    #[error(
        "{cause}\nThe share group {group} needs other configs than it has ({differences}). An administrator can set them with:\n  {command}"
    )]
    Refused {
        /// The group.
        group: String,
        /// What differs.
        differences: String,
        /// What an administrator has to run.
        command: String,
        /// The cluster's answer.
        cause: WireError,
    },
    /// The cluster took the configs and still shows others: an upper bound of the broker is below them.
    #[error(
        "cluster {cluster} took the configs of share group {group}, but these are in force: {differences}. Lower the values, or raise the broker's bounds (group.share.max...)"
    )]
    Clamped {
        /// The cluster.
        cluster: String,
        /// The group.
        group: String,
        /// What differs.
        differences: String,
    },
    /// The group has begun from another position than it should have. Setting it now would move nothing.
    #[error(
        "cluster {cluster}: the share group {group} has begun in {begun} with {RESET} {found}, wanted {wanted}. The config counts only \
         when a partition is read for the first time, so that what the group has passed over would never be copied. Either\n\
         - give the flow another share.group.id, which begins anew, or\n\
         - end all members of the group, and move it with:\n  {commands}\n\
         - or, to go on from where the group stands, set {RESET} = \"{found}\" in the configuration file"
    )]
    Begun {
        /// The cluster.
        cluster: String,
        /// The group.
        group: String,
        /// A topic partition in which it has begun.
        begun: String,
        /// What the config is.
        found: String,
        /// What it should have been.
        wanted: String,
        /// What an administrator has to run.
        commands: String,
    },
}

/// What the group must be set to.
pub fn wanted(group: &GroupConfig) -> Configs {
    [
        (RESET, group.offset_reset.clone()),
        ("share.isolation.level", "read_committed".to_owned()),
        ("share.record.lock.duration.ms", group.lock.as_millis().to_string()),
        ("share.delivery.count.limit", group.delivery_count_max.to_string()),
        ("share.partition.max.record.locks", group.record_locks_max.to_string()),
        ("share.renew.acknowledge.enable", "true".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Brings the group's configs to what is wanted, before it reads `topics`. Where they are so already, no right to alter is needed.
pub async fn prepare(client: &mut Client, group: &GroupConfig, topics: &Selection) -> Result<(), GroupError> {
    check_broker(&*client.anybody().await.map_err(GroupError::Cluster)?).map_err(GroupError::Unsupported)?;
    let wanted = wanted(group);
    let found = check_start(client, group, topics).await?;
    for name in SINCE_4_3.iter().filter(|name| !found.contains_key(**name)) {
        tracing::warn!(
            group = group.id,
            config = name,
            "this broker has no such config for groups: its own setting applies to all"
        );
    }
    let differing = differing(&wanted, &found);
    if differing.is_empty() {
        return Ok(());
    }
    match set_group_configs(client, &group.id, &differing, Mode::Apply).await {
        Ok(()) => {
            tracing::info!(group = group.id, configs = %list(&differing), "group configs set")
        }
        Err(cause) if cause.code().is_none_or(|code| code.is_retriable()) => {
            return Err(GroupError::Cluster(cause));
        }
        Err(cause) => {
            return Err(GroupError::Refused {
                group: group.id.clone(),
                differences: describe(&differing, &found),
                command: command(client, &group.id, &differing),
                cause,
            });
        }
    }
    confirm(client, group, &wanted).await
}

/// Reads the configs, and makes sure that the start position can still be set where it must be.
async fn check_start(client: &mut Client, group: &GroupConfig, topics: &Selection) -> Result<Configs, GroupError> {
    // In this order: another worker that has begun meanwhile had set the configs before.
    let begun = begun(client, &group.id, topics).await.map_err(GroupError::Cluster)?;
    let start = Configs::from([(RESET.to_owned(), group.offset_reset.clone())]);
    let expected = if begun.is_some() { &start } else { &Configs::new() };
    let found = read_until(client, &group.id, expected).await.map_err(GroupError::Cluster)?;
    match begun {
        Some(begun) if !differing(expected, &found).is_empty() => Err(GroupError::Begun {
            cluster: client.cluster().to_owned(),
            group: group.id.clone(),
            begun,
            found: found.get(RESET).cloned().unwrap_or_default(),
            wanted: group.offset_reset.clone(),
            commands: format!("{}\n  {}", reset(client, group), command(client, &group.id, &start)),
        }),
        _ => Ok(found),
    }
}

/// One of the partitions in which the group has begun, if there is any. A broker that leads one may keep its start position in memory
/// only, so that what counts is whether the group knows the partition.
async fn begun(client: &mut Client, group: &str, topics: &Selection) -> Result<Option<String>, WireError> {
    let progress = match share_progress(client, group).await {
        Err(error) if error.code() == Some(Code::GroupIdNotFound) => return Ok(None),
        progress => progress?,
    };
    let begun = progress.into_iter().find(|progress| topics.covers(&progress.topic));
    Ok(begun.map(|progress| format!("{}-{}", progress.topic, progress.partition)))
}

/// Whether a broker has share groups, and requests in which records can be held by renewal.
pub fn check_broker(broker: &Connection) -> Result<(), WireError> {
    broker.version_of::<ShareFetch>()?;
    broker.version_of::<ShareAcknowledge>()?;
    broker.require("share.version", 1)
}

/// Makes sure that the configs are in force.
async fn confirm(client: &mut Client, group: &GroupConfig, wanted: &Configs) -> Result<(), GroupError> {
    let found = read_until(client, &group.id, wanted).await.map_err(GroupError::Cluster)?;
    let differing = differing(wanted, &found);
    if differing.is_empty() {
        return Ok(());
    }
    Err(GroupError::Clamped {
        cluster: client.cluster().to_owned(),
        group: group.id.clone(),
        differences: describe(&differing, &found),
    })
}

/// Reads the configs until they are as expected, for as long as a broker may need to hear of a change.
async fn read_until(client: &mut Client, group: &str, expected: &Configs) -> Result<Configs, WireError> {
    let deadline = Instant::now() + CONFIRM_MAX;
    let mut backoff = Backoff::default();
    loop {
        let found = describe_configs(client, Resource::Group, group).await?;
        if differing(expected, &found).is_empty() || Instant::now() >= deadline {
            return Ok(found);
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Configs that groups have only since Kafka 4.3; before, the broker has them for all groups.
const SINCE_4_3: [&str; 3] =
    ["share.delivery.count.limit", "share.partition.max.record.locks", "share.renew.acknowledge.enable"];

/// What is wanted otherwise than it was found, except what the broker does not have.
pub fn differing(wanted: &Configs, found: &Configs) -> Configs {
    let differs = |(name, value): &(&String, &String)| match found.get(*name) {
        Some(now) => now != *value,
        None => !SINCE_4_3.contains(&name.as_str()),
    };
    wanted.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What differs, and how it is.
pub fn describe(differing: &Configs, found: &Configs) -> String {
    let one = |(name, value): (&String, &String)| {
        format!("{name} is {}, wanted {value}", found.get(name).map_or("unknown", String::as_str))
    };
    differing.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The command that sets configs of the group.
pub fn command(client: &Client, group: &str, differing: &Configs) -> String {
    format!(
        "kafka-configs.sh --bootstrap-server {} --alter --entity-type groups --entity-name {group} --add-config {}",
        client.bootstrap(),
        list(differing)
    )
}

/// The command that moves the group to its start position.
fn reset(client: &Client, group: &GroupConfig) -> String {
    let position = match group.offset_reset.as_str() {
        "earliest" => "--to-earliest",
        "latest" => "--to-latest",
        _ => "--to-datetime YYYY-MM-DDTHH:mm:SS.sss",
    };
    format!(
        "kafka-share-groups.sh --bootstrap-server {} --group {} --reset-offsets {position} --all-topics --execute",
        client.bootstrap(),
        group.id
    )
}

fn list(configs: &Configs) -> String {
    configs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> Configs {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn only_what_a_broker_may_lack_is_passed_over() {
        let wanted = configs(&[
            ("share.auto.offset.reset", "earliest"),
            ("share.isolation.level", "read_committed"),
            ("share.delivery.count.limit", "10"),
        ]);
        let found = configs(&[("share.isolation.level", "read_uncommitted")]);
        assert_eq!(
            differing(&wanted, &found),
            configs(&[("share.auto.offset.reset", "earliest"), ("share.isolation.level", "read_committed")])
        );
        assert_eq!(differing(&wanted, &wanted), Configs::new());
        let all = configs(&[
            ("share.auto.offset.reset", "earliest"),
            ("share.isolation.level", "read_committed"),
            ("share.delivery.count.limit", "5"),
        ]);
        assert_eq!(differing(&wanted, &all), configs(&[("share.delivery.count.limit", "10")]));
    }
}
