//! One assigned partition: what comes of it, what was handed out, and what may be committed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use tokio::time::Instant;

use super::context::Context;
use super::package::Package;
use crate::batch::OffsetRange;
use crate::limits::HOLD_RETRY;
use crate::source::consumer::progress::{Position, Progress};
use crate::source::{Hold, TopicPartition};

/// See the module.
pub(super) struct Part {
    pub(super) at: TopicPartition,
    queue: PartitionQueue<Context>,
    pub(super) state: State,
    /// The next offset to read; `None` while only the group knows.
    pub(super) next: Option<i64>,
    /// What was handed out since the position was last set.
    handed: Option<Handed>,
    /// What the group has stored.
    pub(super) committed: Option<i64>,
}

/// How a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// All is well.
    Reading,
    /// Read again after something was wrong: well unless it happens again before this.
    Trial(Instant),
    /// librdkafka has no position to go on from.
    Lost,
    /// Something is wrong: not read before this.
    Held(Instant),
}

struct Handed {
    progress: Progress,
    /// Where what was handed out ends.
    end: i64,
    holds: VecDeque<Arc<Hold>>,
}

impl Part {
    pub(super) fn new(at: TopicPartition, queue: PartitionQueue<Context>) -> Self {
        Self { at, queue, state: State::Reading, next: None, handed: None, committed: None }
    }

    /// Whether there is a point in asking for records.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.state, State::Reading | State::Trial(_))
    }

    /// Puts records that are there into a package, until it has `bytes_max`.
    ///
    /// Errors: why it has ended early. What was taken before stays good.
    pub(super) fn take(&mut self, package: &mut Package, bytes_max: usize) -> Result<(), String> {
        while package.size_bytes() < bytes_max {
            match self.queue.poll(Duration::ZERO) {
                None => break,
                Some(Ok(message)) => {
                    let offset = message.offset();
                    if self.next.is_some_and(|next| offset < next) {
                        continue;
                    }
                    package.push(&message).map_err(|unfit| unfit.to_string())?;
                    self.next = Some(offset + 1);
                }
                Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset))) => {
                    self.state = State::Lost;
                    break;
                }
                // Behind most errors librdkafka goes on with the next records, as if there had been nothing.
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Not read for a while.
    pub(super) fn hold(&mut self, now: Instant) {
        self.state = State::Held(now + HOLD_RETRY);
    }

    /// Reading goes on from here; what was handed out stays as it is.
    pub(super) fn is_read_from(&mut self, offset: i64, now: Instant) {
        self.next = Some(offset);
        self.state = State::Trial(now + HOLD_RETRY);
    }

    /// Nothing is stored for the group, and it begins here: so that is to be stored.
    pub(super) fn begins_at(&mut self, offset: i64) {
        self.handed.get_or_insert_with(|| Handed::at(offset));
    }

    /// Records of these offsets go to the lane, and are ours until then.
    pub(super) fn hand(&mut self, span: OffsetRange, until: Instant) -> Arc<Hold> {
        if self.handed.is_none() {
            // The group stands there already, or at a gap before it.
            self.committed = Some(span.first);
        }
        self.handed.get_or_insert_with(|| Handed::at(span.first)).hand(span, until)
    }

    /// Part of what was handed out is finished. What belongs to an earlier turn counts no more.
    pub(super) fn settle(&mut self, hold: &Arc<Hold>, span: OffsetRange) {
        let Some(handed) = &mut self.handed else { return };
        let Some(index) = handed.holds.iter().position(|known| Arc::ptr_eq(known, hold)) else { return };
        if !handed.progress.finish(span) {
            tracing::error!(at = %self.at, ?span, "finished out of order: it is read again");
            hold.drop_all();
            return;
        }
        hold.drop_range(span);
        if hold.is_empty() {
            handed.holds.remove(index);
        }
    }

    /// What was handed out is ours until then.
    pub(super) fn extend(&self, until: Instant) {
        self.handed.iter().flat_map(|handed| &handed.holds).for_each(|hold| hold.extend(until));
    }

    /// Where to read again, if the lane has given up what it had: its time was over.
    pub(super) fn given_up(&self) -> Option<i64> {
        let handed = self.handed.as_ref()?;
        handed.holds.iter().any(|hold| hold.is_empty()).then(|| handed.progress.done().offset)
    }

    /// Takes everything back from the lane that is not finished; returns how many offsets that are.
    pub(super) fn take_back(&mut self) -> u64 {
        let Some(handed) = &mut self.handed else { return 0 };
        let holds = std::mem::take(&mut handed.holds);
        let count = holds.iter().flat_map(|hold| hold.ranges()).map(|range| range.count()).sum();
        holds.iter().for_each(|hold| hold.drop_all());
        *handed = Handed::at(handed.progress.done().offset);
        count
    }

    /// Whether everything that was handed out is finished.
    pub(super) fn is_idle(&self) -> bool {
        self.handed.as_ref().is_none_or(|handed| handed.holds.is_empty())
    }

    /// What is to be committed: `None` where the group has it already.
    pub(super) fn to_commit(&self) -> Option<i64> {
        let done = self.handed.as_ref()?.progress.done().offset;
        (self.committed != Some(done)).then_some(done)
    }
}

impl Handed {
    fn at(offset: i64) -> Self {
        Self { progress: Progress::at(position(offset)), end: offset, holds: VecDeque::new() }
    }

    fn hand(&mut self, span: OffsetRange, until: Instant) -> Arc<Hold> {
        if span.first > self.end {
            // Markers, aborted records, what compaction or retention has taken.
            self.progress.hand(position(span.first), true);
        }
        self.end = span.last + 1;
        self.progress.hand(position(self.end), false);
        let hold = Arc::new(Hold::new(vec![span], until));
        self.holds.push_back(hold.clone());
        hold
    }
}

/// librdkafka's binding tells no leader epochs.
fn position(offset: i64) -> Position {
    Position { offset, epoch: -1 }
}
