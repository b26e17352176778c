//! A lane between a scripted source and a scripted sink, and the journal of what happened between them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::batch::{OffsetRange, sample, within};
use crate::config::{Protocol, RateLimits};
use crate::health::Health;
use crate::lane::brake::Brake;
use crate::lane::{Lane, Wish};
use crate::metrics::FlowMetrics;
use crate::sink::{Fate, PartitionFault, Sink, SinkError, Written};
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
            pace: self.pace,
            journal: journal.clone(),
        };
        let sink = FakeSink {
            answers: self.answers.into(),
            silent: self.silent,
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
        let lane = Lane::new(
            (source, sink),
            (self.bytes_max, brake),
            watched,
            (health.clone(), metrics.lane(0, Protocol::Share)),
        );
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
        match self.shipments.pop_front_if(|_| bytes_max > 0) {
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
        self.journal.add(Event::Settled(pieces(settlements.iter().map(|s| (&s.parcel, &s.held)))));
        settlements.iter().for_each(|s| s.parcel.hold.drop_range(s.parcel.span));
    }

    fn pause(&mut self, at: &TopicPartition) {
        self.journal.add(Event::Paused(at.partition));
    }

    fn resume(&mut self, at: &TopicPartition) {
        self.journal.add(Event::Resumed(at.partition));
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

impl FakeSink {
    /// Takes away what the script says that the source loses.
    fn lose(&self, parcels: &[Parcel], (partition, first): (i32, i64)) {
        for parcel in parcels.iter().filter(|parcel| parcel.at.partition == partition) {
            let gone = within(&parcel.held(), OffsetRange { first, last: parcel.span.last.max(first) });
            gone.iter().for_each(|range| parcel.hold.drop_range(*range));
            self.journal.add(Event::Lost(pieces([(parcel, &gone)])));
        }
    }
}

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
            return Ok(held
                .into_iter()
                .map(|held| Written { held, offsets: vec![], looped: 0, bytes: 0, carved: vec![] })
                .collect());
        }
        self.transaction = Some((0, Fate::Committed));
        sleep(self.pace).await;
        if let Some(parcel) = parcels.iter().find(|parcel| self.silent.contains(&parcel.at.partition)) {
            sleep(SILENCE).await;
            return Err(SinkError::Partitions(vec![(parcel.at.clone(), PartitionFault::Target(silence()))]));
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
        let written = |(parcel, held): (&Parcel, Vec<OffsetRange>)| {
            let offsets = if parcel.records.is_empty() { vec![] } else { held.clone() };
            Written { held, offsets, looped: 0, bytes: parcel.size() as u64, carved: vec![] }
        };
        Ok(parcels.iter().zip(held).map(written).collect())
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

/// The scripted source renews for ever.
fn far_off() -> Instant {
    Instant::now() + Duration::from_secs(1_000_000)
}
