//! Where records go: one trait, and what can go wrong at the other end.

use std::future::Future;
use std::time::Duration;

use crate::batch::{BatchError, OffsetRange, Reason};
use crate::route::RouteError;
use crate::source::{Parcel, TopicPartition};
use crate::wire::error::Place;
use crate::wire::{Code, WireError};

pub mod kafka;

/// A place that takes parcels in transactions: what is written becomes visible as a whole, or not at all.
pub trait Sink: Send {
    /// Gets ready to write; nothing is acquired before. Mends what a failure has left behind; costs nothing where all is well.
    fn open(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// How long a write may take. The lane makes its loads smaller where that is not enough.
    fn write_max(&self) -> Duration;

    /// Writes parcels within one transaction, which it begins. Returns when all is stored, but not visible yet.
    ///
    /// Returns, for each parcel, what was held of it and which of these offsets hold records.
    /// Errors: then the transaction must be [aborted](Self::abort).
    fn write(&mut self, parcels: &[Parcel]) -> impl Future<Output = Result<Vec<Written>, SinkError>> + Send;

    /// Makes what was written visible.
    ///
    /// Errors: its fate is not known yet. Ask again; until then nothing is written again.
    fn commit(&mut self) -> impl Future<Output = Result<Fate, SinkError>> + Send;

    /// Takes back what was written; returns whether there was anything. Never fails: what could not be taken back, the next
    /// [open](Self::open) does.
    fn abort(&mut self) -> impl Future<Output = bool> + Send;
}

/// What was written of one parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What the parcel held then.
    pub held: Vec<OffsetRange>,
    /// The offsets among them that hold records.
    pub offsets: Vec<OffsetRange>,
    /// How many of these records have been on the target before, and were not written again.
    pub looped: u64,
    /// Bytes of record batches.
    pub bytes: u64,
    /// Why batches had to be taken apart, one entry for each.
    pub carved: Vec<Reason>,
}

impl Written {
    /// How many records were written.
    pub fn records(&self) -> u64 {
        self.offsets.iter().map(OffsetRange::count).sum::<u64>().saturating_sub(self.looped)
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Visible.
    Committed,
    /// Not visible, or not known to be: write again.
    NotCommitted,
}

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The sink as a whole does not work.
    #[error(transparent)]
    Whole(#[from] WireError),
    /// All that was sent is stored, and more than fits into the time of a write.
    #[error(
        "{place} has not taken all within {} ms, half of transaction.timeout.ms: less is written at once; where that goes on, raise \
         transaction.timeout.ms, or see what slows the broker, such as a quota",
        within.as_millis()
    )]
    Overdue {
        /// The slowest: cluster and address.
        place: Place,
        /// The time of a write.
        within: Duration,
    },
    /// Some topic partitions of the source cannot be written; the others can.
    #[error("{} topic partitions cannot be written: {}", .0.len(), first(.0))]
    Partitions(Vec<(TopicPartition, PartitionFault)>),
}

impl SinkError {
    /// Whether something was given up because it took too long.
    pub fn is_overdue(&self) -> bool {
        let is_timeout = |error: &WireError| matches!(error, WireError::Timeout { .. });
        match self {
            Self::Whole(error) => is_timeout(error),
            Self::Overdue { .. } => true,
            Self::Partitions(faults) => {
                faults.iter().any(|(_, fault)| matches!(fault, PartitionFault::Target(error) if is_timeout(error)))
            }
        }
    }

    /// Whether somebody else has ended the transaction: a transaction keeper, or the coordinator.
    pub fn is_fenced(&self) -> bool {
        let is_fenced = |fault: &PartitionFault| {
            let PartitionFault::Target(error) = fault else { return false };
            matches!(error.code(), Some(Code::InvalidProducerEpoch | Code::ProducerFenced))
        };
        matches!(self, Self::Partitions(faults) if faults.iter().any(|(_, fault)| is_fenced(fault)))
    }
}

fn first(faults: &[(TopicPartition, PartitionFault)]) -> String {
    faults.first().map(|(at, fault)| format!("{at}: {fault}")).unwrap_or_default()
}

/// What is wrong with one topic partition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionFault {
    /// The target refuses, or does not know it.
    #[error(transparent)]
    Target(WireError),
    /// The topic has fewer partitions on the target than on the source.
    #[error(
        "cluster {cluster}: the topic has {count} partitions there, fewer than on the source; add this one, and those behind it: \
         kafka-topics.sh --bootstrap-server {bootstrap} --alter --topic {} --partitions {}", .at.topic, i64::from(.at.partition) + 1
    )]
    Missing {
        /// The target's name in the configuration.
        cluster: String,
        /// Its bootstrap servers, comma-separated.
        bootstrap: String,
        /// The topic partition.
        at: TopicPartition,
        /// How many partitions the topic has there.
        count: usize,
    },
    /// Its topic has no topic on the target.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The source has delivered something that cannot be written.
    #[error("source {0}")]
    Batch(#[from] BatchError),
    /// Acquired offsets whose records were not delivered.
    #[error("source offsets {0} were acquired, and the reply held no record batch for them")]
    Undelivered(OffsetRange),
}
