//! The only match from an error to a decision (pure). Callers obey.
//!
//! The table is the one of `docs/DELIVERY.md`, "From error to decision". Nothing in it lets records go: in doubt they are held.

use crate::batch::BatchError;
use crate::limits::FAILURES_IN_A_ROW_MAX;
use crate::sink::{PartitionFault, SinkError};
use crate::source::TopicPartition;
use crate::wire::{Code, WireError};

/// What a lane does after an error of its sink. The transaction is aborted in any case.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write all of it again, after a pause.
    WriteAgain,
    /// Hold these topic partitions and go on with the others.
    Hold(Vec<Held>),
}

/// A topic partition to be held.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    /// Which one.
    pub at: TopicPartition,
    /// Until when.
    pub patience: Patience,
    /// Why.
    pub reason: String,
    /// What kind of error it is, in one word.
    pub class: String,
}

impl Held {
    /// Whether a record or a record batch is at fault, and not the topic partition.
    pub fn is_of_a_record(&self) -> bool {
        matches!(self.patience, Patience::Record | Patience::Batch)
    }
}

/// How soon a held topic partition is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Patience {
    /// It should heal by itself: a leader moves, a broker comes back.
    Soon,
    /// Somebody has to do something: grant a right, create a topic, look at a record.
    Long,
    /// One of the records is at fault: once it is found, the others go on, and the flow's policy says what becomes of it.
    Record,
    /// A record batch that cannot be read: likewise, but it is as small as it can be found.
    Batch,
}

/// Judges an error. One topic partition whose transaction is in doubt puts all of it in doubt.
///
/// `failures`: how often in a row a whole transaction has failed. A partition that makes transactions fail again and again is held,
/// so that it does not stop the others.
pub fn judge(error: &SinkError, failures: u32) -> Decision {
    let SinkError::Partitions(faults) = error else { return Decision::WriteAgain };
    let held = |(at, fault): &(TopicPartition, PartitionFault)| {
        let patience = patience(fault).or((failures >= FAILURES_IN_A_ROW_MAX).then_some(Patience::Soon))?;
        Some(Held { at: at.clone(), patience, reason: fault.to_string(), class: fault.class() })
    };
    let judged: Option<Vec<Held>> = faults.iter().map(held).collect();
    judged.map_or(Decision::WriteAgain, Decision::Hold)
}

/// How long a fault keeps its topic partition held; `None` where it is the transaction's fault, not the partition's.
fn patience(fault: &PartitionFault) -> Option<Patience> {
    let error = match fault {
        PartitionFault::Batch(BatchError::RecordTooLarge { .. }) => return Some(Patience::Record),
        // Where record batches cannot be told apart, the good ones among them would be given up with the bad one.
        PartitionFault::Batch(error) => {
            return Some(if error.is_of_framing() { Patience::Long } else { Patience::Batch });
        }
        PartitionFault::Undelivered(_) | PartitionFault::Route(_) => return Some(Patience::Long),
        PartitionFault::Missing { .. } => return Some(Patience::Soon),
        PartitionFault::Target(error) => error,
    };
    match error {
        WireError::Answered { code, .. } => of_code(*code),
        WireError::Connect { .. } | WireError::Lost { .. } | WireError::Timeout { .. } => Some(Patience::Soon),
        WireError::Nobody { .. } => Some(Patience::Soon),
        // Somebody has to act, and then all of it is well at once.
        WireError::Tls { .. } | WireError::Security { .. } | WireError::Unauthenticated { .. } => Some(Patience::Soon),
        WireError::Malformed { .. } | WireError::Encode { .. } | WireError::Unsupported { .. } => Some(Patience::Long),
    }
}

fn of_code(code: Code) -> Option<Patience> {
    match code {
        // The producer or its transaction is not what the broker expects: its next epoch mends it.
        Code::InvalidProducerEpoch
        | Code::ProducerFenced
        | Code::InvalidTxnState
        | Code::InvalidProducerIdMapping
        | Code::UnknownProducerId
        | Code::OutOfOrderSequenceNumber
        | Code::ConcurrentTransactions
        | Code::TransactionAbortable
        | Code::TransactionCoordinatorFenced
        | Code::OperationNotAttempted => None,
        Code::MessageTooLarge | Code::InvalidRecord | Code::InvalidTimestamp | Code::RecordListTooLarge => {
            Some(Patience::Record)
        }
        // A right or setting that is missing: hold until somebody has looked.
        Code::CorruptMessage
        | Code::UnsupportedCompressionType
        | Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::InvalidTopicException
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat => Some(Patience::Long),
        // Leaders, replicas, disks and quotas heal by themselves; what we have no name for is tried again, too.
        _ => Some(Patience::Soon),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::OffsetRange;
    use crate::wire::error::Place;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition { topic: "t".into(), partition }
    }

    fn place() -> Place {
        Place { cluster: "dr".into(), address: "b:1".into() }
    }

    fn answered(code: Code) -> WireError {
        WireError::Answered { place: place(), api: "Produce", what: "t-0".into(), code, message: None }
    }

    /// The patience with each partition; `None` where all is written again.
    fn judged(faults: Vec<PartitionFault>) -> Option<Vec<(TopicPartition, Patience)>> {
        let faults = faults.into_iter().enumerate().map(|(i, fault)| (at(i as i32), fault)).collect();
        match judge(&SinkError::Partitions(faults), 0) {
            Decision::WriteAgain => None,
            Decision::Hold(held) => Some(held.into_iter().map(|held| (held.at, held.patience)).collect()),
        }
    }

    #[test]
    fn the_table_of_the_delivery_document() {
        use Patience::{Long, Record, Soon};
        let table = [
            (Code::NotLeaderOrFollower, Some(Soon)),
            (Code::UnknownTopicOrPartition, Some(Soon)),
            (Code::UnknownTopicId, Some(Soon)),
            (Code::NotEnoughReplicas, Some(Soon)),
            (Code::KafkaStorageError, Some(Soon)),
            (Code::RequestTimedOut, Some(Soon)),
            (Code::ThrottlingQuotaExceeded, Some(Soon)),
            (Code::Unknown(4242), Some(Soon)),
            (Code::MessageTooLarge, Some(Record)),
            (Code::InvalidRecord, Some(Record)),
            (Code::InvalidTimestamp, Some(Record)),
            (Code::CorruptMessage, Some(Long)),
            (Code::UnsupportedCompressionType, Some(Long)),
            (Code::TopicAuthorizationFailed, Some(Long)),
            (Code::TransactionalIdAuthorizationFailed, Some(Long)),
            (Code::InvalidTopicException, Some(Long)),
            (Code::OutOfOrderSequenceNumber, None),
            (Code::InvalidProducerEpoch, None),
            (Code::ProducerFenced, None),
            (Code::InvalidTxnState, None),
            (Code::ConcurrentTransactions, None),
            (Code::TransactionAbortable, None),
        ];
        for (code, patience) in table {
            let expected = patience.map(|patience| vec![(at(0), patience)]);
            assert_eq!(judged(vec![PartitionFault::Target(answered(code))]), expected, "{code}");
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_held_and_never_given_up() {
        let judged = |error| judged(vec![PartitionFault::Batch(error)]).expect("it is held")[0].1;
        assert_eq!(judged(BatchError::Magic { base_offset: 7, magic: 1 }), Patience::Long);
        assert_eq!(judged(BatchError::Length { base_offset: 7, length: -1 }), Patience::Long);
        assert_eq!(judged(BatchError::Crc { base_offset: 7, stored: 1, computed: 2 }), Patience::Batch);
        assert_eq!(judged(BatchError::RecordTooLarge { offset: 7, size: 2, size_max: 1 }), Patience::Record);
    }

    #[test]
    fn a_leader_out_of_reach_holds_only_its_partitions() {
        let lost = WireError::Lost { place: place(), cause: "closed".into() };
        assert_eq!(judged(vec![PartitionFault::Target(lost)]), Some(vec![(at(0), Patience::Soon)]));
    }

    #[test]
    fn a_sink_out_of_reach_is_tried_again_as_a_whole() {
        let lost = WireError::Lost { place: place(), cause: "closed".into() };
        assert_eq!(judge(&SinkError::Whole(lost), u32::MAX), Decision::WriteAgain);
    }

    #[test]
    fn a_partition_that_fails_every_transaction_is_held_in_the_end() {
        let error = || {
            let fault = PartitionFault::Target(answered(Code::OutOfOrderSequenceNumber));
            SinkError::Partitions(vec![(at(0), fault)])
        };
        assert_eq!(judge(&error(), FAILURES_IN_A_ROW_MAX - 1), Decision::WriteAgain);
        assert!(matches!(judge(&error(), FAILURES_IN_A_ROW_MAX), Decision::Hold(held) if held.len() == 1));
    }

    #[test]
    fn doubt_about_one_partition_is_doubt_about_the_transaction() {
        let faults = vec![
            PartitionFault::Undelivered(OffsetRange { first: 0, last: 1 }),
            PartitionFault::Target(answered(Code::OutOfOrderSequenceNumber)),
        ];
        assert_eq!(judged(faults), None);
    }
}
