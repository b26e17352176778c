//! What becomes of records that no waiting delivers: `errors.tolerance` and the dead letters (KIP-298, KIP-1302).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::dead_letter::{Blame, Sender, letters};
use crate::limits::HOLD_RETRY;
use crate::sink::{PartitionFault, Sink, SinkError, write_alone};
use crate::source::{Hold, Parcel};

/// See the module.
#[derive(Debug)]
pub struct Tolerance {
    /// What is done with them.
    pub policy: Policy,
    /// Deliveries after which the broker gives a record up by itself.
    pub delivery_count_max: i16,
}

/// What is done with a record that cannot be delivered.
#[derive(Debug)]
pub enum Policy {
    /// It is held, and its topic partition with it, until somebody has looked.
    Stop,
    /// It is counted, logged and passed over.
    Skip,
    /// It is kept elsewhere, then passed over.
    DeadLetter(DeadLetters),
}

/// What was done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Nothing: it is to be held.
    Held,
    /// It is to be rejected, and stands nowhere.
    Skipped,
    /// It is to be rejected, and stands in a dead letter.
    Kept,
}

impl Done {
    /// The word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "stop",
            Self::Skipped => "skip",
            Self::Kept => "dead_letter",
        }
    }
}

impl Tolerance {
    /// Whether records should become dead letters before they are tried once more, since the broker would not deliver them again.
    pub fn is_last_chance(&self, parcel: &Parcel) -> bool {
        matches!(self.policy, Policy::DeadLetter(_)) && parcel.delivery_count >= self.delivery_count_max
    }

    /// Does with all records that a parcel holds what the policy says. Errors: no dead letter could be written; they must be held.
    pub async fn apply(&mut self, parcel: &Parcel, blame: &Blame) -> Result<Done, SinkError> {
        match &mut self.policy {
            Policy::Stop => Ok(Done::Held),
            Policy::Skip => Ok(Done::Skipped),
            Policy::DeadLetter(letters) => letters.write(parcel, blame).await.map(|()| Done::Kept),
        }
    }
}

/// Where dead letters go.
#[derive(Debug)]
pub struct DeadLetters {
    sink: Box<dyn Sink>,
    sender: Sender,
}

impl DeadLetters {
    /// Those of a lane, in a sink of its own.
    pub fn new(sink: Box<dyn Sink>, sender: Sender) -> Self {
        Self { sink, sender }
    }

    /// Writes a letter for each record that a parcel holds; returns when they are durable.
    async fn write(&mut self, parcel: &Parcel, blame: &Blame) -> Result<(), SinkError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let fault = |error| SinkError::Partitions(vec![(parcel.at.clone(), PartitionFault::Batch(error))]);
        let (records, offsets) = letters(parcel, &self.sender, blame, now).map_err(fault)?;
        if !offsets.is_empty() {
            let hold = Arc::new(Hold::new(offsets, Instant::now() + HOLD_RETRY));
            write_alone(&mut *self.sink, Parcel { records, hold, ..parcel.clone() }).await?;
        }
        Ok(())
    }
}
