//! Which topics a flow copies: names and patterns, and what is left out of the patterns.

use std::collections::BTreeSet;
use std::fmt;

use regex::bytes::{Captures, Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::limits::{PATTERN_BYTES_MAX, PATTERN_CHARS_MAX, TOPIC_CHARS_MAX};
use crate::route;

/// A regular expression that whole names of topics match, in the syntax of the crate `regex`: no backreferences, no look-around,
/// and a name is matched in time linear in its length.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Errors: what is wrong with it, in a phrase.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.chars().count() > PATTERN_CHARS_MAX {
            return Err(format!("it is longer than {PATTERN_CHARS_MAX} characters"));
        }
        // By itself first: `a)|(b` would be a good pattern within parentheses.
        compile(text)?;
        let regex = compile(&format!(r"\A(?:{text})\z"))?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// Whether a topic's whole name matches.
    pub fn is_match(&self, topic: &str) -> bool {
        self.regex.is_match(topic.as_bytes())
    }

    /// As it stands in the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has a group of this number or name.
    pub fn has_group(&self, group: &str) -> bool {
        match group.parse::<usize>() {
            Ok(number) => number < self.regex.captures_len(),
            Err(_) => self.regex.capture_names().flatten().any(|name| name == group),
        }
    }

    /// A short name that it matches, if one is easily found.
    fn example(&self) -> Option<String> {
        let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(&self.text).ok()?;
        let example = example(&parsed)?;
        self.is_match(&example).then_some(example)
    }
}

/// Letters of names, the likeliest first.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.";

/// A text that an expression matches, where looks around letters do not forbid it.
fn example(hir: &Hir) -> Option<String> {
    Some(match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => String::from_utf8(literal.0.to_vec()).ok()?,
        HirKind::Class(Class::Bytes(class)) => {
            let has =
                |letter: &char| class.iter().any(|range| (range.start()..=range.end()).contains(&(*letter as u8)));
            LETTERS.chars().find(has)?.to_string()
        }
        HirKind::Class(Class::Unicode(class)) => {
            let has = |letter: &char| class.iter().any(|range| (range.start()..=range.end()).contains(letter));
            LETTERS.chars().find(has)?.to_string()
        }
        HirKind::Repetition(repeated) => {
            let times = repeated.min.max(1).min(repeated.max.unwrap_or(u32::MAX));
            if usize::try_from(times).ok()? > TOPIC_CHARS_MAX {
                return None;
            }
            example(&repeated.sub)?.repeat(usize::try_from(times).ok()?)
        }
        HirKind::Capture(group) => example(&group.sub)?,
        HirKind::Concat(parts) => parts.iter().map(example).collect::<Option<String>>()?,
        HirKind::Alternation(ways) => ways.iter().find_map(example)?,
    })
}

/// What a pattern has captured of a topic's name.
#[derive(Debug)]
pub struct Groups<'a>(Captures<'a>);

impl<'a> Groups<'a> {
    /// What a group has captured, by its number or name.
    pub fn get(&self, group: &str) -> Option<&'a str> {
        let found = match group.parse() {
            Ok(number) => self.0.get(number),
            Err(_) => self.0.name(group),
        };
        std::str::from_utf8(found?.as_bytes()).ok()
    }
}

/// Topic names are ASCII, so that Unicode's classes would only cost space.
fn compile(text: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(text);
    builder.unicode(false).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large once compiled, repeat less".to_owned(),
        // The lines before show the place with a caret, which a message of one line has no room for.
        error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    })
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// The topics of a flow, by name and by pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Copied wherever they exist: `topics.names`. None of them is excluded.
    pub names: BTreeSet<String>,
    /// What else is copied: `topics.regex`.
    pub patterns: Vec<Pattern>,
    /// What is left out of that: `topics.exclude`.
    pub excluded: Vec<Pattern>,
}

/// What a [`Selection`] says of a topic that it names or whose name it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Copied, since it is named.
    Named,
    /// Copied, since a pattern matches it.
    Matched,
    /// A pattern matches it, and so does `topics.exclude`.
    Excluded,
    /// A pattern matches it, and it is internal.
    Internal,
}

impl Selection {
    /// What it says of a topic; `None` where it has nothing to do with it.
    pub fn judge(&self, topic: &str) -> Option<Cover> {
        if self.names.contains(topic) {
            return Some(Cover::Named);
        }
        self.matching(topic)?;
        if self.excluded.iter().any(|pattern| pattern.is_match(topic)) {
            return Some(Cover::Excluded);
        }
        Some(if is_internal(topic) { Cover::Internal } else { Cover::Matched })
    }

    /// Whether a topic is copied, as far as its name can tell.
    pub fn covers(&self, topic: &str) -> bool {
        matches!(self.judge(topic), Some(Cover::Named | Cover::Matched))
    }

    /// What the first matching pattern captures of a topic's name; `None` where no pattern matches it.
    pub fn captures<'a>(&self, topic: &'a str) -> Option<Groups<'a>> {
        self.matching(topic)?.regex.captures(topic.as_bytes()).map(Groups)
    }

    /// Topics that are copied wherever they exist: those that are named, and one for each pattern, if one is easily found. With them
    /// flows are compared before any cluster is asked.
    pub fn examples(&self) -> Vec<String> {
        let matched = self.patterns.iter().filter_map(Pattern::example).filter(|topic| self.covers(topic));
        self.names.iter().cloned().chain(matched).collect()
    }

    fn matching(&self, topic: &str) -> Option<&Pattern> {
        self.patterns.iter().find(|pattern| pattern.is_match(topic))
    }
}

/// Whether a topic is left out of patterns because it serves a system and not its users: Kafka's own (`__*`), those of MirrorMaker and
/// Kafka Connect (`*.internal`, `*-internal`, `heartbeats`, `*.heartbeats`), and ours (`sharebridge-*`).
fn is_internal(topic: &str) -> bool {
    route::is_internal(topic)
        || topic.starts_with("sharebridge-")
        || topic.ends_with(".internal")
        || topic.ends_with("-internal")
        || topic == "heartbeats"
        || topic.ends_with(".heartbeats")
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns =
            |patterns: &[Pattern]| patterns.iter().map(|pattern| format!("/{}/", pattern.text)).collect::<Vec<_>>();
        let wanted: Vec<String> = self.names.iter().cloned().chain(patterns(&self.patterns)).collect();
        f.write_str(&wanted.join(", "))?;
        match patterns(&self.excluded) {
            excluded if excluded.is_empty() => Ok(()),
            excluded => write!(f, " without {}", excluded.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(text).unwrap()).collect()
    }

    fn selection(names: &[&str], regex: &[&str], exclude: &[&str]) -> Selection {
        let names = names.iter().map(|name| name.to_string()).collect();
        Selection { names, patterns: patterns(regex), excluded: patterns(exclude) }
    }

    #[test]
    fn whole_names_match() {
        let selection = selection(&["orders"], &["pay", "eu\\..*", "a|b"], &[]);
        for topic in ["orders", "pay", "eu.x", "a", "b"] {
            assert!(selection.covers(topic), "{topic}");
        }
        for topic in ["orders2", "pay2", "xpay", "eu", "xeu.y", "ab", "aa", ""] {
            assert_eq!(selection.judge(topic), None, "{topic}");
        }
    }

    #[test]
    fn exclusions_and_internal_topics_leave_patterns_only() {
        let selection = selection(&["orders-internal"], &[".*"], &["tmp-.*"]);
        assert_eq!(selection.judge("orders-internal"), Some(Cover::Named));
        assert_eq!(selection.judge("orders"), Some(Cover::Matched));
        assert_eq!(selection.judge("tmp-1"), Some(Cover::Excluded));
        for topic in [
            "__consumer_offsets",
            "__sharebridge",
            "sharebridge-dead",
            "mm2-offset-syncs.b.internal",
            "a.checkpoints.internal",
            "connect-offsets-internal",
            "heartbeats",
            "a.heartbeats",
        ] {
            assert_eq!(selection.judge(topic), Some(Cover::Internal), "{topic}");
        }
        for topic in ["sharebridge", "internal", "my-heartbeats", "a_b"] {
            assert_eq!(selection.judge(topic), Some(Cover::Matched), "{topic}");
        }
    }

    #[test]
    fn bad_patterns_say_why() {
        for (text, why) in [
            ("a(", "unclosed group"),
            ("a)|(b", "unopened group"),
            ("(?=a)", "look-around"),
            ("", "empty"),
            ("(a{1,500}){1,500}", "too large"),
            (&"a".repeat(PATTERN_CHARS_MAX + 1), "longer than"),
        ] {
            let said = Pattern::new(text).unwrap_err();
            assert!(said.contains(why) && !said.contains('\n'), "{text}: {said}");
        }
    }

    #[test]
    fn the_first_matching_pattern_captures() {
        let selection = selection(&["eu-a"], &["x-(.*)", "(?<region>..)-(.*)"], &[]);
        let captures = selection.captures("us-orders").unwrap();
        assert_eq!(
            ["region", "2", "3", "x"].map(|group| captures.get(group)),
            [Some("us"), Some("orders"), None, None]
        );
        assert!(selection.captures("orders").is_none());
    }

    #[test]
    fn each_pattern_has_an_example_that_it_matches() {
        for text in ["o.*", "(eu|us)-orders", "[^a]{3}x?", "\\d+-[A-Z]", "a{0}b", "x|", "(?i)Orders\\.v[0-9]{2}", ".*"]
        {
            let example = Pattern::new(text).unwrap().example();
            assert!(example.is_some_and(|name| Pattern::new(text).unwrap().is_match(&name)), "{text}");
        }
        let selection = selection(&["a"], &["x.*", "__.*"], &["xy.*"]);
        assert_eq!(selection.examples(), ["a", "xa"], "internal ones are not copied");
    }

    #[test]
    fn groups_are_known_by_number_and_name() {
        let pattern = &patterns(&["(?<region>..)-(.*)"])[0];
        assert_eq!(
            ["0", "2", "3", "region", "x"].map(|group| pattern.has_group(group)),
            [true, true, false, true, false]
        );
    }

    #[test]
    fn it_is_shown_as_patterns_and_names() {
        assert_eq!(selection(&["b", "a"], &["x.*"], &["xy"]).to_string(), "a, b, /x.*/ without /xy/");
    }
}
