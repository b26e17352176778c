//! InitProducerId and EndTxn: who writes, and how a transaction ends (KIP-98, KIP-890).

use kafka_protocol::messages::{EndTxnRequest, InitProducerIdRequest, ProducerId, TransactionalId};
use kafka_protocol::protocol::StrBytes;

/// Producer id and epoch under which batches are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
