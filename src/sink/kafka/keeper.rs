//! The transaction keeper: decides what dead workers have left open on the target.
//!
//! A worker that is killed in a transaction leaves it open, and `read_committed` readers wait at its first record until the
//! coordinator's own sweep. Every process looks for such transactions of its flow and aborts them with an InitProducerId.
//! There is no compare-and-swap: with the producer of a transaction that has ended meanwhile, it would abort the owner's next one.
//! So the keeper acts only on a transaction that has been open for longer than its own timeout, which lanes stay far below (see
//! `write.rs`). A live lane that is decided all the same writes again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::identity::{belongs_to, prefix};
use crate::flow::Flow;
use crate::limits::KEEPER_EVERY;
use crate::metrics::FlowMetrics;
use crate::wire::transaction::{OpenTransaction, decide, open_transactions};
use crate::wire::{Client, WireError};

/// When each open transaction was first seen (pure: time comes in).
#[derive(Debug, Default)]
struct Sightings {
    since: HashMap<OpenTransaction, Instant>,
}

impl Sightings {
    /// Takes note of what is open now; returns what has been open for longer than its own timeout, by our clock alone.
    fn overdue(&mut self, open: Vec<OpenTransaction>, now: Instant) -> Vec<OpenTransaction> {
        let before = std::mem::take(&mut self.since);
        self.since = open.into_iter().map(|open| (before.get(&open).copied().unwrap_or(now), open)).map(swap).collect();
        let is_overdue = |(open, since): &(&OpenTransaction, &Instant)| {
            now.saturating_duration_since(**since) > Duration::from_millis(open.timeout_ms)
        };
        self.since.iter().filter(is_overdue).map(|(open, _)| open.clone()).collect()
    }
}

fn swap<A, B>((a, b): (A, B)) -> (B, A) {
    (b, a)
}

/// Looks after the transactions of a flow, for ever.
pub async fn keep(flow: Flow, metrics: FlowMetrics) {
    let mut client = Client::new(flow.sink.clone());
    let mut sightings = Sightings::default();
    loop {
        tokio::time::sleep(KEEPER_EVERY).await;
        match open_of(&mut client, &flow.name).await {
            Ok(open) => {
                for overdue in sightings.overdue(open, Instant::now()) {
                    let decided = decide(&mut client, &overdue).await;
                    metrics.decided.inc_by(u64::from(decided.is_ok()));
                    let (id, age) = (overdue.transactional_id, overdue.timeout_ms);
                    match decided {
                        Ok(()) => tracing::warn!(
                            id,
                            timeout_ms = age,
                            "aborted a transaction that a dead worker has left open"
                        ),
                        // Another keeper, or the coordinator itself, was faster.
                        Err(error) => tracing::debug!(id, %error, "a dead worker's transaction was not ours to decide"),
                    }
                }
            }
            Err(error) => {
                client.forget_coordinators();
                tracing::debug!(flow = flow.name, %error, "open transactions of the flow unknown");
            }
        }
    }
}

/// Open transactions of a flow, on all brokers.
async fn open_of(client: &mut Client, flow: &str) -> Result<Vec<OpenTransaction>, WireError> {
    let mut open = open_transactions(client, &prefix(flow)).await?;
    open.retain(|open| belongs_to(&open.transactional_id, flow));
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::transaction::Producer;

    fn open(epoch: i16) -> OpenTransaction {
        OpenTransaction {
            transactional_id: "sharebridge-f-0-0".into(),
            producer: Producer { id: 5, epoch },
            started_ms: 1,
            timeout_ms: 3000,
        }
    }

    #[test]
    fn only_what_stays_open_beyond_its_own_timeout_is_decided() {
        let (start, mut sightings) = (Instant::now(), Sightings::default());
        let at = |ms| start + Duration::from_millis(ms);
        assert!(sightings.overdue(vec![open(1)], at(0)).is_empty());
        assert!(sightings.overdue(vec![open(1)], at(3000)).is_empty());
        assert_eq!(sightings.overdue(vec![open(1)], at(3001)), [open(1)]);
    }

    #[test]
    fn the_owners_next_transaction_is_another_one() {
        let (start, mut sightings) = (Instant::now(), Sightings::default());
        assert!(sightings.overdue(vec![open(1)], start).is_empty());
        assert!(sightings.overdue(vec![open(2)], start + Duration::from_secs(9)).is_empty());
        assert!(sightings.overdue(vec![], start + Duration::from_secs(10)).is_empty());
        assert!(sightings.overdue(vec![open(2)], start + Duration::from_secs(20)).is_empty());
    }
}
