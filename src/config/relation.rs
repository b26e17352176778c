//! What flows may not do to each other.

use super::document::Place;
use super::error::{ConfigError, Problem};
use super::section::Section;
use super::{ClusterConfig, FlowConfig, Selection};

/// A broker that both clusters list, which makes them one.
pub(super) fn common_server<'a>(one: &'a ClusterConfig, other: &ClusterConfig) -> Option<&'a str> {
    let mut servers = one.bootstrap.iter();
    servers.find(|server| other.bootstrap.contains(server)).map(String::as_str)
}

/// Checks a flow against the flows before it.
pub(super) fn check(flow: &FlowConfig, section: &Section, earlier: &[FlowConfig], errors: &mut Vec<ConfigError>) {
    if let Some(other) = shares_group(flow, earlier) {
        let id = flow.group.id.clone();
        let other = Place::Flow(other.name.clone());
        errors.push(section.error("share.group.id", Problem::GroupTwice { id, other }));
    }
    if let Some((topic, other)) = copies_again(flow, earlier) {
        let topic = topic.to_owned();
        let other = Place::Flow(other.name.clone());
        errors.push(section.error("topics.names", Problem::CopiedTwice { topic, other }));
    }
    if let Some((topic, other)) = sends_back(flow, earlier) {
        let topic = topic.to_owned();
        let other = Place::Flow(other.name.clone());
        errors.push(section.error("topics.names", Problem::Loop { topic, other }));
    }
}

fn is_same(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.name == other.name || common_server(one, other).is_some()
}

/// Finds a flow whose group this one would join: each record would reach only one of the two.
fn shares_group<'a>(flow: &FlowConfig, earlier: &'a [FlowConfig]) -> Option<&'a FlowConfig> {
    earlier.iter().find(|other| other.group.id == flow.group.id && is_same(&other.source, &flow.source))
}

/// Finds a flow that copies one of the topics between the same clusters.
fn copies_again<'a>(flow: &'a FlowConfig, earlier: &'a [FlowConfig]) -> Option<(&'a str, &'a FlowConfig)> {
    earlier
        .iter()
        .filter(|other| is_same(&other.source, &flow.source) && is_same(&other.sink, &flow.sink))
        .find_map(|other| Some((flow.topics.common(&other.topics)?, other)))
}

/// Finds the flow that brings one of the topics back to this flow's source, directly or over other flows.
fn sends_back<'a>(flow: &'a FlowConfig, earlier: &'a [FlowConfig]) -> Option<(&'a str, &'a FlowConfig)> {
    // Nothing comes back if no flow writes to the source, which spares most files the search.
    if !earlier.iter().any(|other| is_same(&other.sink, &flow.source)) {
        return None;
    }
    let names = flow
        .topics
        .names
        .iter()
        .map(|name| (name.as_str(), Selection { names: [name.clone()].into(), ..Selection::default() }));
    let all = flow.topics.patterns.first().map(|pattern| (pattern.text(), flow.topics.clone()));
    names.chain(all).find_map(|(shown, topics)| Some((shown, way_back(flow, &topics, earlier)?)))
}

fn way_back<'a>(flow: &FlowConfig, topics: &Selection, earlier: &'a [FlowConfig]) -> Option<&'a FlowConfig> {
    let mut ahead: Vec<&FlowConfig> = earlier.iter().filter(|other| other.topics.common(topics).is_some()).collect();
    let mut reached = vec![&flow.sink];
    while let Some(cluster) = reached.pop() {
        let (next, rest): (Vec<_>, Vec<_>) = ahead.into_iter().partition(|other| is_same(&other.source, cluster));
        for other in next {
            if is_same(&other.sink, &flow.source) {
                return earlier.iter().find(|flow| flow.name == other.name);
            }
            reached.push(&other.sink);
        }
        ahead = rest;
    }
    None
}
