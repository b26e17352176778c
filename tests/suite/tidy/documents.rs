//! Whether the documents are true to the code, and their links lead somewhere.

use std::collections::BTreeSet;

use super::{File, check, files, root};

/// The targets of all links, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(targets.map(|target| (number, target)));
    }
    links
}

/// Whether the headings of a document have one for this anchor.
fn has_anchor(document: &str, anchor: &str) -> bool {
    let slug = |heading: &str| {
        let letters = heading.trim_start_matches('#').trim().to_lowercase();
        letters.replace(' ', "-").replace(|c: char| !c.is_alphanumeric() && c != '-' && c != '_', "")
    };
    document.lines().filter(|line| line.starts_with('#')).any(|heading| slug(heading) == anchor)
}

fn leads_somewhere(file: &File, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = root().join(&file.path);
    let path = match path {
        "" => folder,
        _ => folder.parent().unwrap().join(path),
    };
    path.exists() && (anchor.is_empty() || std::fs::read_to_string(path).is_ok_and(|text| has_anchor(&text, anchor)))
}

#[test]
fn links_lead_somewhere() {
    let documents = files().into_iter().filter(|file| file.path.ends_with(".md"));
    let dead = documents.flat_map(|file| {
        let local = links(&file.text).into_iter().filter(|(_, target)| !target.contains("://"));
        let dead = local.filter(|(_, target)| !leads_somewhere(&file, target));
        dead.map(|(line, target)| format!("{}:{line}: {target} does not exist", file.path)).collect::<Vec<_>>()
    });
    check(dead.collect());
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_row_of_the_kip_names_tests_that_exist() {
    let sources = files().into_iter().filter(|file| file.path.ends_with(".rs"));
    // The one test of its own module that the page names: the walk leaves these files out.
    let own = File::read("tests/suite/tidy/metrics.rs");
    let tests: BTreeSet<String> = sources
        .chain([own])
        .flat_map(|file| {
            let names = file.text.lines().filter_map(|line| line.trim_start().split_once("fn ")?.1.split_once('('));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let text = File::read("docs/KIP-1302.md").text;
    let rows = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("| ") && !line.ends_with(" shown by |"));
    let mut wrong = vec![];
    for (number, row) in rows {
        let last = row.trim_end_matches(" |").rsplit_once("| ").map_or("", |(_, last)| last);
        let named: Vec<&str> = quoted(last).collect();
        let missing = named.iter().filter(|name| !tests.contains(**name));
        wrong.extend(missing.map(|name| format!("docs/KIP-1302.md:{number}: no test {name}")));
        if named.is_empty() {
            wrong.push(format!("docs/KIP-1302.md:{number}: no test is named"));
        }
    }
    check(wrong);
}

#[test]
fn the_exit_codes_are_documented() {
    let code = |line: &str| line.trim().strip_suffix(',')?.split_once(" = ")?.1.parse::<u8>().ok();
    let in_code: Vec<u8> = File::read("src/error.rs").text.lines().filter_map(code).collect();
    let row = |line: &str| line.strip_prefix("| ")?.split_once(" |")?.0.parse::<u8>().ok();
    let in_table: Vec<u8> = File::read("docs/OPERATIONS.md").text.lines().filter_map(row).collect();
    assert_eq!(in_table, in_code, "the table of docs/OPERATIONS.md (left) and src/error.rs");
}

/// Kafka's name of an error: `ProducerFenced` is PRODUCER_FENCED.
fn kafka_name(code: &str) -> String {
    let word = |c: char| if c.is_uppercase() { format!("_{c}") } else { c.to_uppercase().to_string() };
    code.chars().map(word).collect::<String>().trim_start_matches('_').to_owned()
}

#[test]
fn judged_errors_are_documented() {
    let document = File::read("docs/DELIVERY.md").text;
    let is_told = |name: &str| document.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    for path in ["src/lane/retry.rs", "src/sink/kafka.rs"] {
        let file = File::read(path);
        let codes =
            file.code().split("Code::").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
        let names: BTreeSet<String> = codes.map(kafka_name).collect();
        assert!(!names.is_empty(), "{path} judges nothing: this test looks in the wrong place");
        let missing = names.iter().filter(|name| !is_told(name));
        check(missing.map(|name| format!("{path} judges {name}, docs/DELIVERY.md does not say how")).collect());
    }
}
