//! `sharebridge switch`: moves the position of a flow between its share group and its consumer group.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{ConfigFile, runtime};
use crate::bridge::check::patiently;
use crate::bridge::switch::{Outcome, Partition, Switch, SwitchError, Switched};
use crate::config::Protocol;
use crate::error::Exit;
use crate::flow::Flow;
use crate::source::share::group::GroupError;
use crate::wire::WireError;

/// Arguments of `switch`.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    /// The flow, whose workers are all stopped
    pub flow: String,
    /// Which of its groups is to go on
    #[arg(long, value_name = "GROUP")]
    pub to: Side,
    /// Only this topic of the flow; may be given several times
    #[arg(long = "topic", value_name = "NAME")]
    pub topics: Vec<String>,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Print what is done as JSON
    #[arg(long)]
    pub json: bool,
    /// Which file
    #[command(flatten)]
    pub config: ConfigFile,
}

/// A group of a flow, in the words of `group.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// Its consumer group: what the share group has come to is committed for it
    Consumer,
    /// Its share group: it begins where the consumer group has come to
    Share,
}

impl Side {
    fn protocol(self) -> Protocol {
        match self {
            Self::Consumer => Protocol::Consumer,
            Self::Share => Protocol::Share,
        }
    }
}

impl SwitchArgs {
    /// Moves the position, and says from where to where.
    pub fn run(&self) -> Exit {
        self.switch().unwrap_or_else(|exit| exit)
    }

    fn switch(&self) -> Result<Exit, Exit> {
        let (path, flows, identities) = self.config.flows()?;
        let Some(flow) = flows.iter().find(|flow| flow.name == self.flow) else {
            eprintln!("error: {} has no flow {}", path.display(), self.flow);
            return Err(Exit::Usage);
        };
        let switch = Switch { to: self.to.protocol(), topics: self.topics.clone(), dry_run: self.dry_run };
        // What may pass by itself is asked again for a while.
        let ask = || async {
            match switch.run(flow, &identities).await {
                Err(SwitchError::Cluster(error)) => Err(error),
                answer => Ok(answer),
            }
        };
        let answer = match runtime()?.block_on(patiently(ask)) {
            Ok(answer) => answer,
            Err(error) => Err(error.into()),
        };
        match answer {
            Ok(switched) if self.json => println!("{}", document(flow, &switched, self.dry_run)),
            Ok(switched) => print!("{}", table(flow, &switched, self.dry_run)),
            Err(error) => {
                eprintln!("error: flow {}: {error}", flow.name);
                return Err(exit(&error));
            }
        }
        Ok(Exit::Ok)
    }
}

fn exit(error: &SwitchError) -> Exit {
    let of_wire = |error: &WireError| match error.code() {
        Some(code) if !code.is_retriable() => Exit::NotPermitted,
        _ => Exit::Unavailable,
    };
    match error {
        SwitchError::Cluster(error) | SwitchError::Group(GroupError::Cluster(error)) => of_wire(error),
        SwitchError::Group(GroupError::Clamped { .. }) => Exit::Config,
        SwitchError::NoTopic { .. } => Exit::Usage,
        SwitchError::Occupied { .. } | SwitchError::Joined { .. } | SwitchError::Rewritten { .. } => Exit::TryAgain,
        _ => Exit::NotPermitted,
    }
}

/// What is moved, repeated, and lost to retention, in all.
fn sums(partitions: &[Partition]) -> (u64, u64, u64) {
    partitions.iter().fold((0, 0, 0), |sums, partition| match partition.outcome {
        Outcome::Goes { repeated, removed, .. } => (sums.0 + 1, sums.1 + repeated, sums.2 + removed),
        _ => sums,
    })
}

/// A line for each partition, then the sums, then what is to be done.
fn table(flow: &Flow, Switched { from, to, partitions }: &Switched, dry_run: bool) -> String {
    let mut text = format!("flow {}: from the {from} to the {to}\n", flow.name);
    for partition in partitions {
        text += &format!("  {}-{}: {}\n", partition.topic, partition.partition, line(partition));
    }
    let (moved, repeated, removed) = sums(partitions);
    let would = if dry_run { "would be moved (dry run: nothing was changed)" } else { "moved" };
    text += &format!("{moved} of {} partitions {would}; at most {repeated} records are copied again", partitions.len());
    if removed > 0 {
        text += &format!("; {removed} records were removed by retention before they were copied");
    }
    text += "\n";
    if flow.protocol != to.protocol {
        let name = to.protocol.word();
        text += &format!("next: set group.protocol = \"{name}\" in [flows.{}], and start its workers\n", flow.name);
    }
    text
}

fn line(Partition { before, outcome, .. }: &Partition) -> String {
    let stood = before.map_or("nowhere".to_owned(), |before| before.to_string());
    match outcome {
        Outcome::Goes { to, repeated, removed } => {
            let mut text = format!("{stood} -> {to}");
            if *repeated > 0 {
                text += &format!(", at most {repeated} records are copied again");
            }
            if *removed > 0 {
                text += &format!(", {removed} were removed by retention before they were copied");
            }
            text
        }
        Outcome::Stays | Outcome::Ahead(_) | Outcome::Cut(_) => match before {
            Some(before) => format!("stays at {before}"),
            None => "is known to neither group: begins where the reset rule says".to_owned(),
        },
    }
}

fn document(flow: &Flow, Switched { from, to, partitions }: &Switched, dry_run: bool) -> Value {
    let partition = |Partition { topic, partition, before, outcome }: &Partition| {
        let (to, repeated, removed) = match outcome {
            Outcome::Goes { to, repeated, removed } => (Some(*to), *repeated, *removed),
            Outcome::Stays | Outcome::Ahead(_) | Outcome::Cut(_) => (*before, 0, 0),
        };
        json!({
            "topic": topic, "partition": partition, "before": before, "after": to, "repeated_at_most": repeated, "removed": removed
        })
    };
    let (moved, repeated, removed) = sums(partitions);
    json!({
        "flow": flow.name, "from": from.id, "to": to.id, "dry_run": dry_run, "moved": moved, "repeated_at_most": repeated,
        "removed": removed, "partitions": partitions.iter().map(partition).collect::<Vec<_>>(),
    })
}
