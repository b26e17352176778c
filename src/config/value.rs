//! The kinds of values and how they are checked.

use std::collections::HashSet;
use std::net::{Ipv6Addr, SocketAddr};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::document::Raw;
use super::error::Problem;
use super::offset_reset;
use super::shown::Shown;
use crate::limits::{NAME_CHARS_MAX, TEXT_CHARS_MAX, TOPIC_CHARS_MAX, TOPIC_COUNT_MAX};
use crate::route::{self, NamePattern};

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
    /// A pattern for the names of topics.
    TopicName,
    /// A reset policy of share groups.
    OffsetReset,
    /// Directives of tracing's `EnvFilter`.
    LogLevel,
}

/// A checked value; the kind of its key decides the variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    Boolean(bool),
    Text(String),
    List(Vec<String>),
    Address(SocketAddr),
}

impl Kind {
    /// Checks a value; the error says what would be accepted.
    pub(super) fn check(&self, raw: &Raw) -> Result<Value, Problem> {
        match raw {
            Raw::List(items) if *self == Kind::Topics => topics(items).map(Value::List),
            Raw::List(_) => Err(self.refuse("an array".to_owned())),
            Raw::Table => Err(self.refuse("a table".to_owned())),
            Raw::Text(text) => self.check_text(text),
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
            Kind::Topics => None,
            Kind::TopicName => return self.topic_name(text),
            Kind::OffsetReset => offset_reset::is_valid(text).then(|| Value::Text(text.to_owned())),
            Kind::LogLevel => is_log_level(text).then(|| Value::Text(text.to_owned())),
        };
        value.ok_or_else(|| self.refuse(Shown(text).in_quotes()))
    }

    /// What is accepted, in words that follow "give".
    pub(super) fn takes(&self) -> String {
        match self {
            Kind::Integer { min, max, unit } => format!("a whole number of {unit} from {min} to {max}"),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Text => format!("text of 1 to {TEXT_CHARS_MAX} characters on one line"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Address => "an IP address and a port such as 127.0.0.1:9470".to_owned(),
            Kind::Servers => "host:port, several with commas between, IPv6 in brackets".to_owned(),
            Kind::Cluster => "the name of a table [clusters.<name>]".to_owned(),
            Kind::Topics => format!(
                "an array of topic names such as [\"orders\"], each 1 to {TOPIC_CHARS_MAX} characters of A-Z a-z 0-9 . _ -"
            ),
            Kind::TopicName => "a name with ${topic} in it, or ${1} or ${name} for what a group of topics.regex has captured; also ${source} and \
                                ${flow}"
                .to_owned(),
            Kind::OffsetReset => "earliest, latest or by_duration:<ISO-8601> such as by_duration:PT1H".to_owned(),
            Kind::LogLevel => {
                "trace, debug, info, warn, error or off, or a list such as info,sharebridge::lane=debug".to_owned()
            }
        }
    }

    fn refuse(&self, given: String) -> Problem {
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

fn topics(items: &[Raw]) -> Result<Vec<String>, Problem> {
    if items.is_empty() {
        return Err(Kind::Topics.refuse("an empty array".to_owned()));
    }
    if items.len() > TOPIC_COUNT_MAX {
        return Err(Problem::TooManyTopics(items.len()));
    }
    let mut seen = HashSet::new();
    for item in items {
        let topic = match item {
            Raw::Text(text) => text,
            Raw::List(_) => return Err(Kind::Topics.refuse("an array in an array".to_owned())),
            Raw::Table => return Err(Kind::Topics.refuse("a table in an array".to_owned())),
        };
        check_topic(topic)?;
        if !seen.insert(topic) {
            return Err(Problem::TopicTwice(topic.clone()));
        }
    }
    Ok(items
        .iter()
        .filter_map(|item| match item {
            Raw::Text(text) => Some(text.clone()),
            Raw::List(_) | Raw::Table => None,
        })
        .collect())
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
