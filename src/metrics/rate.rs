//! How many of something there are in a second, over Kafka's own sampling windows (pure: time comes in).
//!
//! Source: Kafka's `Rate` and `SampledStat`, with `metrics.sample.window.ms` and `metrics.num.samples` as they are by default.

use std::time::Duration;

use tokio::time::Instant;

/// Length of a sample.
const WINDOW: Duration = Duration::from_secs(30);

/// Samples that a rate looks at. One more is kept: it may reach into the time that they stand for.
const SAMPLES: u32 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rate {
    samples: Vec<Sample>,
    current: usize,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    begun_at: Instant,
    last_at: Instant,
    count: u64,
}

impl Sample {
    fn at(now: Instant) -> Self {
        Self { begun_at: now, last_at: now, count: 0 }
    }
}

impl Rate {
    /// There were so many of it now.
    pub(super) fn record(&mut self, now: Instant, count: u64) {
        match self.samples.get(self.current) {
            None => self.samples.push(Sample::at(now)),
            Some(sample) if now.saturating_duration_since(sample.begun_at) >= WINDOW => {
                self.current = (self.current + 1) % (SAMPLES as usize + 1);
                match self.samples.get_mut(self.current) {
                    Some(oldest) => *oldest = Sample::at(now),
                    None => self.samples.push(Sample::at(now)),
                }
            }
            Some(_) => {}
        }
        let sample = &mut self.samples[self.current];
        sample.count += count;
        sample.last_at = now;
    }

    /// Of it in a second. A time shorter than all samples but one counts as long as these, so that the first records make no peak.
    pub(super) fn per_second(&mut self, now: Instant) -> f64 {
        for sample in &mut self.samples {
            if now.saturating_duration_since(sample.last_at) >= WINDOW * SAMPLES {
                *sample = Sample::at(now);
            }
        }
        let begun_at = self.samples.iter().map(|sample| sample.begun_at).min().unwrap_or(now);
        let elapsed = now.saturating_duration_since(begun_at);
        let missing = u128::from(SAMPLES - 1).saturating_sub(elapsed.as_millis() / WINDOW.as_millis());
        let elapsed = if missing > 0 { elapsed + WINDOW * (SAMPLES - 1) } else { elapsed };
        let count: u64 = self.samples.iter().map(|sample| sample.count).sum();
        // Counts above 2^53 in a minute are out of reach.
        count as f64 / elapsed.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds (second, count), then asks at `second`.
    fn rate(fed: &[(u64, u64)], second: u64) -> f64 {
        let (mut rate, begin) = (Rate::default(), Instant::now());
        for (second, count) in fed {
            rate.record(begin + Duration::from_secs(*second), *count);
        }
        rate.per_second(begin + Duration::from_secs(second))
    }

    #[test]
    fn the_first_records_count_over_one_window_and_what_has_passed_of_the_next() {
        assert_eq!(rate(&[], 0), 0.0);
        assert_eq!(rate(&[(0, 90)], 0), 3.0);
        assert_eq!(rate(&[(0, 90)], 15), 2.0);
        assert_eq!(rate(&[(0, 30), (10, 30)], 10), 1.5);
    }

    #[test]
    fn a_steady_stream_has_its_rate() {
        let fed: Vec<(u64, u64)> = (0..600).map(|second| (second, 7)).collect();
        for seconds in [100, 300, 600] {
            let told = rate(&fed[..seconds], seconds as u64);
            assert!((told - 7.0).abs() < 0.1, "{told} after {seconds} s");
        }
    }

    #[test]
    fn what_ended_is_forgotten_after_two_windows() {
        let fed = [(0, 300), (31, 300)];
        assert_eq!(rate(&fed, 59), 600.0 / 59.0, "both samples");
        assert_eq!(rate(&fed, 60), 300.0 / (29.0 + 30.0), "the first one's last record is 60 s old");
        assert_eq!(rate(&fed, 91), 0.0);
    }

    #[test]
    fn no_more_samples_are_kept_than_are_looked_at_and_one() {
        let (mut rate, begin) = (Rate::default(), Instant::now());
        for second in 0..1_000 {
            rate.record(begin + Duration::from_secs(second), 1);
            assert!(rate.samples.len() <= 3);
        }
    }
}
