//! `sharebridge check`: whether the flows of a file can work, asked of their clusters.

use serde_json::{Value, json};

use super::{ConfigFile, runtime};
use crate::bridge::check::{Finding, Verdict, check, patiently};
use crate::error::Exit;
use crate::flow::Flow;
use crate::wire::WireError;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Which file
    #[command(flatten)]
    pub config: ConfigFile,
    /// Print what is found as JSON
    #[arg(long)]
    pub json: bool,
}

impl Check {
    /// Prints a table for each flow: [`Exit::Ok`] where all can work, be it with warnings.
    pub fn run(&self) -> Exit {
        self.ask().unwrap_or_else(|exit| exit)
    }

    fn ask(&self) -> Result<Exit, Exit> {
        let (_, flows, identities) = self.config.flows()?;
        let runtime = runtime()?;
        let mut exits = vec![];
        let mut documents = vec![];
        for flow in flows {
            let found = runtime.block_on(patiently(|| check(&flow, &identities))).map(|(findings, _)| findings);
            if !self.json {
                print(&flow, &found);
            }
            exits.push(exit(&found));
            documents.push(document(&flow, &found));
        }
        if self.json {
            println!("{}", json!({ "flows": documents }));
        }
        Ok(worst(&exits))
    }
}

/// What one flow alone would end with.
fn exit(found: &Result<Vec<Finding>, WireError>) -> Exit {
    let Ok(findings) = found else { return Exit::Unavailable };
    match findings.iter().map(|finding| finding.verdict).max() {
        Some(Verdict::NotPermitted) => Exit::NotPermitted,
        Some(Verdict::Misconfigured) => Exit::Config,
        _ => Exit::Ok,
    }
}

/// What somebody has to change counts more than what may pass.
fn worst(exits: &[Exit]) -> Exit {
    let order = [Exit::Config, Exit::NotPermitted, Exit::Unavailable];
    order.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Ok)
}

fn print(flow: &Flow, found: &Result<Vec<Finding>, WireError>) {
    println!("flow {}: {} to {}", flow.name, flow.source.name, flow.sink.name);
    match found {
        Ok(findings) => findings.iter().for_each(|finding| println!("  {finding}")),
        Err(error) => println!("  unreachable   {error}"),
    }
}

fn document(flow: &Flow, found: &Result<Vec<Finding>, WireError>) -> Value {
    let told = |finding: &Finding| json!({ "subject": finding.subject, "verdict": finding.verdict.word(), "says": finding.says });
    let findings: Vec<Value> = found.iter().flatten().map(told).collect();
    let error = found.as_ref().err().map(ToString::to_string);
    json!({ "flow": flow.name, "source": flow.source.name, "target": flow.sink.name, "findings": findings, "unreachable": error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_changed_counts_most() {
        assert_eq!(worst(&[Exit::Ok, Exit::Unavailable, Exit::NotPermitted]), Exit::NotPermitted);
        assert_eq!(worst(&[Exit::NotPermitted, Exit::Config]), Exit::Config);
        assert_eq!(worst(&[Exit::Ok, Exit::Unavailable]), Exit::Unavailable);
        assert_eq!(worst(&[]), Exit::Ok);
    }
}
