//! How many bytes a share fetch should ask for (pure).
//!
//! A broker reads `MaxBytes` from its log whether or not the window has room for the records, so asking for more than a window
//! costs it reads that nobody gets. The size of a window in bytes is learned from what comes back.
//!
//! A reply that takes longer than a client waits is worse: its records were acquired, come to nobody, and have lost a delivery attempt.
//! So what is asked for also follows how long replies take, and grows only with what the link has shown.

use std::time::Duration;

use crate::limits::{FETCH_BYTES_MIN, FETCH_BYTES_START, SLOW_FETCH_BYTES_MIN};

/// Follows the bytes that a record takes on the wire.
#[derive(Debug)]
pub struct Pace {
    record_locks: u32,
    bytes_per_record: Option<f64>,
    /// Bytes that the link brings in good time, as far as is known.
    link_bytes: usize,
}

impl Pace {
    /// `record_locks`: records of one partition that may be in flight.
    pub fn new(record_locks: u32) -> Self {
        Self { record_locks, bytes_per_record: None, link_bytes: FETCH_BYTES_START }
    }

    /// A whole reply has come, which took so long; it should come within `patience`, and well before.
    pub fn on_answered(&mut self, bytes: usize, took: Duration, patience: Duration) {
        if took > patience / 2 {
            self.link_bytes /= 2;
        } else if took < patience / 4 && bytes >= self.link_bytes / 2 {
            self.link_bytes = self.link_bytes.saturating_mul(2);
        }
        self.link_bytes = self.link_bytes.max(SLOW_FETCH_BYTES_MIN);
    }

    /// No reply has come in time.
    pub fn on_silence(&mut self) {
        self.link_bytes = (self.link_bytes / 4).max(SLOW_FETCH_BYTES_MIN);
    }

    /// Takes note of what a fetch brought.
    pub fn on_fetched(&mut self, records: u64, bytes: usize) {
        if records > 0 && bytes > 0 {
            let seen = bytes as f64 / records as f64;
            let before = self.bytes_per_record.unwrap_or(seen);
            self.bytes_per_record = Some(before.mul_add(0.75, seen * 0.25));
        }
    }

    /// `MaxBytes` of the next fetch: twice the windows of all partitions, within the lane's budget. A broker rounds a window up to
    /// whole batches, and gives each partition its share of the bytes: with less, the last batch of a window would not fit.
    pub fn bytes_max(&self, budget: usize, partitions: usize) -> usize {
        let window = |bytes: f64| (f64::from(self.record_locks) * partitions as f64 * bytes * 2.0) as usize;
        let wanted = self.bytes_per_record.map_or(FETCH_BYTES_START, window);
        wanted.max(FETCH_BYTES_MIN).min(self.link_bytes).min(budget.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_follows_the_window_and_the_budget() {
        let mut pace = Pace { link_bytes: usize::MAX, ..Pace::new(4000) };
        assert_eq!(pace.bytes_max(64 << 20, 4), FETCH_BYTES_START);
        pace.on_fetched(1000, 100_000);
        assert_eq!(pace.bytes_max(64 << 20, 4), 3_200_000);
        assert_eq!(pace.bytes_max(64 << 20, 1), 800_000);
        assert_eq!(pace.bytes_max(1000, 4), 1000);
        pace.on_fetched(0, 0);
        assert_eq!(pace.bytes_max(64 << 20, 4), 3_200_000);
    }
    #[test]
    fn what_is_asked_for_grows_and_shrinks_with_the_link() {
        let (mut pace, patience) = (Pace::new(4000), Duration::from_secs(8));
        pace.on_fetched(1000, 1_000_000);
        let asked = |pace: &Pace| pace.bytes_max(64 << 20, 4);
        assert_eq!(asked(&pace), FETCH_BYTES_START);
        pace.on_answered(1000, Duration::ZERO, patience);
        assert_eq!(asked(&pace), FETCH_BYTES_START, "a small reply shows nothing");
        (0..4).for_each(|_| pace.on_answered(asked(&pace), Duration::from_secs(1), patience));
        assert_eq!(asked(&pace), 16 * FETCH_BYTES_START);
        pace.on_answered(16 * FETCH_BYTES_START, Duration::from_secs(3), patience);
        assert_eq!(asked(&pace), 16 * FETCH_BYTES_START);
        pace.on_answered(16 * FETCH_BYTES_START, Duration::from_secs(5), patience);
        assert_eq!(asked(&pace), 8 * FETCH_BYTES_START);
        pace.on_silence();
        assert_eq!(asked(&pace), 2 * FETCH_BYTES_START);
        (0..20).for_each(|_| pace.on_silence());
        assert_eq!(asked(&pace), SLOW_FETCH_BYTES_MIN);
    }
}
