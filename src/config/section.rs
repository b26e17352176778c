//! One table whose keys and values are checked, and typed views of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::document::{Place, Property, Table};
use super::error::{ConfigError, Problem};
use super::key::{self, KEYS};
use super::nearest::nearest;
use super::start_position::StartPosition;
use super::value::{Value, is_name};

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
        let checked = property.value.as_ref().map(|raw| key.kind.check(raw)).transpose();
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

    pub(super) fn list(&mut self, name: &str) -> Option<Vec<String>> {
        let Value::List(list) = self.value(name)? else { unreachable!("{name} is a list in the table of keys") };
        Some(list)
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
        key.kind.check_text(&default).ok()
    }
}
