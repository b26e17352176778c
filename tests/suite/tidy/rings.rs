//! Who may name whom: rings point one way.

use super::{File, check, files};

/// The modules of the library from the inside out, each with those that it may name, which stand above it.
const RINGS: [(&str, &[&str]); 19] = [
    ("limits", &[]),
    ("error", &[]),
    ("health", &[]),
    ("batch", &["limits"]),
    ("route", &["limits", "batch"]),
    ("config", &["limits", "batch", "route"]),
    ("metrics", &["limits", "config"]),
    ("wire", &["limits", "metrics", "config", "batch"]),
    ("flow", &["metrics", "config", "wire"]),
    ("settle", &["batch", "wire"]),
    ("source", &["limits", "error", "health", "metrics", "config", "batch", "wire", "flow", "settle"]),
    ("sink", &["limits", "metrics", "config", "batch", "route", "wire", "flow", "source"]),
    ("dead_letter", &["limits", "batch", "source"]),
    ("lane", &["limits", "health", "metrics", "config", "batch", "wire", "source", "sink", "dead_letter"]),
    (
        "bridge",
        &[
            "limits",
            "health",
            "metrics",
            "batch",
            "config",
            "route",
            "wire",
            "flow",
            "source",
            "sink",
            "dead_letter",
            "lane",
        ],
    ),
    ("telemetry", &["error", "config", "bridge"]),
    ("status", &["health", "metrics", "config", "bridge"]),
    ("verify", &["limits"]),
    (
        "cli",
        &[
            "error",
            "health",
            "metrics",
            "limits",
            "batch",
            "route",
            "config",
            "wire",
            "flow",
            "source",
            "dead_letter",
            "bridge",
            "telemetry",
            "status",
            "verify",
        ],
    ),
];

/// The two implementations of Kafka's protocol, each with the only parts of the tree that name it: verifying our work with our own
/// client would prove little.
const DIALECTS: [(&str, &[&str]); 2] =
    [("kafka_protocol", &["src/wire"]), ("rdkafka", &["src/verify", "src/source/consumer/librdkafka"])];

/// What is named right behind each `crate::`, with its line. A group in braces names each of its members.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut found = vec![];
    for (at, path) in text.match_indices("crate::") {
        let line = 1 + text[..at].matches('\n').count();
        let rest = &text[at + path.len()..];
        let members = rest.strip_prefix('{').map_or_else(|| vec![rest], members);
        found.extend(members.into_iter().map(|member| (line, identifier(member))));
    }
    found
}

/// The members of a group whose opening brace is behind us.
fn members(group: &str) -> Vec<&str> {
    let (mut members, mut depth, mut begin) = (vec![], 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                members.extend(Some(group[begin..at].trim()).filter(|member| !member.is_empty()));
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    members
}

fn identifier(text: &str) -> &str {
    text.split(is_no_letter).next().unwrap_or_default()
}

fn is_no_letter(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

fn complaints(file: &File) -> Vec<String> {
    let Some(module) = file.module() else {
        return vec![];
    };
    let Some((_, allowed)) = RINGS.iter().find(|(ring, _)| *ring == module) else {
        return vec![format!("{}: module {module} is not in the table of tests/suite/tidy/rings.rs", file.path)];
    };
    let wrong = named(&file.text).into_iter().filter(|(_, other)| *other != module && !allowed.contains(other));
    wrong.map(|(line, other)| format!("{}:{line}: {module} may not name crate::{other}", file.path)).collect()
}

#[test]
fn rings_name_only_what_lies_inside() {
    check(files().iter().filter(|file| file.is_rust()).flat_map(complaints).collect());
}

#[test]
fn the_table_points_one_way() {
    for (position, (ring, allowed)) in RINGS.iter().enumerate() {
        let inside = |name: &&str| RINGS[..position].iter().any(|(ring, _)| ring == name);
        check(allowed.iter().filter(|name| !inside(name)).map(|name| format!("{ring}: {name} lies outside")).collect());
    }
}

#[test]
fn each_dialect_of_kafka_has_its_homes() {
    let all = files();
    let pairs = all.iter().flat_map(|file| DIALECTS.iter().map(move |dialect| (file, dialect)));
    let abroad = pairs
        .filter(|(file, (_, homes))| file.module().is_some() && !homes.iter().any(|home| file.path.starts_with(home)));
    let named = abroad.flat_map(|(file, (dialect, homes))| {
        let code = (1..).zip(file.text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
        let named = code.filter(|(_, line): &(usize, &str)| line.split(is_no_letter).any(|word| word == *dialect));
        named.map(move |(line, _)| format!("{}:{line}: only {homes:?} may name {dialect}", file.path))
    });
    check(named.collect());
}

#[test]
fn paths_and_groups_are_read() {
    let text = "use crate::a::B;\nuse crate::{\n    c,\n    d::{E, F},\n};\nfn g() -> crate::h {}";
    assert_eq!(named(text), [(1, "a"), (2, "c"), (2, "d"), (6, "h")]);
}
