//! What `run` would do for a flow, with nothing done: what it would set on both clusters, and what it would copy.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::bridge::check::ceiling::Distances;
use crate::bridge::discovery::judge::{Copied, Skip};
use crate::bridge::discovery::{Discovery, Seen};
use crate::bridge::identity::Identities;
use crate::bridge::order::Order;
use crate::config::{OffsetReset, Protocol};
use crate::flow::Flow;
use crate::health::Health;
use crate::metrics::FlowMetrics;
use crate::source::group::{Group, Offsets, Standing};
use crate::source::share::group;
use crate::source::start::{Placement, StartError};
use crate::wire::admin::{Resource, describe_configs};
use crate::wire::client::TopicInfo;
use crate::wire::log::{Moment, list_offsets, sizes};
use crate::wire::{Client, Code, WireError};

/// See the module.
#[derive(Debug)]
pub struct Plan {
    /// What is kept of the order of records.
    pub order: String,
    /// What would be set on the source, a line each.
    pub source: Vec<String>,
    /// What would be changed on the target, a line each.
    pub target: Vec<String>,
    /// Configs of the target that were set by hand and are left alone, a line each.
    pub left: Vec<String>,
    /// Topics that would be copied, in the order of their names.
    pub topics: Vec<TopicPlan>,
    /// Topics that a pattern matches and that would not be copied.
    pub skipped: BTreeMap<String, Skip>,
    /// Topics that are named and not there, or not to be copied as they are, with the reason.
    pub waiting: Vec<(String, String)>,
    /// What there is to copy would take at least this long; `None` where there is nothing.
    pub at_least: Option<Duration>,
}

/// What would be copied of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Its name on the source.
    pub source: String,
    /// Its name on the target.
    pub target: String,
    /// Partitions on the source.
    pub partitions: usize,
    /// Offsets to copy: transaction markers and gaps are among them.
    pub offsets: u64,
    /// Their bytes at the source, compressed as they are; `None` where the cluster does not tell.
    pub bytes: Option<u64>,
    /// The most offsets that one partition has to copy.
    longest: u64,
}

/// Where the logs begin and end, where the group stands or would start, and how large the logs are.
#[derive(Debug, Default)]
struct Logs {
    earliest: Offsets,
    end: Offsets,
    start: Offsets,
    standings: Vec<Standing>,
    has_begun: bool,
    bytes: Option<BTreeMap<(String, i32), u64>>,
}

/// Looks at both clusters.
///
/// Errors: a cluster does not answer, or not yet, or refuses what is asked.
pub async fn plan(flow: &Flow, identities: &Identities) -> Result<Plan, WireError> {
    let mut source = Client::new(flow.source.clone());
    let mut discovery = Discovery::new(flow.clone(), identities.clone(), (Health::default(), FlowMetrics::default()));
    let seen = discovery.look().await?;
    identities.learn(flow).await?;
    let infos: Vec<TopicInfo> = seen.sorted.copied.iter().map(|copied| copied.topic.clone()).collect();
    let changes = discovery.plan(&seen);
    let configs = configs(&mut source, flow).await?;
    let logs = look(&mut source, flow, &infos).await?;
    let topics: Vec<TopicPlan> = seen.sorted.copied.iter().map(|copied| count(flow, copied, &logs)).collect();
    let distances = Distances::measure(&mut source, &mut Client::new(flow.sink.clone())).await?;
    Ok(Plan {
        order: Order::of(flow).to_string(),
        source: configs.into_iter().chain(start(flow, &logs)).collect(),
        target: changes.changes.iter().map(ToString::to_string).collect(),
        left: changes.left.iter().map(|(topic, difference)| format!("topic {topic}: {difference}")).collect(),
        at_least: at_least(flow, &topics, distances),
        topics,
        waiting: waiting(&seen),
        skipped: seen.chosen.skipped,
    })
}

async fn look(client: &mut Client, flow: &Flow, topics: &[TopicInfo]) -> Result<Logs, WireError> {
    let group = Group::of(flow, flow.protocol);
    let stored = group.stored(client).await?;
    let has_begun = stored.keys().any(|(name, _)| topics.iter().any(|topic| topic.name == *name));
    let standings = group.standings(client, topics).await?;
    // In this order: a log grows at its end.
    let earliest = list_offsets(client, topics, Moment::Earliest).await?;
    let end = list_offsets(client, topics, Moment::End).await?;
    let start = match Placement::of(flow, flow.protocol).look_up(client, topics).await {
        Ok(start) => start,
        Err(StartError::Cluster(error)) => return Err(error),
        // `check` and `run` tell of a group that has never begun.
        Err(_) => Offsets::new(),
    };
    let bytes = match sizes(client, topics).await {
        Ok(bytes) => Some(bytes),
        Err(error) if error.code() == Some(Code::ClusterAuthorizationFailed) => None,
        Err(error) => return Err(error),
    };
    Ok(Logs { earliest, end, start, standings, has_begun, bytes })
}

/// Configs of the share group that would be set, a line each.
async fn configs(client: &mut Client, flow: &Flow) -> Result<Vec<String>, WireError> {
    if flow.protocol == Protocol::Consumer {
        return Ok(vec![]);
    }
    let configs = describe_configs(client, Resource::Group, &flow.group.id).await?;
    let differing = group::differing(&group::wanted(&flow.group), &configs);
    let line = |(name, value): (&String, &String)| {
        let now = configs.get(name).map_or("not set", String::as_str);
        format!("share group {}: set {name} to {value}, from {now}", flow.group.id)
    };
    Ok(differing.iter().map(line).collect())
}

/// Where a new group would be put (pure).
fn start(flow: &Flow, logs: &Logs) -> Option<String> {
    let placed = !logs.has_begun && !logs.start.is_empty();
    placed.then(|| {
        format!("{}: set the start offsets of {} partitions", Group::of(flow, flow.protocol), logs.start.len())
    })
}

/// Counts what is left of a topic (pure).
fn count(flow: &Flow, Copied { topic, target, .. }: &Copied, logs: &Logs) -> TopicPlan {
    let (mut offsets, mut longest) = (0, 0);
    let mut bytes = logs.bytes.as_ref().map(|_| 0);
    for partition in (0..).take(topic.leaders.len()) {
        let at = (topic.name.clone(), partition);
        let earliest = logs.earliest.get(&at).copied().unwrap_or(0);
        let end = logs.end.get(&at).copied().unwrap_or(earliest);
        let left = left(flow, logs, (&at, earliest, end));
        offsets += left;
        longest = longest.max(left);
        let all = end.abs_diff(earliest).max(1);
        let size = logs.bytes.as_ref().and_then(|bytes| bytes.get(&at)).copied().unwrap_or(0);
        bytes = bytes.map(|sum| {
            sum + u64::try_from(u128::from(size) * u128::from(left.min(all)) / u128::from(all)).unwrap_or(0)
        });
    }
    TopicPlan {
        source: topic.name.clone(),
        target: target.clone(),
        partitions: topic.leaders.len(),
        offsets,
        bytes,
        longest,
    }
}

/// Offsets of a partition that are still to be copied.
fn left(flow: &Flow, logs: &Logs, (at, earliest, end): (&(String, i32), i64, i64)) -> u64 {
    let behind = |start: i64| end.saturating_sub(start.max(earliest)).max(0).cast_unsigned();
    if let Some(start) = logs.start.get(at).filter(|_| !logs.has_begun) {
        return behind(*start);
    }
    let standing = logs.standings.iter().find(|standing| standing.topic == at.0 && standing.partition == at.1);
    if let Some((position, lag)) = standing.and_then(|standing| Some((standing.position?, standing.lag))) {
        return lag.unwrap_or_else(|| behind(position));
    }
    match Group::of(flow, flow.protocol).offset_reset {
        OffsetReset::Latest => 0,
        OffsetReset::Earliest | OffsetReset::Within(_) => behind(earliest),
    }
}

fn waiting(seen: &Seen) -> Vec<(String, String)> {
    let missing = seen.sorted.missing.iter().map(|(topic, error)| (topic.clone(), error.to_string()));
    let compacted = seen.sorted.compacted.iter().map(|topic| (topic.clone(), "it is compacted by now".to_owned()));
    let unknown = seen.sorted.unknown.iter().map(|(topic, error)| (topic.clone(), error.to_string()));
    missing.chain(compacted).chain(unknown).chain(seen.sorted.unroutable.iter().cloned()).collect()
}

/// How long a copy takes at least: by the window of the longest partition, by the memory of one process, and by its limits (pure).
fn at_least(flow: &Flow, topics: &[TopicPlan], distances: Distances) -> Option<Duration> {
    let offsets: u64 = topics.iter().map(|topic| topic.offsets).sum();
    let bytes: u64 = topics.iter().filter_map(|topic| topic.bytes).sum();
    let longest = topics.iter().map(|topic| topic.longest).max().filter(|longest| *longest > 0)?;
    let by = |amount: u64, rate: f64| amount as f64 / rate;
    let limited = |amount: u64, limit: Option<NonZeroU64>| limit.map_or(0.0, |limit| by(amount, limit.get() as f64));
    let windows = match flow.protocol {
        Protocol::Share => by(longest, distances.records_per_second(flow)),
        Protocol::Consumer => 0.0,
    };
    let memory = by(bytes, distances.bytes_per_second(flow, flow.protocol));
    let seconds = windows.max(memory).max(limited(bytes, flow.limits.bytes)).max(limited(offsets, flow.limits.records));
    Duration::try_from_secs_f64(seconds).ok()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, head: &str, lines: &[String]| {
            lines.iter().try_for_each(|line| writeln!(f, "  {head:<8} {line}"))
        };
        writeln!(f, "  {}", self.order)?;
        lines(f, "source", &self.source)?;
        lines(f, "target", &self.target)?;
        lines(f, "left", &self.left)?;
        for topic in &self.topics {
            writeln!(f, "  {:<8} {topic}", "copy")?;
        }
        for (topic, reason) in &self.waiting {
            writeln!(f, "  {:<8} {topic}: {reason}", "waits")?;
        }
        for (topic, reason) in &self.skipped {
            writeln!(f, "  {:<8} {topic}: {reason}", "not")?;
        }
        let offsets: u64 = self.topics.iter().map(|topic| topic.offsets).sum();
        let bytes: Option<u64> = self.topics.iter().map(|topic| topic.bytes).sum();
        write!(f, "  {:<8} {offsets} records, {}", "in all", size(bytes))?;
        match self.at_least {
            Some(at_least) => write!(f, ", in {:.0} s at the soonest", at_least.as_secs_f64().max(1.0)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TopicPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target, partitions, offsets, bytes, .. } = self;
        f.write_str(source)?;
        if target != source {
            write!(f, " to {target}")?;
        }
        write!(f, ": partitions: {partitions}, {offsets} records, {}", size(*bytes))
    }
}

fn size(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{:.1} MB", bytes as f64 / 1e6),
        None => "of unknown size (DESCRIBE on the cluster would tell)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::limits::CYCLE_WORK;
    use crate::metrics::registry;
    use uuid::Uuid;

    fn flow(more: &str) -> Flow {
        let text = format!(
            "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\nsource.cluster = 'a'\n\
             sink.cluster = 'b'\ntopics.names = ['t']\n{more}"
        );
        let config = Config::parse(std::path::Path::new("f.toml"), &text).expect("the file is good");
        Flow::all(config.flows, &mut registry()).remove(0)
    }

    /// A log from 100 to 200 of 5,000 bytes, and what the group has done of it.
    fn logs(standings: &[(Option<i64>, Option<u64>)], start: Option<i64>) -> Logs {
        let at = ("t".to_owned(), 0);
        let standings = standings.iter().map(|(position, lag)| Standing {
            topic: at.0.clone(),
            partition: 0,
            position: *position,
            lag: *lag,
        });
        let standings: Vec<Standing> = standings.collect();
        Logs {
            has_begun: standings.iter().any(|standing| standing.position.is_some()),
            standings,
            earliest: [(at.clone(), 100)].into(),
            end: [(at.clone(), 200)].into(),
            start: start.map(|offset| (at.clone(), offset)).into_iter().collect(),
            bytes: Some([(at, 5_000)].into()),
        }
    }

    fn counted(more: &str, logs: &Logs) -> (u64, Option<u64>) {
        let topic = TopicInfo { name: "t".to_owned(), id: Uuid::nil(), leaders: vec![None], leader_epochs: vec![0] };
        let counted = count(
            &flow(more),
            &Copied { topic, target: "u".to_owned(), settings: None, protocol: Protocol::Share },
            logs,
        );
        (counted.offsets, counted.bytes)
    }

    #[test]
    fn a_group_that_has_begun_has_its_lag_left_and_a_new_one_what_lies_behind_its_start() {
        let latest = "share.auto.offset.reset = 'latest'";
        assert_eq!(counted("", &logs(&[], None)), (100, Some(5_000)));
        assert_eq!(counted(latest, &logs(&[], None)), (0, Some(0)));
        assert_eq!(counted("", &logs(&[], Some(150))), (50, Some(2_500)));
        assert_eq!(counted("", &logs(&[], Some(50))), (100, Some(5_000)), "its log begins later");
        assert_eq!(counted(latest, &logs(&[(Some(120), Some(20))], None)), (20, Some(1_000)));
        assert_eq!(counted("", &logs(&[(Some(180), None)], None)), (20, Some(1_000)));
        assert_eq!(counted("", &logs(&[(None, None)], None)), (100, Some(5_000)), "known and never read");
        assert_eq!(counted("", &Logs { bytes: None, ..logs(&[], None) }), (100, None));
    }

    #[test]
    fn the_longest_partition_or_a_limit_takes_the_time() {
        let topic = |offsets, longest| TopicPlan {
            source: "t".to_owned(),
            target: "t".to_owned(),
            partitions: 2,
            offsets,
            bytes: Some(10 * offsets),
            longest,
        };
        // A window of 100 records in a second.
        let distances = Distances { source: (Duration::from_secs(1) - CYCLE_WORK) / 2, target: Duration::ZERO };
        let seconds = |more: &str, topics: &[TopicPlan]| {
            let flow = flow(&format!("share.partition.max.record.locks = 100\n{more}"));
            at_least(&flow, topics, distances).map(|time| time.as_secs_f64().round())
        };
        assert_eq!(seconds("", &[topic(3_000, 2_000), topic(500, 500)]), Some(20.0));
        assert_eq!(seconds("limit.records.per.second = 50", &[topic(3_000, 2_000)]), Some(60.0));
        assert_eq!(seconds("limit.bytes.per.second = 300", &[topic(3_000, 2_000)]), Some(100.0));
        let consumer = "group.protocol = 'consumer'\nmemory.max.bytes = 4000000";
        assert_eq!(
            seconds(consumer, &[topic(3_000_000, 2_000_000)]),
            Some(8.0),
            "half of its memory in each round trip"
        );
        assert_eq!(seconds("", &[topic(0, 0)]), None);
    }

    #[test]
    fn each_kind_of_line_is_told() {
        let plan = Plan {
            order: "order kept: somehow".to_owned(),
            source: vec!["share group g: set x to 1, from 2".to_owned()],
            target: vec!["create topic u".to_owned()],
            left: vec!["topic u: y is 1, at the source 2".to_owned()],
            topics: vec![TopicPlan {
                source: "t".to_owned(),
                target: "u".to_owned(),
                partitions: 3,
                offsets: 7,
                bytes: None,
                longest: 7,
            }],
            skipped: [("t-tmp".to_owned(), Skip::Excluded)].into(),
            waiting: vec![("v".to_owned(), "it is not there".to_owned())],
            at_least: Some(Duration::from_secs(90)),
        };
        let shown = plan.to_string();
        let heads: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(heads, ["order", "source", "target", "left", "copy", "waits", "not", "in"]);
        assert!(shown.contains("t to u: partitions: 3, 7 records, of unknown size"), "{shown}");
        assert!(shown.ends_with("in 90 s at the soonest"), "{shown}");
    }
}
