//! Finds out what there is to compare: partitions, offsets and the kind of each topic.

use std::collections::{BTreeMap, BTreeSet};

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

use super::client::{Client, Endpoint};
use super::error::VerifyError;
use super::plan::{Pair, Span};
use super::record::Basis;
use super::{Comparison, TopicPair};
use crate::limits::{POLL_TIMEOUT, SURVEY_TIMEOUT};

/// One topic on both sides, before reading.
pub(super) struct TopicSurvey {
    pub(super) basis: Basis,
    /// By partition; `None` where the topic does not exist.
    pub(super) source: Option<BTreeMap<i32, Extent>>,
    pub(super) target: Option<BTreeMap<i32, Extent>>,
}

/// What one side has of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// From the log start to the last stable offset.
    pub(super) span: Span,
    /// Offsets behind the last stable one: their transactions are open, so they are not compared.
    pub(super) undecided: u64,
}

impl TopicSurvey {
    /// The partitions that a side has, each with both sides; an absent one is empty.
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        let sides = [&self.source, &self.target];
        let numbers = sides.into_iter().flatten().flat_map(BTreeMap::keys);
        let numbers: BTreeSet<i32> = numbers.copied().collect();
        numbers.into_iter().map(|partition| Pair {
            partition,
            spans: [&self.source, &self.target].map(|side| extent(side, partition).unwrap_or_default().span),
            exists: [&self.source, &self.target].map(|side| extent(side, partition).is_some()),
        })
    }
}

/// The extent of a partition, if the side has it.
pub(super) fn extent(side: &Option<BTreeMap<i32, Extent>>, partition: i32) -> Option<Extent> {
    side.as_ref()?.get(&partition).copied()
}

/// Surveys all topics of a comparison, first the source: what arrives there meanwhile does not look like a loss.
pub(super) fn survey(comparison: &Comparison) -> Result<Vec<TopicSurvey>, VerifyError> {
    let names = |side: usize| comparison.topics.iter().map(move |topic| topic.names()[side]);
    let source = Surveyor::connect(&comparison.source)?.survey(names(0))?;
    let target = Surveyor::connect(&comparison.target)?.survey(names(1))?;
    let compacted = [compacted(&comparison.source, &source)?, compacted(&comparison.target, &target)?];
    let topics = comparison.topics.iter().zip(source.into_iter().zip(target));
    let topics = topics.map(|(topic, (source, target))| TopicSurvey {
        basis: basis(topic, &compacted),
        source: source.map(|side| side.extents),
        target: target.map(|side| side.extents),
    });
    Ok(topics.collect())
}

fn basis(topic: &TopicPair, compacted: &[BTreeSet<String>; 2]) -> Basis {
    let is_compacted = topic.names().into_iter().zip(compacted).any(|(name, compacted)| compacted.contains(name));
    if is_compacted { Basis::LastPerKey } else { Basis::EveryRecord }
}

struct Side {
    topic: String,
    extents: BTreeMap<i32, Extent>,
}

/// Asks one cluster for topics and offsets.
pub(super) struct Surveyor<'a> {
    endpoint: &'a Endpoint,
    committed: Client,
    uncommitted: Client,
}

impl<'a> Surveyor<'a> {
    pub(super) fn connect(endpoint: &'a Endpoint) -> Result<Surveyor<'a>, VerifyError> {
        Ok(Surveyor { endpoint, committed: endpoint.committed()?, uncommitted: endpoint.uncommitted()? })
    }

    /// One entry a topic, in the same order; `None` where it does not exist.
    fn survey<'t>(&self, topics: impl Iterator<Item = &'t str>) -> Result<Vec<Option<Side>>, VerifyError> {
        topics.map(|topic| self.topic(topic)).collect()
    }

    fn topic(&self, topic: &str) -> Result<Option<Side>, VerifyError> {
        let Some(partitions) = self.partitions(topic)? else {
            return Ok(None);
        };
        let extents = partitions.into_iter();
        let extents = extents.map(|partition| Ok((partition, self.extent(topic, partition)?)));
        Ok(Some(Side { topic: topic.to_owned(), extents: extents.collect::<Result<_, VerifyError>>()? }))
    }

    fn partitions(&self, topic: &str) -> Result<Option<Vec<i32>>, VerifyError> {
        let answer = self.committed.fetch_metadata(Some(topic), SURVEY_TIMEOUT);
        let metadata = answer.map_err(|error| {
            // Failures of connections are handed over while polling only.
            while self.committed.poll(POLL_TIMEOUT).is_some() {}
            let cause = self.committed.context().last_or(&error.to_string());
            self.endpoint.unreachable(cause)
        })?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        match found.error() {
            None => Ok(Some(found.partitions().iter().map(|partition| partition.id()).collect())),
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => Ok(None),
            Some(error) => Err(self.endpoint.describe_error(topic, error.into())),
        }
    }

    /// What the cluster has of a partition by now.
    pub(super) fn extent(&self, topic: &str, partition: i32) -> Result<Extent, VerifyError> {
        let watermarks = |client: &Client| {
            let answer = client.fetch_watermarks(topic, partition, SURVEY_TIMEOUT);
            answer.map_err(|cause| VerifyError::Offsets {
                cluster: self.endpoint.cluster.clone(),
                topic: topic.to_owned(),
                partition,
                cause: cause.to_string(),
            })
        };
        // In this order a transaction that commits in between counts as undecided, never as a loss.
        let (low, end) = watermarks(&self.committed)?;
        let (_, high) = watermarks(&self.uncommitted)?;
        Ok(Extent { span: Span { low, end }, undecided: Span { low: end, end: high }.len() })
    }
}

impl Endpoint {
    fn describe_error(&self, topic: &str, cause: RDKafkaErrorCode) -> VerifyError {
        VerifyError::Describe { cluster: self.cluster.clone(), topic: topic.to_owned(), cause }
    }
}

/// The names of those topics whose `cleanup.policy` includes `compact`.
fn compacted(endpoint: &Endpoint, sides: &[Option<Side>]) -> Result<BTreeSet<String>, VerifyError> {
    let existing: Vec<&str> = sides.iter().flatten().map(|side| side.topic.as_str()).collect();
    if existing.is_empty() {
        return Ok(BTreeSet::new());
    }
    let config = endpoint.config("read_committed");
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(|cause| endpoint.settings_error(cause))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers needs nothing that could be refused");
    let specifiers: Vec<_> = existing.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let options = AdminOptions::new().request_timeout(Some(SURVEY_TIMEOUT));
    let described = runtime
        .block_on(admin.describe_configs(&specifiers, &options))
        .map_err(|cause| endpoint.unreachable(cause.to_string()))?;

    let mut compacted = BTreeSet::new();
    for (topic, answer) in existing.into_iter().zip(described) {
        let resource = answer.map_err(|cause| endpoint.describe_error(topic, cause))?;
        let policy = resource.get("cleanup.policy").and_then(|entry| entry.value.as_deref());
        if policy.is_some_and(|policy| policy.split(',').any(|part| part.trim() == "compact")) {
            compacted.insert(topic.to_owned());
        }
    }
    Ok(compacted)
}
