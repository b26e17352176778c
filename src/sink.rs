//! Where records go: one trait, and what can go wrong at the other end.
//!
//! What a sink may rely on, and what it must keep:
//!
//! - [`open`](Sink::open) is called before anything is acquired, and again after each failure, for all topics of the flow at once. A
//!   sink is never told which topics those are: a topic that is found later simply comes with its first parcel.
//! - [`write`](Sink::write), [`commit`](Sink::commit) and [`abort`](Sink::abort) follow one another; there is one transaction at a time.
//!   What `commit` has answered with [`Fate::Committed`] is stored durably.
//! - A parcel's offsets are acknowledged only after `commit` has said [`Fate::Committed`], and only those that were not
//!   [refused](Written::refused). What fails is held, its locks are renewed, and it is written again: the same record may come more
//!   than once.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::batch::{BatchError, OffsetRange, Reason};
use crate::route::RouteError;
use crate::source::{Parcel, TopicPartition};
use crate::wire::backoff::Backoff;
use crate::wire::error::Place;
use crate::wire::{Code, WireError};

pub mod kafka;

/// A place that takes parcels in transactions: what is written becomes visible as a whole, or not at all.
#[async_trait]
pub trait Sink: Send + fmt::Debug {
    /// Gets ready to write; nothing is acquired before. Mends what a failure has left behind; costs nothing where all is well.
    async fn open(&mut self) -> Result<(), SinkError>;

    /// How long a write may take. The lane makes its loads smaller where that is not enough.
    fn write_max(&self) -> Duration;

    /// Writes parcels within one transaction, which it begins. Returns when all is stored, but not visible yet.
    ///
    /// Returns, for each parcel, what was held of it, which of these offsets hold records, and which records were refused.
    /// Errors: then the transaction must be [aborted](Self::abort).
    async fn write(&mut self, parcels: &[Parcel]) -> Result<Vec<Written>, SinkError>;

    /// Makes what was written visible.
    ///
    /// Errors: its fate is not known yet. Ask again; until then nothing is written again.
    async fn commit(&mut self) -> Result<Fate, SinkError>;

    /// Takes back what was written; returns whether there was anything. Never fails: what could not be taken back, the next
    /// [open](Self::open) does.
    async fn abort(&mut self) -> bool;
}

/// Commits, and asks again until the fate of the transaction is known: only then may anything be written again.
pub async fn decide(sink: &mut dyn Sink, mut undecided: impl FnMut(&SinkError)) -> Fate {
    let mut backoff = Backoff::default();
    loop {
        match sink.commit().await {
            Ok(fate) => return fate,
            Err(error) => {
                undecided(&error);
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}

/// Writes a parcel in a transaction of its own, for whom it is all or nothing. Errors: nothing of it is visible.
pub async fn write_alone(sink: &mut dyn Sink, parcel: Parcel) -> Result<Written, SinkError> {
    sink.open().await?;
    let written = match sink.write(&[parcel]).await {
        Ok(mut written) => written.pop().unwrap_or_default(),
        Err(error) => {
            sink.abort().await;
            return Err(error);
        }
    };
    if let Some(Refused { offset, class, why, .. }) = written.refused.first() {
        let refused = SinkError::Record { offset: *offset, class: class.clone(), why: why.clone() };
        sink.abort().await;
        return Err(refused);
    }
    match decide(sink, |error| tracing::warn!(%error, "a transaction of its own is undecided")).await {
        Fate::Committed => Ok(written),
        Fate::NotCommitted => Err(SinkError::NotCommitted),
    }
}

/// What was written of one parcel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// What the parcel held then.
    pub held: Vec<OffsetRange>,
    /// The offsets among them that hold records, with those that were refused: ascending, not overlapping. The others are gaps.
    pub offsets: Vec<OffsetRange>,
    /// Records among them that were not written: ascending. Empty where all went well.
    pub refused: Vec<Refused>,
    /// How many of these records have been on the target before, and were not written again.
    pub looped: u64,
    /// Bytes of record batches.
    pub bytes: u64,
    /// Why batches had to be taken apart, one entry for each.
    pub carved: Vec<Reason>,
}

/// A record that a sink did not take, while it took others of the same parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its offset at the source.
    pub offset: i64,
    /// Whether it may be taken later.
    pub is_retriable: bool,
    /// What kind of error it is, in one word: the dead letter says it.
    pub class: String,
    /// Why, in words for people; without the record's own content.
    pub why: String,
}

impl Written {
    /// How many records were written.
    pub fn records(&self) -> u64 {
        let records = self.offsets.iter().map(OffsetRange::count).sum::<u64>();
        records.saturating_sub(self.looped).saturating_sub(self.refused.len() as u64)
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
    /// The transaction was decided otherwise.
    #[error("the transaction was not committed")]
    NotCommitted,
    /// A record was refused that must not be missing.
    #[error("the record of offset {offset} was refused: {class}: {why}")]
    Record {
        /// Its offset.
        offset: i64,
        /// What kind of error it is.
        class: String,
        /// In words.
        why: String,
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
            Self::NotCommitted | Self::Record { .. } => false,
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

impl PartitionFault {
    /// What kind of fault it is, in one word: a broker's error code by its name, or what is wrong here.
    pub fn class(&self) -> String {
        match self {
            Self::Target(error) => error.code().map_or_else(|| "Unreachable".to_owned(), |code| code.to_string()),
            Self::Missing { .. } => "PartitionMissing".to_owned(),
            Self::Route(_) => "NoTarget".to_owned(),
            Self::Batch(error) => error.class().to_owned(),
            Self::Undelivered(_) => "Undelivered".to_owned(),
        }
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
