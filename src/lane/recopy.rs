//! Copies records by offset from the source's log: those that the share group will not deliver.

use std::sync::Arc;

use tokio::time::Instant;

use crate::batch::{OffsetRange, RecordBatch, committed, within};
use crate::limits::HOLD_RETRY;
use crate::metrics::LaneMetrics;
use crate::sink::{Sink, SinkError, write_alone};
use crate::source::share::rewritten::Rewritten;
use crate::source::{Hold, Parcel};
use crate::wire::log::read_log;
use crate::wire::{Client, WireError};

/// See the module.
#[derive(Debug)]
pub struct Recopy {
    sink: Box<dyn Sink>,
    metrics: LaneMetrics,
}

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All committed records below this offset are on the target.
    To(i64),
    /// Nothing is there yet.
    CaughtUp,
}

/// Why a step has failed; nothing of it is visible on the target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecopyError {
    /// The source.
    #[error(transparent)]
    Source(#[from] WireError),
    /// The partition has no leader, or the topic is gone.
    #[error("the cluster knows no leader of it")]
    Leaderless,
    /// A record batch that cannot be read.
    #[error(transparent)]
    Batch(#[from] crate::batch::BatchError),
    /// The target.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl Recopy {
    /// A copier with a sink of its own.
    pub fn new(sink: Box<dyn Sink>, metrics: LaneMetrics) -> Self {
        Self { sink, metrics }
    }

    /// Copies what one read of the log brings.
    pub async fn step(&mut self, source: &mut Client, rewritten: &Rewritten) -> Result<Progress, RecopyError> {
        let Rewritten { at, topic_id, position, end, .. } = rewritten;
        let topics = source.topics(&[at.topic.to_string()]).await?;
        let topic = topics.into_iter().filter_map(|(_, topic)| topic.ok()).find(|topic| topic.id == *topic_id);
        let leader = topic.and_then(|topic| topic.leadership(at.partition));
        let (leader, _) = leader.ok_or(RecopyError::Leaderless)?;
        let read = read_log(&*source.broker(leader).await?, (*topic_id, at.partition), *position).await?;
        let batches: Vec<RecordBatch> = RecordBatch::split(read.records.clone()).collect::<Result<_, _>>()?;
        let Some(last) = batches.last().map(RecordBatch::last_offset) else {
            // Retention may have taken what was to be copied.
            return Ok(if read.start_offset > *position {
                Progress::To(read.start_offset)
            } else {
                Progress::CaughtUp
            });
        };
        let next = (last + 1).min(*end);
        let span = OffsetRange { first: *position, last: next - 1 };
        let ranges = within(&committed(&batches, &read.aborted), span);
        if !ranges.is_empty() {
            let hold = Arc::new(Hold::new(ranges, Instant::now() + HOLD_RETRY));
            let (at, topic_id, records) = (at.clone(), *topic_id, read.records);
            let (fetched_at, delivery_count, fragile) = (Instant::now(), 1, false);
            self.write(Parcel { at, topic_id, leader, records, hold, span, delivery_count, fragile, fetched_at })
                .await?;
        }
        Ok(Progress::To(next))
    }

    async fn write(&mut self, parcel: Parcel) -> Result<(), SinkError> {
        let counts = self.metrics.topic(&parcel.at.topic);
        let written = write_alone(&mut *self.sink, parcel).await?;
        self.metrics.looped.inc_by(written.looped);
        self.metrics.recopied.inc_by(written.records());
        counts.sent.record(written.records());
        self.metrics.bytes_sent.inc_by(written.bytes);
        Ok(())
    }
}
