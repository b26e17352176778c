//! The workers of the demo: A stays, B is killed, C takes its place.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cluster::{Flow, Pair, Worker};

use crate::summary::{Cost, grouped};

/// See the module.
pub(crate) struct Crew<'a> {
    binary: &'a Path,
    pair: &'a Pair,
    flow: Flow,
    stays: Member,
    /// B until it is killed, then C.
    second: Member,
    killed: Option<Killed>,
}

struct Member {
    name: char,
    worker: Worker,
}

/// What is known of a worker that is no more.
struct Killed {
    name: char,
    copied: i64,
    cost: Cost,
}

impl<'a> Crew<'a> {
    /// Starts A and B; returns when both are ready.
    pub(crate) fn start(binary: &'a Path, pair: &'a Pair, topics: &[&str]) -> anyhow::Result<Self> {
        let flow = Flow {
            topics: topics.iter().map(|&name| name.to_owned()).collect(),
            group: "demo".to_owned(),
            // Short, so that nobody waits long for what a killed worker has left; 5 s + 10 s < 16 s, as is demanded.
            settings: [
                ("transaction.timeout.ms", "5000"),
                ("share.acquisition.lock.timeout.ms", "16000"),
                ("lanes.count", "1"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec(),
            ends: None,
        };
        let [mut stays, mut second] =
            [Member::start('A', (binary, pair, &flow))?, Member::start('B', (binary, pair, &flow))?];
        stays.worker.wait_for("/ready")?;
        second.worker.wait_for("/ready")?;
        Ok(Self { binary, pair, flow, stays, second, killed: None })
    }

    /// Kills B and starts C; returns when C is ready.
    pub(crate) fn replace(&mut self) -> anyhow::Result<()> {
        self.killed =
            Some(Killed { name: self.second.name, copied: self.second.copied()?, cost: self.second.cost("killed")? });
        self.second.worker.bridge().kill()?;
        self.second = Member::start('C', (self.binary, self.pair, &self.flow))?;
        self.second.worker.wait_for("/ready")
    }

    /// One line: who has copied how much, and what is left.
    pub(crate) fn progress(&self) -> anyhow::Result<String> {
        let mut line = "copied:".to_owned();
        let mut tell = |name: char, copied: i64, note: &str| {
            write!(line, " {name} {}{note},", grouped(copied.unsigned_abs())).expect("a String takes all");
        };
        tell(self.stays.name, self.stays.copied()?, "");
        if let Some(killed) = &self.killed {
            tell(killed.name, killed.copied, " (killed)");
        }
        tell(self.second.name, self.second.copied()?, "");
        match self.backlog()? {
            Some(backlog) => Ok(format!("{line} backlog {}", grouped(backlog.unsigned_abs()))),
            None => Ok(format!("{line} backlog not known yet")),
        }
    }

    /// What the share group has not done yet, as the broker told A at most a few seconds ago.
    pub(crate) fn backlog(&self) -> anyhow::Result<Option<i64>> {
        Ok(self.stays.worker.metrics()?.sum("group_backlog").filter(|&backlog| backlog >= 0))
    }

    /// Whether the workers have acknowledged, or lost to each other, all that they committed.
    pub(crate) fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(self.stays.is_idle()? && self.second.is_idle()?)
    }

    /// What each worker has cost so far.
    pub(crate) fn costs(&self) -> anyhow::Result<Vec<Cost>> {
        let killed = self.killed.iter().map(|killed| killed.cost.clone());
        let mut costs = vec![self.stays.cost("")?, self.second.cost("")?];
        costs.splice(1..1, killed);
        Ok(costs)
    }

    /// The configuration of A; the others differ in their status address.
    pub(crate) fn config(&self) -> PathBuf {
        self.stays.worker.config()
    }

    /// The status servers, by the names of the workers.
    pub(crate) fn addresses(&self) -> [(char, SocketAddr); 2] {
        [&self.stays, &self.second].map(|member| (member.name, member.worker.address()))
    }

    /// Ends all workers in order.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        self.stays.worker.end()?;
        self.second.worker.end()
    }
}

impl Member {
    fn start(name: char, (binary, pair, flow): (&Path, &Pair, &Flow)) -> anyhow::Result<Self> {
        Ok(Self { name, worker: Worker::start(binary, pair, flow)? })
    }

    fn copied(&self) -> anyhow::Result<i64> {
        Ok(self.worker.metrics()?.sum("sink_record_send_total").unwrap_or_default())
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        let metrics = self.worker.metrics()?;
        let sum = |name| metrics.sum(name).unwrap_or_default();
        Ok(sum("sink_record_send_total") == sum("sink_record_acknowledge_total") + sum("acknowledge_lost_total"))
    }

    fn cost(&self, note: &str) -> anyhow::Result<Cost> {
        Ok(Cost {
            name: format!("worker {} {note}", self.name),
            cpu_seconds: self.worker.cpu_seconds()?,
            peak_bytes: self.worker.peak_rss_bytes()?,
        })
    }
}
