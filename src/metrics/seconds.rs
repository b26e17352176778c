//! How long something takes, as a histogram.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds, in seconds: from a transaction in the same rack to what waits behind a backlog.
const BUCKETS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 300.0, 3600.0];

/// See the module. A clone is the same histogram.
#[derive(Debug, Clone)]
pub struct Seconds(Histogram);

impl Default for Seconds {
    fn default() -> Self {
        Self(Histogram::new(BUCKETS))
    }
}

impl Seconds {
    /// It took so long.
    pub fn observe(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }

    /// It took from this time until now; in ms since 1970.
    pub fn observe_since(&self, from_ms: i64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.observe(passed(from_ms, now));
    }
}

/// Clocks differ: what ends before it begins took no time.
fn passed(from_ms: i64, now: Duration) -> Duration {
    now.saturating_sub(Duration::from_millis(u64::try_from(from_ms).unwrap_or(0)))
}

impl EncodeMetric for Seconds {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    #[test]
    fn a_clock_that_is_ahead_takes_no_time() {
        let (mut registry, seconds) = (Registry::default(), Seconds::default());
        registry.register("s", "S", seconds.clone());
        let now = Duration::from_secs(3);
        seconds.observe(passed(1_000, now));
        seconds.observe(passed(i64::MAX, now));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in ["s_sum 2.0", "s_count 2", "s_bucket{le=\"0.001\"} 1", "s_bucket{le=\"2.5\"} 2"] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }
}
