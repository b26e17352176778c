//! Which broker: bootstrap, metadata, coordinators, and a connection to each broker that is spoken to.

use std::collections::HashMap;
use std::sync::Arc;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use twox_hash::XxHash3_128;
use uuid::Uuid;

use crate::wire::backoff::Backoff;
use crate::wire::cluster::Cluster;
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};
use crate::wire::leaders::Endpoint;

/// Kafka's id of a broker.
pub type NodeId = i32;

/// A client of one cluster. It belongs to one task, which sees its requests answered or failed; nothing is retried in here
/// except the choice among bootstrap servers.
#[derive(Debug)]
pub struct Client {
    cluster: Arc<Cluster>,
    addresses: HashMap<NodeId, Arc<str>>,
    connections: HashMap<Arc<str>, Arc<Connection>>,
    backoffs: HashMap<Arc<str>, Backoff>,
    coordinators: HashMap<(CoordinatorKind, String), Arc<Connection>>,
    controller: NodeId,
}

/// What the cluster says about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// Name.
    pub name: String,
    /// Id: another one after the topic was deleted and created again (KIP-516). Clusters before Kafka 2.8 have none: there it is made
    /// from the name ([`is_made_up`]).
    pub id: Uuid,
    /// Leader of each partition by partition number; `None` while there is none.
    pub leaders: Vec<Option<NodeId>>,
    /// Leader epoch of each partition, likewise.
    pub leader_epochs: Vec<i32>,
}

impl TopicInfo {
    /// Partitions that it has.
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.leaders.len()).unwrap_or(i32::MAX)
    }

    /// Leader and leader epoch of a partition; `None` while nobody leads it.
    pub fn leadership(&self, partition: i32) -> Option<(NodeId, i32)> {
        let index = usize::try_from(partition).ok()?;
        Some(((*self.leaders.get(index)?)?, *self.leader_epochs.get(index)?))
    }

    /// The leader of a partition, where the topic has the partition.
    pub fn leader_mut(&mut self, partition: i32) -> Option<&mut Option<NodeId>> {
        self.leaders.get_mut(usize::try_from(partition).ok()?)
    }
}

/// A topic by name, with what the cluster says of it, or the code that it answers with.
pub type Described = (String, Result<TopicInfo, WireError>);

/// What a coordinator coordinates. Source: FindCoordinatorRequest.json.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CoordinatorKind {
    /// A group, by group id.
    Group = 0,
    /// Transactions, by transactional id.
    Transaction = 1,
}

impl Client {
    /// A client that has not spoken to anybody yet.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            addresses: HashMap::new(),
            connections: HashMap::new(),
            backoffs: HashMap::new(),
            coordinators: HashMap::new(),
            controller: -1,
        }
    }

    /// The cluster's name in the configuration.
    pub fn cluster(&self) -> &str {
        &self.cluster.name
    }

    /// Asks for topics by name.
    pub async fn topics(&mut self, names: &[String]) -> Result<Vec<Described>, WireError> {
        let topic = |name: &String| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        self.metadata(Some(names.iter().map(topic).collect())).await
    }

    /// Asks for all topics that we may see.
    pub async fn all_topics(&mut self) -> Result<Vec<Described>, WireError> {
        self.metadata(None).await
    }

    async fn metadata(&mut self, topics: Option<Vec<MetadataRequestTopic>>) -> Result<Vec<Described>, WireError> {
        let request = MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(false);
        let connection = self.anybody().await?;
        let reply = connection.call(&request).await?;
        self.learn(&reply);
        Ok(reply.topics.into_iter().map(|topic| topic_info(topic, &connection)).collect())
    }

    /// Ids of all brokers that are up.
    pub async fn brokers(&mut self) -> Result<Vec<NodeId>, WireError> {
        let connection = self.anybody().await?;
        let reply = connection.call(&MetadataRequest::default().with_topics(Some(vec![]))).await?;
        self.learn(&reply);
        Ok(reply.brokers.iter().map(|broker| broker.node_id.0).collect())
    }

    /// The cluster's id, which it was formatted with: the same under whatever name.
    pub async fn cluster_id(&mut self) -> Result<String, WireError> {
        let connection = self.anybody().await?;
        let reply = connection.call(&MetadataRequest::default().with_topics(Some(vec![]))).await?;
        self.learn(&reply);
        reply.cluster_id.map(|id| id.to_string()).ok_or_else(|| self.nobody("cluster id".to_owned()))
    }

    /// The controller, for requests that create topics.
    pub async fn controller(&mut self) -> Result<Arc<Connection>, WireError> {
        let connection = self.anybody().await?;
        let reply = connection.call(&MetadataRequest::default().with_topics(Some(vec![]))).await?;
        self.learn(&reply);
        self.broker(self.controller).await
    }

    /// A connection to the coordinator of a group or a transactional id. It is remembered until [`forget_coordinators`].
    ///
    /// [`forget_coordinators`]: Self::forget_coordinators
    pub async fn coordinator(&mut self, kind: CoordinatorKind, key: &str) -> Result<Arc<Connection>, WireError> {
        let known = (kind, key.to_owned());
        if let Some(connection) = self.coordinators.get(&known).filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        let connection = self.find_coordinator(kind, key).await?;
        self.coordinators.insert(known, connection.clone());
        Ok(connection)
    }

    /// A coordinator has given an error: ask who it is before the next request.
    pub fn forget_coordinators(&mut self) {
        self.coordinators.clear();
    }

    async fn find_coordinator(&mut self, kind: CoordinatorKind, key: &str) -> Result<Arc<Connection>, WireError> {
        let connection = self.anybody().await?;
        let (version, name) =
            (connection.version_of::<FindCoordinatorRequest>()?, StrBytes::from_string(key.to_owned()));
        let request = FindCoordinatorRequest::default().with_key_type(kind as i8);
        let request = match version {
            ..BATCHED_COORDINATORS => request.with_key(name),
            _ => request.with_coordinator_keys(vec![name]),
        };
        let mut reply = connection.call(&request).await?;
        if version < BATCHED_COORDINATORS {
            reply.coordinators.push(only_coordinator(&reply));
        }
        let found = reply.coordinators.pop().ok_or_else(|| self.nobody(format!("coordinator of {key}")))?;
        if let Some(code) = code_of(found.error_code) {
            let message = found.error_message.map(|text| text.to_string());
            return Err(connection.answered("FindCoordinator", key, (code, message)));
        }
        let Coordinator { node_id, host, port, .. } = found;
        self.addresses.insert(node_id.0, format!("{host}:{port}").into());
        self.broker(node_id.0).await
    }

    /// A connection to a broker by id. One that was never heard of is asked for.
    pub async fn broker(&mut self, id: NodeId) -> Result<Arc<Connection>, WireError> {
        if self.address_of(id).is_none() {
            self.brokers().await?;
        }
        let address = self.address_of(id).ok_or_else(|| self.nobody(format!("address of broker {id}")))?;
        self.connect(address).await
    }

    /// `host:port` of a broker, where it is known.
    pub fn address_of(&self, id: NodeId) -> Option<Arc<str>> {
        self.addresses.get(&id).cloned()
    }

    /// All brokers that are known: ascending.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let mut endpoints: Vec<Endpoint> =
            self.addresses.iter().map(|(id, address)| (*id, address.to_string())).collect();
        endpoints.sort_unstable();
        endpoints
    }

    /// The bootstrap servers, comma-separated.
    pub fn bootstrap(&self) -> String {
        self.cluster.bootstrap.join(",")
    }

    /// A connection to any broker that answers: the known ones, then the bootstrap servers.
    pub async fn anybody(&mut self) -> Result<Arc<Connection>, WireError> {
        if let Some(connection) = self.connections.values().find(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        let known = self.addresses.values().cloned();
        let mut candidates: Vec<Arc<str>> =
            known.chain(self.cluster.bootstrap.iter().map(|b| b.as_str().into())).collect();
        candidates.dedup();
        let mut last = self.nobody("bootstrap server".to_owned());
        for address in candidates {
            match self.connect(address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Takes note of where brokers are, from the hints of a reply.
    pub fn learn_endpoints(&mut self, endpoints: Vec<Endpoint>) {
        self.addresses.extend(endpoints.into_iter().map(|(node, address)| (node, address.into())));
    }

    async fn connect(&mut self, address: Arc<str>) -> Result<Arc<Connection>, WireError> {
        if let Some(connection) = self.connections.get(&address).filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        let cluster = &self.cluster;
        let fresh = || Backoff::new(cluster.reconnect_backoff, cluster.reconnect_backoff_max);
        match Connection::open(cluster, &address).await {
            Ok(connection) => {
                self.backoffs.remove(&address);
                let connection = Arc::new(connection);
                self.connections.insert(address, connection.clone());
                Ok(connection)
            }
            Err(error) => {
                // Callers try again at once; the pause between two knocks at the same door is kept here.
                tokio::time::sleep(self.backoffs.entry(address).or_insert_with(fresh).pause()).await;
                Err(error)
            }
        }
    }

    fn learn(&mut self, reply: &MetadataResponse) {
        self.addresses = reply.brokers.iter().map(|b| (b.node_id.0, format!("{}:{}", b.host, b.port).into())).collect();
        self.controller = reply.controller_id.0;
    }

    fn nobody(&self, what: String) -> WireError {
        WireError::Nobody { cluster: self.cluster.name.as_str().into(), what }
    }
}

/// Of FindCoordinator: the first that answers for several keys (KIP-699, Kafka 3.0).
const BATCHED_COORDINATORS: i16 = 4;

/// The answer of a version before.
fn only_coordinator(reply: &FindCoordinatorResponse) -> Coordinator {
    Coordinator::default()
        .with_error_code(reply.error_code)
        .with_error_message(reply.error_message.clone())
        .with_node_id(reply.node_id)
        .with_host(reply.host.clone())
        .with_port(reply.port)
}

/// The id that stands for a topic where its cluster has none to tell: always the same for a name.
fn id_by_name(name: &str) -> Uuid {
    uuid::Builder::from_custom_bytes(XxHash3_128::oneshot(name.as_bytes()).to_be_bytes()).into_uuid()
}

/// Whether a topic's id was made by us from its name, because its cluster has no topic ids (KIP-516): requests must name the topic.
pub fn is_made_up(id: Uuid) -> bool {
    // Kafka's own are random ones, version 4.
    id.get_version_num() == 8
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

fn topic_info(topic: MetadataResponseTopic, connection: &Connection) -> Described {
    let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
    if let Some(code) = code_of(topic.error_code) {
        let error = connection.answered("Metadata", &format!("topic {name}"), (code, None));
        return (name, Err(error));
    }
    let (mut leaders, mut leader_epochs) = (vec![None; topic.partitions.len()], vec![-1; topic.partitions.len()]);
    for partition in topic.partitions {
        let index = usize::try_from(partition.partition_index).unwrap_or(usize::MAX);
        if let (Some(leader), Some(epoch)) = (leaders.get_mut(index), leader_epochs.get_mut(index)) {
            *leader = Some(partition.leader_id.0).filter(|id| *id >= 0);
            *epoch = partition.leader_epoch;
        }
    }
    let id = if topic.topic_id.is_nil() { id_by_name(&name) } else { topic.topic_id };
    (name.clone(), Ok(TopicInfo { name, id, leaders, leader_epochs }))
}

/// Whether an error code means: somebody else leads or coordinates now, or will soon; ask who, and try again.
pub fn asks_for_refresh(code: Code) -> bool {
    matches!(
        code,
        Code::NotLeaderOrFollower
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::LeaderNotAvailable
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopicId
            | Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::ReplicaNotAvailable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_id_tells_names_apart_and_is_told_from_kafkas_own() {
        assert_eq!(id_by_name("orders"), id_by_name("orders"));
        assert_ne!(id_by_name("orders"), id_by_name("orders2"));
        assert!(is_made_up(id_by_name("")) && !id_by_name("").is_nil());
        assert!(!is_made_up(Uuid::new_v4()) && !is_made_up(Uuid::nil()));
    }
}
