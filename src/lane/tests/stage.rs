//! A lane between a scripted source and a scripted sink, and the journal of what happened between them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::batch::{OffsetRange, RecordBatch, sample, within};
use crate::config::{Protocol, RateLimits};
use crate::dead_letter::Sender;
use crate::health::Health;
use crate::lane::brake::Brake;
use crate::lane::tolerance::{DeadLetters, Policy, Tolerance};
use crate::lane::{Lane, Wish};
use crate::metrics::FlowMetrics;
use crate::sink::{Fate, PartitionFault, Refused, Sink, SinkError, Written};
use crate::source::{Hold, Parcel, Settlement, Shipment, Source, TopicPartition};
use crate::wire::error::Place;
use crate::wire::{Code, WireError};

/// Offsets of one partition: number, first, last.
pub(super) type Piece = (i32, i64, i64);

/// How long a silent leader is waited for.
const SILENCE: Duration = Duration::from_secs(11);

/// What happened. Polls in a row count as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Opened,
    Polled,
    Gathered,
    Wrote(Vec<Piece>),
    Lost(Vec<Piece>),
    Undecided,
    Committed,
    NotCommitted,
    Aborted,
    Settled(Vec<Piece>),
    /// Given up, and acknowledged as such.
    Rejected(Vec<Piece>),
    /// Written as dead letters.
    Kept(Vec<Piece>),
    Paused(i32),
    Resumed(i32),
    Closed,
}

#[derive(Debug, Clone, Default)]
struct Journal(Arc<Mutex<Vec<Event>>>);

impl Journal {
    fn add(&self, event: Event) {
        let mut events = self.0.lock().unwrap();
        if events.last() != Some(&Event::Polled) || event != Event::Polled {
            events.push(event);
        }
    }
}

/// How the sink takes one write; after the last answer of the script it takes all.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Fine,
    /// The sink breaks down, and can't be opened for so long.
    Down(Duration),
    Refuse(i32, Code),
    /// While it is written, the source loses this partition from the offset on.
    Lose(i32, i64),
    /// Asked to commit, it gives no answer so many times, and then says how it went.
    Decide(u32, Fate),
    /// It never answers.
    Hang,
}

/// What is done with records that cannot be delivered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Errors {
    Stop,
    Skip,
    /// With so many failures of the place for dead letters before one is written.
    DeadLetter(u32),
}

/// The delivery limit of the group.
pub(super) const DELIVERY_COUNT_MAX: i16 = 10;

/// The script of a play.
#[derive(Debug)]
pub(super) struct Script {
    /// What each poll brings.
    pub(super) shipments: Vec<Vec<Parcel>>,
    /// What polls have asked for and did not get.
    pub(super) in_flight: Vec<Parcel>,
    /// How long the sink can't be opened at first.
    pub(super) down: Duration,
    /// Writes above it break the sink.
    pub(super) write_bytes_max: usize,
    pub(super) answers: Vec<Answer>,
    /// Partitions whose leader answers nobody: a write to one of them fails after [`SILENCE`].
    pub(super) silent: Vec<i32>,
    /// Offsets of partition 0 for which the sink refuses each write.
    pub(super) poison: Vec<i64>,
    /// Offsets of partition 0 that the sink refuses while it takes the others, with how often, and whether for good from then on.
    pub(super) refused: Vec<(i64, u32, bool)>,
    /// Whether the sink refuses record batches that cannot be read.
    pub(super) reads_batches: bool,
    /// What the source loses while a dead letter is written.
    pub(super) loses: Option<Arc<Hold>>,
    /// What the lane does with records that it cannot deliver.
    pub(super) policy: Errors,
    /// Whether the source keeps order.
    pub(super) keeps_order: bool,
    /// The memory of the lane.
    pub(super) bytes_max: usize,
    /// What the brake allows.
    pub(super) limits: RateLimits,
    /// How long each poll that brings something takes, and each write, commit and settlement.
    pub(super) pace: Duration,
}

impl Script {
    pub(super) fn of(shipments: Vec<Vec<Parcel>>, answers: Vec<Answer>) -> Self {
        Self {
            shipments,
            in_flight: vec![],
            down: Duration::ZERO,
            write_bytes_max: usize::MAX,
            answers,
            silent: vec![],
            poison: vec![],
            refused: vec![],
            reads_batches: false,
            loses: None,
            policy: Errors::Stop,
            keeps_order: false,
            bytes_max: 1 << 20,
            limits: RateLimits::default(),
            pace: Duration::ZERO,
        }
    }

    pub(super) fn play(self) -> Stage {
        let journal = Journal::default();
        let source = FakeSource {
            shipments: self.shipments.into(),
            in_flight: self.in_flight,
            asked_for: vec![],
            given: vec![],
            keeps_order: self.keeps_order,
            paused: BTreeSet::new(),
            pace: self.pace,
            journal: journal.clone(),
        };
        let sink = FakeSink {
            answers: self.answers.into(),
            silent: self.silent,
            poison: self.poison,
            refused: self.refused,
            reads_batches: self.reads_batches,
            down_until: Instant::now() + self.down,
            write_bytes_max: self.write_bytes_max,
            pace: self.pace,
            is_open: false,
            transaction: None,
            journal: journal.clone(),
        };
        let (wish, watched) = watch::channel(Wish::Run);
        let (health, mut registry) = (Health::default(), Registry::default());
        let metrics = FlowMetrics::register(&mut registry, "f");
        let brake = Brake::new(watch::channel(self.limits).1, Instant::now());
        let policy = match self.policy {
            Errors::Stop => Policy::Stop,
            Errors::Skip => Policy::Skip,
            Errors::DeadLetter(failures) => {
                let letters = LetterBox { failures, loses: self.loses, journal: journal.clone() };
                let sender = Sender { flow: "f".to_owned(), lane: 0, cluster: "c".to_owned() };
                Policy::DeadLetter(DeadLetters::new(Box::new(letters), sender))
            }
        };
        let tolerance = Tolerance { policy, delivery_count_max: DELIVERY_COUNT_MAX };
        let ends = (source, Box::new(sink) as Box<dyn Sink>, tolerance);
        let lane =
            Lane::new(ends, (self.bytes_max, brake), watched, (health.clone(), metrics.lane(0, Protocol::Share)));
        Stage { journal, wish, health, registry, metrics, lane: tokio::spawn(lane.run()) }
    }
}

/// A lane at work.
pub(super) struct Stage {
    journal: Journal,
    wish: watch::Sender<Wish>,
    health: Health,
    registry: Registry,
    pub(super) metrics: FlowMetrics,
    lane: JoinHandle<u64>,
}

impl Stage {
    /// Lets paused time pass.
    pub(super) async fn pass(&self, time: Duration) {
        sleep(time).await;
    }

    pub(super) fn tell(&self, wish: Wish) {
        self.wish.send_replace(wish);
    }

    /// Waits for the lane to leave; returns how many offsets it released.
    pub(super) async fn left(&mut self) -> u64 {
        tokio::time::timeout(Duration::from_secs(60), &mut self.lane).await.expect("the lane leaves").unwrap()
    }

    /// Tells the lane to drain; returns all that has happened.
    pub(super) async fn drained(mut self) -> Vec<Event> {
        self.tell(Wish::Drain);
        self.left().await;
        self.journal()
    }

    pub(super) fn journal(&self) -> Vec<Event> {
        self.journal.0.lock().unwrap().clone()
    }

    /// The metrics as they are scraped.
    pub(super) fn told(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Subjects in trouble.
    pub(super) fn troubles(&self) -> Vec<String> {
        self.health.troubles().into_iter().map(|(subject, _)| subject).collect()
    }
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition { topic: "t".into(), partition }
}

/// A parcel whose record batches have so many records each, from offset `first` on.
pub(super) fn parcel(partition: i32, first: i64, counts: &[i32]) -> Parcel {
    let count: i64 = counts.iter().map(|count| i64::from(*count)).sum();
    let span = OffsetRange { first, last: first + count - 1 };
    Parcel {
        at: at(partition),
        topic_id: uuid::Uuid::nil(),
        leader: 1,
        records: sample::batches(first, counts),
        hold: Arc::new(Hold::new(vec![span], far_off())),
        span,
        delivery_count: 1,
        fragile: false,
        fetched_at: Instant::now(),
    }
}

/// A parcel of offsets without records.
pub(super) fn gap(partition: i32, span: OffsetRange) -> Parcel {
    let hold = Arc::new(Hold::new(vec![span], far_off()));
    Parcel { records: bytes::Bytes::new(), hold, span, ..parcel(partition, 0, &[1]) }
}

fn pieces<'a>(parcels: impl IntoIterator<Item = (&'a Parcel, &'a Vec<OffsetRange>)>) -> Vec<Piece> {
    let of = |(parcel, ranges): (&Parcel, &Vec<OffsetRange>)| {
        let partition = parcel.at.partition;
        ranges.iter().map(|range| (partition, range.first, range.last)).collect::<Vec<_>>()
    };
    parcels.into_iter().flat_map(of).collect()
}

/// Hands out parcels by its script.
#[derive(Debug)]
struct FakeSource {
    shipments: VecDeque<Vec<Parcel>>,
    in_flight: Vec<Parcel>,
    /// What the poll that is under way will bring.
    asked_for: Vec<Parcel>,
    given: Vec<Arc<Hold>>,
    keeps_order: bool,
    paused: BTreeSet<i32>,
    pace: Duration,
    journal: Journal,
}

impl FakeSource {
    fn give(&mut self, parcels: Vec<Parcel>) -> Shipment {
        self.given.extend(parcels.iter().map(|parcel| parcel.hold.clone()));
        Shipment { parcels }
    }
}

impl Source for FakeSource {
    async fn poll(&mut self, bytes_max: usize, patience: Duration) -> Shipment {
        self.journal.add(Event::Polled);
        // What is on its way of a paused partition does not count where order is kept.
        let is_open = |parcel: &Parcel| !self.keeps_order || !self.paused.contains(&parcel.at.partition);
        match self.shipments.pop_front_if(|parcels| bytes_max > 0 && parcels.iter().all(is_open)) {
            Some(parcels) => {
                // A poll that is given up leaves its parcels on their way.
                self.asked_for = parcels;
                sleep(self.pace).await;
                let parcels = std::mem::take(&mut self.asked_for);
                self.give(parcels)
            }
            None => {
                sleep(patience).await;
                Shipment::default()
            }
        }
    }

    async fn gather(&mut self) -> Shipment {
        let parcels = [std::mem::take(&mut self.in_flight), std::mem::take(&mut self.asked_for)].concat();
        if !parcels.is_empty() {
            self.journal.add(Event::Gathered);
        }
        self.give(parcels)
    }

    async fn settle(&mut self, settlements: Vec<Settlement>) {
        sleep(self.pace).await;
        let (rejected, settled): (Vec<_>, Vec<_>) = settlements.iter().partition(|settlement| settlement.is_rejected);
        for (part, event) in [(settled, Event::Settled as fn(Vec<Piece>) -> Event), (rejected, Event::Rejected)] {
            if !part.is_empty() {
                self.journal.add(event(pieces(part.iter().map(|s| (&s.parcel, &s.held)))));
            }
        }
        settlements.iter().for_each(|s| s.parcel.hold.drop_range(s.parcel.span));
    }

    fn pause(&mut self, at: &TopicPartition) {
        self.paused.insert(at.partition);
        self.journal.add(Event::Paused(at.partition));
    }

    fn resume(&mut self, at: &TopicPartition) {
        self.paused.remove(&at.partition);
        self.journal.add(Event::Resumed(at.partition));
    }

    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    async fn close(self) -> u64 {
        self.journal.add(Event::Closed);
        self.given.iter().flat_map(|hold| hold.ranges()).map(|range| range.count()).sum()
    }
}

/// Answers by its script, and insists on the order of steps.
#[derive(Debug)]
struct FakeSink {
    answers: VecDeque<Answer>,
    down_until: Instant,
    write_bytes_max: usize,
    pace: Duration,
    silent: Vec<i32>,
    poison: Vec<i64>,
    refused: Vec<(i64, u32, bool)>,
    reads_batches: bool,
    is_open: bool,
    /// How often a commit will not be answered, and how it will end.
    transaction: Option<(u32, Fate)>,
    journal: Journal,
}

fn lost() -> SinkError {
    SinkError::Whole(WireError::Lost { place: place(), cause: "closed by the broker".into() })
}

fn place() -> Place {
    Place { cluster: "dr".into(), address: "b:1".into() }
}

fn silence() -> WireError {
    WireError::Timeout { place: place(), api: "Produce", version: 13, waited: SILENCE }
}

fn refused(partition: i32, code: Code) -> SinkError {
    let error = WireError::Answered { place: place(), api: "Produce", what: "a batch".into(), code, message: None };
    SinkError::Partitions(vec![(at(partition), PartitionFault::Target(error))])
}

fn has(ranges: &[OffsetRange], offset: i64) -> bool {
    ranges.iter().any(|range| (range.first..=range.last).contains(&offset))
}

impl FakeSink {
    fn refuse(&mut self, held: &[OffsetRange]) -> Vec<Refused> {
        let asked =
            self.refused.iter_mut().filter(|(offset, times, for_good)| has(held, *offset) && (*times > 0 || *for_good));
        asked
            .map(|(offset, times, _)| {
                let is_retriable = *times > 0;
                *times = times.saturating_sub(1);
                Refused { offset: *offset, is_retriable, class: "Picky".to_owned(), why: "not today".to_owned() }
            })
            .collect()
    }

    /// Takes away what the script says that the source loses.
    fn lose(&self, parcels: &[Parcel], (partition, first): (i32, i64)) {
        for parcel in parcels.iter().filter(|parcel| parcel.at.partition == partition) {
            let gone = within(&parcel.held(), OffsetRange { first, last: parcel.span.last.max(first) });
            gone.iter().for_each(|range| parcel.hold.drop_range(*range));
            self.journal.add(Event::Lost(pieces([(parcel, &gone)])));
        }
    }
}

#[async_trait]
impl Sink for FakeSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        if Instant::now() < self.down_until {
            return Err(lost());
        }
        if !std::mem::replace(&mut self.is_open, true) {
            self.journal.add(Event::Opened);
        }
        Ok(())
    }

    fn write_max(&self) -> Duration {
        Duration::from_secs(5)
    }

    async fn write(&mut self, parcels: &[Parcel]) -> Result<Vec<Written>, SinkError> {
        assert!(self.is_open && self.transaction.is_none(), "written before it was opened or decided");
        let held: Vec<_> = parcels.iter().map(Parcel::held).collect();
        self.journal.add(Event::Wrote(pieces(parcels.iter().zip(&held))));
        if parcels.iter().all(|parcel| parcel.records.is_empty()) {
            return Ok(held.into_iter().map(|held| Written { held, ..Written::default() }).collect());
        }
        self.transaction = Some((0, Fate::Committed));
        sleep(self.pace).await;
        if let Some(parcel) = parcels.iter().find(|parcel| self.silent.contains(&parcel.at.partition)) {
            sleep(SILENCE).await;
            return Err(SinkError::Partitions(vec![(parcel.at.clone(), PartitionFault::Target(silence()))]));
        }
        let is_poisoned =
            |parcel: &Parcel| parcel.at.partition == 0 && self.poison.iter().any(|o| has(&parcel.held(), *o));
        if parcels.iter().any(is_poisoned) {
            return Err(refused(0, Code::InvalidRecord));
        }
        if self.reads_batches {
            for parcel in parcels {
                let ours = RecordBatch::split(parcel.records.clone()).map(Result::unwrap);
                let ours = ours.filter(|batch| !within(&parcel.held(), batch.offsets()).is_empty());
                if let Some(error) = ours.filter_map(|batch| batch.check().err()).next() {
                    return Err(SinkError::Partitions(vec![(parcel.at.clone(), PartitionFault::Batch(error))]));
                }
            }
        }
        let is_too_large = parcels.iter().map(Parcel::size).sum::<usize>() > self.write_bytes_max;
        let answer = if is_too_large { Some(Answer::Down(Duration::ZERO)) } else { self.answers.pop_front() };
        match answer.unwrap_or(Answer::Fine) {
            Answer::Fine => {}
            Answer::Down(time) => {
                self.down_until = Instant::now() + time;
                return Err(lost());
            }
            Answer::Refuse(partition, code) => return Err(refused(partition, code)),
            Answer::Lose(partition, first) => self.lose(parcels, (partition, first)),
            Answer::Decide(unanswered, fate) => self.transaction = Some((unanswered, fate)),
            Answer::Hang => std::future::pending().await,
        }
        let mut written = |(parcel, held): (&Parcel, Vec<OffsetRange>)| {
            let offsets = if parcel.records.is_empty() { vec![] } else { held.clone() };
            let refused = if parcel.at.partition == 0 { self.refuse(&held) } else { vec![] };
            Written { held, offsets, refused, bytes: parcel.size() as u64, ..Written::default() }
        };
        Ok(parcels.iter().zip(held).map(&mut written).collect())
    }

    async fn commit(&mut self) -> Result<Fate, SinkError> {
        sleep(self.pace).await;
        match self.transaction.take() {
            None => Ok(Fate::Committed),
            Some((0, fate)) => {
                self.is_open = fate == Fate::Committed;
                self.journal.add(if self.is_open { Event::Committed } else { Event::NotCommitted });
                Ok(fate)
            }
            Some((unanswered, fate)) => {
                self.transaction = Some((unanswered - 1, fate));
                self.journal.add(Event::Undecided);
                Err(lost())
            }
        }
    }

    async fn abort(&mut self) -> bool {
        let is_open = self.transaction.take().is_some();
        if is_open {
            self.is_open = false;
            self.journal.add(Event::Aborted);
        }
        is_open
    }
}

/// A place for dead letters, which takes some time to take them.
#[derive(Debug)]
struct LetterBox {
    failures: u32,
    loses: Option<Arc<Hold>>,
    journal: Journal,
}

#[async_trait]
impl Sink for LetterBox {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn write_max(&self) -> Duration {
        Duration::from_secs(5)
    }

    async fn write(&mut self, parcels: &[Parcel]) -> Result<Vec<Written>, SinkError> {
        if let Some(left) = self.failures.checked_sub(1) {
            self.failures = left;
            return Err(lost());
        }
        self.loses.iter().for_each(|hold| hold.drop_all());
        let held: Vec<_> = parcels.iter().map(Parcel::held).collect();
        self.journal.add(Event::Kept(pieces(parcels.iter().zip(&held))));
        Ok(held.into_iter().map(|held| Written { offsets: held.clone(), held, ..Written::default() }).collect())
    }

    async fn commit(&mut self) -> Result<Fate, SinkError> {
        Ok(Fate::Committed)
    }

    async fn abort(&mut self) -> bool {
        true
    }
}

/// The scripted source renews for ever.
fn far_off() -> Instant {
    Instant::now() + Duration::from_secs(1_000_000)
}
