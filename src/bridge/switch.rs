//! Moves the position of a flow between its share group and its consumer group, while nobody is in either.
//!
//! The group that goes on is only ever moved forward, to where the one that is left has come: what lies between was copied through that
//! one. A group that stands further is nobody's to move but the operator's.

use std::collections::BTreeMap;

use crate::bridge::compaction::some;
use crate::bridge::discovery::Discovery;
use crate::bridge::identity::Identities;
use crate::config::{OffsetReset, Protocol};
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::NAMED_TOPICS_MAX;
use crate::metrics::FlowMetrics;
use crate::source::TopicPartition;
use crate::source::group::{Group, Offsets, is_occupied};
use crate::source::share::group::{self, GroupError};
use crate::source::share::rewritten::{self, Rewritten};
use crate::wire::client::TopicInfo;
use crate::wire::log::{Moment, list_offsets};
use crate::wire::offsets::{MemberInfo, committed};
use crate::wire::{Client, WireError};

mod judge;

pub use judge::Outcome;
use judge::{Known, Rules};

/// What is to be moved, and whether it is.
#[derive(Debug, Clone)]
pub struct Switch {
    /// Which group is to go on.
    pub to: Protocol,
    /// Only these topics of the flow; none means all that it copies.
    pub topics: Vec<String>,
    /// Whether it is only said what would be done.
    pub dry_run: bool,
}

/// What was moved, or would be.
#[derive(Debug)]
pub struct Switched {
    /// The group that is left.
    pub from: Group,
    /// The group that goes on.
    pub to: Group,
    /// In the order of topics and partitions.
    pub partitions: Vec<Partition>,
}

/// A topic partition of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Where the group that goes on stood before; `None` where it knew nothing of the partition.
    pub before: Option<i64>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The cluster does not answer, or refuses.
    #[error(transparent)]
    Cluster(#[from] WireError),
    /// The share group can't be brought to the configs that it needs.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A topic that was named is not copied by the flow.
    #[error("flow {flow} copies no topic {topic}: name one of its topics, or none for all")]
    NoTopic {
        /// The flow.
        flow: String,
        /// The topic.
        topic: String,
    },
    /// Somebody is in one of the groups.
    #[error(
        "the {group} has members: {members}. Stop all workers of the flow first (SIGTERM); one that was killed counts until its session \
         times out"
    )]
    Occupied {
        /// The group.
        group: String,
        /// Who is in it.
        members: String,
    },
    /// Somebody joined meanwhile.
    #[error("the {group} was joined while the flow was switched: stop all workers of the flow, and switch again")]
    Joined {
        /// The group.
        group: String,
    },
    /// The group that is left has no position.
    #[error(
        "the {group} has no offset in any topic of the flow, so there is nothing to go on from: is this the way that the flow was copied? \
         Where a new group begins is said by start.position"
    )]
    NotBegun {
        /// The group.
        group: String,
    },
    /// The group that goes on stands further.
    #[error(
        "the {to} stands further than the {from} already: {partitions}. Moved back, it would copy again what lies between; left there, what \
         the {from} has not copied would be passed over. If the flow was last copied through the {to}, there is nothing to switch. \
         Otherwise let that group forget its offsets, and switch again:\n  {command}"
    )]
    Ahead {
        /// The group that is left.
        from: String,
        /// The group that goes on.
        to: String,
        /// Where, and how far.
        partitions: String,
        /// What an administrator has to run.
        command: String,
    },
    /// The group that is left stands behind the end of a log.
    #[error(
        "the {group} stands behind the end of the log: {partitions}. An unclean leader election has cut it, and nobody can tell what is \
         written anew below. Compare both sides with sharebridge verify, and put the group to an offset with Kafka's own tool"
    )]
    Cut {
        /// The group.
        group: String,
        /// Where.
        partitions: String,
    },
    /// What an unclean leader election has rewritten is not copied yet.
    #[error(
        "an unclean leader election has rewritten offsets of {partitions}, and workers in share mode have not copied all of them yet: start \
         them, wait until sharebridge_rewritten_offsets is 0, and switch then"
    )]
    Rewritten {
        /// Where.
        partitions: String,
    },
}

impl Switch {
    /// Looks at both groups, and moves the one that goes on unless this is a dry run.
    ///
    /// Errors: see [`SwitchError`]; nothing was moved, except with `Joined`.
    pub async fn run(&self, flow: &Flow, identities: &Identities) -> Result<Switched, SwitchError> {
        let mut client = Client::new(flow.source.clone());
        let (from, to) = self.groups(flow);
        for group in [&from, &to] {
            refuse_members(&mut client, group).await?;
        }
        let topics = self.topics(flow, identities).await?;
        self.refuse_rewritten(&mut client, flow, &topics).await?;
        let partitions = self.look(&mut client, flow, &topics).await?;
        if let Some(refusal) = refusal(&partitions, (&from, &to), &client.bootstrap()) {
            return Err(refusal);
        }
        if !self.dry_run {
            self.carry_out(&mut client, flow, (&topics, &partitions)).await?;
            // What it would do now is not in what was moved.
            if !from.members(&mut client).await?.is_empty() {
                return Err(SwitchError::Joined { group: from.to_string() });
            }
        }
        Ok(Switched { from, to, partitions })
    }

    fn groups(&self, flow: &Flow) -> (Group, Group) {
        let (share, consumer) = (Group::of(flow, Protocol::Share), Group::of(flow, Protocol::Consumer));
        match self.to {
            Protocol::Share => (consumer, share),
            Protocol::Consumer => (share, consumer),
        }
    }

    async fn topics(&self, flow: &Flow, identities: &Identities) -> Result<Vec<TopicInfo>, SwitchError> {
        let nobody = (Health::default(), FlowMetrics::default());
        let seen = Discovery::new(flow.clone(), identities.clone(), nobody).look().await?;
        let mut topics: Vec<TopicInfo> = seen.sorted.copied.into_iter().map(|copied| copied.topic).collect();
        if let Some(topic) = self.topics.iter().find(|name| topics.iter().all(|topic| topic.name != **name)) {
            return Err(SwitchError::NoTopic { flow: flow.name.clone(), topic: topic.clone() });
        }
        topics.retain(|topic| self.topics.is_empty() || self.topics.contains(&topic.name));
        Ok(topics)
    }

    /// A consumer group would pass over what lies below its position.
    async fn refuse_rewritten(
        &self,
        client: &mut Client,
        flow: &Flow,
        topics: &[TopicInfo],
    ) -> Result<(), SwitchError> {
        if self.to == Protocol::Share {
            return Ok(());
        }
        let remembered = committed(client, &rewritten::group(&flow.group.id)).await?;
        let open = remembered.iter().filter_map(Rewritten::from_committed).filter(Rewritten::is_open);
        let open = open.filter(|one| topics.iter().any(|topic| topic.id == one.topic_id));
        let partitions: Vec<String> = open.map(|one| one.at.to_string()).collect();
        if partitions.is_empty() { Ok(()) } else { Err(SwitchError::Rewritten { partitions: some(&partitions) }) }
    }

    async fn look(
        &self,
        client: &mut Client,
        flow: &Flow,
        topics: &[TopicInfo],
    ) -> Result<Vec<Partition>, SwitchError> {
        let (from, _) = self.groups(flow);
        // In this order: what a share group has done by the time of its answer, it had done up to an end that was found before, and
        // what it does not count as left lies below an end that is found later.
        let ends_before = list_offsets(client, topics, Moment::End).await?;
        let share = Group::of(flow, Protocol::Share).standings(client, topics).await?;
        let mut share: BTreeMap<(String, i32), _> = share
            .into_iter()
            .map(|standing| ((standing.topic, standing.partition), (standing.position, standing.lag)))
            .collect();
        let committed = Group::of(flow, Protocol::Consumer).stored(client).await?;
        let earliest = list_offsets(client, topics, Moment::Earliest).await?;
        let ends = list_offsets(client, topics, Moment::End).await?;
        let is_known = |at: &(String, i32)| match self.to {
            Protocol::Share => committed.contains_key(at),
            Protocol::Consumer => share.get(at).is_some_and(|(start, _)| start.is_some()),
        };
        if !earliest.keys().any(is_known) {
            return Err(SwitchError::NotBegun { group: from.to_string() });
        }
        let rules = Rules {
            to: self.to,
            from_earliest: from.offset_reset == OffsetReset::Earliest,
            window: flow.group.record_locks_max,
        };
        let partition = |(at, earliest): ((String, i32), i64)| {
            let (start, lag) = share.remove(&at).unwrap_or_default();
            let end = |ends: &Offsets| ends.get(&at).copied().unwrap_or(earliest);
            let (end_before, end) = (end(&ends_before), end(&ends));
            let known = Known { start, lag, committed: committed.get(&at).copied(), earliest, end_before, end };
            let (before, outcome) = (known.now(self.to), known.judge(rules));
            Partition { topic: at.0, partition: at.1, before, outcome }
        };
        Ok(earliest.into_iter().map(partition).collect())
    }

    async fn carry_out(
        &self,
        client: &mut Client,
        flow: &Flow,
        (topics, partitions): (&[TopicInfo], &[Partition]),
    ) -> Result<(), SwitchError> {
        let (_, to) = self.groups(flow);
        if self.to == Protocol::Share {
            // A group that has offsets without them could not be given the right ones any more.
            group::prepare(client, &flow.group, &flow.topics).await?;
        }
        let moved = |partition: &Partition| match partition.outcome {
            Outcome::Goes { to, .. } => Some(((partition.topic.clone(), partition.partition), to)),
            _ => None,
        };
        let offsets: Offsets = partitions.iter().filter_map(moved).collect();
        if offsets.is_empty() {
            return Ok(());
        }
        match to.put(client, topics, &offsets).await {
            Err(error) if is_occupied(&error) => Err(SwitchError::Joined { group: to.to_string() }),
            put => Ok(put?),
        }
    }
}

async fn refuse_members(client: &mut Client, group: &Group) -> Result<(), SwitchError> {
    let members = group.members(client).await?;
    if members.is_empty() {
        return Ok(());
    }
    let members: Vec<String> = members.iter().map(MemberInfo::to_string).collect();
    Err(SwitchError::Occupied { group: group.to_string(), members: some(&members) })
}

/// All or nothing: a flow whose partitions are read in two ways could not be started in either.
fn refusal(partitions: &[Partition], (from, to): (&Group, &Group), bootstrap: &str) -> Option<SwitchError> {
    let named = |say: fn(&Partition) -> Option<String>| {
        let found: Vec<String> = partitions.iter().filter_map(say).collect();
        (!found.is_empty()).then(|| some(&found))
    };
    let cut = named(|partition| match partition.outcome {
        Outcome::Cut(at) => Some(format!("{} at {at}", partition.at())),
        _ => None,
    });
    if let Some(partitions) = cut {
        return Some(SwitchError::Cut { group: from.to_string(), partitions });
    }
    let ahead = named(|partition| match (partition.outcome, partition.before) {
        (Outcome::Ahead(from), Some(to)) => Some(format!("{} at {to}, not at {from}", partition.at())),
        _ => None,
    });
    Some(SwitchError::Ahead {
        from: from.to_string(),
        to: to.to_string(),
        partitions: ahead?,
        command: forget(partitions, to, bootstrap),
    })
}

/// The command that lets a group forget where it stands.
fn forget(partitions: &[Partition], group: &Group, bootstrap: &str) -> String {
    let tool = match group.protocol {
        Protocol::Share => "kafka-share-groups.sh",
        Protocol::Consumer => "kafka-consumer-groups.sh",
    };
    let ahead = partitions.iter().filter(|partition| matches!(partition.outcome, Outcome::Ahead(_)));
    let mut topics: Vec<&str> = ahead.map(|partition| partition.topic.as_str()).collect();
    topics.dedup();
    let topics: String = topics.iter().take(NAMED_TOPICS_MAX).map(|topic| format!(" --topic {topic}")).collect();
    format!("{tool} --bootstrap-server {bootstrap} --delete-offsets --group {}{topics}", group.id)
}

impl Partition {
    fn at(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.as_str().into(), partition: self.partition }
    }
}
