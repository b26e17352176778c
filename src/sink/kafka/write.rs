//! Writing: pack, stamp, and send to all leaders at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::load::{Fault, Load};
use super::pack::{Packed, pack};
use super::plan::{Queues, requests};
use super::{KafkaSink, partition_results};
use crate::batch::{Recipe, RecordBatch, Stamp, forward};
use crate::limits::{ANSWER_DIVISOR, PRODUCE_IN_FLIGHT_MAX};
use crate::sink::{PartitionFault, Sink, SinkError, Written};
use crate::source::{Parcel, TopicPartition};
use crate::wire::client::asks_for_refresh;
use crate::wire::connection::Pending;
use crate::wire::error::Place;
use crate::wire::leaders::Endpoint;
use crate::wire::produce::{Produce, ProduceBatch, Produced};
use crate::wire::transaction::TransactionVersion;
use crate::wire::{Code, Connection, WireError};

/// Batches by leader.
type Orders = BTreeMap<i32, Queues>;

impl KafkaSink {
    /// The target topic of each parcel.
    pub(super) fn route(&self, parcels: &[Parcel]) -> Result<Vec<Arc<str>>, SinkError> {
        let target = |parcel: &Parcel| Ok(self.flow.target(&parcel.at.topic)?.into());
        partition_results(parcels.iter().map(|parcel| (parcel.at.clone(), target(parcel))))
    }

    /// Packs parcels for their target topics.
    pub(super) async fn pack(
        &mut self,
        parcels: &[Parcel],
        topics: &[Arc<str>],
    ) -> Result<(Vec<Written>, Load), SinkError> {
        let routed = || parcels.iter().zip(topics);
        let recipes = routed().map(|(parcel, topic)| (parcel.at.clone(), self.recipe(parcel, topic)));
        let recipes = partition_results(recipes).inspect_err(|_| self.targets.forget())?;
        let jobs = parcels.iter().cloned().zip(recipes).collect();
        let packed = partition_results(pack_all(jobs).await).inspect_err(|_| self.targets.forget())?;
        let mut load = Load::default();
        let written = routed().zip(packed).map(|((parcel, topic), packed)| load.add(&parcel.at, topic, packed));
        let written = written.collect();
        Ok((written, load))
    }

    /// What the target takes of a parcel, and what the flow wants of it.
    fn recipe(&self, parcel: &Parcel, topic: &Arc<str>) -> Result<Recipe, PartitionFault> {
        let target = self.targets.topic(topic, &self.client).map_err(PartitionFault::Target)?;
        let count = target.info.leaders.len();
        let placement = self.flow.mapping.place(parcel.at.partition, i32::try_from(count).unwrap_or(i32::MAX));
        let placement = placement.ok_or_else(|| PartitionFault::Missing {
            cluster: self.client.cluster().to_owned(),
            bootstrap: self.client.bootstrap(),
            at: TopicPartition { topic: topic.clone(), partition: parcel.at.partition },
            count,
        })?;
        Ok(Recipe { size_max: target.bytes_max, codec: self.flow.codec, placement, hop: self.hop.clone() })
    }

    /// Stamps batches with our producer and its sequence numbers. Nothing is stamped twice in an epoch, unless it was not sent.
    fn orders(&mut self, load: &Load) -> Result<Orders, SinkError> {
        let (mut orders, mut faults) = (Orders::new(), vec![]);
        for (at, batches) in load.shares() {
            match self.targets.destination(at, &self.client) {
                Ok(to) => {
                    let mut sequence = self.sequences.get(at).copied().unwrap_or(0);
                    let stamped = batches.iter().map(|batch| {
                        let stamped = self.stamp(batch, at, (to.topic_id, sequence));
                        sequence = next_sequence(sequence, batch.record_count());
                        stamped
                    });
                    orders.entry(to.leader).or_default().insert(at.clone(), stamped.collect());
                    self.sequences.insert(at.clone(), sequence);
                }
                Err(error) => faults.push((at.clone(), error)),
            }
        }
        if faults.is_empty() {
            return Ok(orders);
        }
        self.targets.forget();
        Err(load.blame(faults))
    }

    fn stamp(
        &self,
        batch: &RecordBatch,
        at: &TopicPartition,
        (topic_id, base_sequence): (uuid::Uuid, i32),
    ) -> ProduceBatch {
        let (producer_id, producer_epoch) = (self.producer.id, self.producer.epoch);
        let forwarded = forward(batch, Stamp { producer_id, producer_epoch, base_sequence });
        ProduceBatch {
            topic: at.topic.to_string(),
            topic_id,
            partition: at.partition,
            header: forwarded.header,
            payload: forwarded.payload,
        }
    }

    /// Sends the batches of all leaders side by side, within the time that a write may take. The first fault of a leader ends what is
    /// sent to it.
    pub(super) async fn produce(&mut self, load: &Load) -> Result<(), SinkError> {
        let orders = self.orders(load)?;
        let reached = self.reach(orders).await.map_err(|faults| load.blame(faults))?;
        // The transaction begins with the first batch, or with its enlistment.
        let (begun, within) = (Instant::now(), self.write_max());
        if self.version == TransactionVersion::One {
            self.enlist(load, begun + within).await?;
        }
        let terms = Terms {
            transactional_id: self.transactional_id.clone(),
            versions: self.version.produce(),
            in_flight_max: PRODUCE_IN_FLIGHT_MAX,
            send_until: begun + within - within / ANSWER_DIVISOR,
            answer_until: begun + within,
        };
        let send = |(connection, partitions): (Arc<Connection>, Queues)| {
            let ats: Vec<TopicPartition> = partitions.keys().cloned().collect();
            let is_throttled = self.throttled.contains(&connection.place().address);
            let terms = Terms { in_flight_max: if is_throttled { 1 } else { PRODUCE_IN_FLIGHT_MAX }, ..terms.clone() };
            async move { (send_all(&connection, terms, requests(partitions)).await, ats, connection) }
        };
        let (mut faults, mut slow) = (vec![], None);
        let outcomes = join_all(reached.into_iter().map(send)).await;
        for (outcome, ats, connection) in outcomes {
            let Place { address, .. } = connection.place();
            if connection.is_throttled() {
                self.throttled.insert(address.clone());
            } else if outcome.is_ok() {
                self.throttled.remove(address);
            }
            match outcome {
                Ok(Sent { refused, unsent }) => {
                    slow = slow.or((unsent > 0).then(|| connection.place().clone()));
                    faults.extend(refused.into_iter().map(|refusal| self.learn(refusal)));
                }
                Err(error) => {
                    // What was sent to a broker that died is gone with it; only one that is silent may still append it.
                    if matches!(error, WireError::Timeout { .. }) {
                        self.doubted.extend(ats.iter().cloned());
                    }
                    faults.extend(self.out_of_reach(ats, &error));
                }
            }
        }
        // After the first refusal of a partition the others are its consequence: their sequence numbers don't follow any more.
        let mut seen = BTreeSet::new();
        faults.retain(|(at, _)| seen.insert(at.clone()));
        match (faults.is_empty(), slow) {
            (false, _) => Err(load.blame(faults)),
            (true, Some(place)) => Err(SinkError::Overdue { place, within }),
            (true, None) => Ok(()),
        }
    }

    /// Connects to all leaders before anything is sent: without one of them the transaction would be aborted anyway, and what waits
    /// for its connection must not use up the time of the others.
    async fn reach(&mut self, orders: Orders) -> Result<Vec<(Arc<Connection>, Queues)>, Vec<Fault>> {
        let deadline = Instant::now() + self.write_max();
        let (mut reached, mut faults) = (vec![], vec![]);
        for (leader, partitions) in orders {
            match self.leader(leader, deadline).await {
                Ok(connection) => reached.push((connection, partitions)),
                Err(error) => faults.extend(self.out_of_reach(partitions.into_keys().collect(), &error)),
            }
        }
        if faults.is_empty() { Ok(reached) } else { Err(faults) }
    }

    async fn leader(&mut self, node: i32, deadline: Instant) -> Result<Arc<Connection>, WireError> {
        let cluster = self.client.cluster().into();
        let connecting = tokio::time::timeout_at(deadline, self.client.broker(node)).await;
        connecting.unwrap_or_else(|_| {
            Err(WireError::Nobody { cluster, what: format!("connection to broker {node} in time") })
        })
    }

    fn out_of_reach(&mut self, ats: Vec<TopicPartition>, error: &WireError) -> Vec<Fault> {
        self.targets.forget();
        ats.into_iter().map(|at| (at, error.clone())).collect()
    }

    /// What a refusal means for the partition, and what it tells about leaders. Without a hint the cluster is asked.
    fn learn(&mut self, refusal: Refusal) -> Fault {
        let Refusal { produced, endpoints, error } = refusal;
        let by_id = || self.targets.name_of(produced.topic_id).cloned();
        let topic = if produced.topic.is_empty() { by_id() } else { Some(produced.topic.as_str().into()) };
        let at = TopicPartition { topic: topic.unwrap_or_else(|| "unknown".into()), partition: produced.partition };
        match produced.leader {
            Some(leader) => {
                self.client.learn_endpoints(endpoints);
                self.targets.moved(&at, leader);
            }
            None if error.code().is_some_and(asks_for_refresh) => self.targets.forget(),
            None => {}
        }
        (at, error)
    }
}

/// Packs parcels, off the threads of the runtime where that takes long.
async fn pack_all(jobs: Vec<(Parcel, Recipe)>) -> Vec<(TopicPartition, Result<Packed, PartitionFault>)> {
    let takes_long = jobs.iter().any(|(_, recipe)| recipe.is_demanding());
    let pack = |(parcel, recipe): (Parcel, Recipe)| (parcel.at.clone(), pack(&parcel, &recipe));
    let pack_all = move || jobs.into_iter().map(pack).collect();
    if !takes_long {
        return pack_all();
    }
    tokio::task::spawn_blocking(pack_all).await.expect("packing does not panic, and nobody cancels it")
}

/// A batch that the leader has refused.
struct Refusal {
    produced: Produced,
    endpoints: Vec<Endpoint>,
    error: WireError,
}

/// In whose name, how many at once, and for how long.
#[derive(Clone)]
struct Terms {
    transactional_id: String,
    /// Of Produce.
    versions: RangeInclusive<i16>,
    in_flight_max: usize,
    send_until: Instant,
    answer_until: Instant,
}

/// How sending to one leader went.
struct Sent {
    refused: Vec<Refusal>,
    /// Requests for which there was no time: all others are answered.
    unsent: usize,
}

/// Sends requests to one leader, a few in flight.
///
/// Errors: something that was sent is not answered.
async fn send_all(
    connection: &Connection,
    Terms { transactional_id, versions, in_flight_max, send_until, answer_until }: Terms,
    requests: Vec<Vec<ProduceBatch>>,
) -> Result<Sent, WireError> {
    let left = || answer_until.saturating_duration_since(Instant::now());
    let timeout_ms = i32::try_from(left().as_millis()).unwrap_or(i32::MAX);
    let mut in_flight: VecDeque<(usize, Pending<Produce>)> = VecDeque::new();
    let (mut refused, mut unsent) = (vec![], 0);
    let mut requests = requests.into_iter();
    loop {
        let goes_on = refused.is_empty() && in_flight.len() < in_flight_max && Instant::now() < send_until;
        let next = if goes_on { requests.next() } else { None };
        if let Some(batches) = next {
            let request = Produce { transactional_id: transactional_id.clone(), timeout_ms, batches };
            match tokio::time::timeout_at(send_until, connection.send_in(versions.clone(), &request)).await {
                Ok(sent) => in_flight.push_back((request.batches.len(), sent?)),
                // Throttled, or cut off in the middle of a frame: in both cases the broker has no such request.
                Err(_) => unsent += 1,
            }
        } else if let Some((batch_count, pending)) = in_flight.pop_front() {
            let reply = pending.reply(left()).await?;
            if reply.partitions.len() != batch_count {
                return Err(connection.answered(
                    "Produce",
                    "an answer for each batch",
                    (Code::UnknownServerError, None),
                ));
            }
            refused.extend(reply.partitions.into_iter().filter_map(|produced| {
                // Since version 13 a reply has only the id.
                let topic =
                    if produced.topic.is_empty() { produced.topic_id.to_string() } else { produced.topic.clone() };
                let what = format!("{topic}-{}", produced.partition);
                let error = connection.answered("Produce", &what, (produced.error?, produced.message.clone()));
                Some(Refusal { produced, endpoints: reply.endpoints.clone(), error })
            }));
        } else {
            return Ok(Sent { refused, unsent: unsent + requests.len() });
        }
    }
}

/// Sequence numbers wrap to 0 after the largest. Source: KIP-98.
fn next_sequence(sequence: i32, records: u32) -> i32 {
    let next = (i64::from(sequence) + i64::from(records)) % (i64::from(i32::MAX) + 1);
    i32::try_from(next).expect("a remainder of 2^31")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_to_zero() {
        assert_eq!(next_sequence(0, 5), 5);
        assert_eq!(next_sequence(i32::MAX, 1), 0);
        assert_eq!(next_sequence(i32::MAX - 2, 5), 2);
    }
}
