//! How many bytes a share fetch should ask for (pure).
//!
//! A broker reads `MaxBytes` from its log whether or not the window has room for the records, so asking for more than a window
//! costs it reads that nobody gets. The size of a window in bytes is learned from what comes back.

use crate::limits::{FETCH_BYTES_MIN, FETCH_BYTES_START};

/// Follows the bytes that a record takes on the wire.
#[derive(Debug)]
pub struct Pace {
    record_locks: u32,
    bytes_per_record: Option<f64>,
}

impl Pace {
    /// `record_locks`: records of one partition that may be in flight.
    pub fn new(record_locks: u32) -> Self {
        Self { record_locks, bytes_per_record: None }
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
        wanted.max(FETCH_BYTES_MIN).min(budget.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_follows_the_window_and_the_budget() {
        let mut pace = Pace::new(4000);
        assert_eq!(pace.bytes_max(64 << 20, 4), FETCH_BYTES_START);
        pace.on_fetched(1000, 100_000);
        assert_eq!(pace.bytes_max(64 << 20, 4), 3_200_000);
        assert_eq!(pace.bytes_max(64 << 20, 1), 800_000);
        assert_eq!(pace.bytes_max(1000, 4), 1000);
        pace.on_fetched(0, 0);
        assert_eq!(pace.bytes_max(64 << 20, 4), 3_200_000);
    }
}
