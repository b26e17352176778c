//! What flows may not do to themselves and to each other.

use super::document::Place;
use super::error::{ConfigError, Problem};
use super::loops::{self, Loop};
use super::section::Section;
use super::{ClusterConfig, FlowConfig};

/// Checks a flow by itself and against the flows before it.
pub(super) fn check(flow: &FlowConfig, section: &Section, earlier: &[FlowConfig], errors: &mut Vec<ConfigError>) {
    for (key, id) in groups(flow) {
        if let Some(other) = shares_group(flow, id, earlier) {
            let other = Place::Flow(other.name.clone());
            errors.push(section.error(key, Problem::GroupTwice { id: id.to_owned(), other }));
        }
    }
    if flow.consumer.id == flow.group.id {
        errors.push(section.error("group.id", Problem::GroupOfBothTypes { id: flow.consumer.id.clone() }));
    }
    let routes = flow.targets(flow.topics.names.iter().map(String::as_str));
    if let Some(error) = routes.into_values().find_map(Result::err) {
        errors.push(section.error("sink.topic.name", error.into()));
    }
    if let Some((group, pattern)) = flow.uncaptured() {
        errors.push(section.error("sink.topic.name", Problem::NotCaptured { group, pattern }));
    }
    if let Some((topic, other)) = copies_again(flow, earlier) {
        let other = Place::Flow(other.name.clone());
        errors.push(section.error("topics.names", Problem::CopiedTwice { topic, other }));
    }
}

/// Checks that no records loop, over whatever flows. A loop is told at the first of its flows in the file.
pub(super) fn check_loops(flows: &[FlowConfig], sections: &[Section], errors: &mut Vec<ConfigError>) {
    let mut told: Vec<Loop> = vec![];
    for (index, flow) in flows.iter().enumerate() {
        // Nothing comes back if no flow writes to the source, which spares most files the search.
        let may_loop = flows.iter().any(|other| is_same(&other.sink, &flow.source));
        if !may_loop || told.iter().any(|known| known.passes(&flow.name)) {
            continue;
        }
        let section = sections.iter().find(|section| section.place.name() == Some(&flow.name));
        let found = flow.topics.examples().iter().find_map(|topic| loops::find(flows, index, topic, &is_same));
        if let (Some(section), Some(found)) = (section, found) {
            errors.push(section.error("topics.names", found.clone().into()));
            told.push(found);
        }
    }
}

/// Whether two tables are about one cluster, as far as the file tells.
pub(super) fn is_same(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.name == other.name || one.bootstrap.iter().any(|server| other.bootstrap.contains(server))
}

/// The groups of a flow, with their keys.
fn groups(flow: &FlowConfig) -> [(&'static str, &str); 2] {
    [("share.group.id", &flow.group.id), ("group.id", &flow.consumer.id)]
}

/// Finds a flow that has this group, too: each record would reach only one of the two.
fn shares_group<'a>(flow: &FlowConfig, id: &str, earlier: &'a [FlowConfig]) -> Option<&'a FlowConfig> {
    let has_group = |other: &FlowConfig| groups(other).iter().any(|(_, other)| *other == id);
    earlier.iter().find(|other| has_group(other) && is_same(&other.source, &flow.source))
}

/// Finds a flow that copies one of the topics between the same clusters, to the same name.
fn copies_again<'a>(flow: &FlowConfig, earlier: &'a [FlowConfig]) -> Option<(String, &'a FlowConfig)> {
    let to_same = |other: &&FlowConfig| is_same(&other.source, &flow.source) && is_same(&other.sink, &flow.sink);
    earlier.iter().filter(to_same).find_map(|other| {
        let both = flow.topics.examples().into_iter().chain(other.topics.examples());
        let is_copied = |topic: &String| {
            flow.covers(topic)
                && other.covers(topic)
                && flow.target(topic).is_ok_and(|target| other.target(topic) == Ok(target))
        };
        Some((both.into_iter().find(is_copied)?, other))
    })
}
