//! What each lane of a flow counts by itself, and of each topic: the sensors of Kafka Connect's sink tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

use super::rate::Rate;
use super::{FlowMetrics, LaneSensors, TopicSensors};
use crate::config::Protocol;
use crate::limits::TOPIC_LABELS_MAX;

/// What stands for all topics behind the first [`TOPIC_LABELS_MAX`] of a flow: no topic can have this name.
const OTHER_TOPICS: &str = "*";

/// Counts something, with its total and its rate. A clone counts on.
#[derive(Debug, Clone, Default)]
pub struct Sensor {
    pub(super) total: Counter,
    rate: Arc<Mutex<Rate>>,
}

impl Sensor {
    /// There were so many of it now.
    pub fn record(&self, count: u64) {
        self.total.inc_by(count);
        self.rate().record(Instant::now(), count);
    }

    /// How many there were in all.
    pub fn total(&self) -> u64 {
        self.total.get()
    }

    pub(super) fn per_second(&self) -> ConstGauge<f64> {
        ConstGauge::new(self.rate().per_second(Instant::now()))
    }

    fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().expect("no code panics while it holds this lock")
    }
}

/// The lanes of a flow in this process. A clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Lanes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lanes: BTreeMap<u32, Lane>,
    /// Topics that have a label of their own.
    topics: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Lane {
    protocol: Protocol,
    sensors: LaneSensors,
    topics: BTreeMap<Arc<str>, Arc<TopicSensors>>,
}

/// Labels of what a lane counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LaneLabels {
    lane: u32,
}

/// Labels of what a lane counts of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TopicLabels {
    lane: u32,
    topic: String,
}

/// Sensors of a lane, with how it reads and their labels.
pub(super) struct Row<L, T> {
    pub(super) protocol: Protocol,
    pub(super) labels: L,
    pub(super) sensors: T,
}

pub(super) type LaneRow = Row<LaneLabels, LaneSensors>;
pub(super) type TopicRow = Row<TopicLabels, Arc<TopicSensors>>;

impl Lanes {
    /// The sensors of a lane, from now on in what is told.
    fn lane(&self, number: u32, protocol: Protocol) -> LaneSensors {
        let mut state = self.lock();
        let new = || Lane { protocol, sensors: LaneSensors::default(), topics: BTreeMap::new() };
        state.lanes.entry(number).or_insert_with(new).sensors.clone()
    }

    /// Likewise of a topic that it has records of.
    fn topic(&self, number: u32, topic: &str) -> Arc<TopicSensors> {
        let State { lanes, topics } = &mut *self.lock();
        let is_other = !topics.contains(topic) && topics.len() >= TOPIC_LABELS_MAX;
        let topic = if is_other { OTHER_TOPICS } else { topic };
        let lane = lanes.get_mut(&number).expect("a lane is there before its topics");
        if let Some(sensors) = lane.topics.get(topic) {
            return sensors.clone();
        }
        let name: Arc<str> = topic.into();
        if !is_other {
            topics.insert(name.clone());
        }
        lane.topics.entry(name).or_default().clone()
    }

    /// The sum over all lanes and topics.
    pub fn sum(&self, of: impl Fn(&TopicSensors) -> u64) -> u64 {
        let state = self.lock();
        state.lanes.values().flat_map(|lane| lane.topics.values()).map(|sensors| of(sensors)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no code panics while it holds this lock")
    }
}

impl Collector for Lanes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (mut lanes, mut topics) = (vec![], vec![]);
        for (number, lane) in &self.lock().lanes {
            let (protocol, lane_number) = (lane.protocol, *number);
            lanes.push(Row { protocol, labels: LaneLabels { lane: lane_number }, sensors: lane.sensors.clone() });
            topics.extend(lane.topics.iter().map(|(topic, sensors)| Row {
                protocol,
                labels: TopicLabels { lane: lane_number, topic: topic.to_string() },
                sensors: sensors.clone(),
            }));
        }
        TopicSensors::encode(&topics, &mut encoder)?;
        LaneSensors::encode(&lanes, &mut encoder)
    }
}

/// Tells one metric; nothing where nobody has it.
pub(super) fn tell<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    samples: &[(&L, M)],
) -> fmt::Result {
    let Some((_, first)) = samples.first() else { return Ok(()) };
    let mut family = encoder.encode_descriptor(name, help, None, first.metric_type())?;
    samples.iter().try_for_each(|(labels, metric)| metric.encode(family.encode_family(*labels)?))
}

/// What one lane counts. It reads like the metrics of its flow, with sensors of its own.
#[derive(Debug, Clone)]
pub struct LaneMetrics {
    flow: FlowMetrics,
    number: u32,
    /// Its own sensors.
    pub sensors: LaneSensors,
}

impl FlowMetrics {
    /// The metrics of the lane with this number, which reads through a group of this type.
    pub fn lane(&self, number: u32, protocol: Protocol) -> LaneMetrics {
        self.tell_zeros();
        LaneMetrics { flow: self.clone(), number, sensors: self.lanes.lane(number, protocol) }
    }
}

impl LaneMetrics {
    /// The sensors of a topic that the lane has records of.
    pub fn topic(&self, topic: &str) -> Arc<TopicSensors> {
        self.lanes.topic(self.number, topic)
    }
}

impl Deref for LaneMetrics {
    type Target = FlowMetrics;

    fn deref(&self) -> &FlowMetrics {
        &self.flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_bound_are_counted_together() {
        let flow = FlowMetrics::default();
        let lanes = [0, 1].map(|number| flow.lane(number, Protocol::Share));
        for topic in 0..TOPIC_LABELS_MAX + 10 {
            lanes.iter().for_each(|lane| lane.topic(&format!("t{topic}")).sent.record(1));
        }
        assert_eq!(lanes[1].topic("t0").sent.total(), 1);
        assert_eq!(lanes[1].topic("not seen yet").sent.total(), 10);
        assert_eq!(flow.lanes.sum(|topic| topic.sent.total()), 2 * (TOPIC_LABELS_MAX as u64 + 10));
    }
}
