//! Reads some partitions of one topic through librdkafka and tallies their records.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{Client, Endpoint};
use super::digest::{Fields, NamedValue};
use super::error::VerifyError;
use super::multiset::Multiset;
use super::plan::Span;
use super::tally::{Basis, Slice, Tally};
use crate::limits::{POLL_TIMEOUT, RECORDS_PER_ROUND_MAX, STALL_TIMEOUT};

/// Offsets that a reader passes before it makes its progress known.
const PUBLISH_OFFSETS: u64 = 4096;

/// How far the readers are, and whether they shall stop.
pub(super) struct Watch {
    read: AtomicU64,
    total: u64,
    stop: AtomicBool,
}

impl Watch {
    /// `total`: offsets to read in all rounds on both sides.
    pub(super) fn new(total: u64) -> Watch {
        Watch { read: AtomicU64::new(0), total, stop: AtomicBool::new(false) }
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Makes all readers end soon, with incomplete results.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One side of a round.
pub(super) struct Reading<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) topic: &'a str,
    pub(super) basis: Basis,
    pub(super) slice: Slice,
    /// Partitions in ascending order.
    pub(super) spans: Vec<(i32, Span)>,
}

impl Reading<'_> {
    /// Reads all spans; returns what each holds, in the order of `spans`.
    pub(super) fn read(&self, watch: &Watch) -> Result<Vec<Multiset>, VerifyError> {
        let mut partitions: BTreeMap<i32, Partition> = self.partitions();
        let open = partitions.values().filter(|partition| !partition.done()).count();
        if open > 0 {
            let client = self.endpoint.reader()?;
            self.assign(&client, &partitions)?;
            Pump { reading: self, client, watch, open }.run(&mut partitions)?;
        }
        Ok(partitions.into_values().map(|partition| partition.tally.finish()).collect())
    }

    fn partitions(&self) -> BTreeMap<i32, Partition> {
        let spans = self.spans.iter();
        let partitions = spans.map(|(partition, span)| {
            let share = span.len().div_ceil(u64::from(self.slice.count));
            let expected = share.min(RECORDS_PER_ROUND_MAX) as usize;
            let tally = Tally::new(self.basis, self.slice, expected);
            (*partition, Partition { position: span.low, end: span.end, unpublished: 0, tally })
        });
        partitions.collect()
    }

    fn assign(&self, client: &Client, partitions: &BTreeMap<i32, Partition>) -> Result<(), VerifyError> {
        let mut list = TopicPartitionList::new();
        for (number, partition) in partitions.iter().filter(|(_, partition)| !partition.done()) {
            list.add_partition_offset(self.topic, *number, Offset::Offset(partition.position))
                .map_err(|error| self.error(client, &error))?;
        }
        client.assign(&list).map_err(|error| self.error(client, &error))
    }

    fn error(&self, client: &Client, error: &KafkaError) -> VerifyError {
        VerifyError::Read {
            cluster: self.endpoint.cluster.clone(),
            topic: self.topic.to_owned(),
            cause: client.context().last_or(&error.to_string()),
        }
    }
}

/// How far one partition is.
struct Partition {
    /// Next offset to read.
    position: i64,
    end: i64,
    /// Offsets passed since the last publication.
    unpublished: u64,
    tally: Tally,
}

impl Partition {
    fn done(&self) -> bool {
        self.position >= self.end
    }

    /// Moves to `position`, at most to the end.
    fn advance(&mut self, position: i64, watch: &Watch) {
        let position = position.clamp(self.position, self.end);
        self.unpublished += Span { low: self.position, end: position }.len();
        self.position = position;
        if self.done() || self.unpublished >= PUBLISH_OFFSETS {
            watch.read.fetch_add(self.unpublished, Ordering::Relaxed);
            self.unpublished = 0;
        }
    }
}

/// Moves records from librdkafka into the tallies until every partition has reached its end.
struct Pump<'a> {
    reading: &'a Reading<'a>,
    client: Client,
    watch: &'a Watch,
    /// Partitions that have not reached their end.
    open: usize,
}

impl Pump<'_> {
    fn run(&mut self, partitions: &mut BTreeMap<i32, Partition>) -> Result<(), VerifyError> {
        let mut idle_since = None;
        while self.open > 0 && !self.watch.stop.load(Ordering::Relaxed) {
            let (number, position) = match self.client.poll(POLL_TIMEOUT) {
                Some(Ok(message)) => {
                    let number = message.partition();
                    if let Some(partition) = partitions.get_mut(&number) {
                        self.tally(&message, partition)?;
                    }
                    (number, message.offset().saturating_add(1))
                }
                // The end counts although no record reached it: the last offsets may be transaction markers.
                Some(Err(KafkaError::PartitionEOF(number))) => (number, i64::MAX),
                Some(Err(error)) if !passes(&error) => {
                    return Err(self.reading.error(&self.client, &error));
                }
                Some(Err(_)) | None => {
                    let since = *idle_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= STALL_TIMEOUT {
                        return Err(self.stalled(partitions, since.elapsed()));
                    }
                    continue;
                }
            };
            idle_since = None;
            if let Some(partition) = partitions.get_mut(&number) {
                self.advance(number, partition, position)?;
            }
        }
        Ok(())
    }

    fn tally(&self, message: &BorrowedMessage<'_>, partition: &mut Partition) -> Result<(), VerifyError> {
        // Below the position it was read before, beyond the end it came after the survey.
        if !(partition.position..partition.end).contains(&message.offset()) {
            return Ok(());
        }
        let Some(headers) = headers(message) else {
            return Err(VerifyError::HeaderKey {
                cluster: self.reading.endpoint.cluster.clone(),
                topic: self.reading.topic.to_owned(),
                partition: message.partition(),
                offset: message.offset(),
            });
        };
        partition.tally.add(&Fields {
            key: message.key(),
            value: message.payload(),
            timestamp: match message.timestamp() {
                Timestamp::NotAvailable => -1,
                Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
            },
            headers,
        });
        Ok(())
    }

    fn advance(&mut self, number: i32, partition: &mut Partition, position: i64) -> Result<(), VerifyError> {
        if partition.done() {
            return Ok(());
        }
        partition.advance(position, self.watch);
        if partition.done() {
            self.open -= 1;
            let mut list = TopicPartitionList::new();
            list.add_partition(self.reading.topic, number);
            // What is written after the survey shall not be fetched.
            self.client.pause(&list).map_err(|error| self.reading.error(&self.client, &error))?;
        }
        Ok(())
    }

    fn stalled(&self, partitions: &BTreeMap<i32, Partition>, waited: Duration) -> VerifyError {
        let (number, partition) = partitions
            .iter()
            .find(|(_, partition)| !partition.done())
            .expect("a pump runs only while a partition is open");
        VerifyError::Stalled {
            cluster: self.reading.endpoint.cluster.clone(),
            topic: self.reading.topic.to_owned(),
            partition: *number,
            position: partition.position,
            end: partition.end,
            waited_s: waited.as_secs(),
            cause: self.client.context().last_or("no failure reported"),
        }
    }
}

/// The headers in order, or `None` if a key is not UTF-8.
fn headers<'a>(message: &'a BorrowedMessage<'_>) -> Option<Vec<NamedValue<'a>>> {
    let Some(headers) = message.headers() else {
        return Some(Vec::new());
    };
    let collect = || headers.iter().map(|header| (header.key, header.value)).collect();
    // rdkafka 0.39 panics on such a key; one foreign record must not end the process.
    panic::catch_unwind(AssertUnwindSafe(collect)).ok()
}

/// Does librdkafka go on by itself after this error?
fn passes(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::*;
    matches!(
        error.rdkafka_error_code(),
        Some(
            BrokerTransportFailure
                | AllBrokersDown
                | Resolve
                | OperationTimedOut
                | RequestTimedOut
                | NetworkException
                | LeaderNotAvailable
                | NotLeaderForPartition
                | BrokerNotAvailable
                | ReplicaNotAvailable
                // The group is only a name that librdkafka asks for.
                | GroupAuthorizationFailed
                | CoordinatorLoadInProgress
                | CoordinatorNotAvailable
                | NotCoordinator
        )
    )
}
