//! Ways on which records would go round and round.

use std::collections::BTreeSet;
use std::fmt;

use super::{ClusterConfig, FlowConfig};
use crate::limits::LOOP_VISITS_MAX;

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

/// A flow that reads a topic on a way.
struct Visit {
    flow: usize,
    topic: String,
    /// Whether a flow on the way so far, this one included, lets records go on for ever.
    is_endless: bool,
    /// The visit before it; `None` at the start.
    before: Option<usize>,
}

/// Finds the shortest way by which a record of `topic`, once copied by the flow at `start`, comes to that flow again, under whatever name:
/// a pattern that lengthens names at each round goes on for ever just as well. A way on which every flow has a hop header is none: each
/// record ends on it where it has been.
///
/// `is_same`: whether two clusters are one. Looks at [`LOOP_VISITS_MAX`] topics of flows at most.
pub fn find(
    flows: &[FlowConfig],
    start: usize,
    topic: &str,
    is_same: &impl Fn(&ClusterConfig, &ClusterConfig) -> bool,
) -> Option<Loop> {
    let first = Visit { flow: start, topic: topic.to_owned(), is_endless: !flows[start].hop_header, before: None };
    let (mut visits, mut seen) = (vec![first], BTreeSet::new());
    for index in 0..LOOP_VISITS_MAX {
        let Visit { flow, topic, is_endless, .. } = visits.get(index)?;
        let (flow, is_endless) = (&flows[*flow], *is_endless);
        // A topic without a target is refused by itself.
        let Ok(target) = flow.target(topic) else { continue };
        let readers =
            flows.iter().enumerate().filter(|(_, next)| is_same(&next.source, &flow.sink) && next.covers(&target));
        for (reader, next) in readers {
            let is_endless = is_endless || !next.hop_header;
            if reader == start && is_endless {
                return Some(Loop(way(flows, &visits, index, target)));
            }
            if reader != start && seen.insert((reader, target.clone(), is_endless)) {
                visits.push(Visit { flow: reader, topic: target.clone(), is_endless, before: Some(index) });
            }
        }
    }
    None
}

/// The steps from the first visit to the one at `index`, and then to `topic` at the start again.
fn way(flows: &[FlowConfig], visits: &[Visit], index: usize, topic: String) -> Vec<Step> {
    let step = |flow: usize, topic: String| {
        let FlowConfig { name, source, .. } = &flows[flow];
        Step { cluster: source.name.clone(), topic, flow: name.clone() }
    };
    let mut steps = vec![step(visits[0].flow, topic)];
    let mut next = Some(index);
    while let Some(visit) = next.map(|index| &visits[index]) {
        steps.push(step(visit.flow, visit.topic.clone()));
        next = visit.before;
    }
    steps.reverse();
    steps
}
