//! Ways on which records would go round and round.

use std::collections::BTreeSet;
use std::fmt;

use super::{ClusterConfig, FlowConfig};

/// A way that passes the same flow twice: each record would be copied again and again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "records would loop: {}; take the topic out of one of these flows, give it another name there by sink.topic.name, or set \
     sink.hop.header.enable = true in all of them",
    shown(.0)
)]
pub struct Loop(Vec<Step>);

/// A topic that a flow reads; the last step is where the first flow would read again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    cluster: String,
    topic: String,
    flow: String,
}

impl Loop {
    /// Whether a flow is part of it.
    pub(super) fn passes(&self, flow: &str) -> bool {
        self.0.iter().any(|step| step.flow == flow)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.topic, self.cluster)
    }
}

fn shown(steps: &[Step]) -> String {
    let Some((end, way)) = steps.split_last() else { return String::new() };
    let way: String = way.iter().map(|step| format!("{step} -[{}]-> ", step.flow)).collect();
    format!("{way}{end}")
}

/// Finds a way by which a record of `topic`, once copied by the flow at `start`, comes to that flow again, under whatever name: a
/// pattern that lengthens names at each round goes on for ever just as well. A way on which every flow has a hop header is none: each
/// record ends on it where it has been.
///
/// `is_same`: whether two clusters are one.
pub fn find(
    flows: &[FlowConfig],
    start: usize,
    topic: &str,
    is_same: &impl Fn(&ClusterConfig, &ClusterConfig) -> bool,
) -> Option<Loop> {
    let mut walk = Walk { flows, start, is_same, seen: BTreeSet::new() };
    let mut steps = walk.from((start, topic.to_owned()), false)?;
    steps.reverse();
    Some(Loop(steps))
}

struct Walk<'a, F> {
    flows: &'a [FlowConfig],
    start: usize,
    is_same: &'a F,
    /// Flows that were passed, by topic, and whether nothing ends records on the way there.
    seen: BTreeSet<((usize, String), bool)>,
}

impl<F: Fn(&ClusterConfig, &ClusterConfig) -> bool> Walk<'_, F> {
    /// The steps from a flow on that lead back to the start, last one first.
    fn from(&mut self, (index, topic): (usize, String), mut is_endless: bool) -> Option<Vec<Step>> {
        let flow = &self.flows[index];
        is_endless |= !flow.hop_header;
        if !self.seen.insert(((index, topic.clone()), is_endless)) {
            return None;
        }
        let step = |flow: &FlowConfig, topic: &str| Step {
            cluster: flow.source.name.clone(),
            topic: topic.to_owned(),
            flow: flow.name.clone(),
        };
        // A topic without a target is refused by itself.
        let target = flow.target(&topic).ok()?;
        let reads = |next: &FlowConfig| (self.is_same)(&next.source, &flow.sink) && next.covers(&target);
        let mut readers: Vec<usize> = (0..self.flows.len()).filter(|next| reads(&self.flows[*next])).collect();
        let comes_back = readers.contains(&self.start);
        readers.retain(|next| *next != self.start);
        let mut steps = match comes_back && is_endless {
            true => vec![step(&self.flows[self.start], &target)],
            false => readers.into_iter().find_map(|next| self.from((next, target.clone()), is_endless))?,
        };
        steps.push(step(flow, &topic));
        Some(steps)
    }
}
