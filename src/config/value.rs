//! The kinds of values and how they are checked.

use std::collections::HashSet;
use std::net::{Ipv6Addr, SocketAddr};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::copied::{COPIED_CONFIGS, is_copied};
use super::document::Raw;
use super::error::Problem;
use super::offset_reset;
use super::secret::Secret;
use super::selection::Pattern;
use super::shown::Shown;
use super::start_position::StartPosition;
use crate::limits::{
    NAME_CHARS_MAX, PATH_BYTES_MAX, PATTERN_COUNT_MAX, TEXT_CHARS_MAX, TOPIC_CHARS_MAX, TOPIC_COUNT_MAX,
};
use crate::route::{self, NamePattern};

/// Largest replication factor; Kafka itself is bounded by the brokers of a cluster only.
const REPLICA_COUNT_MAX: u64 = 100;

/// What a value must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number, both bounds included.
    Integer { min: u64, max: u64, unit: &'static str },
    /// Yes or no.
    Boolean,
    /// Free text on one line.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An IP address and a port.
    Address,
    /// Hosts and ports with commas between.
    Servers,
    /// The name of a cluster; whether it exists is seen when flows are built.
    Cluster,
    /// An array of topic names.
    Topics,
    /// An array of patterns of topic names.
    Patterns,
    /// An array of topic configs, among those that are copied.
    CopiedConfigs,
    /// A replication factor, or the cluster's default.
    Replicas,
    /// A pattern for the names of topics.
    TopicName,
    /// A reset policy of share groups.
    OffsetReset,
    /// Where a new share group starts.
    StartPosition,
    /// Directives of tracing's `EnvFilter`.
    LogLevel,
    /// Text that may be left out.
    Optional,
    /// The name of a topic, which may be left out.
    OptionalTopic,
    /// The path of a file, which may be left out.
    File,
    /// Where bearer tokens come from, which may be left out.
    TokenUrl,
    /// Text that no message repeats; it may be left out.
    Secret,
}

/// A checked value; the kind of its key decides the variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    Boolean(bool),
    Text(String),
    List(Vec<String>),
    Patterns(Vec<Pattern>),
    Address(SocketAddr),
    /// `None` is one that is left out.
    Secret(Option<Secret>),
    Start(StartPosition),
}

impl Kind {
    /// Checks a value; the error says what would be accepted.
    pub(super) fn check(&self, raw: &Raw) -> Result<Value, Problem> {
        match raw {
            Raw::List(items) => match self {
                Kind::Topics => self.topics(items).map(Value::List),
                Kind::Patterns => self.patterns(items).map(Value::Patterns),
                Kind::CopiedConfigs => self.copied_configs(items).map(Value::List),
                _ => Err(self.refuse("an array".to_owned())),
            },
            Raw::Table => Err(self.refuse("a table".to_owned())),
            Raw::Text(text) => self.check_text(text),
        }
    }

    /// Checks a default of the table of keys, where `[]` is an empty array.
    pub(super) fn check_default(&self, text: &str) -> Result<Value, Problem> {
        match text {
            "[]" => self.check(&Raw::List(vec![])),
            _ => self.check_text(text),
        }
    }

    /// Checks a value that is not an array or a table.
    pub(super) fn check_text(&self, text: &str) -> Result<Value, Problem> {
        let value = match self {
            Kind::Integer { min, max, .. } => {
                number(text).filter(|number| (min..=max).contains(&number)).map(Value::Number)
            }
            Kind::Boolean => text.parse().ok().map(Value::Boolean),
            Kind::Text | Kind::Cluster => is_text(text).then(|| Value::Text(text.to_owned())),
            Kind::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::Address => text.parse().ok().map(Value::Address),
            Kind::Servers => return self.servers(text),
            Kind::Topics | Kind::Patterns | Kind::CopiedConfigs => None,
            Kind::Replicas => {
                let is_legal =
                    text == "default" || number(text).is_some_and(|count| (1..=REPLICA_COUNT_MAX).contains(&count));
                is_legal.then(|| Value::Text(text.to_owned()))
            }
            Kind::TopicName => return self.topic_name(text),
            Kind::OffsetReset => offset_reset::is_valid(text).then(|| Value::Text(text.to_owned())),
            Kind::StartPosition => StartPosition::parse(text).map(Value::Start),
            Kind::LogLevel => is_log_level(text).then(|| Value::Text(text.to_owned())),
            Kind::Optional => (text.is_empty() || is_text(text)).then(|| Value::Text(text.to_owned())),
            Kind::OptionalTopic => (text.is_empty() || route::is_legal(text)).then(|| Value::Text(text.to_owned())),
            Kind::File => (text.is_empty() || is_path(text)).then(|| Value::Text(text.to_owned())),
            Kind::TokenUrl => (text.is_empty() || is_token_url(text)).then(|| Value::Text(text.to_owned())),
            Kind::Secret => return secret(text),
        };
        value.ok_or_else(|| self.refuse(Shown(text).in_quotes()))
    }

    /// What is accepted, in words that follow "give".
    pub(super) fn takes(&self) -> String {
        match self {
            Kind::Integer { min, max, unit } => format!("a whole number of {unit} from {min} to {max}"),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Text => format!("text of 1 to {TEXT_CHARS_MAX} characters on one line"),
            Kind::Choice(words) => {
                let shown = |word: &&'static str| if word.is_empty() { "empty text" } else { word };
                format!("one of {}", words.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            Kind::Address => "an IP address and a port such as 127.0.0.1:9470".to_owned(),
            Kind::Servers => "host:port, several with commas between, IPv6 in brackets".to_owned(),
            Kind::Cluster => "the name of a table [clusters.<name>]".to_owned(),
            Kind::Topics => format!(
                "an array of topic names such as [\"orders\"], each 1 to {TOPIC_CHARS_MAX} characters of A-Z a-z 0-9 . _ -"
            ),
            Kind::Patterns => {
                "an array of regular expressions such as [\"payments-.*\"], each for whole topic names".to_owned()
            }
            Kind::CopiedConfigs => {
                format!("an array of these: {}", COPIED_CONFIGS.map(|(name, ..)| name).join(", "))
            }
            Kind::Replicas => format!("default or a whole number from 1 to {REPLICA_COUNT_MAX}"),
            Kind::TopicName => "a name with ${topic} in it, or ${1} or ${name} for what a group of topics.regex has captured; also ${source} and \
                                ${flow}"
                .to_owned(),
            Kind::OffsetReset => "earliest, latest or by_duration:<ISO-8601> such as by_duration:PT1H".to_owned(),
            Kind::StartPosition => {
                "auto, earliest, latest, group:<id of another group>, or a time such as 2026-01-31T12:00:00Z".to_owned()
            }
            Kind::LogLevel => {
                "trace, debug, info, warn, error or off, or a list such as info,sharebridge::lane=debug".to_owned()
            }
            Kind::Optional => format!("text of up to {TEXT_CHARS_MAX} characters on one line"),
            Kind::OptionalTopic => {
                format!("the name of a topic: 1 to {TOPIC_CHARS_MAX} characters of A-Z a-z 0-9 . _ -")
            }
            Kind::File => "the path of a file".to_owned(),
            Kind::TokenUrl => "https://HOST/PATH, http:// to this machine only, or file:/PATH of a token".to_owned(),
            Kind::Secret => {
                "text, better a reference to it: ${file:/path}, ${env:NAME} or ${credentials:NAME}".to_owned()
            }
        }
    }

    pub(super) fn refuse(&self, given: String) -> Problem {
        let takes = self.takes();
        Problem::Invalid { given, takes }
    }

    fn topic_name(&self, text: &str) -> Result<Value, Problem> {
        match NamePattern::parse(text) {
            Ok(_) => Ok(Value::Text(text.to_owned())),
            Err(fault) => Err(Problem::TopicName { given: text.to_owned(), fault, takes: self.takes() }),
        }
    }

    fn servers(&self, text: &str) -> Result<Value, Problem> {
        let servers: Vec<&str> = text.split(',').map(str::trim).collect();
        match servers.iter().find(|server| !is_server(server)) {
            Some(server) => Err(self.refuse(Shown(server).in_quotes())),
            None => Ok(Value::List(servers.into_iter().map(str::to_owned).collect())),
        }
    }

    fn topics(&self, items: &[Raw]) -> Result<Vec<String>, Problem> {
        if items.len() > TOPIC_COUNT_MAX {
            return Err(Problem::TooManyTopics(items.len()));
        }
        let topics = self.texts(items)?;
        let mut seen = HashSet::new();
        for topic in &topics {
            check_topic(topic)?;
            if !seen.insert(topic) {
                return Err(Problem::TopicTwice(topic.clone()));
            }
        }
        Ok(topics)
    }

    fn patterns(&self, items: &[Raw]) -> Result<Vec<Pattern>, Problem> {
        if items.len() > PATTERN_COUNT_MAX {
            return Err(Problem::TooManyPatterns(items.len()));
        }
        let pattern = |text: String| Pattern::new(&text).map_err(|why| Problem::BadPattern { pattern: text, why });
        self.texts(items)?.into_iter().map(pattern).collect()
    }

    fn copied_configs(&self, items: &[Raw]) -> Result<Vec<String>, Problem> {
        let configs = self.texts(items)?;
        match configs.iter().find(|config| !is_copied(config)) {
            Some(config) => Err(self.refuse(Shown(config).in_quotes())),
            None => Ok(configs),
        }
    }

    /// The items of an array, all of them texts.
    fn texts(&self, items: &[Raw]) -> Result<Vec<String>, Problem> {
        let text = |item: &Raw| match item {
            Raw::Text(text) => Ok(text.clone()),
            Raw::List(_) => Err(self.refuse("an array in an array".to_owned())),
            Raw::Table => Err(self.refuse("a table in an array".to_owned())),
        };
        items.iter().map(text).collect()
    }
}

/// Whether this may name a cluster or a flow: it goes into ids and metric labels.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// Reads plain digits only: `parse` alone would take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_CHARS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// Looked up once, so that what is not there is known at the start.
fn secret(text: &str) -> Result<Value, Problem> {
    if text.is_empty() {
        return Ok(Value::Secret(None));
    }
    let secret = Secret::parse(text).map_err(Problem::Secret)?;
    secret.reveal().map_err(Problem::Secret)?;
    Ok(Value::Secret(Some(secret)))
}

fn is_path(text: &str) -> bool {
    text.len() <= PATH_BYTES_MAX && !text.contains(char::is_control)
}

/// A client's secret goes over the network in the clear only within this machine.
fn is_token_url(text: &str) -> bool {
    if let Some(path) = text.strip_prefix("file:") {
        return path.starts_with('/') && is_path(text);
    }
    let is_near = |rest: &str| {
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    };
    let has_host =
        |rest: &str| !rest.is_empty() && !rest.starts_with(['/', ':']) && is_path(text) && !rest.contains(['@', ' ']);
    text.strip_prefix("https://").is_some_and(has_host)
        || text.strip_prefix("http://").is_some_and(|rest| has_host(rest) && is_near(rest))
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let host_is_legal = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']').is_some_and(|host| host.parse::<Ipv6Addr>().is_ok()),
        // 253 is the longest name that DNS takes.
        None => (1..=253).contains(&host.len()) && host.bytes().all(is_name_byte),
    };
    host_is_legal && number(port).is_some_and(|port| (1..=65_535).contains(&port))
}

/// Whether `EnvFilter` takes this and means what it says.
fn is_log_level(text: &str) -> bool {
    // EnvFilter reads a misspelt level as the name of a module and would then log next to nothing.
    text.split(',')
        .all(|directive| directive.contains(['=', '[', ']']) || directive.trim().parse::<LevelFilter>().is_ok())
        && EnvFilter::builder().parse(text).is_ok()
}

/// Applies Kafka's own rule for names, and keeps its internal topics out.
fn check_topic(topic: &str) -> Result<(), Problem> {
    if !route::is_legal(topic) {
        return Err(Kind::Topics.refuse(Shown(topic).in_quotes()));
    }
    if route::is_internal(topic) {
        return Err(Problem::InternalTopic(topic.to_owned()));
    }
    Ok(())
}
