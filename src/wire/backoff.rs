//! Growing pauses between tries, with jitter so that many lanes don't knock at once.

use std::time::Duration;

use crate::limits::{RETRY_MAX, RETRY_MIN};

/// Doubles from `min` to `max`; each pause is drawn from its upper half.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts at `min`, never pauses longer than `max`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), next: min }
    }

    /// The pause before the next try.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.max);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Something worked: start small again.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(RETRY_MIN, RETRY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_bound_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let pauses: Vec<_> = (0..6).map(|_| backoff.pause().as_millis()).collect();
        for (pause, ceiling) in pauses.iter().zip([100, 200, 400, 800, 1000, 1000]) {
            assert!((ceiling / 2..=ceiling).contains(pause), "{pauses:?}");
        }
        backoff.reset();
        assert!(backoff.pause().as_millis() <= 100);
    }
}
