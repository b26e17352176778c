//! `sharebridge verify`: compares the topics of flows on both clusters.

use std::path::PathBuf;
use std::time::Duration;

use super::{fail, refuse};
use crate::config::{Config, FlowConfig};
use crate::error::Exit;
use crate::verify::{Bar, Comparison, Endpoint, TopicPair, Verdict, verify};

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Compare only this flow
    #[arg(long, value_name = "NAME")]
    pub flow: Option<String>,
}

impl Verify {
    /// Prints a report for each flow. Duplicates are no failure: at-least-once allows them.
    pub fn run(&self) -> Exit {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(errors) => return refuse(&errors),
        };
        let is_wanted = |flow: &&FlowConfig| self.flow.as_ref().is_none_or(|name| *name == flow.name);
        let flows: Vec<&FlowConfig> = config.flows.iter().filter(is_wanted).collect();
        if flows.is_empty() {
            let names: Vec<&str> = config.flows.iter().map(|flow| flow.name.as_str()).collect();
            eprintln!("error: no such flow in {}; it has: {}", self.config.display(), names.join(", "));
            return Exit::Usage;
        }
        let mut worst = Exit::Ok;
        for flow in flows {
            let mut bar = Bar::stderr();
            let outcome = verify(&comparison(flow), &mut |progress| bar.show(&progress));
            bar.clear();
            match outcome {
                Ok(report) => {
                    println!("flow {}\n{report}", flow.name);
                    if report.verdict() == Verdict::Different {
                        worst = Exit::Failed;
                    }
                }
                Err(error) => return fail(error),
            }
        }
        worst
    }
}

fn comparison(flow: &FlowConfig) -> Comparison {
    let endpoint = |cluster: &crate::config::ClusterConfig| Endpoint {
        cluster: cluster.name.clone(),
        bootstrap: cluster.bootstrap.join(","),
        properties: vec![],
    };
    Comparison {
        source: endpoint(&flow.source),
        target: endpoint(&flow.sink),
        topics: flow.topics.iter().map(|name| TopicPair::same(name)).collect(),
        wait: Duration::ZERO,
    }
}
