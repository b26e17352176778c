//! Which clusters are one: the file may give one cluster two names, which only its id tells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::batch::Hop;
use crate::config::{ClusterConfig, FlowConfig, Loop, find_loop};
use crate::health::Health;
use crate::wire::backoff::Backoff;
use crate::wire::{Client, WireError};

/// The flows of the file, and the ids of their clusters as far as they are known. A clone knows the same.
#[derive(Debug, Clone)]
pub struct Identities {
    flows: Arc<[FlowConfig]>,
    /// Cluster ids by the names in the file.
    ids: Arc<Mutex<BTreeMap<String, Arc<str>>>>,
}

impl Identities {
    /// Nothing is known yet.
    pub fn new(flows: &[FlowConfig]) -> Self {
        Self { flows: flows.into(), ids: Arc::default() }
    }

    /// Asks both clusters of a flow who they are, until they answer.
    ///
    /// Errors: with what is known now, records would loop. The last flow of a loop that asks sees all of it.
    pub async fn learn(&self, flow: &FlowConfig, health: &Health) -> Result<Hop, Loop> {
        let hop = Hop { from: self.id(&flow.source, health).await, to: self.id(&flow.sink, health).await };
        match self.has_namesakes().then(|| self.find_loop()).flatten() {
            Some(found) => Err(found),
            None => Ok(hop),
        }
    }

    async fn id(&self, cluster: &Arc<ClusterConfig>, health: &Health) -> Arc<str> {
        let (mut client, mut backoff) = (Client::new(cluster.clone()), Backoff::default());
        loop {
            match self.ask(&mut client).await {
                Ok(id) => {
                    health.well("cluster id");
                    return id;
                }
                Err(error) => health.trouble("cluster id", error),
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    async fn ask(&self, client: &mut Client) -> Result<Arc<str>, WireError> {
        let id: Arc<str> = client.cluster_id().await?.into();
        self.ids.lock().expect(UNPOISONED).insert(client.cluster().to_owned(), id.clone());
        Ok(id)
    }

    fn has_namesakes(&self) -> bool {
        let ids = self.ids.lock().expect(UNPOISONED);
        let mut seen = std::collections::BTreeSet::new();
        !ids.values().all(|id| seen.insert(id))
    }

    fn find_loop(&self) -> Option<Loop> {
        let ids = self.ids.lock().expect(UNPOISONED);
        let is_same = |one: &ClusterConfig, other: &ClusterConfig| {
            let known = ids.get(&one.name).zip(ids.get(&other.name));
            one.name == other.name || known.is_some_and(|(one, other)| one == other)
        };
        let starts = self.flows.iter().enumerate();
        let mut starts = starts.flat_map(|(index, flow)| flow.topics.iter().map(move |topic| (index, topic)));
        starts.find_map(|(index, topic)| find_loop(&self.flows, index, topic, &is_same))
    }
}

const UNPOISONED: &str = "no code panics while it holds this lock";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn two_names_of_one_cluster_close_a_loop() {
        let text = "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[clusters.c]\n\
                    bootstrap.servers = 'c:1'\n[flows.f]\nsource.cluster = 'a'\nsink.cluster = 'b'\n\
                    topics.names = ['t']\n[flows.g]\nsource.cluster = 'b'\nsink.cluster = 'c'\ntopics.names = ['t']\n";
        let config = Config::parse(std::path::Path::new("f.toml"), text).expect("the file is good");
        let identities = Identities::new(&config.flows);
        let know = |name: &str, id: &str| identities.ids.lock().unwrap().insert(name.to_owned(), id.into());
        know("a", "1");
        know("b", "2");
        assert!(!identities.has_namesakes());
        know("c", "1");
        assert!(identities.has_namesakes());
        let found = identities.find_loop().unwrap().to_string();
        assert!(found.contains("t on a -[f]-> t on b -[g]-> t on a;"), "{found}");
        know("c", "3");
        assert!(identities.find_loop().is_none());
    }
}
