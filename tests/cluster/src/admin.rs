use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use futures_executor::block_on;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::metadata::Metadata;

use crate::Cluster;

/// How long a starting cluster may take until it answers.
pub(crate) const READY_DEADLINE: Duration = Duration::from_secs(90);

/// How long one administrative request may take.
pub(crate) const ADMIN_DEADLINE: Duration = Duration::from_secs(30);

/// How long one metadata request may take, within a wait that repeats it.
const METADATA_DEADLINE: Duration = Duration::from_millis(500);

impl Cluster {
    /// Waits until all brokers are known to each other and answer.
    ///
    /// Errors: one of them ended, or [`READY_DEADLINE`] passed; both with the end of the log.
    pub fn wait_ready(&self) -> anyhow::Result<()> {
        let admin = self.admin()?;
        let deadline = Instant::now() + READY_DEADLINE;
        loop {
            self.brokers().iter().try_for_each(|broker| broker.check_running())?;
            let answer = admin.inner().fetch_metadata(None, METADATA_DEADLINE);
            match answer {
                Ok(metadata) if metadata.brokers().len() == self.brokers().len() => return Ok(()),
                answer if Instant::now() >= deadline => {
                    let brokers = answer.map(|metadata| metadata.brokers().len());
                    bail!("not ready in {READY_DEADLINE:?}, brokers: {brokers:?}\n{}", self.log_tail());
                }
                _ => std::thread::sleep(crate::proc::POLL),
            }
        }
    }

    /// Creates a topic with one replica, or three from three brokers on; returns when all partitions have leaders.
    pub fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> anyhow::Result<()> {
        let replicas = i32::try_from(self.brokers().len().min(3))?;
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
        for (key, value) in config {
            topic = topic.set(key, value);
        }
        let admin = self.admin()?;
        let results = block_on(admin.create_topics([&topic], &options()))?;
        accept(results).with_context(|| format!("creating the topic {name}"))?;
        let deadline = Instant::now() + ADMIN_DEADLINE;
        while !is_led(&admin.inner().fetch_metadata(Some(name), METADATA_DEADLINE)?, partitions) {
            if Instant::now() >= deadline {
                bail!("the topic {name} has no leaders after {ADMIN_DEADLINE:?}");
            }
            std::thread::sleep(crate::proc::POLL);
        }
        Ok(())
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

    fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        // Reconnects quickly: brokers are near and may just be starting.
        let client = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap())
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "200")
            .create()?;
        Ok(client)
    }
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

fn is_led(metadata: &Metadata, partitions: i32) -> bool {
    let Some(topic) = metadata.topics().first() else {
        return false;
    };
    let led = topic.partitions().iter().filter(|partition| partition.leader() > 0 && partition.error().is_none());
    i32::try_from(led.count()) == Ok(partitions)
}
