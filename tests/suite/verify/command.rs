//! `sharebridge verify` as it is typed.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::*;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sharebridge")).arg("verify").args(args).output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The names of all fields, at whatever depth.
fn names(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| names(value).into_iter().chain([name.clone()])).collect()
        }
        Value::Array(values) => values.iter().flat_map(names).collect(),
        _ => BTreeSet::new(),
    }
}

/// The example of the manual.
fn documented() -> Value {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/VERIFY.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let (_, example) = manual.split_once("```json\n").unwrap();
    serde_json::from_str(example.split_once("```").unwrap().0).unwrap()
}

#[test]
fn two_topics_are_compared_without_a_flow_and_told_as_json() {
    let (source, target) = (&pair().source, &pair().target);
    let (topic, copy) = (unique("orders"), unique("copied-orders"));
    source.create_topic(&topic, 1, &[KEPT]).unwrap();
    target.create_topic(&copy, 1, &[KEPT]).unwrap();
    let changed = Written { value: Some(b"changed"), ..numbered(2) };
    write(source, &topic, 0, &[numbered(0), numbered(1), numbered(2)]);
    write(target, &copy, 0, &[numbered(0), numbered(0), changed]);

    let ends = ["--source", source.bootstrap(), "--target", target.bootstrap()];
    let topics = ["--topic", &topic, "--target-topic", &copy];
    let output = run(&[&ends[..], &topics, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let found = document(&output);
    let comparison = &found["comparisons"][0];
    assert_eq!(comparison["flow"], Value::Null);
    assert_eq!(comparison["verdict"], "different");
    let told = &comparison["topics"][0];
    assert_eq!((&told["source_topic"], &told["target_topic"]), (&json!(topic), &json!(copy)));
    let partition = &told["partitions"][0];
    assert_eq!(names(&found), names(&documented()));
    assert_eq!(partition["missing"], 1);
    assert_eq!(partition["duplicates"], 1);
    assert_eq!(partition["examples"]["missing_source_offsets"], json!([1]));
    assert_eq!(partition["examples"]["duplicate_target_offsets"], json!([1]));

    write(target, &copy, 0, &[numbered(1), numbered(2)]);
    write(source, &topic, 0, &[Written { value: Some(b"changed"), ..numbered(2) }]);
    let output = run(&[&ends[..], &topics].concat());
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("{topic} -> {copy}")), "{text}");
    assert!(text.contains("verdict: complete with duplicates"), "{text}");
}

#[test]
fn flows_are_named_in_the_json() {
    let topic = create_on_both("flow-json", 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bridge.toml");
    let text = format!(
        "[clusters.primary]\nbootstrap.servers = \"{}\"\n[clusters.dr]\nbootstrap.servers = \"{}\"\n\
         [flows.orders]\nsource.cluster = \"primary\"\nsink.cluster = \"dr\"\ntopics.names = [\"{topic}\"]\n",
        pair().source.bootstrap(),
        pair().target.bootstrap(),
    );
    std::fs::write(&file, text).unwrap();
    let output = run(&["--config", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let comparison = &document(&output)["comparisons"][0];
    let told = ["flow", "source", "target", "verdict"].map(|name| comparison[name].clone());
    assert_eq!(told, ["orders", "primary", "dr", "complete"]);
}

#[test]
fn half_a_question_is_refused() {
    let source = ["--source", "127.0.0.1:1"];
    let questions: [&[&str]; 4] = [
        &[],
        &source,
        &["--topic", "orders"],
        &["--config", "a.toml", "--source", "127.0.0.1:1", "--target", "127.0.0.1:2", "--topic", "orders"],
    ];
    for question in questions {
        let output = run(question);
        assert!(!output.status.success() && output.stdout.is_empty(), "{question:?}: {output:?}");
    }
}
