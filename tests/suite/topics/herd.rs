//! A load over many topics that come and go, which remembers what must arrive.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::Cluster;
use cluster::read::{Isolation, scan_topics};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use crate::bridge::{DEADLINE, eventually};

/// Pause after each round over all topics.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes to each of its topics in turn, one record to the next of its partitions.
pub(super) struct Herd {
    state: Arc<Mutex<State>>,
    producer: ThreadedProducer<Failures>,
    writing: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// Partitions of the topics that are written to.
    topics: BTreeMap<String, i32>,
    /// What must arrive, by topic.
    expected: HashMap<String, HashSet<u64>>,
    next: u64,
    is_over: bool,
}

#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, message)) = result {
            self.0.lock().unwrap().push(format!("{}-{}: {error}", message.topic(), message.partition()));
        }
    }
}

impl Herd {
    pub(super) fn start(cluster: &Cluster, topics: &[(String, i32)]) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap()).set("topic.metadata.refresh.interval.ms", "500");
        let producer: ThreadedProducer<Failures> = config.create_with_context(Failures::default()).unwrap();
        let state = Arc::new(Mutex::new(State { topics: topics.iter().cloned().collect(), ..State::default() }));
        let writing = {
            let (state, producer) = (state.clone(), producer.clone());
            thread::spawn(move || {
                while write_round(&state, &producer) {
                    thread::sleep(PAUSE);
                }
            })
        };
        Self { state, producer, writing }
    }

    /// From now on so many partitions of a topic are written to.
    pub(super) fn write_to(&self, topic: &str, partitions: i32) {
        self.state.lock().unwrap().topics.insert(topic.to_owned(), partitions);
    }

    /// Writes no more to a topic, whose records need not arrive any more.
    pub(super) fn leave(&self, topic: &str) {
        let mut state = self.state.lock().unwrap();
        state.topics.remove(topic);
        state.expected.remove(topic);
        self.producer.flush(DEADLINE).unwrap();
    }

    /// Records written so far.
    pub(super) fn written(&self) -> u64 {
        self.state.lock().unwrap().next
    }

    /// Ends it; returns what must arrive.
    pub(super) fn end(self) -> HashMap<String, HashSet<u64>> {
        self.state.lock().unwrap().is_over = true;
        self.writing.join().unwrap();
        self.producer.flush(DEADLINE).unwrap();
        let failures = self.producer.context().0.lock().unwrap();
        assert!(failures.is_empty(), "{failures:?}");
        std::mem::take(&mut self.state.lock().unwrap().expected)
    }
}

fn write_round(state: &Mutex<State>, producer: &ThreadedProducer<Failures>) -> bool {
    let mut state = state.lock().unwrap();
    for (topic, partitions) in state.topics.clone() {
        let number = state.next;
        state.next += 1;
        let expected = state.expected.entry(topic.clone()).or_default();
        let partition = (expected.len() % partitions as usize) as i32;
        let value = number.to_string();
        // The producer hears of a new partition later than we do.
        while producer.send(BaseRecord::<(), str>::to(&topic).partition(partition).payload(&value)).is_err() {
            thread::sleep(PAUSE);
        }
        expected.insert(number);
    }
    !state.is_over
}

/// Waits until all that is expected has arrived; returns how many records came more than once.
pub(super) fn await_herd(cluster: &Cluster, expected: &HashMap<String, HashSet<u64>>) -> usize {
    let topics: Vec<&str> = expected.keys().map(String::as_str).collect();
    let mut last = usize::MAX;
    eventually("all records of all topics have arrived", || {
        let (mut missing, mut copies) = (expected.clone(), HashMap::new());
        scan_topics(cluster.bootstrap(), &topics, Isolation::Committed, |message| {
            let number = std::str::from_utf8(message.payload().unwrap())?.parse::<u64>()?;
            missing.get_mut(message.topic()).map(|missing| missing.remove(&number));
            *copies.entry(number).or_insert(0) += 1;
            Ok(())
        })
        .ok()?;
        let count: usize = missing.values().map(HashSet::len).sum();
        if std::mem::replace(&mut last, count) != count {
            eprintln!("{count} records are missing");
        }
        (count == 0).then(|| copies.values().filter(|count| **count > 1).count())
    })
}
