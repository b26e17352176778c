//! Who writes, how a transaction ends (KIP-98, KIP-890), and which are open (KIP-664).

use kafka_protocol::messages::{
    DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest, ListTransactionsRequest, ProducerId,
    TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

use crate::wire::client::{Client, CoordinatorKind};
use crate::wire::connection::Connection;
use crate::wire::error::{Code, WireError, code_of};

/// Producer id and epoch under which batches are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Producer {
    /// Id, given by the cluster.
    pub id: i64,
    /// Epoch: the coordinator raises it with every transaction (transactions version 2).
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
