//! Records that are written while brokers come and go.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::mpsc::{self, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use cluster::Cluster;
use cluster::load::{self, Load, produce};
use cluster::read::{Isolation, scan};
use rdkafka::Message;

use crate::bridge::eventually;

/// Records per second of a [`Stream`]. Each comes as a batch of its own, which costs the target's brokers a round of replication: so
/// few that a machine that does other work as well keeps up.
const RATE: u32 = 300;

/// Writes the records with these sequence numbers, to the partitions in turn.
pub(crate) fn write(cluster: &Cluster, topic: &str, sequences: Range<u64>) {
    let load = Load { start: sequences.start, ..Load::of(sequences.end - sequences.start) };
    produce(cluster.bootstrap(), topic, &load).unwrap();
}

/// A load that goes on in the background until it is ended, or dropped by a test that fails.
pub(crate) struct Stream {
    goes_on: Sender<()>,
    writing: JoinHandle<u64>,
}

impl Stream {
    /// Writes from this sequence number on.
    pub(crate) fn start(cluster: &Cluster, topic: &str, first: u64) -> Self {
        let (goes_on, told) = mpsc::channel();
        let (bootstrap, topic) = (cluster.bootstrap().to_owned(), topic.to_owned());
        let writing = thread::spawn(move || {
            let mut next = first;
            while told.try_recv() == Err(TryRecvError::Empty) {
                let load = Load { start: next, rate: Some(RATE), ..Load::of(2 * u64::from(RATE)) };
                next += produce(&bootstrap, &topic, &load).unwrap().records;
            }
            next
        });
        Self { goes_on, writing }
    }

    /// Ends it; returns the sequence number that would be next.
    pub(crate) fn end(self) -> u64 {
        drop(self.goes_on);
        self.writing.join().unwrap()
    }
}

/// Waits until all of these sequence numbers have arrived, whatever else has.
pub(crate) fn await_range(cluster: &Cluster, topic: &str, sequences: Range<u64>) {
    let wanted = sequences.end - sequences.start;
    let mut last = None;
    eventually(&format!("{sequences:?} of {topic} have arrived"), || {
        let mut seen = HashSet::new();
        scan(cluster.bootstrap(), topic, Isolation::Committed, |message| {
            seen.extend(load::sequence(message.payload().unwrap()).filter(|sequence| sequences.contains(sequence)));
            Ok(())
        })
        .ok()?;
        let found = seen.len() as u64;
        if last.replace(found) != Some(found) {
            eprintln!("{topic}: {found} of {sequences:?}");
        }
        (found == wanted).then_some(())
    });
}
