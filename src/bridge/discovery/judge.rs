//! Which of a source's topics a flow copies, and why not the others. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::bridge::compaction;
use crate::config::{Cover, Selection};
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
    /// It is compacted, which the flow does not allow.
    Compacted,
    /// The flow has as many topics as it may have.
    TooMany,
}

impl Skip {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Excluded, Self::Internal, Self::Compacted, Self::TooMany];

    /// The reason in a word, for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Excluded => "excluded",
            Self::Internal => "internal",
            Self::Compacted => "compacted",
            Self::TooMany => "too_many",
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded => f.write_str("topics.exclude matches it"),
            Self::Internal => f.write_str("it is an internal topic, which only topics.names would copy"),
            Self::Compacted => f.write_str("it is compacted, and allow.unordered.compacted is not set"),
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
    /// Named ones that are compacted, which the flow does not allow.
    pub compacted: Vec<String>,
    /// Those that may be compacted, since the source does not tell.
    pub unknown: Vec<(String, WireError)>,
    /// Named ones that the source does not have, or not for us.
    pub missing: Vec<(String, WireError)>,
}

/// Sorts chosen topics by their configs; what is skipped on their account goes to the skipped ones.
pub fn sort(
    chosen: &mut Chosen,
    mut settings: HashMap<String, Result<Settings, WireError>>,
    mut routes: Routes,
    allow_compacted: bool,
) -> Sorted {
    let mut sorted = Sorted::default();
    for (name, Wanted { is_named, found }) in &chosen.wanted {
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
        match settings.remove(name) {
            Some(Ok(settings)) if allow_compacted || compaction::is_uncompacted(&settings) => {
                sorted.copied.push(Copied { topic, target, settings: Some(settings) });
            }
            Some(Ok(_)) if *is_named => sorted.compacted.push(name.clone()),
            Some(Ok(_)) => {
                chosen.skipped.insert(name.clone(), Skip::Compacted);
            }
            Some(Err(_)) if allow_compacted => sorted.copied.push(Copied { topic, target, settings: None }),
            // Deleted meanwhile.
            Some(Err(error)) if error.code() == Some(Code::UnknownTopicOrPartition) => {}
            Some(Err(error)) => sorted.unknown.push((name.clone(), error)),
            None => {}
        }
    }
    let skipped = &chosen.skipped;
    chosen.wanted.retain(|name, _| !skipped.contains_key(name));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Pattern;
    use crate::wire::error::Place;
    use crate::wire::topics::Setting;
    use uuid::Uuid;

    fn selection(names: &[&str], regex: &[&str], exclude: &[&str]) -> Selection {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text).unwrap()).collect();
        let names = names.iter().map(|name| name.to_string()).collect();
        Selection { names, patterns: patterns(regex), excluded: patterns(exclude) }
    }

    fn answered(code: Code) -> WireError {
        let place = Place { cluster: "a".into(), address: "a:1".into() };
        WireError::Answered { place, api: "DescribeConfigs", what: "topic".into(), code, message: None }
    }

    fn described(name: &str) -> Described {
        let info = TopicInfo { name: name.to_owned(), id: Uuid::nil(), leaders: vec![None], leader_epochs: vec![0] };
        (name.to_owned(), Ok(info))
    }

    fn policy(policy: &str) -> Result<Settings, WireError> {
        Ok([("cleanup.policy", Setting { value: policy.to_owned(), is_own: true })].into())
    }

    fn names(sorted: &Sorted) -> Vec<&str> {
        sorted.copied.iter().map(|copied| copied.topic.name.as_str()).collect()
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
        let sorted = sort(&mut chosen(7), told(), routes, false);
        assert_eq!(names(&sorted), ["t2", "t4"]);
        assert_eq!(sorted.copied[0].target, "copy-2");
        assert_eq!(sorted.unroutable, [("t0".to_owned(), "it meets another".to_owned())]);
    }

    #[test]
    fn only_topics_that_are_known_not_to_be_compacted_are_copied() {
        let mut chosen = chosen(7);
        let sorted = sort(&mut chosen, told(), routes(), false);
        assert_eq!(names(&sorted), ["t0", "t2", "t4"]);
        assert_eq!(sorted.compacted, ["t1"], "named");
        assert_eq!(chosen.skipped, [("t3".to_owned(), Skip::Compacted)].into(), "matched");
        assert!(!chosen.wanted.contains_key("t3"));
        assert_eq!(sorted.unknown.len(), 1);
        assert_eq!(sorted.unknown[0].0, "t6");
    }

    #[test]
    fn a_flow_that_allows_it_copies_compacted_topics_and_those_of_unknown_policy() {
        let mut chosen = chosen(7);
        let sorted = sort(&mut chosen, told(), routes(), true);
        assert_eq!(names(&sorted), ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]);
        assert!(sorted.copied[6].settings.is_none() && sorted.unknown.is_empty() && chosen.skipped.is_empty());
    }
}
