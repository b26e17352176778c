//! `sharebridge plan`: what `run` would do, with nothing done.

use serde_json::{Value, json};

use super::{ConfigFile, runtime};
use crate::bridge::check::patiently;
use crate::bridge::plan::{Plan, plan};
use crate::error::Exit;
use crate::flow::Flow;
use crate::wire::WireError;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Which file
    #[command(flatten)]
    pub config: ConfigFile,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

impl PlanArgs {
    /// Prints a plan for each flow.
    pub fn run(&self) -> Exit {
        self.ask().unwrap_or_else(|exit| exit)
    }

    fn ask(&self) -> Result<Exit, Exit> {
        let (_, flows, identities) = self.config.flows()?;
        let runtime = runtime()?;
        let mut documents = vec![];
        for flow in flows {
            match runtime.block_on(patiently(|| plan(&flow, &identities))) {
                Ok(plan) if self.json => documents.push(document(&flow, &plan)),
                Ok(plan) => println!("flow {}: {} to {}\n{plan}", flow.name, flow.source.name, flow.sink.name),
                Err(error) => {
                    eprintln!("error: flow {}: {error}", flow.name);
                    return Err(exit(&error));
                }
            }
        }
        if self.json {
            println!("{}", json!({ "flows": documents }));
        }
        Ok(Exit::Ok)
    }
}

fn exit(error: &WireError) -> Exit {
    match error.code() {
        Some(code) if !code.is_retriable() => Exit::NotPermitted,
        _ => Exit::Unavailable,
    }
}

fn document(flow: &Flow, plan: &Plan) -> Value {
    let topics = plan.topics.iter().map(|topic| {
        json!({
            "source_topic": topic.source, "target_topic": topic.target, "partitions": topic.partitions, "records": topic.offsets,
            "bytes": topic.bytes
        })
    });
    let because = |(topic, reason): (&String, String)| json!({ "topic": topic, "reason": reason });
    let waiting = plan.waiting.iter().map(|(topic, reason)| because((topic, reason.clone())));
    let skipped = plan.skipped.iter().map(|(topic, reason)| because((topic, reason.to_string())));
    json!({
        "flow": flow.name, "source": flow.source.name, "target": flow.sink.name, "order": plan.order,
        "source_changes": plan.source, "target_changes": plan.target, "left_alone": plan.left,
        "topics": topics.collect::<Vec<_>>(), "waiting": waiting.collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>(),
        "seconds_at_least": plan.at_least.map(|time| time.as_secs_f64()),
    })
}
