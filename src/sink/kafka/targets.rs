//! What the sink knows of the topics that it writes: ids, leaders, size limits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::source::TopicPartition;
use crate::wire::client::{NodeId, TopicInfo};
use crate::wire::topics::{Settings, settings};
use crate::wire::{Client, WireError};

/// The topic config with the size of the largest record batch.
const SIZE: &str = "max.message.bytes";

/// Its value where a topic's configs cannot be read. Source: Kafka's topic configs.
const MESSAGE_BYTES_DEFAULT: usize = 1_048_588;

/// Topics of the target, as far as they were asked for.
#[derive(Debug, Default)]
pub struct Targets {
    topics: HashMap<Arc<str>, Result<Target, WireError>>,
    asked_at: Option<Instant>,
}

/// A topic of the target.
#[derive(Debug)]
pub struct Target {
    /// Its id and partitions.
    pub info: TopicInfo,
    /// Largest record batch that it takes.
    pub bytes_max: usize,
}

/// Where the batches of a topic partition go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// Topic id on the target.
    pub topic_id: Uuid,
    /// Leader of the partition.
    pub leader: NodeId,
}

fn nobody(client: &Client, what: String) -> WireError {
    WireError::Nobody { cluster: client.cluster().into(), what }
}

impl Targets {
    /// Asks for the topics, unless all of them were asked for within `age_max`.
    pub async fn refresh<'a>(
        &mut self,
        client: &mut Client,
        topics: impl Iterator<Item = &'a Arc<str>>,
        age_max: Duration,
    ) -> Result<(), WireError> {
        let wanted: BTreeSet<&Arc<str>> = topics.collect();
        let fresh = self.asked_at.is_some_and(|at| at.elapsed() < age_max);
        if fresh && wanted.iter().all(|topic| self.topics.contains_key(*topic)) {
            return Ok(());
        }
        // One that was not there is asked for again when somebody wants it.
        let known = self
            .topics
            .iter()
            .filter(|(topic, target)| target.is_ok() && !wanted.contains(topic))
            .map(|(topic, _)| topic);
        let names: Vec<String> = wanted.iter().copied().chain(known).map(|name| name.to_string()).collect();
        let mut topics = HashMap::new();
        let described = client.topics(&names).await?;
        let present: Vec<&str> =
            described.iter().filter(|(_, found)| found.is_ok()).map(|(name, _)| name.as_str()).collect();
        let told = settings(client, &present, &[SIZE]).await?;
        for (name, found) in described {
            let bytes_max = bytes_max(told.get(&name));
            topics.insert(name.into(), found.map(|info| Target { info, bytes_max }));
        }
        self.topics = topics;
        self.asked_at = Some(Instant::now());
        Ok(())
    }

    /// Something has moved: ask again before the next write.
    pub fn forget(&mut self) {
        self.asked_at = None;
    }

    /// A broker has said who leads a partition now.
    pub fn moved(&mut self, at: &TopicPartition, leader: i32) {
        if let Some(Ok(target)) = self.topics.get_mut(&at.topic)
            && let Some(slot) = target.info.leader_mut(at.partition)
        {
            *slot = Some(leader);
        }
    }

    /// A topic.
    pub fn topic(&self, topic: &str, client: &Client) -> Result<&Target, WireError> {
        match self.topics.get(topic) {
            Some(Ok(target)) => Ok(target),
            Some(Err(error)) => Err(error.clone()),
            None => Err(nobody(client, format!("topic {topic}"))),
        }
    }

    /// Where the batches of a topic partition go.
    pub fn destination(&self, at: &TopicPartition, client: &Client) -> Result<Destination, WireError> {
        let info = &self.topic(&at.topic, client)?.info;
        let leader = info.leadership(at.partition).map(|(leader, _)| leader);
        let leader = leader.ok_or_else(|| nobody(client, format!("leader of {at}")))?;
        Ok(Destination { topic_id: info.id, leader })
    }

    /// The name of a topic by the id in a reply.
    pub fn name_of(&self, id: Uuid) -> Option<&Arc<str>> {
        let mut topics = self.topics.iter();
        topics.find(|(_, target)| target.as_ref().is_ok_and(|target| target.info.id == id)).map(|(name, _)| name)
    }
}

/// Where the right to read configs is missing, the default is taken: the target refuses what is too large, which is told.
fn bytes_max(told: Option<&Result<Settings, WireError>>) -> usize {
    let size = told.and_then(|told| told.as_ref().ok()?.get(SIZE)?.value.parse().ok());
    size.unwrap_or(MESSAGE_BYTES_DEFAULT)
}
