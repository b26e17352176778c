//! Which of a source's topics a flow copies, and why not the others. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use uuid::Uuid;

use crate::bridge::compaction;
use crate::config::{Cover, Protocol, Selection};
use crate::limits::TOPIC_COUNT_MAX;
use crate::wire::client::{Described, TopicInfo};
use crate::wire::topics::Settings;
use crate::wire::{Code, WireError};

/// Why a topic that a pattern matches is not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// `topics.exclude` matches it, too.
    Excluded,
    /// It serves a system and not its users.
    Internal,
    /// The flow has as many topics as it may have.
    TooMany,
}

impl Skip {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Excluded, Self::Internal, Self::TooMany];

    /// The reason in a word, for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Excluded => "excluded",
            Self::Internal => "internal",
            Self::TooMany => "too_many",
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded => f.write_str("topics.exclude matches it"),
            Self::Internal => f.write_str("it is an internal topic, which only topics.names would copy"),
            Self::TooMany => write!(f, "the flow has {TOPIC_COUNT_MAX} topics already: make another flow of the rest"),
        }
    }
}

/// Topics by what their names say.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Those that are named, or matched and there; in the order of their names.
    pub wanted: BTreeMap<String, Wanted>,
    /// Those that are matched and left out all the same.
    pub skipped: BTreeMap<String, Skip>,
}

/// A topic that a flow is to copy.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Whether it is named, and not only matched.
    pub is_named: bool,
    /// What the source says of it.
    pub found: Result<TopicInfo, WireError>,
}

/// Chooses among the topics of the source.
pub fn choose(selection: &Selection, listed: Vec<Described>) -> Chosen {
    let mut chosen = Chosen::default();
    let mut matched = BTreeMap::new();
    for (name, found) in listed {
        let Some(cover) = selection.judge(&name) else { continue };
        match (cover, &found) {
            (Cover::Named, _) => {
                chosen.wanted.insert(name, Wanted { is_named: true, found });
            }
            (Cover::Matched, Ok(_)) => {
                matched.insert(name, Wanted { is_named: false, found });
            }
            // What a pattern matches is copied once it is there.
            (Cover::Matched, Err(_)) => {}
            (Cover::Excluded, _) => {
                chosen.skipped.insert(name, Skip::Excluded);
            }
            (Cover::Internal, _) => {
                chosen.skipped.insert(name, Skip::Internal);
            }
        }
    }
    for (name, wanted) in matched {
        if chosen.wanted.len() < TOPIC_COUNT_MAX {
            chosen.wanted.insert(name, wanted);
        } else {
            chosen.skipped.insert(name, Skip::TooMany);
        }
    }
    chosen
}

/// A topic that is copied.
#[derive(Debug, Clone)]
pub struct Copied {
    /// What the source says of it.
    pub topic: TopicInfo,
    /// Its name on the target.
    pub target: String,
    /// Its configs, where the source tells them.
    pub settings: Option<Settings>,
    /// How it is read.
    pub protocol: Protocol,
}

/// Where topics go: by their names the targets, or why there is none.
pub type Routes = BTreeMap<String, Result<String, String>>;

/// The chosen topics that exist, by what their configs say.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Those to copy.
    pub copied: Vec<Copied>,
    /// Those that have no topic of their own on the target, or whose records would come back.
    pub unroutable: Vec<(String, String)>,
    /// Those that were compacted while they were read through the share group, which the flow does not allow.
    pub compacted: Vec<String>,
    /// Those that may be compacted, since the source does not tell.
    pub unknown: Vec<(String, WireError)>,
    /// Named ones that the source does not have, or not for us.
    pub missing: Vec<(String, WireError)>,
}

/// How a flow reads its topics.
#[derive(Debug, Clone, Copy)]
pub struct Ways<'a> {
    /// What the flow asks for.
    pub protocol: Protocol,
    /// Whether compacted topics are read through the share group, too.
    pub allow_compacted: bool,
    /// How topics are read that are read already.
    pub known: &'a HashMap<Uuid, Protocol>,
}

impl Ways<'_> {
    /// How a topic is read; `None` where order would be lost. A share group keeps none between deliveries: an older value of a key may
    /// arrive after a newer one, and compaction on the target would keep the older one for ever. So compacted topics go through the
    /// consumer group. A topic that is read already stays where it is: its position is there.
    fn of(&self, topic: Uuid, is_uncompacted: bool) -> Option<Protocol> {
        let known = self.known.get(&topic).copied();
        match (self.protocol, known) {
            (Protocol::Consumer, _) | (_, Some(Protocol::Consumer)) => Some(Protocol::Consumer),
            _ if is_uncompacted || self.allow_compacted => Some(Protocol::Share),
            (Protocol::Share, Some(Protocol::Share)) => None,
            (Protocol::Share, None) => Some(Protocol::Consumer),
        }
    }
}

/// Sorts chosen topics by their configs.
pub fn sort(
    chosen: &Chosen,
    mut settings: HashMap<String, Result<Settings, WireError>>,
    mut routes: Routes,
    ways: Ways<'_>,
) -> Sorted {
    let mut sorted = Sorted::default();
    for (name, Wanted { found, .. }) in &chosen.wanted {
        let topic = match found {
            Ok(topic) => topic.clone(),
            Err(error) => {
                sorted.missing.push((name.clone(), error.clone()));
                continue;
            }
        };
        let target = match routes.remove(name) {
            Some(Ok(target)) => target,
            Some(Err(reason)) => {
                sorted.unroutable.push((name.clone(), reason));
                continue;
            }
            None => continue,
        };
        let (settings, unread) = match settings.remove(name) {
            Some(Ok(settings)) => (Some(settings), None),
            // Deleted meanwhile.
            Some(Err(error)) if error.code() == Some(Code::UnknownTopicOrPartition) => continue,
            Some(Err(error)) => (None, Some(error)),
            None => continue,
        };
        let is_uncompacted = settings.as_ref().is_some_and(compaction::is_uncompacted);
        match (ways.of(topic.id, is_uncompacted), unread) {
            (Some(protocol), None) => sorted.copied.push(Copied { topic, target, settings, protocol }),
            // Nobody need know its policy.
            (Some(protocol), Some(_)) if ways.protocol == Protocol::Consumer || ways.allow_compacted => {
                sorted.copied.push(Copied { topic, target, settings, protocol });
            }
            (_, Some(error)) => sorted.unknown.push((name.clone(), error)),
            (None, None) => sorted.compacted.push(name.clone()),
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Pattern;
    use crate::wire::error::Place;
    use crate::wire::topics::Setting;

    fn selection(names: &[&str], regex: &[&str], exclude: &[&str]) -> Selection {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text).unwrap()).collect();
        let names = names.iter().map(|name| name.to_string()).collect();
        Selection { names, patterns: patterns(regex), excluded: patterns(exclude) }
    }

    fn answered(code: Code) -> WireError {
        let place = Place { cluster: "a".into(), address: "a:1".into() };
        WireError::Answered { place, api: "DescribeConfigs", what: "topic".into(), code, message: None }
    }

    fn id(name: &str) -> Uuid {
        Uuid::from_u128(name.bytes().fold(0, |id, byte| (id << 8) | u128::from(byte)))
    }

    fn described(name: &str) -> Described {
        let info = TopicInfo { name: name.to_owned(), id: id(name), leaders: vec![None], leader_epochs: vec![0] };
        (name.to_owned(), Ok(info))
    }

    fn policy(policy: &str) -> Result<Settings, WireError> {
        Ok([("cleanup.policy", Setting { value: policy.to_owned(), is_own: true })].into())
    }

    fn ways(protocol: Protocol, known: &HashMap<Uuid, Protocol>) -> Ways<'_> {
        Ways { protocol, allow_compacted: false, known }
    }

    #[test]
    fn names_and_matches_are_wanted_and_the_rest_has_a_reason() {
        let missing = ("named".to_owned(), Err(answered(Code::UnknownTopicOrPartition)));
        let listed = ["x-1", "x-tmp", "x-internal", "other"].map(described).into_iter().chain([missing]).collect();
        let chosen = choose(&selection(&["named"], &["x-.*"], &[".*-tmp"]), listed);
        let wanted: Vec<(&str, bool)> =
            chosen.wanted.iter().map(|(name, wanted)| (name.as_str(), wanted.is_named)).collect();
        assert_eq!(wanted, [("named", true), ("x-1", false)]);
        let skipped = [("x-internal".to_owned(), Skip::Internal), ("x-tmp".to_owned(), Skip::Excluded)];
        assert_eq!(chosen.skipped, skipped.into());
    }

    #[test]
    fn a_flow_s_topics_are_bounded_and_names_come_first() {
        let listed = (0..=TOPIC_COUNT_MAX).map(|number| described(&format!("t{number:05}"))).collect();
        let chosen = choose(&selection(&["t10000"], &[".*"], &[]), listed);
        assert_eq!(chosen.wanted.len(), TOPIC_COUNT_MAX);
        assert!(chosen.wanted.contains_key("t10000"));
        assert_eq!(chosen.skipped, [("t09999".to_owned(), Skip::TooMany)].into());
    }

    fn chosen(count: usize) -> Chosen {
        let listed = (0..count).map(|number| described(&format!("t{number}"))).collect();
        choose(&selection(&["t0", "t1", "t2", "t5", "t6"], &[".*"], &[]), listed)
    }

    fn told() -> HashMap<String, Result<Settings, WireError>> {
        [
            ("t0", policy("delete")),
            ("t1", policy("delete, compact")),
            ("t2", policy("")),
            ("t3", policy("compact")),
            ("t4", policy("delete")),
            ("t5", Err(answered(Code::UnknownTopicOrPartition))),
            ("t6", Err(answered(Code::TopicAuthorizationFailed))),
        ]
        .map(|(name, settings)| (name.to_owned(), settings))
        .into()
    }

    fn routes() -> Routes {
        (0..7).map(|number| (format!("t{number}"), Ok(format!("copy-{number}")))).collect()
    }

    #[test]
    fn a_topic_without_a_target_of_its_own_is_left_alone() {
        let mut routes = routes();
        routes.insert("t0".to_owned(), Err("it meets another".to_owned()));
        let sorted = sort(&chosen(7), told(), routes, ways(Protocol::Share, &HashMap::new()));
        assert_eq!(read(&sorted, Protocol::Share), ["t2", "t4"]);
        assert_eq!(sorted.copied[1].target, "copy-2");
        assert_eq!(sorted.unroutable, [("t0".to_owned(), "it meets another".to_owned())]);
    }

    fn read(sorted: &Sorted, protocol: Protocol) -> Vec<&str> {
        let copied = sorted.copied.iter().filter(|copied| copied.protocol == protocol);
        copied.map(|copied| copied.topic.name.as_str()).collect()
    }

    #[test]
    fn compacted_topics_are_read_in_order_and_those_of_unknown_policy_wait() {
        let sorted = sort(&chosen(7), told(), routes(), ways(Protocol::Share, &HashMap::new()));
        assert_eq!(read(&sorted, Protocol::Share), ["t0", "t2", "t4"]);
        assert_eq!(read(&sorted, Protocol::Consumer), ["t1", "t3"]);
        assert!(sorted.compacted.is_empty());
        assert_eq!(sorted.unknown.len(), 1);
        assert_eq!(sorted.unknown[0].0, "t6");
    }

    #[test]
    fn a_topic_stays_where_its_position_is() {
        let known = [(id("t1"), Protocol::Share), (id("t0"), Protocol::Consumer)].into();
        let sorted = sort(&chosen(7), told(), routes(), ways(Protocol::Share, &known));
        assert_eq!(read(&sorted, Protocol::Share), ["t2", "t4"]);
        assert_eq!(read(&sorted, Protocol::Consumer), ["t0", "t3"]);
        assert_eq!(sorted.compacted, ["t1"]);
    }

    #[test]
    fn a_flow_that_allows_it_reads_all_through_the_share_group() {
        let known = HashMap::new();
        let ways = Ways { allow_compacted: true, ..ways(Protocol::Share, &known) };
        let sorted = sort(&chosen(7), told(), routes(), ways);
        assert_eq!(read(&sorted, Protocol::Share), ["t0", "t1", "t2", "t3", "t4", "t6"]);
        assert!(sorted.copied[5].settings.is_none() && sorted.unknown.is_empty());
    }

    #[test]
    fn an_ordered_flow_needs_not_know_a_policy() {
        let sorted = sort(&chosen(7), told(), routes(), ways(Protocol::Consumer, &HashMap::new()));
        assert_eq!(read(&sorted, Protocol::Consumer), ["t0", "t1", "t2", "t3", "t4", "t6"]);
    }
}
