//! Tells what a round has found: troubles, metrics, and once in the log what is no trouble.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::change::Change;
use super::judge::{Chosen, Copied, Skip, Sorted};
use super::look::Target;
use super::plan::Plan;
use crate::bridge::compaction::{POLICY, some};
use crate::flow::Flow;
use crate::health::Health;
use crate::metrics::{FlowMetrics, SkipLabels};
use crate::wire::WireError;

/// Looks that must agree before a difference is told: brokers hear of a change one after the other.
const LOOKS_BEFORE_TOLD: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Teller {
    flow: Flow,
    health: Health,
    metrics: FlowMetrics,
    /// Subjects that are in trouble.
    troubled: BTreeSet<String>,
    skipped: BTreeMap<String, Skip>,
    /// Configs that are left alone, and in how many looks in a row they were.
    left: HashMap<(String, &'static str), u32>,
    /// Whether the log has told that configs can't be compared or altered.
    is_sync_told: bool,
}

/// What a round has found and done.
pub(super) struct Round<'a> {
    pub(super) chosen: &'a Chosen,
    pub(super) sorted: &'a Sorted,
    pub(super) plan: &'a Plan,
    pub(super) failed: &'a [(&'a Change, WireError)],
    pub(super) targets: &'a Result<HashMap<String, Target>, WireError>,
    pub(super) admitted: &'a BTreeMap<Uuid, i32>,
}

impl Teller {
    pub(super) fn new(flow: Flow, health: Health, metrics: FlowMetrics) -> Self {
        let (troubled, skipped, left) = (BTreeSet::new(), BTreeMap::new(), HashMap::new());
        Self { flow, health, metrics, troubled, skipped, left, is_sync_told: false }
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    pub(super) fn tell(&mut self, round: &Round<'_>) {
        let troubles = self.troubles(round);
        for (subject, reason) in &troubles {
            self.health.trouble(subject, reason);
        }
        let troubled: BTreeSet<String> = troubles.into_keys().collect();
        for subject in self.troubled.difference(&troubled) {
            self.health.well(subject);
        }
        self.troubled = troubled;
        self.tell_skipped(&round.chosen.skipped);
        self.tell_differences(round.plan);
        self.tell_of_sync(round);
        self.metrics.topics.set(i64::try_from(round.admitted.len()).unwrap_or(i64::MAX));
    }

    fn troubles(&self, round: &Round<'_>) -> BTreeMap<String, String> {
        let mut troubles = BTreeMap::new();
        let (flow, source, topics) = (&self.flow.name, &self.flow.source, &self.flow.topics);
        if round.chosen.wanted.is_empty() {
            let reason = format!("cluster {} has none that this flow copies: {topics}", source.name);
            troubles.insert("topics of the flow".to_owned(), reason);
        }
        for (topic, error) in &round.sorted.missing {
            troubles.insert(format!("topic {topic}"), error.to_string());
        }
        for topic in &round.sorted.compacted {
            let reason = format!(
                "the topic is compacted on cluster {} now ({POLICY} has compact), and the share group that reads it keeps no order: nothing is \
                 acquired from it until its policy is changed back, allow.unordered.compacted = true is set in [flows.{flow}], or all workers of \
                 the flow have been restarted, after which consumer group {} reads it from where the share group stands",
                source.name, self.flow.consumer.id
            );
            troubles.insert(format!("policy of topic {topic}"), reason);
        }
        for (topic, error) in &round.sorted.unknown {
            let reason = format!(
                "{error}: nothing is acquired from the topic while it may be compacted, unless allow.unordered.compacted = true or \
                 group.protocol = \"consumer\" is set in [flows.{flow}]"
            );
            troubles.insert(format!("policy of topic {topic}"), reason);
        }
        for (topic, reason) in &round.sorted.unroutable {
            troubles.insert(format!("topic {topic}"), reason.clone());
        }
        for copied in &round.sorted.copied {
            let reason = self.lack(copied, round);
            troubles.extend(reason.map(|reason| (format!("topic {}", copied.topic.name), reason)));
        }
        for (change, error) in round.failed.iter().filter(|(change, _)| !matches!(change, Change::Alter { .. })) {
            troubles.insert(format!("topic {}", change.topic()), format!("{error} (wanted: {change})"));
        }
        troubles
    }

    /// What a topic lacks on the target, unless a change has failed.
    fn lack(&self, Copied { topic, target: name, settings, .. }: &Copied, round: &Round<'_>) -> Option<String> {
        let waits = !round.admitted.contains_key(&topic.id);
        let target = &self.flow.sink.name;
        match round.targets {
            Err(error) => {
                waits.then(|| format!("nothing is acquired from it before the target is known to have it: {error}"))
            }
            Ok(targets) => match targets.get(name) {
                Some(Target::Absent) if !self.flow.target_topics.create => Some(format!(
                    "topic {name} does not exist on cluster {target}, and sink.topic.create.enable is false: create it with {} partitions",
                    topic.partition_count()
                )),
                Some(Target::Absent) if settings.is_none() => Some(format!(
                    "topic {name} does not exist on cluster {target}, and cluster {} does not tell its configs: create it, or grant \
                     DESCRIBE_CONFIGS on the topic there",
                    self.flow.source.name
                )),
                Some(Target::Unknown(error)) => waits.then(|| error.to_string()),
                Some(Target::Absent | Target::Present(_)) | None => None,
            },
        }
    }

    fn tell_skipped(&mut self, skipped: &BTreeMap<String, Skip>) {
        let flow = &self.flow.name;
        for skip in Skip::ALL {
            let all: Vec<&str> =
                skipped.iter().filter(|(_, found)| **found == skip).map(|(topic, _)| topic.as_str()).collect();
            let labels = SkipLabels { reason: skip.label().to_owned() };
            self.metrics.topics_skipped.get_or_create(&labels).set(i64::try_from(all.len()).unwrap_or(i64::MAX));
            let new: Vec<&str> = all.into_iter().filter(|topic| self.skipped.get(*topic) != Some(&skip)).collect();
            match skip {
                _ if new.is_empty() => {}
                Skip::TooMany => {
                    tracing::warn!(flow, topics = some(&new), reason = %skip, "matched and not copied");
                }
                Skip::Excluded | Skip::Internal => {
                    tracing::debug!(flow, topics = some(&new), reason = %skip, "matched and not copied");
                }
            }
        }
        self.skipped.clone_from(skipped);
    }

    fn tell_differences(&mut self, plan: &Plan) {
        let mut before = std::mem::take(&mut self.left);
        for (topic, difference) in &plan.left {
            let key = (topic.clone(), difference.config);
            let looks = before.remove(&key).unwrap_or(0).saturating_add(1);
            if looks == LOOKS_BEFORE_TOLD {
                tracing::info!(flow = self.flow.name, topic, %difference, "set on the target by somebody: left alone");
            }
            self.left.insert(key, looks);
        }
        self.metrics.config_differences.set(i64::try_from(self.left.len()).unwrap_or(i64::MAX));
    }

    /// A right that is missing to keep configs in step stops nothing, so that the log tells of it once.
    fn tell_of_sync(&mut self, round: &Round<'_>) {
        let refused =
            round.failed.iter().filter(|(change, _)| matches!(change, Change::Alter { .. })).map(|(_, error)| error);
        let mut errors = refused.chain(round.plan.unread.iter().map(|(_, error)| error));
        match errors.next() {
            Some(error) if !self.is_sync_told => {
                let count = 1 + errors.count();
                tracing::warn!(
                    flow = self.flow.name, topics = count, %error,
                    "topic configs on the target are not kept in step with the source, the records are \
                     (sink.topic.config.sync.enable = false ends the attempts)"
                );
                self.is_sync_told = true;
            }
            Some(_) => {}
            None => self.is_sync_told = false,
        }
    }
}
