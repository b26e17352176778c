//! Reads both sides of a topic at once and tells how far it is.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use super::error::VerifyError;
use super::progress::Progress;
use super::reader::{Part, Reading, Tally, Watch};
use super::{Comparison, TopicPair};
use crate::limits::PROGRESS_INTERVAL;

/// What all passes over a topic share.
pub(super) struct Scan<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) topic: &'a TopicPair,
    pub(super) watch: &'a Watch,
    pub(super) progress: &'a mut dyn FnMut(Progress),
}

impl Scan<'_> {
    /// Announces more offsets to read.
    pub(super) fn expect(&self, offset_count: u64) {
        self.watch.expect(offset_count);
    }

    /// Announces the parts and reads them.
    pub(super) fn more<T: Tally>(&mut self, parts: [Vec<Part<T>>; 2]) -> Result<[Vec<T>; 2], VerifyError> {
        self.expect(parts.iter().flatten().map(|part| part.span.len()).sum());
        self.both(parts)
    }

    /// Reads the parts of source and target, each ascending by partition; returns their tallies in the same order.
    /// The first error stops the other side.
    pub(super) fn both<T: Tally>(&mut self, parts: [Vec<Part<T>>; 2]) -> Result<[Vec<T>; 2], VerifyError> {
        let endpoints = [&self.comparison.source, &self.comparison.target];
        let names = self.topic.names();
        let watch = self.watch;
        thread::scope(|scope| {
            let (done, results) = mpsc::channel();
            for (side, parts) in parts.into_iter().enumerate() {
                let done = done.clone();
                let (endpoint, topic) = (endpoints[side], names[side]);
                let reading = Reading { endpoint, topic, without_header: self.comparison.without_header };
                scope.spawn(move || {
                    // The receiver leaves early only after an error, and then nobody needs this result.
                    let _ = done.send((side, reading.read(parts, watch)));
                });
            }
            drop(done);
            let mut tallies = [Vec::new(), Vec::new()];
            loop {
                match results.recv_timeout(PROGRESS_INTERVAL) {
                    Ok((side, Ok(read))) => tallies[side] = read,
                    Ok((_, Err(error))) => {
                        watch.stop();
                        return Err(error);
                    }
                    Err(RecvTimeoutError::Timeout) => self.report(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            self.report();
            Ok(tallies)
        })
    }

    /// Tells how far it is.
    fn report(&mut self) {
        let topic = self.topic.source.clone();
        (self.progress)(Progress { read: self.watch.read(), total: self.watch.total(), topic });
    }
}
