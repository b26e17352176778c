//! How fast a flow can be at most, over these distances.

use std::time::Duration;

use super::{Finding, Verdict};
use crate::flow::Flow;
use crate::wire::probe::distance;
use crate::wire::{Client, WireError};

/// Round trips to each cluster between two windows of a topic partition: fetch and acknowledge; produce and commit.
const ROUND_TRIPS: u32 = 2;

pub(super) async fn look(source: &mut Client, target: &mut Client, flow: &Flow) -> Result<Finding, WireError> {
    let distances = (distance(source).await?, distance(target).await?);
    Ok(judge(distances, flow.group.record_locks_max))
}

/// The most records that one topic partition can bring in a second: a window of them in each cycle of round trips (pure).
pub fn records_per_second((source, target): (Duration, Duration), locks: u32) -> f64 {
    let cycle = (source + target) * ROUND_TRIPS;
    f64::from(locks) / cycle.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn judge((source, target): (Duration, Duration), locks: u32) -> Finding {
    let rate = records_per_second((source, target), locks);
    let says = format!(
        "at most {rate:.0} records/s in each partition: {locks} records (share.partition.max.record.locks) in two round trips to each \
         cluster, of {:.1} ms and {:.1} ms; more partitions or a larger window raise it",
        millis(source),
        millis(target),
    );
    Finding::new("rate", Verdict::Note, says)
}

fn millis(distance: Duration) -> f64 {
    distance.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_passes_in_each_cycle() {
        let says = judge((Duration::from_millis(10), Duration::from_millis(40)), 4_000).says;
        assert!(says.contains("40000 records/s") && says.contains("10.0 ms and 40.0 ms"), "{says}");
    }
}
