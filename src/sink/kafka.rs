//! The Kafka sink: a transactional producer whose unit of retry is the whole transaction.
//!
//! After any doubt about a batch the transaction is aborted, and nothing more is written before the producer has its next epoch: a
//! late batch is refused by its old one. Under transactions version 2 (KIP-890) each EndTxn raises the epoch. Under version 1 it stays
//! over many transactions, and sequences go on in it; after an abort it is raised by an InitProducerId (KIP-360).
//!
//! With one hole: a batch that lay in the socket of a broker that was frozen can be appended when it wakes up, without its partition
//! being part of the transaction that is aborted then (tried on 4.4.0: no abort marker followed it). The next commit of the same
//! producer would commit it, too. So the first transaction to a partition in doubt is written and aborted on purpose: its marker
//! covers the stray batch, and a batch that comes later still is refused, since the leader has seen a newer epoch.
//!
//! Where the connection ended instead, nothing is aborted on purpose. A coordinator gives up the marker of a partition that nobody
//! leads and calls the transaction complete (tried on 4.4.0): what was committed stays hidden there until the next marker of the same
//! producer, which must not be an abort.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::batch::Hop;
use crate::flow::Flow;
use crate::limits::{COMPLETION_RETRY, FEATURES_EVERY, METADATA_AGE_MAX, WRITE_DIVISOR};
use crate::sink::{Fate, PartitionFault, Sink, SinkError, Written};
use crate::source::{Parcel, TopicPartition};
use crate::wire::client::CoordinatorKind;
use crate::wire::error::code_of;
use crate::wire::transaction::{Producer, TransactionVersion, end_txn, init_producer_id};
use crate::wire::{Client, Code, Connection, WireError};

mod enlist;
pub mod identity;
pub mod keeper;
pub mod load;
pub mod pack;
pub mod plan;
pub mod targets;
mod write;

use load::Load;
use targets::Targets;

/// See the module.
#[derive(Debug)]
pub struct KafkaSink {
    /// For topics and leaders.
    client: Client,
    /// For the coordinator, with connections of its own: what throttles writes must not keep an abort waiting. A broker reads nothing
    /// more from a connection that it throttles. Source: KIP-219.
    coordination: Client,
    transactional_id: String,
    timeout: Duration,
    /// Changes with the producer's epoch only.
    version: TransactionVersion,
    /// When the cluster has told its version.
    version_at: Instant,
    producer: Producer,
    /// The next sequence number of each topic partition that was written in this epoch; all others start at 0.
    sequences: HashMap<TopicPartition, i32>,
    state: State,
    /// Topic partitions of the target to which a batch may be on its way of which nothing is known.
    doubted: BTreeSet<TopicPartition>,
    /// Addresses of leaders that throttle us.
    throttled: BTreeSet<Arc<str>>,
    targets: Targets,
    flow: Flow,
    /// Where records are to say through which clusters they have come.
    hop: Option<Hop>,
    /// Whether it was told that some had been on the target before.
    loops_told: bool,
}

/// What the coordinator knows of our transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The producer must be asked for, or asked for its next epoch: something is in doubt.
    Doubtful,
    /// No transaction is open, and of none in this epoch is anything in doubt.
    Ready,
    /// Something may have been written.
    Open,
    /// Asked to commit, without a clear answer yet: nobody may abort.
    Deciding,
}

impl KafkaSink {
    /// A producer for a flow that has not spoken to anybody yet. No other process uses `transactional_id`.
    ///
    /// `hop`: the ids of both clusters, for a flow with a hop header.
    pub fn new(flow: &Flow, transactional_id: String, hop: Option<Hop>) -> Self {
        Self {
            client: Client::new(flow.sink.clone()),
            coordination: Client::new(flow.sink.clone()),
            transactional_id,
            timeout: flow.transaction_timeout,
            version: TransactionVersion::Two,
            version_at: Instant::now(),
            producer: Producer::NOBODY,
            sequences: HashMap::new(),
            state: State::Doubtful,
            doubted: BTreeSet::new(),
            throttled: BTreeSet::new(),
            targets: Targets::default(),
            flow: flow.clone(),
            hop,
            loops_told: false,
        }
    }

    /// Takes the producer's next epoch. While its last transaction is still being completed, it asks again for as long as a write takes.
    async fn init(&mut self) -> Result<(), WireError> {
        let deadline = Instant::now() + self.write_max();
        loop {
            match self.try_init().await {
                Err(error) if error.code() == Some(Code::ConcurrentTransactions) && Instant::now() < deadline => {
                    tokio::time::sleep(COMPLETION_RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// One InitProducerId; adopts with the epoch the version of transactions that the cluster has by now.
    async fn try_init(&mut self) -> Result<(), WireError> {
        let timeout_ms = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let request = init_producer_id(&self.transactional_id, timeout_ms, self.producer);
        let connection = self.coordinator().await?;
        let version = TransactionVersion::of(connection.feature(TransactionVersion::FEATURE).await?);
        let reply = connection.call(&request).await?;
        if let Some(code) = code_of(reply.error_code) {
            if matches!(code, Code::ProducerFenced | Code::InvalidProducerEpoch | Code::InvalidProducerIdMapping) {
                // Somebody has decided our transaction. The id is ours alone, so it is taken back.
                self.producer = Producer::NOBODY;
            }
            return Err(connection.answered("InitProducerId", &self.transactional_id, (code, None)));
        }
        self.adopt(Producer { id: reply.producer_id.0, epoch: reply.producer_epoch });
        if self.version != version {
            tracing::info!(id = self.transactional_id, from = %self.version, to = %version, "transactions of another version from now on");
        }
        (self.version, self.version_at) = (version, Instant::now());
        Ok(())
    }

    /// A new epoch: all sequences begin anew.
    fn adopt(&mut self, producer: Producer) {
        self.producer = producer;
        self.sequences.clear();
        self.state = State::Ready;
    }

    /// Whether version 1 is spoken and the cluster may have been raised meanwhile.
    async fn is_outdated(&mut self) -> Result<bool, WireError> {
        if self.version == TransactionVersion::Two || self.version_at.elapsed() < FEATURES_EVERY {
            return Ok(false);
        }
        let level = self.coordinator().await?.feature(TransactionVersion::FEATURE).await?;
        self.version_at = Instant::now();
        Ok(TransactionVersion::of(level) != self.version)
    }

    /// One EndTxn; adopts the producer of the next transaction.
    async fn end(&mut self, commit: bool) -> Result<(), WireError> {
        let request = end_txn(&self.transactional_id, self.producer, commit);
        let connection = self.coordinator().await?;
        let reply = connection.call_in(self.version.end_txn(), &request).await?;
        if let Some(code) = code_of(reply.error_code) {
            let what = if commit { "commit" } else { "abort" };
            return Err(connection.answered("EndTxn", what, (code, None)));
        }
        let next = Producer { id: reply.producer_id.0, epoch: reply.producer_epoch };
        match self.version {
            // All of it was answered: the next transaction goes on in this epoch. After an abort something may be on its way.
            TransactionVersion::One => self.state = if commit { State::Ready } else { State::Doubtful },
            TransactionVersion::Two if next.id >= 0 && next != self.producer => self.adopt(next),
            // Under the old epoch, leaders would take new batches for repeated ones.
            TransactionVersion::Two => self.state = State::Doubtful,
        }
        Ok(())
    }

    /// Writes a load to topic partitions in doubt, and aborts that: see the module.
    async fn overwrite_strays(&mut self, load: &Load) -> Result<(), SinkError> {
        self.state = State::Open;
        self.produce(load).await?;
        self.end(false).await?;
        for at in load.partitions() {
            self.doubted.remove(at);
        }
        if self.state != State::Ready {
            self.init().await?;
        }
        Ok(())
    }

    /// Says once that records come back; the metric counts them.
    fn tell_loops(&mut self, written: &[Written]) {
        if !self.loops_told && written.iter().any(|written| written.looped > 0) {
            tracing::info!(flow = self.flow.name, "records have been on the target before: they end here");
            self.loops_told = true;
        }
    }

    async fn coordinator(&mut self) -> Result<Arc<Connection>, WireError> {
        self.coordination.coordinator(CoordinatorKind::Transaction, &self.transactional_id).await
    }
}

/// Whether an answer to EndTxn(commit) says that the transaction was not committed, or that somebody else has decided it, so that
/// without a ledger nobody can tell. After any other error the same request, sent again, tells. Source: KIP-890.
fn is_decided_otherwise(error: &WireError) -> bool {
    matches!(
        error.code(),
        Some(
            Code::InvalidTxnState
                | Code::ProducerFenced
                | Code::InvalidProducerEpoch
                | Code::InvalidProducerIdMapping
                | Code::UnknownProducerId
                | Code::TransactionAbortable
        )
    )
}

#[async_trait]
impl Sink for KafkaSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        if self.state == State::Ready && self.is_outdated().await? {
            self.state = State::Doubtful;
        }
        if self.state != State::Ready {
            self.init().await.inspect_err(|_| self.coordination.forget_coordinators())?;
        }
        Ok(())
    }

    fn write_max(&self) -> Duration {
        self.timeout / WRITE_DIVISOR
    }

    async fn write(&mut self, parcels: &[Parcel]) -> Result<Vec<Written>, SinkError> {
        let topics = self.route(parcels)?;
        self.targets.refresh(&mut self.client, topics.iter(), METADATA_AGE_MAX).await?;
        let (written, load) = self.pack(parcels, &topics).await?;
        self.tell_loops(&written);
        if load.partitions().any(|at| self.doubted.contains(at)) {
            self.overwrite_strays(&load).await?;
        }
        // A load of nothing but gaps begins no transaction: brokers refuse to end an empty one.
        if load.partitions().next().is_some() {
            self.state = State::Open;
            self.produce(&load).await?;
        }
        Ok(written)
    }

    async fn commit(&mut self) -> Result<Fate, SinkError> {
        match self.state {
            State::Ready => return Ok(Fate::Committed),
            State::Doubtful => return Ok(Fate::NotCommitted),
            State::Open | State::Deciding => self.state = State::Deciding,
        }
        match self.end(true).await {
            Ok(()) => Ok(Fate::Committed),
            Err(error) if is_decided_otherwise(&error) => {
                tracing::warn!(%error, "transaction not committed, or its fate is unknown: writing again");
                self.state = State::Doubtful;
                Ok(Fate::NotCommitted)
            }
            Err(error) => {
                self.coordination.forget_coordinators();
                Err(error.into())
            }
        }
    }

    async fn abort(&mut self) -> bool {
        if self.state != State::Open {
            return false;
        }
        if let Err(error) = self.end(false).await {
            self.state = State::Doubtful;
            self.coordination.forget_coordinators();
            tracing::debug!(%error, "abort unanswered: the producer's next epoch will do it");
        }
        true
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
