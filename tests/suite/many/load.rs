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

/// Records per second of a [`Stream`]: small batches to every partition all the time, and a machine that is not at its limit.
const RATE: u32 = 4_000;

/// Writes the records with these sequence numbers, to the partitions in turn.
pub(super) fn write(cluster: &Cluster, topic: &str, sequences: Range<u64>) {
    let load = Load { start: sequences.start, ..Load::of(sequences.end - sequences.start) };
    produce(cluster.bootstrap(), topic, &load).unwrap();
}

/// A load from sequence number 0 on that goes on in the background until it is ended, or dropped by a test that fails.
pub(super) struct Stream {
    goes_on: Sender<()>,
    writing: JoinHandle<u64>,
}

impl Stream {
    pub(super) fn start(cluster: &Cluster, topic: &str) -> Self {
        let (goes_on, told) = mpsc::channel();
        let (bootstrap, topic) = (cluster.bootstrap().to_owned(), topic.to_owned());
        let writing = thread::spawn(move || {
            let mut written = 0;
            while told.try_recv() == Err(TryRecvError::Empty) {
                let load = Load { start: written, rate: Some(RATE), ..Load::of(2 * u64::from(RATE)) };
                written += produce(&bootstrap, &topic, &load).unwrap().records;
            }
            written
        });
        Self { goes_on, writing }
    }

    /// Ends it; returns how many records it has written.
    pub(super) fn end(self) -> u64 {
        drop(self.goes_on);
        self.writing.join().unwrap()
    }
}

/// Waits until all of these sequence numbers have arrived, whatever else has.
pub(super) fn await_range(cluster: &Cluster, topic: &str, sequences: Range<u64>) {
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
