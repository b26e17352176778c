//! How many bytes the next fetch of a broker asks for. Pure.
//!
//! A session has one request in flight, so what a fetch may bring bounds what comes in a round trip. What is asked for is kept free in the
//! lane's room until the reply is here: so a broker that has little to give is asked for little, and a busy one for four times as much from fetch
//! to fetch.

use std::time::Duration;

use crate::limits::{FETCH_BYTES_MIN, READ_AHEAD_FETCH_BYTES_MAX, SLOW_FETCH_BYTES_MIN};

const GROWTH: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct Appetite {
    bytes: usize,
}

impl Default for Appetite {
    fn default() -> Self {
        Self { bytes: FETCH_BYTES_MIN }
    }
}

impl Appetite {
    /// What to ask for, at most.
    pub fn most(&self) -> usize {
        self.bytes
    }

    /// What is enough to ask at all.
    pub fn least(&self) -> usize {
        self.bytes.min(FETCH_BYTES_MIN)
    }

    /// A fetch of `asked` bytes has brought `received` within `elapsed`; its connection would have ended after `patience`.
    pub fn on_answered(&mut self, (asked, received): (usize, usize), elapsed: Duration, patience: Duration) {
        let is_slow = elapsed > patience / 2 && received > 0;
        self.bytes = if is_slow {
            (self.bytes / 2).max(SLOW_FETCH_BYTES_MIN)
        } else if received >= asked / 2 {
            // Where the room gave less than was wanted, that says nothing of the broker.
            self.bytes.max(asked.saturating_mul(GROWTH)).min(READ_AHEAD_FETCH_BYTES_MAX)
        } else {
            (received * 2).clamp(self.bytes.min(FETCH_BYTES_MIN), self.bytes)
        };
    }

    /// No reply came in time.
    pub fn on_silence(&mut self) {
        self.bytes = (self.bytes / GROWTH).max(SLOW_FETCH_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const QUICK: Duration = Duration::from_millis(100);

    #[test]
    fn a_busy_broker_is_asked_for_more_and_a_quiet_one_for_little() {
        let mut appetite = Appetite::default();
        let mut fetches = 0;
        while appetite.most() < READ_AHEAD_FETCH_BYTES_MAX {
            let asked = appetite.most();
            appetite.on_answered((asked, asked), QUICK, PATIENCE);
            fetches += 1;
        }
        assert!(fetches <= 4, "{fetches}");
        appetite.on_answered((appetite.most(), 0), QUICK, PATIENCE);
        assert_eq!((appetite.most(), appetite.least()), (FETCH_BYTES_MIN, FETCH_BYTES_MIN));
    }

    #[test]
    fn little_room_says_nothing_of_the_broker() {
        let mut appetite = Appetite { bytes: 4 << 20 };
        appetite.on_answered((FETCH_BYTES_MIN, FETCH_BYTES_MIN), QUICK, PATIENCE);
        assert_eq!(appetite.most(), 4 << 20);
    }

    #[test]
    fn what_comes_late_is_asked_for_in_smaller_parts() {
        let mut appetite = Appetite { bytes: READ_AHEAD_FETCH_BYTES_MAX };
        appetite.on_silence();
        assert_eq!(appetite.most(), READ_AHEAD_FETCH_BYTES_MAX / GROWTH);
        appetite.on_answered((appetite.most(), appetite.most()), PATIENCE, PATIENCE);
        assert_eq!(appetite.most(), READ_AHEAD_FETCH_BYTES_MAX / GROWTH / 2);
        (0..20).for_each(|_| appetite.on_silence());
        assert_eq!((appetite.most(), appetite.least()), (SLOW_FETCH_BYTES_MIN, SLOW_FETCH_BYTES_MIN));
        appetite.on_answered((SLOW_FETCH_BYTES_MIN, 0), QUICK, PATIENCE);
        assert_eq!(appetite.most(), SLOW_FETCH_BYTES_MIN, "a quiet fetch is no reason for more");
    }
}
