//! From a source topic to its topic on the target (pure, total).
//!
//! `sink.topic.name` is a name with places in it that each topic fills in its own way:
//!
//! ```text
//! ${topic}            the name of the source topic
//! ${source} ${flow}   the names of the source cluster and of the flow in the configuration
//! ${1} ${name}        what a group of the regex that has selected the topic has captured
//! ```
//!
//! `sink.partition.mapping` says into which of its partitions records go.

use std::collections::BTreeMap;
use std::fmt;

use crate::batch::Placement;
use crate::limits::TOPIC_CHARS_MAX;

/// What begins the names of Kafka's internal topics.
const INTERNAL: &str = "__";

/// How target topics are called: `sink.topic.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Topic,
    Source,
    Flow,
    /// A group of a regex, by number or name.
    Group(String),
}

/// Into which partition of the target records go: `sink.partition.mapping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// The one with the same number.
    Same,
    /// The one with the same number modulo the partitions of the target.
    Modulo,
    /// The one that Kafka's producer chooses by the key; without a key as with [`Modulo`](Self::Modulo).
    Key,
}

impl Mapping {
    /// Where records of a partition go among `count` partitions of the target; `None` where there is no such partition.
    pub fn place(self, partition: i32, count: i32) -> Option<Placement> {
        let modulo = partition.checked_rem(count);
        match self {
            Mapping::Same => (0..count).contains(&partition).then_some(Placement::Whole(partition)),
            Mapping::Key if count > 1 => modulo.map(|keyless| Placement::ByKey { count, keyless }),
            Mapping::Modulo | Mapping::Key => modulo.map(Placement::Whole),
        }
    }
}

/// Why a pattern cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// A `$` that begins no place.
    #[error("a $ without {{...}}")]
    Dollar,
    /// A place that is neither known nor the name of a group.
    #[error("${{{0}}}")]
    Place(String),
    /// No name of a topic has this character.
    #[error("the character {0:?}")]
    Character(char),
    /// All topics would have one name.
    #[error("neither ${{topic}} nor a group of topics.regex")]
    Constant,
}

/// Why a source topic has no topic on the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The pattern wants what no regex has captured.
    #[error(
        "sink.topic.name has ${{{group}}}, which no regex of topics.regex has captured from {topic}: give the regex such a group, or the \
         topic a flow of its own"
    )]
    NotCaptured {
        /// The source topic.
        topic: String,
        /// The group.
        group: String,
    },
    /// No topic may have the name.
    #[error(
        "sink.topic.name makes \"{target}\" of {topic}, which is no legal name of a topic (1 to {TOPIC_CHARS_MAX} characters, neither . nor \
         .., and not internal): change the pattern"
    )]
    Illegal {
        /// The source topic.
        topic: String,
        /// The name, cut where it is longer than any may be.
        target: String,
    },
    /// Another source topic has the same target.
    #[error(
        "sink.topic.name makes {target} of {topic} and of {other} as well, and their records would mix: change the pattern so that they \
         differ, or take one of them out"
    )]
    Meets {
        /// The source topic.
        topic: String,
        /// The other one.
        other: String,
        /// Their target.
        target: String,
    },
}

/// Whether Kafka takes this as the name of a topic.
pub fn is_legal(topic: &str) -> bool {
    (1..=TOPIC_CHARS_MAX).contains(&topic.len()) && topic.chars().all(is_legal_char) && !matches!(topic, "." | "..")
}

/// Whether the topic is one of Kafka's own.
pub fn is_internal(topic: &str) -> bool {
    topic.starts_with(INTERNAL)
}

fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

impl NamePattern {
    /// Reads a pattern; `${source}` and `${flow}` stay open until they are [settled](Self::within).
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (mut pieces, mut rest) = (vec![], text);
        while let Some(c) = rest.chars().next() {
            let piece = match c {
                '$' => {
                    let (place, behind) =
                        rest[1..].strip_prefix('{').and_then(|r| r.split_once('}')).ok_or(PatternError::Dollar)?;
                    rest = behind;
                    Piece::place(place)?
                }
                _ => {
                    let (words, behind) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
                    rest = behind;
                    if let Some(c) = words.chars().find(|c| !is_legal_char(*c)) {
                        return Err(PatternError::Character(c));
                    }
                    Piece::Text(words.to_owned())
                }
            };
            pieces.push(piece);
        }
        if !pieces.iter().any(|piece| matches!(piece, Piece::Topic | Piece::Group(_))) {
            return Err(PatternError::Constant);
        }
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// One name for whatever comes, which must be legal.
    pub fn constant(topic: &str) -> Self {
        Self { text: topic.to_owned(), pieces: vec![Piece::Text(topic.to_owned())] }
    }

    /// Fills in what is the same for all topics of a flow.
    #[must_use]
    pub fn within(mut self, source: &str, flow: &str) -> Self {
        for piece in &mut self.pieces {
            match piece {
                Piece::Source => *piece = Piece::Text(source.to_owned()),
                Piece::Flow => *piece = Piece::Text(flow.to_owned()),
                Piece::Text(_) | Piece::Topic | Piece::Group(_) => {}
            }
        }
        self
    }

    /// The groups that a regex must have captured, by number or name.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Group(group) => Some(group.as_str()),
            Piece::Text(_) | Piece::Topic | Piece::Source | Piece::Flow => None,
        })
    }

    /// The target of a source topic. `captured`: what a group of the regex that has selected the topic has captured.
    ///
    /// Errors: such a group that captured nothing; a name that no topic may have.
    pub fn target<'a>(&self, topic: &'a str, captured: impl Fn(&str) -> Option<&'a str>) -> Result<String, RouteError> {
        let mut target = String::new();
        for piece in &self.pieces {
            target += match piece {
                Piece::Text(text) => text,
                Piece::Topic => topic,
                Piece::Group(group) => captured(group)
                    .ok_or_else(|| RouteError::NotCaptured { topic: topic.to_owned(), group: group.clone() })?,
                Piece::Source | Piece::Flow => unreachable!("within fills them in, and a flow has no other pattern"),
            };
        }
        if !is_legal(&target) || is_internal(&target) {
            let target = target.chars().take(TOPIC_CHARS_MAX + 1).collect();
            return Err(RouteError::Illegal { topic: topic.to_owned(), target });
        }
        Ok(target)
    }
}

impl Piece {
    fn place(name: &str) -> Result<Self, PatternError> {
        let is_group = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match name {
            "topic" => Ok(Piece::Topic),
            "source" => Ok(Piece::Source),
            "flow" => Ok(Piece::Flow),
            _ if is_group => Ok(Piece::Group(name.to_owned())),
            _ => Err(PatternError::Place(name.to_owned())),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The targets of all topics of a flow, each as `target` says, but an error for every topic that meets another one there.
///
/// It does not depend on the order of topics, so that all workers come to the same result.
pub fn targets<'a>(
    topics: impl Iterator<Item = &'a str>,
    target: impl Fn(&str) -> Result<String, RouteError>,
) -> BTreeMap<String, Result<String, RouteError>> {
    let mut routes: BTreeMap<String, Result<String, RouteError>> =
        topics.map(|topic| (topic.to_owned(), target(topic))).collect();
    let mut sources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (topic, target) in &routes {
        if let Ok(target) = target {
            sources.entry(target.clone()).or_default().push(topic.clone());
        }
    }
    for (target, sources) in sources.into_iter().filter(|(_, sources)| sources.len() > 1) {
        let (first, second) = (&sources[0], &sources[1]);
        for topic in &sources {
            let other = if topic == first { second } else { first };
            let meets = RouteError::Meets { topic: topic.clone(), other: other.clone(), target: target.clone() };
            routes.insert(topic.clone(), Err(meets));
        }
    }
    routes
}

#[cfg(test)]
mod tests;
