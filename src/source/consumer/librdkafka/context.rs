//! What librdkafka calls back. Nothing is decided in here: the thread that polls looks afterwards.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

use super::Command;
use crate::source::TopicPartition;

/// See the module.
#[derive(Debug)]
pub(super) struct Context {
    wake: Sender<Command>,
    /// Whether the thread was woken already, and has not looked yet.
    woken: AtomicBool,
    /// Whether nobody looks any more: the consumer is about to be dropped.
    leaving: AtomicBool,
    told: Mutex<Told>,
}

/// What the thread has not seen yet.
#[derive(Debug, Default)]
struct Told {
    rebalances: VecDeque<Rebalance>,
    failure: Option<String>,
}

/// A change of the assignment, which waits until it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rebalance {
    /// These come to what is ours.
    Assign(Vec<TopicPartition>),
    /// These are to be given up.
    Revoke(Vec<TopicPartition>),
}

impl Context {
    pub(super) fn new(wake: Sender<Command>) -> Self {
        Self { wake, woken: AtomicBool::new(false), leaving: AtomicBool::new(false), told: Mutex::default() }
    }

    /// Wakes the thread, once for all that it has not looked at yet.
    pub(super) fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // Without a thread there is nobody to wake.
            let _ = self.wake.send(Command::Wake);
        }
    }

    /// The thread is about to look.
    pub(super) fn looks(&self) {
        self.woken.store(false, Ordering::Release);
    }

    /// From now on whatever is revoked is let go at once.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// The oldest change that waits.
    pub(super) fn rebalance(&self) -> Option<Rebalance> {
        self.told().rebalances.pop_front()
    }

    /// The reason of the last error, once.
    pub(super) fn failure(&self) -> Option<String> {
        self.told().failure.take()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, message, "librdkafka");
    }

    fn error(&self, _: KafkaError, reason: &str) {
        self.told().failure = Some(reason.to_owned());
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, kind: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let is_assignment = kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.leaving.load(Ordering::Acquire) {
            // An assignment that nobody takes counts as empty.
            let given_up = if is_assignment { &TopicPartitionList::new() } else { &*list };
            let _ = consumer.incremental_unassign(given_up);
            return;
        }
        let partitions = partitions(list);
        let rebalance = if is_assignment { Rebalance::Assign(partitions) } else { Rebalance::Revoke(partitions) };
        self.told().rebalances.push_back(rebalance);
    }
}

fn partitions(list: &TopicPartitionList) -> Vec<TopicPartition> {
    let partition = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| TopicPartition {
        topic: element.topic().into(),
        partition: element.partition(),
    };
    list.elements().iter().map(partition).collect()
}
