//! Which clusters are one: the file may give one cluster two names, which only its id tells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::batch::Hop;
use crate::config::{ClusterConfig, FlowConfig, Loop, find_loop};
use crate::flow::Flow;
use crate::wire::{Client, Cluster, WireError};

/// The flows of the file, and the ids of their clusters as far as they are known. A clone knows the same.
#[derive(Debug, Clone)]
pub struct Identities {
    flows: Arc<[FlowConfig]>,
    /// Cluster ids by the names in the file.
    ids: Arc<Mutex<BTreeMap<String, Arc<str>>>>,
}

impl Identities {
    /// Nothing is known yet.
    pub fn new(flows: &[Flow]) -> Self {
        Self { flows: flows.iter().map(|flow| FlowConfig::clone(flow)).collect(), ids: Arc::default() }
    }

    /// Asks both clusters of a flow who they are.
    pub async fn learn(&self, flow: &Flow) -> Result<Hop, WireError> {
        Ok(Hop { from: self.ask(&flow.source).await?, to: self.ask(&flow.sink).await? })
    }

    async fn ask(&self, cluster: &Arc<Cluster>) -> Result<Arc<str>, WireError> {
        let id: Arc<str> = Client::new(cluster.clone()).cluster_id().await?.into();
        self.ids.lock().expect(UNPOISONED).insert(cluster.name.clone(), id.clone());
        Ok(id)
    }

    /// A way on which records would loop, with what is known now: the last flow of it that has asked sees all of it. Where all names
    /// are of different clusters, the file was found to have none.
    pub fn find_loop(&self) -> Option<Loop> {
        if !self.has_namesakes() {
            return None;
        }
        let starts = self.flows.iter().enumerate();
        let mut starts =
            starts.flat_map(|(index, flow)| flow.topics.examples().into_iter().map(move |topic| (index, topic)));
        starts.find_map(|(index, topic)| find_loop(&self.flows, index, &topic, &self.is_same()))
    }

    /// Tells of a topic on which way its records would come back to a flow, with what is known now. Only the names of topics that exist
    /// tell it for patterns.
    pub fn ways_back(&self, flow: &str) -> impl Fn(&str) -> Option<Loop> {
        let is_same = self.is_same();
        let is_fed = |flow: &FlowConfig| self.flows.iter().any(|other| is_same(&other.sink, &flow.source));
        // Nothing comes back to a flow whose source nobody writes, which spares most flows the search.
        let index = self.flows.iter().position(|known| known.name == flow && is_fed(known));
        move |topic| find_loop(&self.flows, index?, topic, &is_same)
    }

    fn has_namesakes(&self) -> bool {
        let ids = self.ids.lock().expect(UNPOISONED);
        let mut seen = std::collections::BTreeSet::new();
        !ids.values().all(|id| seen.insert(id))
    }

    fn is_same(&self) -> impl Fn(&ClusterConfig, &ClusterConfig) -> bool {
        let ids = self.ids.lock().expect(UNPOISONED).clone();
        move |one: &ClusterConfig, other: &ClusterConfig| {
            let known = ids.get(&one.name).zip(ids.get(&other.name));
            one.name == other.name || known.is_some_and(|(one, other)| one == other)
        }
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
        let identities = Identities::new(&Flow::all(config.flows, &mut crate::metrics::registry()));
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
