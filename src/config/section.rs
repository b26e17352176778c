//! One table whose keys and values are checked, and typed views of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::document::{Place, Property, Raw, Table};
use super::error::{ConfigError, Problem};
use super::key::{self, KEYS, Key};
use super::nearest::nearest;
use super::needless::needless;
use super::scope::Scope;
use super::secret::{Secret, Template};
use super::selection::Pattern;
use super::start_position::StartPosition;
use super::value::{Kind, Value, is_name};

/// The good values of one table.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) place: Place,
    line: usize,
    values: BTreeMap<&'static str, Given>,
}

#[derive(Debug)]
struct Given {
    line: usize,
    /// `None` if it is reported as bad.
    value: Option<Value>,
}

impl Section {
    /// A table that the file leaves out.
    pub(super) fn absent(place: Place) -> Self {
        Self { place, line: 1, values: BTreeMap::new() }
    }

    /// Checks the table's name and each of its properties by itself.
    pub(super) fn check(table: Table, errors: &mut Vec<ConfigError>) -> Self {
        let mut section = Self { place: table.place, line: table.line, values: BTreeMap::new() };
        if section.place.name().is_some_and(|name| !is_name(name)) {
            errors.push(ConfigError::of_line(section.line, Problem::IllegalName).in_place(&section.place));
        }
        for property in table.properties {
            if let Err(problem) = section.add(&property) {
                let error = ConfigError::of_line(property.line, problem);
                errors.push(error.in_place(&section.place).at_key(&property.key));
            }
        }
        section
    }

    fn add(&mut self, property: &Property) -> Result<(), Problem> {
        let key = key::find(&property.key).ok_or_else(|| self.unknown(&property.key))?;
        if !self.place.takes(key.scope) {
            let tables = key.scope.tables();
            return Err(Problem::WrongTable { tables });
        }
        if let Some(first) = self.values.get(key.name) {
            let first_line = first.line;
            return Err(Problem::GivenTwice { first_line });
        }
        let checked = property.value.as_ref().map(|raw| check(key, raw)).transpose();
        let (value, outcome) = match checked {
            Ok(value) => (value, Ok(())),
            Err(problem) => (None, Err(problem)),
        };
        let line = property.line;
        self.values.insert(key.name, Given { line, value });
        outcome
    }

    /// Finds out what an unknown key was meant to be.
    fn unknown(&self, name: &str) -> Problem {
        if let Some(why) = needless(name).filter(|_| self.place.takes(Scope::Cluster)) {
            return Problem::Needless { why };
        }
        let here = || KEYS.iter().filter(|key| self.place.takes(key.scope));
        if let Some(table) = self.place.name() {
            // `[flows.eu.orders]` is flow `eu` with keys that begin with `orders.`
            let inner = here().find_map(|key| name.strip_suffix(key.name)?.strip_suffix('.'));
            if let Some(inner) = inner {
                let name = format!("{table}.{inner}");
                let place = match self.place {
                    Place::Cluster(_) => Place::Cluster(name),
                    _ => Place::Flow(name),
                };
                return Problem::UnquotedName { place };
            }
        }
        let nearest = nearest(name, here().map(|key| key.name));
        Problem::UnknownKey { nearest }
    }

    /// The line of a key, or of the header if the key is not given here.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.values.get(key).map_or(self.line, |given| given.line)
    }

    /// Makes an error of a key of this table.
    pub(super) fn error(&self, key: &str, problem: Problem) -> ConfigError {
        ConfigError::of_line(self.line_of(key), problem).in_place(&self.place).at_key(key)
    }
}

/// Looks values up: in a table, then in its defaults, then in the table of keys.
///
/// Every getter answers `None` if the value is bad or missing, which is then reported.
/// The name must be in the table of keys, and its kind must fit the getter.
pub(super) struct View<'a> {
    pub(super) section: &'a Section,
    pub(super) defaults: Option<&'a Section>,
    pub(super) errors: &'a mut Vec<ConfigError>,
}

impl View<'_> {
    /// Reads an integer of any width that its bounds fit into.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, name: &str) -> Option<T> {
        let Value::Number(number) = self.value(name)? else {
            unreachable!("{name} is an integer in the table of keys")
        };
        let number = T::try_from(number).ok();
        Some(number.expect("the bounds in the table of keys fit the type"))
    }

    /// Reads an integer of milliseconds.
    pub(super) fn duration(&mut self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        let Value::Boolean(flag) = self.value(name)? else { unreachable!("{name} is a boolean in the table of keys") };
        Some(flag)
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let Value::Text(text) = self.value(name)? else { unreachable!("{name} is text in the table of keys") };
        Some(text)
    }

    /// Text that may be left out.
    pub(super) fn optional(&mut self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// A secret that may be left out.
    pub(super) fn secret(&mut self, name: &str) -> Option<Secret> {
        let Value::Secret(secret) = self.value(name)? else { unreachable!("{name} is a secret in the table of keys") };
        secret
    }

    /// Whether the table gives a key, be it with a bad value; text that is empty counts as left out.
    pub(super) fn is_given(&self, name: &str) -> bool {
        let given = self.section.values.get(name);
        given.is_some_and(|given| match &given.value {
            Some(Value::Text(text)) => !text.is_empty(),
            Some(Value::Secret(secret)) => secret.is_some(),
            _ => true,
        })
    }

    /// The keys of the table that begin so and are given otherwise than by default.
    pub(super) fn given_keys(&self, prefix: &'static str) -> impl Iterator<Item = &'static str> + use<> {
        let is_default = |key: &Key| self.text_of(key.name).is_some_and(|text| Some(text) == key.default);
        let given = |key: &&Key| key.name.starts_with(prefix) && self.is_given(key.name) && !is_default(key);
        KEYS.iter().filter(given).map(|key| key.name).collect::<Vec<_>>().into_iter()
    }

    fn text_of(&self, name: &str) -> Option<&str> {
        match self.section.values.get(name)?.value.as_ref()? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Reports a key that another one, or a value, cannot do without.
    pub(super) fn require(&mut self, key: &str, by: &'static str) {
        self.report(key, Problem::Needed { by });
    }

    pub(super) fn list(&mut self, name: &str) -> Option<Vec<String>> {
        let Value::List(list) = self.value(name)? else { unreachable!("{name} is a list in the table of keys") };
        Some(list)
    }

    pub(super) fn patterns(&mut self, name: &str) -> Option<Vec<Pattern>> {
        let Value::Patterns(patterns) = self.value(name)? else {
            unreachable!("{name} is a list of patterns in the table of keys")
        };
        Some(patterns)
    }

    pub(super) fn start(&mut self, name: &str) -> Option<StartPosition> {
        let Value::Start(start) = self.value(name)? else {
            unreachable!("{name} is a start position in the table of keys")
        };
        Some(start)
    }

    pub(super) fn address(&mut self, name: &str) -> Option<SocketAddr> {
        let Value::Address(address) = self.value(name)? else {
            unreachable!("{name} is an address in the table of keys")
        };
        Some(address)
    }

    /// Reports something wrong with a key of the table.
    pub(super) fn report(&mut self, key: &str, problem: Problem) {
        self.errors.push(self.section.error(key, problem));
    }

    fn value(&mut self, name: &str) -> Option<Value> {
        let sections = std::iter::once(self.section).chain(self.defaults);
        let given = sections.filter_map(|section| section.values.get(name)).next();
        if let Some(given) = given {
            return given.value.clone();
        }
        let key = key::find(name).expect("names in the code are in the table of keys");
        let Some(default) = key.default else {
            let (doc, takes) = (key.doc, key.kind.takes());
            self.report(name, Problem::Missing { doc, takes });
            return None;
        };
        let default = default.replace("<flow>", self.section.place.name().unwrap_or_default());
        // Only the name of the table can spoil a default, and that is reported by itself.
        key.kind.check_default(&default).ok()
    }
}

/// Checks a value by itself. What a reference gives is checked as it is now, and not repeated.
fn check(key: &Key, raw: &Raw) -> Result<Value, Problem> {
    if key.kind == Kind::Secret {
        return match raw {
            // The text of another kind than a string is a secret all the same.
            Raw::Text(text) => key.kind.check_text(text),
            Raw::List(_) | Raw::Table => key.kind.check(raw),
        };
    }
    let resolved = resolve(raw)?;
    let checked = key.kind.check(resolved.as_ref().unwrap_or(raw));
    checked.map_err(|problem| match resolved {
        Some(_) => key.kind.refuse("what it refers to".to_owned()),
        None => problem,
    })
}

/// The value with all references looked up; `None` if there are none.
fn resolve(raw: &Raw) -> Result<Option<Raw>, Problem> {
    match raw {
        Raw::Text(text) if text.contains("${") => {
            let template = Template::parse(text).map_err(Problem::Secret)?;
            if !template.refers() {
                return Ok(None);
            }
            Ok(Some(Raw::Text(template.resolve().map_err(Problem::Secret)?.to_string())))
        }
        Raw::List(items) => {
            let found = items.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
            if found.iter().all(Option::is_none) {
                return Ok(None);
            }
            let items = items.iter().zip(found).map(|(item, found)| found.unwrap_or_else(|| item.clone()));
            Ok(Some(Raw::List(items.collect())))
        }
        Raw::Text(_) | Raw::Table => Ok(None),
    }
}
