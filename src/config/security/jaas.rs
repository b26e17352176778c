//! Kafka's `sasl.jaas.config`: one login module with its options.

use zeroize::Zeroizing;

/// What is wrong with a `sasl.jaas.config`. No variant holds a value of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JaasError {
    /// It does not have the form.
    #[error("is not one login module, write MODULE required OPTION=\"VALUE\" ...;")]
    Malformed,
    /// A module for another mechanism than the configured one.
    #[error("names the login module {found}, but sasl.mechanism {mechanism} needs {wanted}, correct one of the two")]
    OtherModule {
        /// Last part of its class name.
        found: String,
        /// `sasl.mechanism`.
        mechanism: &'static str,
        /// The module for it.
        wanted: &'static str,
    },
    /// An option is not given.
    #[error("lacks the option {0}, add it")]
    Missing(&'static str),
    /// An option that a Java client would follow.
    #[error("has the option {option}, which cannot be followed here, {remedy}")]
    NotFollowed {
        /// Its name.
        option: &'static str,
        /// What to do.
        remedy: &'static str,
    },
}

/// Last part of the class name of the module, such as `PlainLoginModule`.
pub(super) fn module(text: &str) -> Result<&str, JaasError> {
    let class = text.split_whitespace().next().ok_or(JaasError::Malformed)?;
    let name = class.rsplit('.').next().unwrap_or(class);
    let is_identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    if name.is_empty() || !is_identifier {
        return Err(JaasError::Malformed);
    }
    parse(text)?;
    Ok(name)
}

/// The value of an option.
pub(in crate::config) fn option(text: &str, name: &'static str) -> Result<Zeroizing<String>, JaasError> {
    let options = parse(text)?;
    let found = options.into_iter().find(|(option, _)| option == name);
    found.map(|(_, value)| value).ok_or(JaasError::Missing(name))
}

/// All options in their order. Source: the grammar of `javax.security.auth.login.Configuration`, for a single module.
fn parse(text: &str) -> Result<Vec<(String, Zeroizing<String>)>, JaasError> {
    let mut words = Words { rest: text };
    words.word()?;
    let flag = words.word()?.to_ascii_lowercase();
    if !matches!(flag.as_str(), "required" | "requisite" | "sufficient" | "optional") {
        return Err(JaasError::Malformed);
    }
    let mut options = Vec::new();
    loop {
        if words.take(';') {
            return if words.rest.trim().is_empty() { Ok(options) } else { Err(JaasError::Malformed) };
        }
        let name = words.word()?.to_owned();
        if !words.take('=') {
            return Err(JaasError::Malformed);
        }
        options.push((name, words.value()?));
    }
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// A run of characters without a meaning of their own.
    fn word(&mut self) -> Result<&'a str, JaasError> {
        self.rest = self.rest.trim_start();
        let ends = |c: char| c.is_whitespace() || matches!(c, '=' | ';' | '"' | '\'');
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        if word.is_empty() { Err(JaasError::Malformed) } else { Ok(word) }
    }

    fn take(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(c);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    /// A word, or text in quotes in which a backslash keeps the next character.
    fn value(&mut self) -> Result<Zeroizing<String>, JaasError> {
        self.rest = self.rest.trim_start();
        let Some(quote @ ('"' | '\'')) = self.rest.chars().next() else {
            return Ok(Zeroizing::new(self.word()?.to_owned()));
        };
        let mut value = Zeroizing::new(String::new());
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => value.push(chars.next().ok_or(JaasError::Malformed)?.1),
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(value);
                }
                c => value.push(c),
            }
        }
        Err(JaasError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAM: &str = r#"org.apache.kafka.common.security.scram.ScramLoginModule required
        username="al\"ice" password='p;=w "x' tokenauth=true ;"#;

    #[test]
    fn options_are_found() {
        assert_eq!(module(SCRAM), Ok("ScramLoginModule"));
        for (name, value) in [("username", "al\"ice"), ("password", "p;=w \"x"), ("tokenauth", "true")] {
            assert_eq!(option(SCRAM, name).unwrap().as_str(), value);
        }
        assert_eq!(option(SCRAM, "clientId"), Err(JaasError::Missing("clientId")));
        assert_eq!(module("a.B required;"), Ok("B"));
    }

    #[test]
    fn other_forms_are_refused() {
        let wrong = [
            "",
            "a.B",
            "a.B required",
            "a.B maybe x=1;",
            "a.B required x;",
            "a.B required x=\"1;",
            "a.B required; c.D required;",
        ];
        for text in wrong {
            assert_eq!(module(text), Err(JaasError::Malformed), "{text}");
        }
    }
}
