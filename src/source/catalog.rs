//! The topics of a flow as they are now: one task looks at them, everybody else follows what it publishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use crate::wire::client::TopicInfo;
use crate::wire::leaders::Endpoint;

/// What the last look has found at the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Names that the group subscribes to: ascending.
    pub subscribed: Arc<[String]>,
    /// The topics among them that exist, by id.
    pub topics: BTreeMap<Uuid, TopicInfo>,
    /// From which partitions records may be acquired: by topic id, those below this number. The others are left alone, whatever is
    /// assigned.
    pub admitted: BTreeMap<Uuid, i32>,
    /// Where the brokers are.
    pub endpoints: Vec<Endpoint>,
}

/// Where the latest catalog can be seen.
pub type Watched = watch::Receiver<Arc<Catalog>>;

impl Default for Catalog {
    fn default() -> Self {
        Self { subscribed: [].into(), topics: BTreeMap::new(), admitted: BTreeMap::new(), endpoints: vec![] }
    }
}

impl Catalog {
    /// Whether records may be acquired from a partition.
    pub fn admits(&self, (topic, partition): (Uuid, i32)) -> bool {
        self.admitted.get(&topic).is_some_and(|count| partition < *count)
    }
}
