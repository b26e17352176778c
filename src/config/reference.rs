//! Holds the documentation and the sample file against the table of keys.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use super::key::{KEYS, Key};
use super::scope::Scope;
use super::{COPIED_CONFIGS, Config, Copied, value::Kind};

const SCOPES: [Scope; 4] = [Scope::Bridge, Scope::Cluster, Scope::Flow, Scope::FlowOnly];

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(path(file)).expect("the repository has the file")
}

/// The text of docs/CONFIGURATION.md with fresh tables.
fn document() -> String {
    let text = read("docs/CONFIGURATION.md");
    renew(&renew(&text, "keys", &tables()), "copied", &copied_table())
}

/// Puts `table` between the marks of its name.
fn renew(text: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} begin -->\n"), format!("<!-- {name} end -->\n"));
    let (before, rest) = text.split_once(&begin).expect("the mark is in the document");
    let (_, after) = rest.split_once(&end).expect("the mark is in the document");
    format!("{before}{begin}{table}{end}{after}")
}

fn copied_table() -> String {
    let mut text = "| config | taken from the source | why |\n|---|---|---|\n".to_owned();
    for (name, when, why) in COPIED_CONFIGS {
        let when = match when {
            Copied::Always => "always, also a default of its brokers",
            Copied::WhenSet => "where it is set on the topic",
        };
        let _ = writeln!(text, "| `{name}` | {when} | {why} |");
    }
    text
}

fn tables() -> String {
    let mut text = String::new();
    for scope in SCOPES {
        let _ = writeln!(text, "### `{}`\n", scope.tables().replace(" or ", "` or `"));
        text += "| key | default | takes | what it is |\n|---|---|---|---|\n";
        for key in KEYS.iter().filter(|key| key.scope == scope) {
            let default = key.default.map_or("required".to_owned(), shown);
            let takes = key.kind.takes().replace("<", "&lt;");
            let _ = writeln!(text, "| `{}` | {default} | {takes} | {} |", key.name, key.doc);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn shown(default: &str) -> String {
    if default.is_empty() { "none".to_owned() } else { format!("`{default}`") }
}

/// A key as the sample file must show it; of a required one the value is free.
fn sample(key: &Key) -> String {
    let default = key.default.map(|text| match key.kind {
        Kind::Integer { .. } | Kind::Boolean => format!("{text}\n"),
        // What an array holds is free, too.
        _ if text == "[]" => "[".to_owned(),
        _ => format!("\"{}\"\n", text.replace("<flow>", "orders")),
    });
    let takes = key.kind.takes();
    let required = if default.is_none() { "Required: " } else { "Takes " };
    format!("# {}.\n# {required}{takes}.\n{} = {}", key.doc, key.name, default.unwrap_or_default())
}

#[test]
fn the_document_has_the_keys() {
    assert!(
        read("docs/CONFIGURATION.md") == document(),
        "docs/CONFIGURATION.md is out of date, it says how to write it again"
    );
}

#[test]
#[ignore = "writes docs/CONFIGURATION.md"]
fn write_the_document() {
    fs::write(path("docs/CONFIGURATION.md"), document()).expect("the document is writable");
}

#[test]
fn the_sample_has_every_key() {
    let text = read("config/sharebridge.toml");
    for key in &KEYS {
        assert!(text.contains(&sample(key)), "config/sharebridge.toml lacks:\n{}", sample(key));
    }
}

#[test]
fn the_sample_has_only_keys_and_they_are_good() {
    let file = path("config/sharebridge.toml");
    let config = Config::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.flows.len(), 1);
}

#[test]
fn the_examples_are_good() {
    let folder = fs::read_dir(path("config/examples")).expect("the repository has examples");
    for file in folder {
        let file = file.expect("the folder is readable").path();
        // Secrets stand elsewhere, where a test has none.
        let text =
            fs::read_to_string(&file).expect("the example is readable").replace("${env:PRIMARY_PASSWORD}", "secret");
        if let Err(errors) = Config::parse(&file, &text) {
            panic!("{errors}");
        }
    }
}

#[test]
fn the_document_s_example_is_good() {
    let text = read("docs/CONFIGURATION.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.expect("the document has an example");
    if let Err(errors) = Config::parse(&path("docs/CONFIGURATION.md"), example) {
        panic!("{errors}");
    }
}
