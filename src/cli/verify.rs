//! `sharebridge verify`: compares topics on two clusters.

mod librdkafka;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgGroup;
use serde_json::{Value, json};

use super::{fail, refuse};
use crate::config::{ClusterConfig, Config, FlowConfig};
use crate::error::Exit;
use crate::verify::{Bar, Comparison, Endpoint, Report, TopicPair, Verdict, verify};
use librdkafka::Untold;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").args(["config", "source"]).required(true)))]
pub struct Verify {
    /// The configuration file, whose flows say what to compare
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Compare only this flow
    #[arg(long, value_name = "NAME", requires = "config", conflicts_with = "source")]
    pub flow: Option<String>,
    /// Brokers of the source, as in bootstrap.servers, to compare a topic without a configuration file
    #[arg(long, value_name = "BOOTSTRAP", requires_all = ["target", "topic"])]
    pub source: Option<String>,
    /// Brokers of the target, as in bootstrap.servers
    #[arg(long, value_name = "BOOTSTRAP", requires = "source", conflicts_with = "config")]
    pub target: Option<String>,
    /// The topic to compare
    #[arg(long, value_name = "NAME", requires = "source", conflicts_with = "config")]
    pub topic: Option<String>,
    /// Name of the topic on the target [default: the same]
    #[arg(long, value_name = "NAME", requires = "source", conflicts_with = "config")]
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
        match (&self.config, &self.source, &self.target, &self.topic) {
            (Some(path), ..) => self.flows(path),
            (None, Some(source), Some(target), Some(topic)) => {
                let endpoint = |name: &str, bootstrap: &str| Endpoint {
                    cluster: name.to_owned(),
                    bootstrap: bootstrap.to_owned(),
                    properties: vec![],
                };
                let copy = self.target_topic.as_ref().unwrap_or(topic);
                let comparison = Comparison {
                    source: endpoint("source", source),
                    target: endpoint("target", target),
                    topics: vec![TopicPair { source: topic.clone(), target: copy.clone() }],
                    wait: self.patience(),
                };
                Ok(vec![Task { flow: None, comparison }])
            }
            (None, ..) => {
                eprintln!("error: name a configuration file, or source, target and topic");
                Err(Exit::Usage)
            }
        }
    }

    fn flows(&self, path: &Path) -> Result<Vec<Task>, Exit> {
        let config = Config::load(path).map_err(|errors| refuse(&errors))?;
        let is_wanted = |flow: &&FlowConfig| self.flow.as_ref().is_none_or(|name| *name == flow.name);
        let flows = config.flows.iter().filter(is_wanted);
        let tasks: Vec<Task> = flows.map(|flow| self.task(flow)).collect::<Result<_, _>>().map_err(fail)?;
        if tasks.is_empty() {
            let names: Vec<&str> = config.flows.iter().map(|flow| flow.name.as_str()).collect();
            eprintln!("error: no such flow in {}; it has: {}", path.display(), names.join(", "));
            return Err(Exit::Usage);
        }
        Ok(tasks)
    }

    fn task(&self, flow: &FlowConfig) -> Result<Task, Untold> {
        let endpoint = |cluster: &ClusterConfig| {
            let properties = librdkafka::properties(cluster)?;
            Ok(Endpoint { cluster: cluster.name.clone(), bootstrap: cluster.bootstrap.join(","), properties })
        };
        let comparison = Comparison {
            source: endpoint(&flow.source)?,
            target: endpoint(&flow.sink)?,
            topics: flow.topics.iter().map(|name| TopicPair::same(name)).collect(),
            wait: self.patience(),
        };
        Ok(Task { flow: Some(flow.name.clone()), comparison })
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
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
