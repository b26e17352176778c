//! The raw file: tables of dotted keys with their lines, nothing judged but the frame around them.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::error::{ConfigError, Problem};
use super::nearest::nearest;
use super::scope::Scope;
use super::shown::Shown;
use super::syntax;

/// Which table something stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Bridge,
    Defaults,
    Cluster(String),
    Flow(String),
}

impl Place {
    /// Whether keys of this scope may stand here.
    pub(super) fn takes(&self, scope: Scope) -> bool {
        match self {
            Place::Bridge => scope == Scope::Bridge,
            Place::Defaults => scope == Scope::Flow,
            Place::Cluster(_) => scope == Scope::Cluster,
            Place::Flow(_) => matches!(scope, Scope::Flow | Scope::FlowOnly),
        }
    }

    /// The table's own name, if people choose it.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Place::Bridge | Place::Defaults => None,
            Place::Cluster(name) | Place::Flow(name) => Some(name),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Place::Bridge => return f.write_str("[bridge]"),
            Place::Defaults => return f.write_str("[defaults]"),
            Place::Cluster(name) => ("clusters", name),
            Place::Flow(name) => ("flows", name),
        };
        let name = Shown(name);
        if syntax::is_bare_key(name.0) {
            write!(f, "[{kind}.{name}]")
        } else {
            write!(f, "[{kind}.{}]", name.in_quotes())
        }
    }
}

/// One table of the file.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) place: Place,
    /// Line of the header.
    pub(super) line: usize,
    /// In the order of the file.
    pub(super) properties: Vec<Property>,
}

/// One key with its value.
#[derive(Debug)]
pub(super) struct Property {
    /// Dotted: TOML's nested tables are flattened again.
    pub(super) key: String,
    pub(super) line: usize,
    /// `None` if the line is already reported.
    pub(super) value: Option<Raw>,
}

/// A value as it was written.
#[derive(Clone, Debug)]
pub(super) enum Raw {
    /// Strings, and all other scalars in their plain text form.
    Text(String),
    List(Vec<Raw>),
    /// An empty table; others are flattened.
    Table,
}

/// Reads the tables of a file in its order; what is wrong goes to `errors`.
///
/// Returns nothing if the file's structure is in doubt, because whatever else could be said of it may be untrue.
pub(super) fn read(text: &str, errors: &mut Vec<ConfigError>) -> Option<Vec<Table>> {
    let (root, faults) = DeTable::parse_recoverable(text);
    let lines = Lines::of(text);
    let bad = syntax::judge(text, &lines, &faults, errors);
    if bad.structure {
        return None;
    }
    let mut reader = Reader { lines, bad_lines: bad.lines, tables: Vec::new(), errors };
    for (key, value) in root.get_ref() {
        reader.root(key.get_ref(), value, reader.lines.at(key.span()));
    }
    reader.tables.sort_by_key(|table| table.line);
    Some(reader.tables)
}

struct Reader<'a> {
    lines: Lines,
    /// Lines with a bare word, ascending.
    bad_lines: Vec<usize>,
    tables: Vec<Table>,
    errors: &'a mut Vec<ConfigError>,
}

impl Reader<'_> {
    fn root(&mut self, key: &str, value: &Spanned<DeValue<'_>>, line: usize) {
        let (place, form): (fn(String) -> Place, _) = match key {
            "bridge" => return self.table(Place::Bridge, value, "[bridge]"),
            "defaults" => return self.table(Place::Defaults, value, "[defaults]"),
            "clusters" => (Place::Cluster, "[clusters.<name>]"),
            "flows" => (Place::Flow, "[flows.<name>]"),
            _ => {
                let nearest = nearest(key, ["bridge", "defaults", "clusters", "flows"].into_iter());
                let problem = Problem::UnknownTable { nearest };
                return self.errors.push(ConfigError::of_line(line, problem).at_key(key));
            }
        };
        let Some(named) = value.get_ref().as_table() else {
            let problem = Problem::NotATable { form };
            return self.errors.push(ConfigError::of_line(line, problem).at_key(key));
        };
        for (name, table) in named {
            self.table(place(name.get_ref().to_string()), table, form);
        }
    }

    fn table(&mut self, place: Place, value: &Spanned<DeValue<'_>>, form: &'static str) {
        let line = self.lines.at(value.span());
        let Some(table) = value.get_ref().as_table() else {
            let problem = Problem::NotATable { form };
            return self.errors.push(ConfigError::of_line(line, problem).in_place(&place));
        };
        let mut properties = Vec::new();
        self.flatten("", table, &mut properties);
        properties.sort_by_key(|property| property.line);
        self.tables.push(Table { place, line, properties });
    }

    /// TOML's own limit of nesting bounds the depth.
    fn flatten(&self, prefix: &str, table: &DeTable<'_>, properties: &mut Vec<Property>) {
        for (key, value) in table {
            let line = self.lines.at(key.span());
            let key = format!("{prefix}{}", key.get_ref());
            match value.get_ref().as_table() {
                Some(inner) if !inner.is_empty() => {
                    self.flatten(&format!("{key}."), inner, properties);
                }
                _ => {
                    let good = self.bad_lines.binary_search(&line).is_err();
                    let value = good.then(|| raw(value.get_ref()));
                    properties.push(Property { key, line, value });
                }
            }
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(integer) => Raw::Text(decimal(integer)),
        DeValue::Float(float) => Raw::Text(float.to_string()),
        DeValue::Boolean(flag) => Raw::Text(flag.to_string()),
        DeValue::Datetime(time) => Raw::Text(time.to_string()),
        DeValue::Array(values) => Raw::List(values.iter().map(|value| raw(value.get_ref())).collect()),
        DeValue::Table(_) => Raw::Table,
    }
}

/// Writes an integer in base 10; one beyond 128 bits stays as written and fails every check of range.
fn decimal(integer: &DeInteger<'_>) -> String {
    i128::from_str_radix(integer.as_str(), integer.radix())
        .map_or_else(|_| integer.to_string(), |number| number.to_string())
}

/// Where each line of a text begins, for finding the line of an offset.
#[derive(Debug)]
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(index, _)| index + 1);
        let starts = std::iter::once(0).chain(starts).collect();
        Self { starts }
    }

    /// The line, counted from 1, on which a span of bytes begins.
    pub(super) fn at(&self, span: Range<usize>) -> usize {
        self.starts.partition_point(|start| *start <= span.start)
    }

    /// The offset of the first byte of a line.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts[line - 1]
    }
}
