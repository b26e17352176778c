//! Transactions version 1: topic partitions are added to the transaction before anything is written to them.

use tokio::time::Instant;

use super::KafkaSink;
use super::load::{Fault, Load};
use crate::limits::COMPLETION_RETRY;
use crate::sink::SinkError;
use crate::source::TopicPartition;
use crate::wire::transaction::{ADD_PARTITIONS_VERSIONS, add_partitions, not_added};
use crate::wire::{Code, WireError};

impl KafkaSink {
    /// Adds the topic partitions of a load to the transaction, which this begins. While the one before is still being completed at its partitions,
    /// it asks again, until `deadline`.
    pub(super) async fn enlist(&mut self, load: &Load, deadline: Instant) -> Result<(), SinkError> {
        let names = load.partitions().map(|at| (&*at.topic, at.partition));
        let request = add_partitions(&self.transactional_id, self.producer, names);
        let connection = self.coordinator().await?;
        loop {
            let refused = not_added(connection.call_in(ADD_PARTITIONS_VERSIONS, &request).await?);
            let is_waiting = refused.iter().any(|(_, _, code)| *code == Code::ConcurrentTransactions);
            if is_waiting && Instant::now() < deadline {
                tokio::time::sleep(COMPLETION_RETRY).await;
                continue;
            }
            let fault = |(topic, partition, code): (String, i32, Code)| {
                let at = TopicPartition { topic: topic.into(), partition };
                let error = connection.answered("AddPartitionsToTxn", &at.to_string(), (code, None));
                (at, error)
            };
            let faults = judged(refused.into_iter().map(fault).collect());
            if faults.as_ref().is_ok_and(Vec::is_empty) {
                return Ok(());
            }
            // What is wrong may be that another broker coordinates now.
            self.coordination.forget_coordinators();
            return Err(load.blame(faults?));
        }
    }
}

/// From refusals to faults: those that were only refused for the sake of others have none.
///
/// Errors: the transaction as a whole is refused.
fn judged(mut refused: Vec<Fault>) -> Result<Vec<Fault>, WireError> {
    let is_of_coordinator = |error: &WireError| {
        matches!(
            error.code(),
            Some(Code::NotCoordinator | Code::CoordinatorNotAvailable | Code::CoordinatorLoadInProgress)
        )
    };
    if let Some(index) = refused.iter().position(|(_, error)| is_of_coordinator(error)) {
        return Err(refused.swap_remove(index).1);
    }
    let is_own = |error: &WireError| error.code() != Some(Code::OperationNotAttempted);
    if refused.iter().any(|(_, error)| is_own(error)) {
        refused.retain(|(_, error)| is_own(error));
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::error::Place;

    fn refused(codes: &[Code]) -> Result<Vec<Fault>, WireError> {
        let place = Place { cluster: "dr".into(), address: "b:1".into() };
        let answered = |(partition, code): (usize, &Code)| {
            let at = TopicPartition { topic: "t".into(), partition: partition as i32 };
            let error =
                WireError::Answered { place: place.clone(), api: "a", what: "w".into(), code: *code, message: None };
            (at, error)
        };
        judged(codes.iter().enumerate().map(answered).collect())
    }

    fn faulty(codes: &[Code]) -> Vec<i32> {
        refused(codes).unwrap().iter().map(|(at, _)| at.partition).collect()
    }

    #[test]
    fn only_what_is_refused_for_itself_has_a_fault() {
        assert_eq!(faulty(&[]), [0; 0]);
        let (denied, along) = (Code::TopicAuthorizationFailed, Code::OperationNotAttempted);
        assert_eq!(faulty(&[along, denied, along]), [1]);
        assert_eq!(faulty(&[Code::ProducerFenced, Code::ProducerFenced]), [0, 1]);
        assert_eq!(faulty(&[along]), [0]);
    }

    #[test]
    fn a_coordinator_that_is_none_is_a_fault_of_the_whole() {
        for code in [Code::NotCoordinator, Code::CoordinatorNotAvailable, Code::CoordinatorLoadInProgress] {
            assert!(refused(&[code, code]).is_err(), "{code}");
        }
    }
}
