//! Reads parts of the partitions of one topic through librdkafka and tallies their records.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{Client, Endpoint};
use super::error::VerifyError;
use super::plan::Span;
use super::record::{Fields, NamedValue};
use crate::limits::{POLL_TIMEOUT, STALL_TIMEOUT};

/// Offsets that a reader passes before it makes its progress known.
const PUBLISH_OFFSETS: u64 = 4096;

/// How far the readers are, and whether they shall stop.
pub(super) struct Watch {
    read: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Nothing is read, nothing is to be read yet.
    pub(super) fn new() -> Watch {
        Watch { read: AtomicU64::new(0), total: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    /// Adds offsets that are to be read.
    pub(super) fn expect(&self, offset_count: u64) {
        self.total.fetch_add(offset_count, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Makes all readers end soon, with incomplete results.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Takes notes of records in the order of their offsets.
pub(super) trait Tally: Send {
    /// Takes note of the next record. Errors: what is to be remembered exceeds its bound.
    fn add(&mut self, offset: i64, fields: &Fields<'_>) -> Result<(), TooMany>;

    /// Is there nothing more to note? Then the rest is not read.
    fn is_done(&self) -> bool {
        false
    }
}

/// More records are to be remembered than may be.
#[derive(Debug)]
pub(super) struct TooMany;

/// What to read of a partition, and who takes notes.
pub(super) struct Part<T> {
    pub(super) partition: i32,
    pub(super) span: Span,
    pub(super) tally: T,
}

/// One side of a topic.
pub(super) struct Reading<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) topic: &'a str,
    /// A header that does not count.
    pub(super) without_header: Option<&'a str>,
}

impl Reading<'_> {
    /// Reads all parts, which ascend by partition; returns their tallies in the same order.
    pub(super) fn read<T: Tally>(&self, parts: Vec<Part<T>>, watch: &Watch) -> Result<Vec<T>, VerifyError> {
        let partitions = parts.into_iter().map(|Part { partition, span, tally }| {
            (partition, Partition { position: span.low, end: span.end, unpublished: 0, tally })
        });
        let mut partitions: BTreeMap<i32, Partition<T>> = partitions.collect();
        let open = partitions.values().filter(|partition| !partition.done()).count();
        if open > 0 {
            let client = self.endpoint.reader()?;
            self.assign(&client, &partitions)?;
            Pump { reading: self, client, watch, open }.run(&mut partitions)?;
        }
        Ok(partitions.into_values().map(|partition| partition.tally).collect())
    }

    fn assign<T>(&self, client: &Client, partitions: &BTreeMap<i32, Partition<T>>) -> Result<(), VerifyError> {
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
struct Partition<T> {
    /// Next offset to read.
    position: i64,
    end: i64,
    /// Offsets passed since the last publication.
    unpublished: u64,
    tally: T,
}

impl<T> Partition<T> {
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
    fn run<T: Tally>(&mut self, partitions: &mut BTreeMap<i32, Partition<T>>) -> Result<(), VerifyError> {
        let mut idle_since = None;
        while self.open > 0 && !self.watch.stop.load(Ordering::Relaxed) {
            let (number, position) = match self.client.poll(POLL_TIMEOUT) {
                Some(Ok(message)) => {
                    let number = message.partition();
                    let mut position = message.offset().saturating_add(1);
                    if let Some(partition) = partitions.get_mut(&number) {
                        self.tally(&message, partition)?;
                        if partition.tally.is_done() {
                            position = partition.end;
                        }
                    }
                    (number, position)
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

    fn tally<T: Tally>(&self, message: &BorrowedMessage<'_>, partition: &mut Partition<T>) -> Result<(), VerifyError> {
        // Below the position it was read before, beyond the end it came behind the cut.
        if !(partition.position..partition.end).contains(&message.offset()) {
            return Ok(());
        }
        let Some(mut headers) = headers(message) else {
            return Err(VerifyError::HeaderKey {
                cluster: self.reading.endpoint.cluster.clone(),
                topic: self.reading.topic.to_owned(),
                partition: message.partition(),
                offset: message.offset(),
            });
        };
        headers.retain(|(name, _)| self.reading.without_header != Some(*name));
        let fields = Fields {
            key: message.key(),
            value: message.payload(),
            timestamp: match message.timestamp() {
                Timestamp::NotAvailable => -1,
                Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
            },
            headers,
        };
        let topic = self.reading.topic;
        let too_large = |TooMany| VerifyError::TooLarge { topic: topic.to_owned(), partition: message.partition() };
        partition.tally.add(message.offset(), &fields).map_err(too_large)
    }

    fn advance<T>(&mut self, number: i32, partition: &mut Partition<T>, position: i64) -> Result<(), VerifyError> {
        if partition.done() {
            return Ok(());
        }
        partition.advance(position, self.watch);
        if partition.done() {
            self.open -= 1;
            let mut list = TopicPartitionList::new();
            list.add_partition(self.reading.topic, number);
            // What is written behind the cut shall not be fetched.
            self.client.pause(&list).map_err(|error| self.reading.error(&self.client, &error))?;
        }
        Ok(())
    }

    fn stalled<T>(&self, partitions: &BTreeMap<i32, Partition<T>>, waited: Duration) -> VerifyError {
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
