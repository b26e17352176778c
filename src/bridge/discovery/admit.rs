//! From which partitions records may be acquired: those that the target has, or had. Pure.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::change::Change;
use super::judge::Copied;
use super::look::Target;
use crate::wire::WireError;

/// What became of the target's topics in a round.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// What the target had before.
    pub targets: &'a HashMap<String, Target>,
    /// What was to be changed.
    pub changes: &'a [Change],
    /// Those changes that failed.
    pub failed: &'a [(&'a Change, WireError)],
}

/// By topic id, how many partitions may be acquired from; `before` is how many it were.
///
/// A topic that was admitted stays so whatever becomes of it on the target: its records are held, and named one partition at a time. So
/// are those of partitions that the target may not be given.
pub fn admit<'a>(
    copied: impl Iterator<Item = &'a Copied>,
    outcome: &Outcome<'_>,
    before: &BTreeMap<Uuid, i32>,
) -> BTreeMap<Uuid, i32> {
    let is_shape = |change: &Change| !matches!(change, Change::Alter { .. });
    let changed: HashMap<&str, &Change> =
        outcome.changes.iter().filter(|change| is_shape(change)).map(|change| (change.topic(), change)).collect();
    let failed: HashMap<&str, &WireError> = outcome
        .failed
        .iter()
        .filter(|(change, _)| is_shape(change))
        .map(|(change, error)| (change.topic(), error))
        .collect();
    let admitted = |Copied { topic, target, .. }: &Copied| {
        let (count, name) = (topic.partition_count(), target.as_str());
        let known = before.get(&topic.id).copied();
        match (outcome.targets.get(name), failed.get(name)) {
            (None | Some(Target::Unknown(_)), _) => known,
            (Some(Target::Absent), None) if changed.contains_key(name) => Some(count),
            (Some(Target::Absent), _) => known,
            (Some(Target::Present(present)), Some(error)) if !is_refusal(error) => {
                Some(known.unwrap_or(0).max(present.partitions.min(count)))
            }
            (Some(Target::Present(_)), _) => Some(count),
        }
    };
    copied.filter_map(|copied| Some((copied.topic.id, admitted(copied)?))).collect()
}

/// Whether trying again would not help.
fn is_refusal(error: &WireError) -> bool {
    error.code().is_some_and(|code| !code.is_retriable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::discovery::look::Present;
    use crate::config::Protocol;
    use crate::wire::Code;
    use crate::wire::client::TopicInfo;
    use crate::wire::error::Place;

    fn answered(code: Code) -> WireError {
        let place = Place { cluster: "b".into(), address: "b:1".into() };
        WireError::Answered { place, api: "CreatePartitions", what: "topic t".into(), code, message: None }
    }

    fn present(partitions: i32) -> Option<Target> {
        Some(Target::Present(Present { id: Uuid::nil(), partitions, settings: None }))
    }

    /// How much of a topic with six partitions is admitted.
    fn admitted(target: Option<Target>, change: Option<(Change, Option<Code>)>, before: Option<i32>) -> Option<i32> {
        let (leaders, leader_epochs) = (vec![None; 6], vec![0; 6]);
        let topic = TopicInfo { name: "t".to_owned(), id: Uuid::from_u128(7), leaders, leader_epochs };
        let targets = target.map(|target| ("copy".to_owned(), target)).into_iter().collect();
        let changes: Vec<Change> = change.iter().map(|(change, _)| change.clone()).collect();
        let failed = change.as_ref().and_then(|(change, code)| Some((change, answered((*code)?))));
        let failed: Vec<_> = failed.into_iter().collect();
        let outcome = Outcome { targets: &targets, changes: &changes, failed: &failed };
        let before = before.map(|count| (topic.id, count)).into_iter().collect();
        let id = topic.id;
        let copied = Copied { topic, target: "copy".to_owned(), settings: None, protocol: Protocol::Share };
        admit([&copied].into_iter(), &outcome, &before).get(&id).copied()
    }

    fn grow() -> Change {
        Change::Grow { topic: "copy".to_owned(), from: 3, to: 6 }
    }

    fn create() -> Change {
        let config =
            crate::config::TargetTopicsConfig { create: true, replication: None, sync: true, excluded_configs: vec![] };
        Change::create("copy", 6, &Default::default(), &config)
    }

    #[test]
    fn what_the_target_has_or_gets_is_admitted() {
        assert_eq!(admitted(present(6), None, None), Some(6));
        assert_eq!(admitted(Some(Target::Absent), Some((create(), None)), None), Some(6));
        assert_eq!(admitted(present(3), Some((grow(), None)), Some(3)), Some(6));
        assert_eq!(admitted(present(8), None, Some(3)), Some(6));
    }

    #[test]
    fn what_the_target_lacks_waits_and_what_was_admitted_stays() {
        let unknown = || Some(Target::Unknown(answered(Code::TopicAuthorizationFailed)));
        for before in [None, Some(3)] {
            assert_eq!(admitted(None, None, before), before, "the target is silent");
            assert_eq!(admitted(unknown(), None, before), before);
            assert_eq!(admitted(Some(Target::Absent), None, before), before, "nothing is created");
            let refused = Some((create(), Some(Code::TopicAuthorizationFailed)));
            assert_eq!(admitted(Some(Target::Absent), refused, before), before);
        }
    }

    #[test]
    fn partitions_that_may_not_be_added_are_held_by_the_lanes_and_those_that_may_wait() {
        assert_eq!(admitted(present(3), None, None), Some(6), "sink.topic.create.enable = false");
        assert_eq!(admitted(present(3), Some((grow(), Some(Code::TopicAuthorizationFailed))), Some(3)), Some(6));
        assert_eq!(admitted(present(3), Some((grow(), Some(Code::NotController))), Some(3)), Some(3));
        assert_eq!(admitted(present(3), Some((grow(), Some(Code::NotController))), None), Some(3));
    }
}
