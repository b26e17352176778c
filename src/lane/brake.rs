//! The brake of a flow: what its lanes may acquire (pure: time comes in).
//!
//! A brake works before acquiring, since what is acquired has to be held and renewed. It grants what has become free, in portions of
//! a fraction of a second; a record batch larger than its grant passes all the same and is paid off by the time after it. So what
//! passes over seconds follows the limit, whatever the size of batches.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::RateLimits;
use crate::limits::{BRAKE_BURST, BRAKE_PORTION, SLOW_FETCH_BYTES_MIN};

/// See the module. A clone brakes along: all lanes of a flow share what is free.
#[derive(Debug, Clone)]
pub struct Brake {
    limits: watch::Receiver<RateLimits>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    bytes: Bucket,
    records: Bucket,
    /// Bytes of a record on the wire, as far as is known.
    bytes_per_record: Option<f64>,
}

/// What a lane may acquire now. It is given back with what was acquired.
#[derive(Debug)]
#[must_use = "what is not given back is lost to the flow"]
pub struct Grant {
    /// Bytes of record batches; 0 asks for nothing.
    pub bytes_max: usize,
    /// When there will be more.
    pub wait: Duration,
    /// What was taken from the buckets: bytes and records.
    taken: (f64, f64),
}

impl Brake {
    /// A brake by limits that may change.
    pub fn new(limits: watch::Receiver<RateLimits>, now: Instant) -> Self {
        let state = State { bytes: Bucket::new(now), records: Bucket::new(now), bytes_per_record: None };
        Self { limits, state: Arc::new(Mutex::new(state)) }
    }

    /// What may be acquired now; at least a portion, or nothing.
    pub fn grant(&self, now: Instant) -> Grant {
        let RateLimits { bytes, records } = *self.limits.borrow();
        let mut state = self.lock();
        let rates = [bytes, records].map(|limit| limit.map(|limit| limit.get() as f64));
        let waits = [state.bytes.fill(rates[0], now), state.records.fill(rates[1], now)];
        let wait = waits.into_iter().max().unwrap_or_default();
        if rates == [None, None] || !wait.is_zero() {
            let bytes_max = if wait.is_zero() { usize::MAX } else { 0 };
            return Grant { bytes_max, wait, taken: (0.0, 0.0) };
        }
        let bytes_per_record = state.bytes_per_record;
        let of_records = |records: f64| bytes_per_record.map_or(SLOW_FETCH_BYTES_MIN as f64, |bytes| records * bytes);
        let free = [rates[0].map(|_| state.bytes.level), rates[1].map(|_| of_records(state.records.level))];
        let bytes = free.into_iter().flatten().fold(f64::INFINITY, f64::min).max(1.0);
        let taken = (bytes, bytes_per_record.map_or(0.0, |per_record| bytes / per_record));
        let taken = (rates[0].map_or(0.0, |_| taken.0), rates[1].map_or(0.0, |_| taken.1));
        state.bytes.level -= taken.0;
        state.records.level -= taken.1;
        Grant { bytes_max: bytes as usize, wait, taken }
    }

    /// Gives a grant back: so much was acquired in its place.
    pub fn settle(&self, grant: Grant, (bytes, records): (usize, u64)) {
        let limits = *self.limits.borrow();
        let mut state = self.lock();
        // Where there is no limit, nothing is owed when one comes.
        if limits.bytes.is_some() {
            state.bytes.level += grant.taken.0 - bytes as f64;
        }
        if limits.records.is_some() {
            state.records.level += grant.taken.1 - records as f64;
        }
        if records > 0 {
            let seen = bytes as f64 / records as f64;
            let before = state.bytes_per_record.unwrap_or(seen);
            state.bytes_per_record = Some(before.mul_add(0.75, seen * 0.25)).filter(|bytes| *bytes > 0.0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }
}

/// What is free of one limit; below 0 it is owed.
#[derive(Debug)]
struct Bucket {
    level: f64,
    filled_at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { level: 0.0, filled_at: now }
    }

    /// Lets in what has become free, as far as it has room; returns how long a portion will take.
    fn fill(&mut self, rate: Option<f64>, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.filled_at);
        self.filled_at = now;
        let Some(rate) = rate else {
            self.level = 0.0;
            return Duration::ZERO;
        };
        let room = (rate * BRAKE_BURST.as_secs_f64() - self.level).max(0.0);
        self.level += (rate * passed.as_secs_f64()).min(room);
        let missing = rate * BRAKE_PORTION.as_secs_f64() - self.level;
        // The smallest portions take rounding into account, which must not end in a wait of nothing.
        if missing > 0.0 {
            Duration::from_secs_f64(missing / rate).max(Duration::from_millis(1))
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    fn limits(bytes: u64, records: u64) -> RateLimits {
        RateLimits { bytes: NonZeroU64::new(bytes), records: NonZeroU64::new(records) }
    }

    /// Lanes that acquire record batches of one size until so many bytes have passed; each takes `pace` for it. Returns the seconds.
    fn run(limits: RateLimits, lanes: usize, (batch, records): (usize, u64), total: usize) -> f64 {
        let (_limits, watched) = watch::channel(limits);
        let begun = Instant::now();
        let brake = Brake::new(watched, begun);
        let lanes: Vec<Brake> = (0..lanes).map(|_| brake.clone()).collect();
        let (mut now, mut passed, mut longest) = (begun, 0, Duration::ZERO);
        let mut last = begun;
        while passed < total {
            let mut waits = vec![];
            for lane in &lanes {
                let grant = lane.grant(now);
                waits.push(grant.wait);
                // A broker gives one batch or more.
                let batches = if grant.bytes_max == 0 { 0 } else { (grant.bytes_max / batch).max(1) };
                if batches > 0 {
                    longest = longest.max(now - last);
                    last = now;
                }
                passed += batches * batch;
                lane.settle(grant, (batches * batch, batches as u64 * records));
            }
            now += waits.into_iter().min().unwrap().max(Duration::from_millis(1));
        }
        println!("longest pause {longest:?}");
        (now - begun).as_secs_f64()
    }

    fn is_about(seconds: f64, expected: f64) {
        assert!((expected * 0.9..expected * 1.1).contains(&seconds), "{seconds} s instead of {expected} s");
    }

    #[test]
    fn twenty_megabytes_at_one_take_twenty_seconds() {
        for lanes in [1, 2, 64] {
            for batch in [200, 16_000, 300_000, 1_000_000] {
                is_about(run(limits(1_000_000, 0), lanes, (batch, 100), 20_000_000), 20.0);
            }
        }
    }

    #[test]
    fn records_are_limited_whatever_their_size() {
        for (batch, records) in [(20_000, 100), (1_000_000, 10_000), (70, 1)] {
            let total = batch * (200_000 / records as usize);
            is_about(run(limits(0, 10_000), 2, (batch, records), total), 20.0);
        }
    }

    #[test]
    fn the_lower_limit_counts() {
        is_about(run(limits(1_000_000, 1_000), 2, (10_000, 100), 2_000_000), 20.0);
        is_about(run(limits(100_000, 1_000_000), 2, (10_000, 100), 2_000_000), 20.0);
    }

    #[test]
    fn without_limits_nothing_is_kept_waiting_and_they_may_change() {
        let (limits_of, watched) = watch::channel(RateLimits::default());
        let mut now = Instant::now();
        let brake = Brake::new(watched, now);
        let grant = brake.grant(now);
        assert_eq!((grant.bytes_max, grant.wait), (usize::MAX, Duration::ZERO));
        brake.settle(grant, (1 << 30, 1 << 20));

        // What passed before a limit is not owed.
        limits_of.send_replace(limits(1_000, 0));
        let grant = brake.grant(now);
        assert!(grant.wait <= BRAKE_PORTION);
        brake.settle(grant, (0, 0));
        now += Duration::from_secs(3600);
        let grant = brake.grant(now);
        assert!(grant.bytes_max <= 500, "a night without records saves up no burst: {}", grant.bytes_max);
        limits_of.send_replace(RateLimits::default());
        assert_eq!(brake.grant(now).bytes_max, usize::MAX);
    }

    #[test]
    fn what_was_not_acquired_is_free_for_the_other_lanes() {
        let (_limits, watched) = watch::channel(limits(1_000_000, 0));
        let begun = Instant::now();
        let brake = Brake::new(watched, begun);
        let later = begun + Duration::from_secs(1);
        let idle = brake.grant(later);
        assert!(idle.bytes_max > 0 && brake.grant(later).bytes_max == 0);
        let asked = idle.bytes_max;
        brake.settle(idle, (0, 0));
        let busy = brake.grant(later);
        assert_eq!(busy.bytes_max, asked);
        brake.settle(busy, (asked, 1));
    }
}
