//! Everything that can be wrong with a configuration file, and how it is said.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::document::Place;
use super::loops::Loop;
use super::secret::SecretError;
use super::shown::Shown;
use crate::limits::{CONFIG_BYTES_MAX, FLOW_COUNT_MAX, NAME_CHARS_MAX, PATTERN_COUNT_MAX, TOPIC_COUNT_MAX};
use crate::route::{PatternError, RouteError};

/// All that is wrong with one file, in the order of its lines.
///
/// `Display` gives one line an error: `file:line: [table] key: what is wrong, what to do`.
#[derive(Debug)]
pub struct ConfigErrors {
    file: PathBuf,
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// Sorts `errors` by line; those without a line come first.
    pub(super) fn new(file: &Path, mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(|error| error.line);
        let file = file.to_owned();
        Self { file, errors }
    }

    /// The file is good by itself, but what its clusters name is unusable: each with its name and what is wrong.
    pub fn of_clusters(file: &Path, clusters: Vec<(String, String)>) -> Self {
        let error = |(name, why)| ConfigError::of_file(Problem::Unusable(why)).in_place(&Place::Cluster(name));
        Self::new(file, clusters.into_iter().map(error).collect())
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:", self.file.display())?;
            if let Some(line) = error.line {
                write!(f, "{line}:")?;
            }
            if let Some(place) = &error.place {
                write!(f, " {place}")?;
            }
            if let Some(key) = &error.key {
                write!(f, " {}", Shown(key))?;
            }
            if error.place.is_some() || error.key.is_some() {
                write!(f, ":")?;
            }
            write!(f, " {}", error.problem)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// One thing that is wrong, with its place in the file as far as it has one.
#[derive(Debug)]
pub(super) struct ConfigError {
    /// Counted from 1.
    pub(super) line: Option<usize>,
    pub(super) place: Option<Place>,
    pub(super) key: Option<String>,
    pub(super) problem: Problem,
}

impl ConfigError {
    /// An error of the file as a whole.
    pub(super) fn of_file(problem: Problem) -> Self {
        Self { line: None, place: None, key: None, problem }
    }

    /// An error of a line that belongs to no table that we know.
    pub(super) fn of_line(line: usize, problem: Problem) -> Self {
        Self { line: Some(line), ..Self::of_file(problem) }
    }

    /// Names the table.
    pub(super) fn in_place(mut self, place: &Place) -> Self {
        self.place = Some(place.clone());
        self
    }

    /// Names the key.
    pub(super) fn at_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }
}

/// What is wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Problem {
    #[error("cannot be read ({0}), check the path and who may read it")]
    Unreadable(io::Error),
    #[error("is larger than {CONFIG_BYTES_MAX} bytes, give a configuration file")]
    TooLarge,
    #[error("is not UTF-8, save it as UTF-8")]
    NotUtf8,
    #[error("the value is a bare word, put the value in quotes")]
    BareSecret,
    #[error("not TOML: {0}, correct the line")]
    Syntax(String),
    #[error("the value is a bare word, put the value in quotes: {}", Shown(.0).in_quotes())]
    BareWord(String),
    #[error("there is no value, write one after the =")]
    NoValue,

    #[error("is not a table of this file{}", suggestion(.nearest, "use [bridge], [defaults], [clusters.<name>] or [flows.<name>]"))]
    UnknownTable { nearest: Option<&'static str> },
    #[error("must be a table, write {form}")]
    NotATable { form: &'static str },
    #[error(
        "the name is not legal, give 1 to {NAME_CHARS_MAX} characters of A-Z a-z 0-9 . _ - in quotes if there are dots"
    )]
    IllegalName,
    #[error("is not a key of this table{}", suggestion(.nearest, "remove it or see docs/CONFIGURATION.md"))]
    UnknownKey { nearest: Option<&'static str> },
    #[error("is not a key of this table, a name with dots needs quotes: {place}")]
    UnquotedName { place: Place },
    #[error("is a key of {tables}, move it there")]
    WrongTable { tables: &'static str },
    #[error("is given again, remove this line or line {first_line}")]
    GivenTwice { first_line: usize },
    #[error("is missing ({doc}), give {takes}")]
    Missing { doc: &'static str, takes: String },

    #[error("cannot be {given}, give {takes}")]
    Invalid { given: String, takes: String },
    #[error("names {} twice, remove one", Shown(.0).in_quotes())]
    TopicTwice(String),
    #[error("names {}, an internal topic of Kafka that must not be copied, remove it", Shown(.0).in_quotes())]
    InternalTopic(String),
    #[error("{} is no pattern of topic names: {why}, correct it", Shown(.pattern).in_quotes())]
    BadPattern { pattern: String, why: String },
    #[error("has {0} patterns, give at most {PATTERN_COUNT_MAX}: one pattern may have many branches, (a|b|c)")]
    TooManyPatterns(usize),
    #[error("excludes {}, which topics.names names, remove it from one of the two", Shown(.0).in_quotes())]
    ExcludesNamed(String),
    #[error("is empty, and so is topics.regex: nothing would be copied, give a name or a pattern")]
    NoTopics,
    #[error("has {0} topics, give at most {TOPIC_COUNT_MAX} and make another flow of the rest")]
    TooManyTopics(usize),

    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    Secret(SecretError),
    #[error("is given, but security.protocol is {protocol}, set that to {needs} or remove this key")]
    NeedsProtocol { protocol: String, needs: &'static str },
    #[error("is given beside {other}, remove one of the two")]
    Beside { other: &'static str },
    #[error("is missing, {by} needs it, add it")]
    Needed { by: &'static str },
    #[error(
        "JKS is Java's own form and not read here, convert the file with: keytool -importkeystore -srckeystore {file} \
         -destkeystore {file}.p12 -deststoretype PKCS12, and give that one with the type PKCS12"
    )]
    Jks { file: String },
    #[error(
        "this sharebridge was built without Kerberos, build it with the feature kerberos (cargo build --release --features kerberos), \
         or name PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
    )]
    WithoutKerberos,
    #[error("is given, but sasl.mechanism is {mechanism}, set that to GSSAPI or remove this key")]
    NeedsKerberos { mechanism: String },
    #[error("{why}, remove it")]
    Needless { why: &'static str },

    #[error(
        "has ${{{group}}}, which {} of topics.regex does not capture, give the pattern such a group or this flow another name pattern",
        Shown(.pattern).in_quotes()
    )]
    NotCaptured { group: String, pattern: String },
    #[error("there is no flow, add a table [flows.<name>]")]
    NoFlows,
    #[error("there are {0} flows, give at most {FLOW_COUNT_MAX} a process")]
    TooManyFlows(usize),
    #[error("there is no cluster {}{}", Shown(.name).in_quotes(), known_clusters(.known))]
    UnknownCluster { name: String, known: Vec<String> },
    #[error("is {max_ms} ms, less than reconnect.backoff.ms of {first_ms} ms, raise it or lower the other")]
    BackoffOrder { max_ms: u128, first_ms: u128 },
    #[error(
        "is {transaction_ms} ms, and with {sweep_ms} ms for the coordinator not less than share.acquisition.lock.timeout.ms of {lock_ms} ms: \
         the open transaction of a dead worker should be decided before its records come back, lower it or raise the lock timeout"
    )]
    TransactionOutlivesLock { transaction_ms: u128, sweep_ms: u128, lock_ms: u128 },
    #[error(
        "is {bytes} bytes for lanes.count of {lanes}: a lane needs {lane_bytes_min} or more to take one fetch, raise it or run fewer lanes"
    )]
    MemoryPerLane { bytes: u64, lanes: u32, lane_bytes_min: u64 },
    #[error(
        "contradicts {key} of {reset}: partitions that are created later begin at their beginning, leave one of the two out"
    )]
    StartAndReset { key: &'static str, reset: String },
    #[error("names the flow's own group {}, name the group to go on from", Shown(.id).in_quotes())]
    StartsFromItself { id: String },
    #[error(
        "is {} in {other} too: two flows may not share a group on the same source cluster, give each its own",
        Shown(.id).in_quotes()
    )]
    GroupTwice { id: String, other: Place },
    #[error("is {} like share.group.id: a group has one type, give each its own", Shown(.id).in_quotes())]
    GroupOfBothTypes { id: String },
    #[error(
        "copies {} between the clusters of {other}, so that every record would arrive twice, remove it from one",
        Shown(.topic).in_quotes()
    )]
    CopiedTwice { topic: String, other: Place },
    #[error("cannot be {}: it has {fault}, give {takes}", Shown(.given).in_quotes())]
    TopicName { given: String, fault: PatternError, takes: String },
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(
        "is of no use within one cluster, where every record has been: a second copy would drop all of them, remove the line"
    )]
    HopWithinCluster,
    #[error(
        "is of no use while errors.tolerance is none, which holds what cannot be delivered: set errors.tolerance to all, or leave it out"
    )]
    NothingTolerated,
    #[error(
        "is {topic} on the source, which the flow would copy as well: choose another name, exclude it, or set errors.deadletterqueue.cluster to sink"
    )]
    CopiesDeadLetters { topic: String },
    #[error(transparent)]
    Loop(#[from] Loop),
}

/// Ends a message with the nearest valid name, or else with `otherwise`.
fn suggestion(nearest: &Option<&'static str>, otherwise: &str) -> String {
    match nearest {
        Some(name) => format!(", did you mean {name}?"),
        None => format!(", {otherwise}"),
    }
}

fn known_clusters(known: &[String]) -> String {
    if known.is_empty() {
        return ", add a table [clusters.<name>]".to_owned();
    }
    format!(", name one of {}", known.join(", "))
}
