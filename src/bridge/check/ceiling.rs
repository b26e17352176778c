//! How fast a flow can be at most, over these distances, through either type of group.

use std::time::Duration;

use super::{Finding, Verdict};
use crate::config::{FlowConfig, Protocol};
use crate::flow::Flow;
use crate::limits::{CYCLE_WORK, READ_AHEAD_DIVISOR};
use crate::wire::probe::distance;
use crate::wire::{Client, WireError};

/// Round trips to each cluster between two windows of a topic partition: fetch and acknowledge; produce and commit.
const ROUND_TRIPS: u32 = 2;

/// Round trips to both clusters.
#[derive(Debug, Clone, Copy)]
pub struct Distances {
    /// To the source.
    pub source: Duration,
    /// To the target.
    pub target: Duration,
}

impl Distances {
    /// Measures both.
    pub async fn measure(source: &mut Client, target: &mut Client) -> Result<Self, WireError> {
        Ok(Self { source: distance(source).await?, target: distance(target).await? })
    }

    /// The most records that one topic partition can bring in a second through a share group: a window of them in each cycle of round
    /// trips, since the next one begins when the last is acknowledged, whoever fetches it.
    pub fn records_per_second(self, flow: &FlowConfig) -> f64 {
        let cycle = (self.source + self.target) * ROUND_TRIPS + CYCLE_WORK;
        f64::from(flow.group.record_locks_max) / cycle.as_secs_f64()
    }

    /// The most bytes that all partitions together can bring in a second to one process. A share group brings all that the lanes may
    /// hold in each cycle. Through a consumer group, half of it is read ahead, in one round trip, while the other half is
    /// written and committed.
    pub fn bytes_per_second(self, flow: &FlowConfig, protocol: Protocol) -> f64 {
        let (bytes, cycle) = match protocol {
            Protocol::Share => (flow.memory_bytes, (self.source + self.target) * ROUND_TRIPS),
            Protocol::Consumer => (flow.memory_bytes / READ_AHEAD_DIVISOR, self.source.max(self.target * ROUND_TRIPS)),
        };
        bytes as f64 / (cycle + CYCLE_WORK).as_secs_f64()
    }
}

pub(super) async fn look(source: &mut Client, target: &mut Client, flow: &Flow) -> Result<Vec<Finding>, WireError> {
    let distances = Distances::measure(source, target).await?;
    Ok([Protocol::Share, Protocol::Consumer].map(|protocol| judge(distances, flow, protocol)).into())
}

fn judge(distances: Distances, flow: &FlowConfig, protocol: Protocol) -> Finding {
    let megabytes = distances.bytes_per_second(flow, protocol) / 1e6;
    let says = match protocol {
        Protocol::Share => {
            format!(
                "about {:.0} records/s in each partition: {} records (share.partition.max.record.locks) in two round trips to each \
                 cluster; {megabytes:.0} MB/s in all. More partitions or a larger window raise it",
                distances.records_per_second(flow),
                flow.group.record_locks_max,
            )
        }
        Protocol::Consumer => {
            format!(
                "at most {megabytes:.0} MB/s in all: half of memory.max.bytes in one round trip to the source, or in two to the target"
            )
        }
    };
    let own = if flow.protocol == protocol { "" } else { ", were it group.protocol" };
    let [source, target] = [distances.source, distances.target].map(|distance| distance.as_secs_f64() * 1e3);
    let says = format!("{says} ({source:.1} ms and {target:.1} ms away{own})");
    Finding::new(format!("rate of {}", protocol.word()), Verdict::Note, says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn flow(more: &str) -> FlowConfig {
        let text = format!(
            "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\nsource.cluster = 'a'\n\
             sink.cluster = 'b'\ntopics.names = ['t']\nmemory.max.bytes = 40000000\n{more}"
        );
        Config::parse(std::path::Path::new("f.toml"), &text).expect("the file is good").flows.remove(0)
    }

    fn distances(source: u64, target: u64) -> Distances {
        Distances { source: Duration::from_millis(source), target: Duration::from_millis(target) }
    }

    #[test]
    fn a_window_passes_in_each_cycle_and_half_of_the_memory_in_each_round_trip() {
        let flow = flow("");
        let work = CYCLE_WORK.as_secs_f64();
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        near(distances(10, 40).records_per_second(&flow), 4_000.0 / (0.1 + work));
        near(distances(10, 40).bytes_per_second(&flow, Protocol::Share), 40e6 / (0.1 + work));
        near(distances(10, 40).bytes_per_second(&flow, Protocol::Consumer), 20e6 / (0.08 + work));
        near(distances(100, 40).bytes_per_second(&flow, Protocol::Consumer), 20e6 / (0.1 + work));
    }

    #[test]
    fn both_ways_are_told_and_which_is_the_flows() {
        let says = |more: &str, protocol| judge(distances(10, 40), &flow(more), protocol).says;
        let share = says("", Protocol::Share);
        assert!(share.ends_with("(10.0 ms and 40.0 ms away)"), "{share}");
        assert!(says("", Protocol::Consumer).ends_with("were it group.protocol)"));
        assert!(says("group.protocol = 'consumer'", Protocol::Consumer).ends_with("away)"));
    }
}
