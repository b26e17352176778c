//! The Kafka sink: a transactional producer whose unit of retry is the whole transaction.
//!
//! Transactions version 2 (KIP-890): partition leaders add themselves to the transaction, and each EndTxn raises the epoch. So
//! after any doubt about a batch the transaction is aborted, and a late batch of it is refused by its epoch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::ClusterConfig;
use crate::limits::{METADATA_AGE_MAX, RETRY_MIN};
use crate::sink::{Fate, PartitionFault, Sink, SinkError, Written};
use crate::source::{Parcel, TopicPartition};
use crate::wire::backoff::Backoff;
use crate::wire::client::CoordinatorKind;
use crate::wire::error::code_of;
use crate::wire::transaction::{Producer, end_txn, init_producer_id};
use crate::wire::{Client, Code, WireError};

pub mod pack;
pub mod plan;
pub mod targets;
mod write;

use targets::Targets;

/// See the module.
#[derive(Debug)]
pub struct KafkaSink {
    client: Client,
    transactional_id: String,
    timeout: Duration,
    producer: Producer,
    state: State,
    targets: Targets,
}

/// What the coordinator knows of our transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The producer must be asked for, or asked for its next epoch: something is in doubt.
    Doubtful,
    /// No transaction is open; all sequences start at 0.
    Ready,
    /// Something may have been written.
    Open,
}

impl KafkaSink {
    /// A producer that has not spoken to anybody yet. No other process uses `transactional_id`.
    pub fn new(cluster: Arc<ClusterConfig>, transactional_id: String, timeout: Duration) -> Self {
        Self {
            client: Client::new(cluster),
            transactional_id,
            timeout,
            producer: Producer::NOBODY,
            state: State::Doubtful,
            targets: Targets::default(),
        }
    }

    async fn init(&mut self) -> Result<(), WireError> {
        let timeout_ms = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let request = init_producer_id(&self.transactional_id, timeout_ms, self.producer);
        let connection = self.client.coordinator(CoordinatorKind::Transaction, &self.transactional_id).await?;
        let reply = connection.call(&request).await?;
        if let Some(code) = code_of(reply.error_code) {
            if matches!(code, Code::ProducerFenced | Code::InvalidProducerEpoch | Code::InvalidProducerIdMapping) {
                // Somebody has decided our transaction. The id is ours alone, so it is taken back.
                self.producer = Producer::NOBODY;
            }
            return Err(connection.answered("InitProducerId", &self.transactional_id, (code, None)));
        }
        self.producer = Producer { id: reply.producer_id.0, epoch: reply.producer_epoch };
        self.state = State::Ready;
        Ok(())
    }

    /// One EndTxn; adopts the epoch of the next transaction.
    async fn end(&mut self, commit: bool) -> Result<(), WireError> {
        let request = end_txn(&self.transactional_id, self.producer, commit);
        let connection = self.client.coordinator(CoordinatorKind::Transaction, &self.transactional_id).await?;
        let reply = connection.call(&request).await?;
        if let Some(code) = code_of(reply.error_code) {
            let what = if commit { "commit" } else { "abort" };
            return Err(connection.answered("EndTxn", what, (code, None)));
        }
        if reply.producer_id.0 >= 0 {
            self.producer = Producer { id: reply.producer_id.0, epoch: reply.producer_epoch };
        }
        self.state = State::Ready;
        Ok(())
    }
}

/// What an answer to EndTxn(commit) says about the fate of the transaction. A lost answer leaves it undecided: the same request,
/// sent again, tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Ask again with the same request.
    AskAgain,
    /// It was aborted, or by somebody else decided; without a ledger nobody can tell, so it is written again.
    WriteAgain,
    /// The broker refuses to answer, and asking again would not help: tell the lane.
    Refused,
}

fn judge_commit(error: &WireError) -> Verdict {
    let Some(code) = error.code() else {
        return Verdict::AskAgain;
    };
    match code {
        Code::InvalidTxnState
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::InvalidProducerIdMapping
        | Code::UnknownProducerId
        | Code::TransactionAbortable => Verdict::WriteAgain,
        code if code == Code::ConcurrentTransactions || code.is_retriable() => Verdict::AskAgain,
        _ => Verdict::Refused,
    }
}

impl Sink for KafkaSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        let connection = self.client.anybody().await?;
        targets::check_features(&connection)?;
        if self.state == State::Open {
            self.abort().await;
        }
        if self.state == State::Doubtful {
            self.init().await?;
        }
        Ok(())
    }

    async fn write(&mut self, parcels: &[Parcel]) -> Result<Vec<Written>, SinkError> {
        let topics = parcels.iter().map(|parcel| &parcel.at.topic);
        self.targets.refresh(&mut self.client, topics, METADATA_AGE_MAX).await?;
        let (packed, batches) = self.pack(parcels)?;
        // A load of nothing but gaps begins no transaction: brokers refuse to end an empty one.
        if packed.iter().any(|written| written.bytes > 0) {
            self.state = State::Open;
            self.produce(batches).await?;
        }
        Ok(packed)
    }

    async fn commit(&mut self) -> Result<Fate, SinkError> {
        if self.state != State::Open {
            return Ok(Fate::Committed);
        }
        // From here on the fate is in doubt until it is answered: nobody may switch from commit to abort.
        self.state = State::Doubtful;
        let mut backoff = Backoff::new(RETRY_MIN / 10, RETRY_MIN * 10);
        loop {
            let Err(error) = self.end(true).await else {
                return Ok(Fate::Committed);
            };
            match judge_commit(&error) {
                Verdict::AskAgain => {
                    tracing::debug!(%error, "commit undecided: asking again");
                    tokio::time::sleep(backoff.pause()).await;
                }
                Verdict::WriteAgain => {
                    tracing::warn!(%error, "transaction not committed, or its fate is unknown: writing again");
                    return Ok(Fate::NotCommitted);
                }
                Verdict::Refused => return Err(error.into()),
            }
        }
    }

    async fn abort(&mut self) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Doubtful;
        if let Err(error) = self.end(false).await {
            tracing::debug!(%error, "abort unanswered: the producer's next epoch will do it");
        }
    }
}

/// Splits an outcome for topic partitions into what went well and what did not.
fn partition_results<T>(
    results: impl IntoIterator<Item = (TopicPartition, Result<T, PartitionFault>)>,
) -> Result<Vec<T>, SinkError> {
    let (mut fine, mut faults) = (vec![], vec![]);
    for (at, result) in results {
        match result {
            Ok(value) => fine.push(value),
            Err(fault) => faults.push((at, fault)),
        }
    }
    if faults.is_empty() { Ok(fine) } else { Err(SinkError::Partitions(faults)) }
}

/// Sequence numbers of the open transaction by target partition.
type Sequences = HashMap<TopicPartition, i32>;
