//! What the target needs for a flow's topics, and which of its configs are ours. Pure.

use std::collections::HashMap;

use uuid::Uuid;

use super::change::Change;
use super::judge::Copied;
use super::look::{Present, Target};
use super::sync::{Comparison, Difference, Wanted, compare, wanted};
use crate::config::TargetTopicsConfig;
use crate::route::Mapping;
use crate::wire::WireError;

/// What is to be done, and what is not.
#[derive(Debug, Default)]
pub struct Plan {
    /// Changes of the target, at most one of creation and growth for a topic.
    pub changes: Vec<Change>,
    /// Configs that are left alone, by topic.
    pub left: Vec<(String, Difference)>,
    /// Topics whose configs on the target are not told.
    pub unread: Vec<(String, WireError)>,
    /// What the source wants now: by topic, with its id on the target; a topic that is to be created has none yet.
    wanted: Vec<(String, (Option<Uuid>, Wanted))>,
}

/// What the source was last seen to want: by topic, with its id on the target, since a topic that is made anew there is nobody's yet.
#[derive(Debug, Default)]
pub struct Bases {
    topics: HashMap<String, (Option<Uuid>, Wanted)>,
}

impl Bases {
    /// Compares what is copied with what is there. A target that does not say what it has needs nothing.
    pub fn plan(
        &self,
        (config, mapping): (&TargetTopicsConfig, Mapping),
        copied: &[Copied],
        targets: &HashMap<String, Target>,
    ) -> Plan {
        let mut plan = Plan::default();
        for Copied { topic, target, settings, .. } in copied {
            match (targets.get(target), settings) {
                (Some(Target::Absent), Some(source)) if config.create => {
                    plan.changes.push(Change::create(target, topic.partition_count(), source, config));
                    plan.wanted.push((target.clone(), (None, wanted(config.copied(), source))));
                }
                (Some(Target::Present(present)), source) => {
                    let (from, to) = (present.partitions, topic.partition_count());
                    if from < to && config.create && mapping == Mapping::Same {
                        plan.changes.push(Change::Grow { topic: target.clone(), from, to });
                    }
                    if let Some(source) = source.as_ref().filter(|_| config.sync) {
                        self.compare(target, (present, wanted(config.copied(), source)), &mut plan);
                    }
                }
                (Some(Target::Absent | Target::Unknown(_)) | None, _) => {}
            }
        }
        plan
    }

    fn compare(&self, topic: &str, (present, wanted): (&Present, Wanted), plan: &mut Plan) {
        match &present.settings {
            Some(Ok(settings)) => {
                let is_same = |id: Option<Uuid>| id.is_none_or(|id| id == present.id);
                let base = self.topics.get(topic).filter(|(id, _)| is_same(*id)).map(|(_, base)| base);
                let Comparison { alter, left } = compare(&wanted, settings, base.unwrap_or(&Wanted::new()));
                if !alter.is_empty() {
                    plan.changes.push(Change::Alter { topic: topic.to_owned(), configs: alter });
                }
                plan.left.extend(left.into_iter().map(|difference| (topic.to_owned(), difference)));
                plan.wanted.push((topic.to_owned(), (Some(present.id), wanted)));
            }
            Some(Err(error)) => plan.unread.push((topic.to_owned(), error.clone())),
            None => {}
        }
    }

    /// What was wanted is the base from now on, except where a change has failed: that is tried again.
    pub fn learn(&mut self, plan: &mut Plan, failed: &[(&Change, WireError)]) {
        let failed: HashMap<&str, &Change> = failed
            .iter()
            .filter(|(change, _)| !matches!(change, Change::Grow { .. }))
            .map(|(change, _)| (change.topic(), *change))
            .collect();
        let mut before = std::mem::take(&mut self.topics);
        for (topic, (id, mut wanted)) in std::mem::take(&mut plan.wanted) {
            match failed.get(topic.as_str()) {
                Some(Change::Create(_)) => continue,
                Some(Change::Alter { configs, .. }) => {
                    let base = before.remove(&topic).filter(|(before, _)| before.is_none() || *before == id);
                    let (_, base) = base.unwrap_or_default();
                    wanted.retain(|config, _| !configs.contains_key(config));
                    wanted.extend(base.into_iter().filter(|(config, _)| configs.contains_key(config)));
                }
                Some(Change::Grow { .. }) | None => {}
            }
            self.topics.insert(topic, (id, wanted));
        }
        // What could not be compared this time keeps its base.
        for (topic, base) in before {
            self.topics.entry(topic).or_insert(base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;
    use crate::wire::client::TopicInfo;
    use crate::wire::error::Place;
    use crate::wire::topics::{Setting, Settings};

    fn config(create: bool) -> TargetTopicsConfig {
        TargetTopicsConfig { create, replication: None, sync: true, excluded_configs: vec![] }
    }

    fn source(partitions: usize, retention: &str) -> Vec<Copied> {
        let (leaders, leader_epochs) = (vec![None; partitions], vec![0; partitions]);
        let info = TopicInfo { name: "t".to_owned(), id: Uuid::nil(), leaders, leader_epochs };
        vec![Copied {
            topic: info,
            target: "copy".to_owned(),
            settings: Some(settings(retention, true)),
            protocol: Protocol::Share,
        }]
    }

    fn settings(retention: &str, is_own: bool) -> Settings {
        [("retention.ms", Setting { value: retention.to_owned(), is_own })].into()
    }

    fn present(id: u128, partitions: i32, settings: Settings) -> HashMap<String, Target> {
        let present = Present { id: Uuid::from_u128(id), partitions, settings: Some(Ok(settings)) };
        [("copy".to_owned(), Target::Present(present))].into()
    }

    fn shown(plan: &Plan) -> Vec<String> {
        plan.changes.iter().map(Change::to_string).collect()
    }

    fn refused() -> WireError {
        let place = Place { cluster: "b".into(), address: "b:1".into() };
        let (api, what) = ("IncrementalAlterConfigs", "topic t".to_owned());
        WireError::Answered { place, api, what, code: crate::wire::Code::TopicAuthorizationFailed, message: None }
    }

    #[test]
    fn what_is_missing_is_created_and_what_is_short_is_grown_where_that_is_allowed() {
        let absent: HashMap<String, Target> = [("copy".to_owned(), Target::Absent)].into();
        let plan = |create, targets: &HashMap<String, Target>| {
            Bases::default().plan((&config(create), Mapping::Same), &source(3, "5"), targets)
        };
        assert!(shown(&plan(true, &absent))[0].starts_with("create topic copy with partitions: 3"));
        let short = present(1, 2, settings("5", true));
        assert_eq!(shown(&plan(true, &short)), ["grow topic copy from 2 to 3 partitions"]);
        for targets in [&present(1, 3, settings("5", true)), &present(1, 4, settings("5", true)), &HashMap::new()] {
            assert_eq!(shown(&plan(true, targets)), [""; 0]);
        }
        assert_eq!((shown(&plan(false, &absent)), shown(&plan(false, &short))), (vec![], vec![]));
    }

    #[test]
    fn configs_follow_the_base_of_the_same_topic() {
        let mut bases = Bases::default();
        let mut go = |retention: &str, targets: &HashMap<String, Target>| {
            let mut plan = bases.plan((&config(true), Mapping::Same), &source(1, retention), targets);
            bases.learn(&mut plan, &[]);
            (shown(&plan), plan.left.len())
        };
        let none = || (vec![], 0);
        let follows = |value| (vec![format!("alter topic copy: retention.ms={value}")], 0);
        assert_eq!(go("5", &present(1, 1, settings("7", false))), follows(5));
        assert_eq!(go("5", &present(1, 1, settings("5", true))), none());
        assert_eq!(go("6", &present(1, 1, settings("5", true))), follows(6));
        assert_eq!(go("6", &present(1, 1, settings("9", true))), (vec![], 1), "set by hand");
        assert_eq!(go("7", &present(1, 1, settings("9", true))), (vec![], 1), "and it stays so");
        assert_eq!(go("7", &present(2, 1, settings("8", false))), follows(7), "made anew");
        let absent = [("copy".to_owned(), Target::Absent)].into();
        assert!(go("7", &absent).0[0].starts_with("create"));
        assert_eq!(go("8", &present(3, 1, settings("7", true))), follows(8), "what we have created is ours");
    }

    #[test]
    fn a_change_that_failed_is_tried_again() {
        let mut bases = Bases::default();
        let mut go = |retention: &str, own: &str, is_refused: bool| {
            let mut plan =
                bases.plan((&config(true), Mapping::Same), &source(1, retention), &present(1, 1, settings(own, true)));
            let changes = plan.changes.clone();
            let failed: Vec<_> = changes.iter().filter(|_| is_refused).map(|change| (change, refused())).collect();
            bases.learn(&mut plan, &failed);
            shown(&plan)
        };
        assert_eq!(go("5", "5", false), [""; 0]);
        for _ in 0..3 {
            assert_eq!(go("6", "5", true), ["alter topic copy: retention.ms=6"]);
        }
        assert_eq!(go("6", "5", false), ["alter topic copy: retention.ms=6"]);
        assert_eq!(go("6", "6", false), [""; 0]);
    }
}
