use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::Cluster;
use crate::admin::ADMIN_DEADLINE;

/// How long one look may take, within a wait that repeats it.
const LOOK_DEADLINE: Duration = Duration::from_secs(2);

/// What a broker may coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinated<'a> {
    /// A group, by group id.
    Group(&'a str),
    /// The state of a topic partition in a share group: by group id, topic and partition.
    Share(&'a str, (&'a str, i32)),
    /// A transactional id.
    Transaction(&'a str),
}

impl Cluster {
    /// The id of the broker that leads a partition; waits for one where there is none.
    pub fn leader(&self, topic: &str, partition: i32) -> anyhow::Result<i32> {
        let leaders = self.leaders(topic)?;
        let position = usize::try_from(partition)?;
        leaders.get(position).copied().with_context(|| format!("{topic} has no partition {partition}"))
    }

    /// The id of the broker that coordinates: it leads the partition of the internal topic that the id's Java hash falls on.
    /// Source: GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor, ShareCoordinatorService.partitionFor.
    pub fn coordinator(&self, of: Coordinated<'_>) -> anyhow::Result<i32> {
        let (topic, id) = match of {
            Coordinated::Group(id) => ("__consumer_offsets", id.to_owned()),
            Coordinated::Share(group, (topic, partition)) => {
                ("__share_group_state", format!("{group}:{}:{partition}", self.topic_id(topic)?))
            }
            Coordinated::Transaction(id) => ("__transaction_state", id.to_owned()),
        };
        let leaders = self.leaders(topic)?;
        Ok(leaders[usize::try_from(java_hash(&id))? % leaders.len()])
    }

    /// The id of a topic in Kafka's base64.
    fn topic_id(&self, topic: &str) -> anyhow::Result<String> {
        let description = self.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", topic])?;
        let mut words = description.split_whitespace().skip_while(|word| *word != "TopicId:");
        words.nth(1).map(str::to_owned).with_context(|| format!("{topic} is described without an id: {description}"))
    }

    /// Gives every partition back to the first of its replicas, in order: nobody is down for it.
    pub fn elect_preferred_leaders(&self) -> anyhow::Result<()> {
        let arguments = ["--election-type", "preferred", "--all-topic-partitions"];
        self.tool("org.apache.kafka.tools.LeaderElectionCommand", &arguments).map(drop)
    }

    /// The leaders of partition 0, 1, ... of a topic, once all have one.
    fn leaders(&self, topic: &str) -> anyhow::Result<Vec<i32>> {
        let deadline = Instant::now() + ADMIN_DEADLINE;
        let admin = self.admin()?;
        loop {
            if let Ok(metadata) = admin.inner().fetch_metadata(Some(topic), LOOK_DEADLINE) {
                let partitions = metadata.topics().first().map(|topic| topic.partitions()).unwrap_or_default();
                let mut leaders: Vec<(i32, i32)> = partitions.iter().map(|p| (p.id(), p.leader())).collect();
                leaders.sort_unstable();
                if !leaders.is_empty() && leaders.iter().all(|(_, leader)| *leader > 0) {
                    return Ok(leaders.into_iter().map(|(_, leader)| leader).collect());
                }
            }
            if Instant::now() >= deadline {
                bail!("not all partitions of {topic} have a leader after {ADMIN_DEADLINE:?}");
            }
            std::thread::sleep(crate::proc::POLL);
        }
    }
}

/// The absolute value of `String.hashCode` of an ASCII text; 0 where i32 has none, as in Kafka's `Utils.abs`.
fn java_hash(text: &str) -> i32 {
    let hash = text.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
    hash.checked_abs().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_java() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        // "polygenelubricants".hashCode() is i32::MIN.
        assert_eq!(java_hash("polygenelubricants"), 0);
    }
}
