//! What becomes ours and what is given up.

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use tokio::time::Instant;

use super::context::Rebalance;
use super::part::Part;
use super::position;
use super::reader::{GROUP, Reader, list, subject};
use crate::limits::{ENGINE_EVENTS_PER_TURN, ENGINE_TICK, REVOKE_MAX};
use crate::source::TopicPartition;

impl Reader {
    /// Serves what librdkafka wants to tell.
    pub(super) fn serve(&mut self) {
        for _ in 0..ENGINE_EVENTS_PER_TURN {
            match self.poll() {
                Some(Err(error)) => {
                    tracing::debug!(%error, "librdkafka");
                    self.alarm();
                }
                Some(Ok(at)) => self.stray(&at),
                None => {}
            }
            match self.consumer.context().rebalance() {
                Some(Rebalance::Assign(ats)) => self.assign(ats),
                Some(Rebalance::Revoke(ats)) => self.revoke(&ats),
                None => {}
            }
        }
    }

    fn poll(&self) -> Option<Result<TopicPartition, KafkaError>> {
        use rdkafka::Message;
        let polled = self.consumer.poll(std::time::Duration::ZERO)?;
        let at = |topic: &str, partition| TopicPartition { topic: topic.into(), partition };
        Some(polled.map(|message| at(message.topic(), message.partition())))
    }

    /// Records come by the queues of their partitions. One that came another way is read again.
    fn stray(&mut self, at: &TopicPartition) {
        tracing::warn!(%at, "a record beside the queue of its partition: read again");
        self.parts.get_mut(at).into_iter().for_each(|part| part.hold(Instant::now()));
    }

    fn assign(&mut self, ats: Vec<TopicPartition>) {
        tracing::info!(partitions = ats.len(), "assigned");
        let assigned = position::begin(&self.consumer, &ats, self.group.offset_reset);
        for at in ats {
            // Before it is assigned, so that no record comes another way.
            let Some(mut queue) = self.consumer.split_partition_queue(&at.topic, at.partition) else {
                self.health.trouble(subject(&at), "librdkafka has no queue for it");
                continue;
            };
            let context = self.consumer.context().clone();
            queue.set_nonempty_callback(move || context.wake());
            self.parts.insert(at.clone(), Part::new(at, queue));
        }
        self.count_parts();
        match self.consumer.incremental_assign(&assigned) {
            Ok(()) => self.health.well(GROUP),
            Err(error) => self.health.trouble(GROUP, error),
        }
    }

    /// Gives partitions up: what was handed out is finished first, within bounds, unless others have them already.
    fn revoke(&mut self, ats: &[TopicPartition]) {
        let is_lost = self.consumer.assignment_lost();
        tracing::info!(partitions = ats.len(), is_lost, "revoked");
        let mut revoked = TopicPartitionList::new();
        ats.iter().for_each(|at| {
            revoked.add_partition(&at.topic, at.partition);
        });
        if is_lost {
            self.health.pending(GROUP, "nothing was heard of this member for too long: joining again");
        } else {
            self.finish(ats);
            self.commit_now();
        }
        for at in ats {
            if let Some(mut part) = self.parts.remove(at) {
                let lost = part.take_back();
                self.metrics.lost.inc_by(lost);
                self.health.well(subject(at));
            }
        }
        self.count_parts();
        if let Err(error) = self.consumer.incremental_unassign(&revoked) {
            self.health.trouble(GROUP, error);
        }
    }

    fn count_parts(&self) {
        self.metrics.sensors.partitions.set(self.parts.len().try_into().unwrap_or(i64::MAX));
    }

    /// Waits until these are finished. Nothing is read meanwhile, and what is held of others stays ours.
    fn finish(&mut self, ats: &[TopicPartition]) {
        let deadline = Instant::now() + REVOKE_MAX;
        let is_busy = |reader: &Self| ats.iter().filter_map(|at| reader.parts.get(at)).any(|part| !part.is_idle());
        let is_over = |reader: &Self| reader.closing.is_some() || reader.consumer.assignment_lost();
        while is_busy(self) && !is_over(self) && Instant::now() < deadline {
            self.extend();
            if let Some(command) = self.next_command(deadline.min(Instant::now() + ENGINE_TICK)) {
                self.obey(command);
            }
        }
    }

    /// Stores what is finished, and waits for that.
    fn commit_now(&mut self) {
        let positions = self.to_commit();
        if positions.is_empty() {
            return;
        }
        let committed = self.consumer.commit(&list(&positions), CommitMode::Sync);
        self.committing = Some(positions);
        self.on_committed(committed.map_err(|error| error.to_string()));
    }

    /// Leaves the group; returns how many offsets that were handed out are not finished.
    pub(super) fn leave(mut self) -> u64 {
        self.commit_now();
        self.consumer.context().leave();
        let released = self.parts.values_mut().map(Part::take_back).sum();
        // A consumer closes when it is dropped, and the queues of its partitions and its committer keep it.
        let Self { consumer, committer, parts, .. } = self;
        committer.end();
        drop((parts, consumer));
        released
    }
}
