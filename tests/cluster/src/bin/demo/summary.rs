//! The figures at the end of the demo.

use std::fmt::Write;
use std::time::Duration;

use cluster::{Cluster, Pair, Verification};

/// What a process has cost.
#[derive(Debug, Clone)]
pub(crate) struct Cost {
    /// Which one.
    pub(crate) name: String,
    /// Processor time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// The most memory it ever held, in bytes.
    pub(crate) peak_bytes: u64,
}

/// See the module.
pub(crate) struct Summary {
    /// Of the workers.
    pub(crate) crew: Vec<Cost>,
    /// What verify said.
    pub(crate) verification: Verification,
    /// From the start of the demo.
    pub(crate) wall: Duration,
}

impl Summary {
    /// All of it as text, with the cost of the brokers for scale.
    pub(crate) fn table(&self, pair: &Pair) -> anyhow::Result<String> {
        let verification = &self.verification;
        let mut text = String::new();
        for (name, count) in [
            ("records on the source", verification.source),
            ("records on the target", verification.target),
            ("missing", verification.missing),
            ("duplicates", verification.duplicates),
            ("wall time, s", self.wall.as_secs()),
        ] {
            writeln!(text, "{name:24}{:>14}", grouped(count))?;
        }
        writeln!(text, "\n{:24}{:>14}{:>14}", "process", "CPU, s", "peak, MB")?;
        let brokers = [broker("source broker", &pair.source)?, broker("target broker", &pair.target)?];
        for cost in self.crew.iter().chain(&brokers) {
            writeln!(text, "{:24}{:>14.2}{:>14}", cost.name, cost.cpu_seconds, cost.peak_bytes / 1_000_000)?;
        }
        Ok(text)
    }
}

fn broker(name: &str, cluster: &Cluster) -> anyhow::Result<Cost> {
    let broker = &cluster.brokers()[0];
    Ok(Cost { name: name.to_owned(), cpu_seconds: broker.cpu_seconds()?, peak_bytes: broker.peak_rss_bytes()? })
}

/// With a comma before each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(position, digit): (usize, char)| {
        let is_due = position > 0 && (digits.len() - position).is_multiple_of(3);
        is_due.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_threes() {
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }
}
