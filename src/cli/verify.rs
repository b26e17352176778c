//! `sharebridge verify`: compares topics on two clusters.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ConfigFile, fail, runtime};
use crate::batch::HOP_HEADER;
use crate::bridge::check::patiently;
use crate::bridge::discovery::Discovery;
use crate::bridge::identity::Identities;
use crate::config::{ClusterConfig, librdkafka};
use crate::error::Exit;
use crate::flow::Flow;
use crate::health::Health;
use crate::metrics::FlowMetrics;
use crate::route::Mapping;
use crate::verify::{Bar, Comparison, Endpoint, Report, TopicPair, Verdict, VerifyError, verify};

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// The file whose flows say what to compare
    #[command(flatten)]
    pub config: ConfigFile,
    /// Compare only this flow
    #[arg(long, value_name = "NAME", conflicts_with = "source")]
    pub flow: Option<String>,
    /// Brokers of the source, as in bootstrap.servers, to compare a topic without a configuration file
    #[arg(long, value_name = "BOOTSTRAP", requires_all = ["target", "topic"], conflicts_with = "path")]
    pub source: Option<String>,
    /// Brokers of the target, as in bootstrap.servers
    #[arg(long, value_name = "BOOTSTRAP", requires = "source")]
    pub target: Option<String>,
    /// The topic to compare
    #[arg(long, value_name = "NAME", requires = "source")]
    pub topic: Option<String>,
    /// Name of the topic on the target [default: the same]
    #[arg(long, value_name = "NAME", requires = "source")]
    pub target_topic: Option<String>,
    /// How long to wait for records that the target lacks, since it may be about to get them
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Something to compare, with the name of its flow if it has one.
struct Task {
    flow: Option<String>,
    comparison: Comparison,
}

impl Verify {
    /// Prints a report for each flow. Duplicates are no failure: at-least-once allows them.
    pub fn run(&self) -> Exit {
        let tasks = match self.tasks() {
            Ok(tasks) => tasks,
            Err(exit) => return exit,
        };
        let mut reports = Vec::new();
        for task in tasks {
            let mut bar = Bar::stderr();
            let outcome = verify(&task.comparison, &mut |progress| bar.show(&progress));
            bar.clear();
            match outcome {
                Ok(report) => {
                    if !self.json {
                        print(&task, &report);
                    }
                    reports.push((task, report));
                }
                Err(error @ VerifyError::Unreachable { .. }) => {
                    eprintln!("error: {error}");
                    return Exit::Unavailable;
                }
                Err(error) => return fail(error),
            }
        }
        if self.json {
            println!("{}", document(&reports));
        }
        match worst(&reports) {
            Verdict::Different => Exit::Failed,
            Verdict::Complete | Verdict::CompleteWithDuplicates => Exit::Ok,
        }
    }

    fn tasks(&self) -> Result<Vec<Task>, Exit> {
        match (&self.source, &self.target, &self.topic) {
            (None, ..) => self.flows(),
            (Some(source), Some(target), Some(topic)) => {
                let endpoint = |name: &str, bootstrap: &str| Endpoint {
                    cluster: name.to_owned(),
                    bootstrap: bootstrap.to_owned(),
                    properties: vec![],
                };
                let copy = self.target_topic.as_ref().unwrap_or(topic);
                let comparison = Comparison {
                    source: endpoint("source", source),
                    target: endpoint("target", target),
                    topics: vec![TopicPair { source: topic.clone(), target: copy.clone(), is_mapped: false }],
                    wait: self.patience(),
                    without_header: None,
                };
                Ok(vec![Task { flow: None, comparison }])
            }
            (Some(_), ..) => {
                eprintln!("error: --source needs --target and --topic");
                Err(Exit::Usage)
            }
        }
    }

    fn flows(&self) -> Result<Vec<Task>, Exit> {
        let (path, all, identities) = self.config.flows()?;
        let is_wanted = |flow: &&Flow| self.flow.as_ref().is_none_or(|name| *name == flow.name);
        let tasks: Vec<Task> =
            all.iter().filter(is_wanted).map(|flow| self.task(flow, &identities)).collect::<Result<_, _>>()?;
        if tasks.is_empty() {
            let names: Vec<&str> = all.iter().map(|flow| flow.name.as_str()).collect();
            eprintln!("error: no such flow in {}; it has: {}", path.display(), names.join(", "));
            return Err(Exit::Usage);
        }
        Ok(tasks)
    }

    fn task(&self, flow: &Flow, identities: &Identities) -> Result<Task, Exit> {
        let endpoint = |cluster: &ClusterConfig| {
            let properties = librdkafka::properties(cluster).map_err(fail)?;
            Ok(Endpoint { cluster: cluster.name.clone(), bootstrap: cluster.bootstrap.join(","), properties })
        };
        let comparison = Comparison {
            source: endpoint(&flow.source)?,
            target: endpoint(&flow.sink)?,
            topics: topics(flow, identities)?,
            wait: self.patience(),
            without_header: flow.hop_header.then_some(HOP_HEADER),
        };
        Ok(Task { flow: Some(flow.name.clone()), comparison })
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

/// The topics of a flow with their copies: those that it names, and those that its patterns match now.
fn topics(flow: &Flow, identities: &Identities) -> Result<Vec<TopicPair>, Exit> {
    let is_mapped = flow.mapping != Mapping::Same;
    let pair = |source: &str, target: String| TopicPair { source: source.to_owned(), target, is_mapped };
    if flow.topics.patterns.is_empty() {
        // A validated flow has a target for each topic that it names.
        return Ok(flow.topics.names.iter().filter_map(|name| Some(pair(name, flow.target(name).ok()?))).collect());
    }
    let runtime = runtime()?;
    let look = async || {
        let quiet = (Health::default(), FlowMetrics::default());
        Discovery::new(flow.clone(), identities.clone(), quiet).look().await
    };
    let seen = runtime.block_on(patiently(look)).map_err(|error| {
        eprintln!("error: flow {}: {error}", flow.name);
        Exit::Unavailable
    })?;
    Ok(seen.sorted.copied.into_iter().map(|copied| pair(&copied.topic.name, copied.target)).collect())
}

fn print(task: &Task, report: &Report) {
    if let Some(flow) = &task.flow {
        println!("flow {flow}");
    }
    println!("{report}");
}

fn worst(reports: &[(Task, Report)]) -> Verdict {
    reports.iter().map(|(_, report)| report.verdict()).max().unwrap_or(Verdict::Complete)
}

/// All reports as one JSON document, described in `docs/VERIFY.md`.
fn document(reports: &[(Task, Report)]) -> Value {
    let reports = reports.iter().map(|(task, report)| {
        let mut value = report.json();
        value["flow"] = json!(task.flow);
        value["source"] = json!(task.comparison.source.cluster);
        value["target"] = json!(task.comparison.target.cluster);
        value
    });
    json!({ "comparisons": reports.collect::<Vec<_>>() })
}
