//! `sharebridge check`, `init` and `status` as they are typed.

use std::process::{Command, Output};

use cluster::load::{Load, produce};
use cluster::{pair, unique};
use serde_json::{Value, json};

use crate::bridge::{Flow, arrived, await_all, eventually};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sharebridge")).args(arguments).output().unwrap()
}

/// What `plan` says of a flow.
fn plan(flow: &Flow) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sharebridge.toml");
    std::fs::write(&file, flow.text()).unwrap();
    let file = file.to_str().unwrap();
    println!("{}", String::from_utf8_lossy(&run(&["plan", "--config", file]).stdout));
    let output = run(&["plan", "--json", "--config", file]);
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["flows"][0].clone()
}

#[test]
fn a_plan_tells_what_comes_true() {
    let pair = pair();
    let name = unique("planned");
    let [topic, tmp] = ["a", "tmp"].map(|end| format!("{name}-{end}"));
    for topic in [&topic, &tmp] {
        pair.source.create_topic(topic, 2, &[]).unwrap();
    }
    produce(pair.source.bootstrap(), &topic, &Load::of(2_000)).unwrap();
    let flow = Flow::new(pair, &[])
        .with(&format!("flows.f.topics.regex = [\"{name}-.*\"]"))
        .with("flows.f.topics.exclude = [\".*-tmp\"]")
        .with("flows.f.sink.topic.name = \"${topic}-copy\"");
    let planned = plan(&flow);
    let told = &planned["topics"][0];
    assert_eq!((&told["source_topic"], &told["records"]), (&json!(topic), &json!(2_000)));
    assert!(told["bytes"].as_u64().unwrap() > 0 && planned["seconds_at_least"].as_f64().unwrap() > 0.0);
    assert_eq!(planned["skipped"][0]["topic"], json!(tmp));
    let creates = |plan: &Value| plan["target_changes"].to_string().contains(&format!("create topic {topic}-copy"));
    assert!(creates(&planned) && !planned["source_changes"].as_array().unwrap().is_empty());
    assert!(creates(&plan(&flow)), "nothing was done");

    let worker = flow.start();
    await_all(&pair.target, &format!("{topic}-copy"), 2_000);
    worker.await_ready();
    let done = eventually("nothing is left", || Some(plan(&flow)).filter(|plan| plan["topics"][0]["records"] == 0));
    assert_eq!((&done["source_changes"], &done["target_changes"]), (&json!([]), &json!([])));
    assert_eq!(done["seconds_at_least"], Value::Null);
}

/// What `check` says of a flow: exit code, and subject, verdict and words of each finding.
fn check(flow: &Flow) -> (Option<i32>, Vec<[String; 3]>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sharebridge.toml");
    std::fs::write(&file, flow.text()).unwrap();
    let file = file.to_str().unwrap();
    println!("{}", String::from_utf8_lossy(&run(&["check", "--config", file]).stdout));
    let output = run(&["check", "--json", "--config", file]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = document["flows"][0]["findings"].as_array().unwrap().iter();
    let words =
        |finding: &Value| ["subject", "verdict", "says"].map(|field| finding[field].as_str().unwrap().to_owned());
    (output.status.code(), findings.map(words).collect())
}

#[track_caller]
fn says(findings: &[[String; 3]], subject: &str, verdict: &str, words: &[&str]) {
    let fits = |finding: &&[String; 3]| {
        finding[0] == subject && finding[1] == verdict && words.iter().all(|word| finding[2].contains(word))
    };
    assert!(findings.iter().any(|finding| fits(&finding)), "no {verdict} {subject} {words:?} in {findings:#?}");
}

#[test]
fn what_will_be_done_and_what_is_odd_is_said_and_nothing_is_changed() {
    let pair = pair();
    let (new, odd, absent) = (unique("new"), unique("odd"), unique("absent"));
    pair.source.create_topic(&new, 3, &[]).unwrap();
    pair.source.create_topic(&odd, 2, &[]).unwrap();
    pair.target.create_topic(&odd, 1, &[("max.message.bytes", "1000"), ("compression.type", "gzip")]).unwrap();
    let flow = Flow::new(pair, &[&new, &odd, &absent]);
    let (code, findings) =
        eventually("the coordinators are there", || Some(check(&flow)).filter(|(code, _)| *code == Some(0)));
    assert_eq!(code, Some(0));
    says(&findings, "source share groups", "ok", &["ShareFetch v2"]);
    says(&findings, "source group configs", "note", &["share.auto.offset.reset", "wanted earliest"]);
    says(&findings, "source topics", "ok", &["2 topics with 5 partitions"]);
    says(&findings, &format!("source topic {absent}"), "warning", &["waited for"]);
    says(&findings, "target transactions", "ok", &["version 2"]);
    says(&findings, &format!("target topic {new}"), "note", &["create topic", "partitions: 3"]);
    says(&findings, &format!("target topic {odd}"), "note", &["grow topic", "from 1 to 2"]);
    says(&findings, &format!("target topic {odd}"), "warning", &["max.message.bytes is 1000", "raise it to"]);
    says(&findings, &format!("target topic {odd}"), "warning", &["compression.type is gzip", "set producer"]);
    says(&findings, "rate of share", "note", &["records/s"]);
    says(&findings, "rate of consumer", "note", &["MB/s", "were it group.protocol"]);
    says(&findings, "order", "note", &["order not kept"]);
    assert!(arrived(&pair.target, &new).is_none(), "check has created a topic");
}

#[test]
fn a_flow_in_order_is_not_asked_for_a_share_group() {
    let topic = unique("ordered");
    pair().source.create_topic(&topic, 2, &[]).unwrap();
    let flow = Flow::new(pair(), &[&topic]).with("flows.f.group.protocol = \"consumer\"");
    let (code, findings) =
        eventually("the coordinators are there", || Some(check(&flow)).filter(|(code, _)| *code == Some(0)));
    assert_eq!(code, Some(0));
    assert!(findings.iter().all(|finding| !finding[0].contains("share group")), "{findings:#?}");
    says(&findings, "source engine", "ok", &["native, Fetch v"]);
    says(&findings, "source consumer group", "ok", &["may be joined"]);
    says(&findings, "order", "note", &["order kept"]);

    let shared = Flow::new(pair(), &[&topic]);
    shared.start().await_ready();
    let group = format!("flows.f.group.id = \"{}\"", shared.group);
    let (code, findings) = check(&flow.with(&group));
    assert_eq!(code, Some(78));
    says(&findings, "source consumer group", "misconfigured", &["has a share group", "another group.id"]);
}

#[test]
fn a_cluster_out_of_reach_is_unavailable() {
    let flow = Flow::new(pair(), &["t"]).with("clusters.dr.bootstrap.servers = \"127.0.0.1:1\"");
    let (code, findings) = check(&flow);
    assert_eq!((code, findings.len()), (Some(69), 0));
}

#[test]
fn a_file_that_was_written_is_found_and_a_process_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sharebridge"));
        command.args(arguments).current_dir(folder.path()).output().unwrap()
    };
    assert_eq!(in_folder(&["validate"]).status.code(), Some(78), "there is no file");
    assert_eq!(in_folder(&["init"]).status.code(), Some(0));
    assert_eq!(in_folder(&["validate"]).status.code(), Some(0));

    let topic = unique("looked-at");
    pair().source.create_topic(&topic, 1, &[]).unwrap();
    let mut worker = Flow::new(pair(), &[&topic]).start();
    worker.await_ready();
    let address = worker.address().to_string();
    let shown = run(&["status", "--address", &address]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.status.code(), Some(0));
    assert!(text.contains("backlog") && text.lines().any(|line| line.starts_with("f ")), "{text}");
    let document: Value = serde_json::from_slice(&run(&["status", "--json", "--address", &address]).stdout).unwrap();
    assert_eq!(document["ready"], true);
    worker.shut_down();
    assert_eq!(run(&["status", "--address", &address]).status.code(), Some(69));
}
