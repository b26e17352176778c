//! Who writes, how a transaction begins and ends (KIP-98, KIP-890), and which are open (KIP-664).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, DescribeTransactionsRequest, EndTxnRequest,
    InitProducerIdRequest, ListTransactionsRequest, ProducerId, TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};

/// How transactions work, as the target's brokers have agreed on it in the feature `transaction.version`. Source: KIP-890.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionVersion {
    /// The client adds each topic partition before it writes there, and an epoch lasts over many transactions. So do clusters that
    /// lack the feature, or have it at 0.
    One,
    /// The partition's leader adds it, and each end of a transaction raises the epoch.
    Two,
}

impl TransactionVersion {
    /// The feature's name.
    pub const FEATURE: &'static str = "transaction.version";

    /// What a level of the feature means.
    pub fn of(level: i16) -> Self {
        if level >= 2 { Self::Two } else { Self::One }
    }

    /// Versions of Produce: from 12 on, leaders add themselves.
    pub fn produce(self) -> RangeInclusive<i16> {
        match self {
            Self::One => 0..=11,
            Self::Two => 12..=i16::MAX,
        }
    }

    /// Versions of EndTxn: from 5 on, it raises the epoch.
    pub fn end_txn(self) -> RangeInclusive<i16> {
        match self {
            Self::One => 0..=4,
            Self::Two => 5..=i16::MAX,
        }
    }
}

impl std::fmt::Display for TransactionVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One => "1",
            Self::Two => "2",
        })
    }
}

/// Versions of AddPartitionsToTxn for clients: from 4 on, it is for brokers.
pub const ADD_PARTITIONS_VERSIONS: RangeInclusive<i16> = 3..=3;

/// Producer id and epoch under which batches are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Producer {
    /// Id, given by the cluster.
    pub id: i64,
    /// Epoch: the coordinator raises it with every transaction (transactions version 2), or when asked to.
    pub epoch: i16,
}

impl Producer {
    /// Nobody yet: an InitProducerId with it takes the transactional id over.
    pub const NOBODY: Self = Self { id: -1, epoch: -1 };
}

/// Asks for a producer id, or with a known producer for its next epoch.
pub fn init_producer_id(transactional_id: &str, timeout_ms: i32, known: Producer) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(StrBytes::from_string(transactional_id.to_owned()))))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(ProducerId(known.id))
        .with_producer_epoch(known.epoch)
}

/// Commits or aborts the open transaction.
pub fn end_txn(transactional_id: &str, producer: Producer, commit: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(TransactionalId(StrBytes::from_string(transactional_id.to_owned())))
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_committed(commit)
}

/// Adds topic partitions to the transaction, which begins with the first (transactions version 1).
pub fn add_partitions<'a>(
    transactional_id: &str,
    producer: Producer,
    partitions: impl IntoIterator<Item = (&'a str, i32)>,
) -> AddPartitionsToTxnRequest {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic).or_default().push(partition);
    }
    let topic = |(name, partitions): (&str, Vec<i32>)| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        AddPartitionsToTxnTopic::default().with_name(name).with_partitions(partitions)
    };
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(TransactionalId(StrBytes::from_string(transactional_id.to_owned())))
        .with_v3_and_below_producer_id(ProducerId(producer.id))
        .with_v3_and_below_producer_epoch(producer.epoch)
        .with_v3_and_below_topics(topics.into_iter().map(topic).collect())
}

/// What an AddPartitionsToTxn was refused for, by topic partition. Nothing is added where one of them is refused.
pub fn not_added(reply: AddPartitionsToTxnResponse) -> Vec<(String, i32, Code)> {
    let topics = reply.results_by_topic_v3_and_below.into_iter();
    let partitions =
        topics.flat_map(|topic| topic.results_by_partition.into_iter().map(move |p| (topic.name.clone(), p)));
    partitions
        .filter_map(|(name, p)| Some((name.0.to_string(), p.partition_index, code_of(p.partition_error_code)?)))
        .collect()
}

/// A transaction that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenTransaction {
    /// Whose.
    pub transactional_id: String,
    /// The producer that has begun it.
    pub producer: Producer,
    /// When, by the coordinator's clock, milliseconds since 1970.
    pub started_ms: i64,
    /// After this many milliseconds the coordinator may abort it.
    pub timeout_ms: u64,
}

/// Open transactions whose transactional id begins with `prefix`, on all brokers of a cluster (KIP-664).
pub async fn open_transactions(client: &mut Client, prefix: &str) -> Result<Vec<OpenTransaction>, WireError> {
    let request = ListTransactionsRequest::default().with_state_filters(vec![StrBytes::from_static_str("Ongoing")]);
    let mut open = vec![];
    for node in client.brokers().await? {
        let connection = client.broker(node).await?;
        let listed = connection.call(&request).await?;
        if let Some(code) = code_of(listed.error_code) {
            return Err(connection.answered("ListTransactions", "ongoing", (code, None)));
        }
        let ids = listed.transaction_states.into_iter().map(|state| state.transactional_id);
        let ids: Vec<_> = ids.filter(|id| id.0.starts_with(prefix)).collect();
        if !ids.is_empty() {
            open.extend(describe(&connection, ids).await?);
        }
    }
    Ok(open)
}

async fn describe(connection: &Connection, ids: Vec<TransactionalId>) -> Result<Vec<OpenTransaction>, WireError> {
    let reply = connection.call(&DescribeTransactionsRequest::default().with_transactional_ids(ids)).await?;
    // What has ended since it was listed is described as ended, or not at all.
    let ongoing = reply.transaction_states.into_iter().filter(|state| &*state.transaction_state == "Ongoing");
    let open = ongoing.map(|state| OpenTransaction {
        transactional_id: state.transactional_id.0.to_string(),
        producer: Producer { id: state.producer_id.0, epoch: state.producer_epoch },
        started_ms: state.transaction_start_time_ms,
        timeout_ms: u64::try_from(state.transaction_timeout_ms).unwrap_or(0),
    });
    Ok(open.collect())
}

/// Ends somebody else's transaction: its coordinator aborts it and gives its producer the next epoch.
pub async fn decide(client: &mut Client, open: &OpenTransaction) -> Result<(), WireError> {
    let timeout_ms = i32::try_from(open.timeout_ms).unwrap_or(i32::MAX);
    let request = init_producer_id(&open.transactional_id, timeout_ms, open.producer);
    let connection = client.coordinator(CoordinatorKind::Transaction, &open.transactional_id).await?;
    let reply = connection.call(&request).await?;
    match code_of(reply.error_code) {
        // The abort has begun: its markers are being written.
        None | Some(Code::ConcurrentTransactions) => Ok(()),
        Some(code) => Err(connection.answered("InitProducerId", &open.transactional_id, (code, None))),
    }
}
