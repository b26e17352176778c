//! What TOML refuses, said to people who are used to properties files.

use toml::de::{DeValue, Error};

use super::document::Lines;
use super::error::{ConfigError, Problem};
use super::key;

/// What the syntax errors of a file mean for the rest of it.
#[derive(Debug)]
pub(super) struct Bad {
    /// Lines whose value is lost, ascending.
    pub(super) lines: Vec<usize>,
    /// Whether more than values is lost.
    pub(super) structure: bool,
}

/// Reports the first fault of each line.
pub(super) fn judge(text: &str, lines: &Lines, faults: &[Error], errors: &mut Vec<ConfigError>) -> Bad {
    let mut faults: Vec<(usize, &Error)> =
        faults.iter().map(|fault| (fault.span().map_or(text.len(), |span| span.start), fault)).collect();
    faults.sort_by_key(|(offset, _)| *offset);

    let mut bad = Bad { lines: Vec::new(), structure: false };
    for (offset, fault) in faults {
        let line = lines.at(offset..offset);
        if bad.lines.last() == Some(&line) {
            continue;
        }
        bad.lines.push(line);
        let problem = bare_value(text, lines.start(line), offset).unwrap_or_else(|| {
            bad.structure = true;
            Problem::Syntax(fault.message().to_owned())
        });
        errors.push(ConfigError::of_line(line, problem));
    }
    bad
}

/// Recognises `key = word`, and `key =` with nothing behind it, on the line from `start` with a fault at `offset`.
fn bare_value(text: &str, start: usize, offset: usize) -> Option<Problem> {
    let line = text[start..].lines().next()?;
    let (key, value) = line.split_once('=')?;
    let behind_the_key = offset > start + key.len();
    if !behind_the_key || !key.trim().split('.').all(|part| is_bare_key(part.trim())) {
        return None;
    }
    let value = value.split('#').next().unwrap_or_default().trim();
    if value.is_empty() {
        return Some(Problem::NoValue);
    }
    let begins_otherwise = value.starts_with(['"', '\'', '[', '{', '=']);
    // A good value under a fault means that the fault lies in lines before, such as an open array.
    // Only what is known to be no secret is repeated: a misspelt key may hold one.
    let problem = || if key::is_open(key) { Problem::BareWord(value.to_owned()) } else { Problem::BareSecret };
    (!begins_otherwise && DeValue::parse(value).is_err()).then(problem)
}

/// Whether TOML takes this as one part of a key without quotes.
pub(super) fn is_bare_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
