use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use futures_executor::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::metadata::Metadata;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::Cluster;

/// How long a starting cluster may take until it answers.
pub(crate) const READY_DEADLINE: Duration = Duration::from_secs(90);

/// How long one administrative request may take.
pub(crate) const ADMIN_DEADLINE: Duration = Duration::from_secs(30);

/// How long one metadata request may take, within a wait that repeats it.
const METADATA_DEADLINE: Duration = Duration::from_millis(500);

impl Cluster {
    /// Waits until all brokers answer, each knows of all others, and every replica is in sync.
    ///
    /// Errors: a node ended, or [`READY_DEADLINE`] passed; both with the end of the log.
    pub fn wait_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        let brokers = self.brokers().len();
        while !self.is_seen_by_all(None, |metadata| metadata.brokers().len() == brokers && is_in_sync(metadata))? {
            self.nodes().try_for_each(|node| node.check_running())?;
            if Instant::now() >= deadline {
                bail!("not ready in {READY_DEADLINE:?}\n{}", self.log_tail());
            }
            std::thread::sleep(crate::proc::POLL);
        }
        Ok(())
    }

    /// Creates a topic with one replica, or three from three brokers on; returns when all partitions have leaders.
    pub fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> anyhow::Result<()> {
        let replicas = i32::try_from(self.brokers().len().min(3))?;
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
        self.create(config.iter().fold(topic, |topic, (key, value)| topic.set(key, value)))
    }

    /// Creates a topic whose replicas are told: for each partition the ids of its brokers, the leader first.
    pub fn create_topic_at(&self, name: &str, replicas: &[&[i32]]) -> anyhow::Result<()> {
        let partitions = i32::try_from(replicas.len())?;
        self.create(NewTopic::new(name, partitions, TopicReplication::Variable(replicas)))
    }

    fn create(&self, topic: NewTopic<'_>) -> anyhow::Result<()> {
        let (name, partitions) = (topic.name, topic.num_partitions);
        let results = block_on(self.admin()?.create_topics([&topic], &options()))?;
        accept(results).with_context(|| format!("creating the topic {name}"))?;
        self.wait_led(name, partitions)
    }

    fn wait_led(&self, name: &str, partitions: i32) -> anyhow::Result<()> {
        let deadline = Instant::now() + ADMIN_DEADLINE;
        while !self.is_seen_by_all(Some(name), |metadata| is_led(metadata, partitions))? {
            if Instant::now() >= deadline {
                bail!("the topic {name} has no leaders after {ADMIN_DEADLINE:?}");
            }
            std::thread::sleep(crate::proc::POLL);
        }
        Ok(())
    }

    /// Creates many topics, as [`create_topic`](Self::create_topic) does one; does not wait for their leaders.
    pub fn create_topics(&self, topics: &[(String, i32)]) -> anyhow::Result<()> {
        let replicas = i32::try_from(self.brokers().len().min(3))?;
        let topics: Vec<NewTopic<'_>> = topics
            .iter()
            .map(|(name, partitions)| NewTopic::new(name, *partitions, TopicReplication::Fixed(replicas)))
            .collect();
        let results = block_on(self.admin()?.create_topics(&topics, &options()))?;
        accept(results).context("creating topics")
    }

    /// Grows a topic to so many partitions; returns when all of them have leaders.
    pub fn grow_topic(&self, name: &str, partitions: i32) -> anyhow::Result<()> {
        let growth = NewPartitions::new(name, usize::try_from(partitions)?);
        let results = block_on(self.admin()?.create_partitions([&growth], &options()))?;
        accept(results).with_context(|| format!("growing the topic {name}"))?;
        self.wait_led(name, partitions)
    }

    /// Sets these configs on a topic, and removes all others that were set on it.
    pub fn set_topic_config(&self, name: &str, config: &[(&str, &str)]) -> anyhow::Result<()> {
        let alter = AlterConfig::new(ResourceSpecifier::Topic(name));
        let alter = config.iter().fold(alter, |alter, (key, value)| alter.set(key, value));
        let results = block_on(self.admin()?.alter_configs([&alter], &options()))?;
        let results =
            results.into_iter().map(|result| result.map_err(|(resource, code)| (format!("{resource:?}"), code)));
        accept(results).with_context(|| format!("altering {config:?} of the topic {name}"))
    }

    /// Removes the records of a partition below an offset, as retention does.
    pub fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> anyhow::Result<()> {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        let results = block_on(self.admin()?.delete_records(&offsets, &options()))?;
        let refused = results.elements().into_iter().find_map(|element| element.error().err());
        refused.map_or(Ok(()), Err).with_context(|| format!("deleting records of {topic}-{partition}"))
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, name: &str) -> anyhow::Result<()> {
        let results = block_on(self.admin()?.delete_topics(&[name], &options()))?;
        accept(results).with_context(|| format!("deleting the topic {name}"))
    }

    /// All configs of a topic, defaults included.
    pub fn topic_config(&self, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let resource = ResourceSpecifier::Topic(name);
        let results = block_on(self.admin()?.describe_configs([&resource], &options()))?;
        let resource = results.into_iter().next().context("no answer about the topic")?;
        let entries = resource.with_context(|| format!("configs of the topic {name}"))?.entries;
        // The wrapper drops the broker's refusal and hands out no entries instead.
        if entries.is_empty() {
            bail!("the topic {name} does not exist");
        }
        Ok(entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    /// Sets dynamic configs on every broker; those set by an earlier call are gone.
    pub fn alter_broker_config(&self, config: &[(&str, &str)]) -> anyhow::Result<()> {
        let admin = self.admin()?;
        for id in 1..=i32::try_from(self.brokers().len())? {
            let mut alter = AlterConfig::new(ResourceSpecifier::Broker(id));
            for (key, value) in config {
                alter = alter.set(key, value);
            }
            let results = block_on(admin.alter_configs([&alter], &options()))?;
            accept(
                results.into_iter().map(|result| result.map_err(|(resource, code)| (format!("{resource:?}"), code))),
            )
            .with_context(|| format!("altering {config:?}"))?;
        }
        Ok(())
    }

    /// Whether every broker, asked for itself, answers as it should. Each is asked anew: a client that knows the others asks any.
    fn is_seen_by_all(&self, topic: Option<&str>, is_seen: impl Fn(&Metadata) -> bool) -> anyhow::Result<bool> {
        for address in self.bootstrap().split(',') {
            let answer = admin(address)?.inner().fetch_metadata(topic, METADATA_DEADLINE);
            if !answer.is_ok_and(|metadata| is_seen(&metadata)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        admin(self.bootstrap())
    }
}

fn admin(bootstrap: &str) -> anyhow::Result<AdminClient<DefaultClientContext>> {
    // Reconnects quickly: brokers are near and may just be starting.
    let client = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200")
        .create()?;
    Ok(client)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ADMIN_DEADLINE)).operation_timeout(Some(ADMIN_DEADLINE))
}

/// The first refusal of an administrative request, as an error.
fn accept<T>(
    results: impl IntoIterator<Item = Result<T, (String, rdkafka::types::RDKafkaErrorCode)>>,
) -> anyhow::Result<()> {
    results.into_iter().try_for_each(|result| result.map(drop).map_err(|(name, code)| anyhow!("{name}: {code}")))
}

fn is_in_sync(metadata: &Metadata) -> bool {
    let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
    partitions.all(|partition| partition.isr().len() == partition.replicas().len())
}

fn is_led(metadata: &Metadata, partitions: i32) -> bool {
    let Some(topic) = metadata.topics().first() else {
        return false;
    };
    let led = topic.partitions().iter().filter(|partition| partition.leader() > 0 && partition.error().is_none());
    i32::try_from(led.count()) == Ok(partitions)
}
