//! The command line: what may be typed, and one small file a verb.

mod check;
mod dead_letters;
mod file;
mod init;
#[cfg(feature = "kerberos")]
mod kerberos;
mod plan;
mod run;
mod status;
mod switch;
mod validate;
mod verify;

use std::fmt::Display;

use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

pub use check::Check;
pub use dead_letters::DeadLettersArgs;
pub use file::ConfigFile;
pub use init::Init;
#[cfg(feature = "kerberos")]
pub use kerberos::KerberosHelper;
pub use plan::PlanArgs;
pub use run::Run;
pub use status::Status;
pub use switch::SwitchArgs;
pub use validate::Validate;
pub use verify::Verify;

use crate::config::ConfigErrors;
use crate::error::Exit;
#[cfg(feature = "kerberos")]
use crate::wire::sasl::kerberos::HELPER_VERB;

/// Copies topics between Kafka clusters through share groups and transactions.
#[derive(Debug, Parser)]
#[command(name = "sharebridge", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a small configuration file to begin with
    Init(Init),
    /// Check a configuration file and name all that is wrong with it
    Validate(Validate),
    /// Ask both clusters whether the flows can work as they are configured, changing nothing
    Check(Check),
    /// Say what run would set on both clusters, and what it would copy, changing nothing
    Plan(PlanArgs),
    /// Copy until told to stop
    Run(Run),
    /// Move a flow's position between its share group and its consumer group, with all workers stopped
    Switch(SwitchArgs),
    /// List, show or replay what a flow could not deliver
    DeadLetters(DeadLettersArgs),
    /// Show what a running process does
    Status(Status),
    /// Compare topics on two clusters, those of flows or any two, record by record
    Verify(Verify),
    /// Speak Kerberos for another process of this program
    #[cfg(feature = "kerberos")]
    #[command(hide = true, name = HELPER_VERB)]
    KerberosHelper(KerberosHelper),
}

impl Cli {
    /// Does what was asked for, and says how it went.
    pub fn dispatch(self) -> Exit {
        match self.verb {
            Verb::Init(init) => init.run(),
            Verb::Validate(validate) => validate.run(),
            Verb::Check(check) => check.run(),
            Verb::Plan(plan) => plan.run(),
            Verb::Run(run) => run.run(),
            Verb::Switch(switch) => switch.run(),
            Verb::DeadLetters(letters) => letters.run(),
            Verb::Status(status) => status.run(),
            Verb::Verify(verify) => verify.run(),
            #[cfg(feature = "kerberos")]
            Verb::KerberosHelper(helper) => helper.run(),
        }
    }
}

/// The exit of a verb whose configuration is wrong.
fn refuse(errors: &ConfigErrors) -> Exit {
    eprintln!("{errors}");
    Exit::Config
}

/// A runtime for a verb that asks clusters or a process, and then ends.
fn runtime() -> Result<Runtime, Exit> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| fail(format_args!("no runtime: {error}")))
}

/// The exit of a verb that failed.
fn fail(error: impl Display) -> Exit {
    eprintln!("error: {error}");
    Exit::Failed
}

#[cfg(test)]
mod tests {
    use super::dead_letters::Action;
    use super::switch::Side;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn verbs_are_parsed() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.verb);
        assert!(matches!(
            parse("sharebridge run --config a.toml"),
            Ok(Verb::Run(Run { config: ConfigFile { path: Some(path) } })) if path.ends_with("a.toml")
        ));
        assert!(matches!(parse("sharebridge run"), Ok(Verb::Run(Run { config: ConfigFile { path: None } }))));
        assert!(matches!(
            parse("sharebridge verify --config a.toml --flow orders"),
            Ok(Verb::Verify(Verify { flow: Some(flow), .. })) if flow == "orders"
        ));
        assert!(matches!(
            parse("sharebridge verify --source a:1 --target b:1 --topic orders --target-topic copies --json --wait 5"),
            Ok(Verb::Verify(Verify { target_topic: Some(topic), json: true, wait: 5, .. })) if topic == "copies"
        ));
        assert!(matches!(parse("sharebridge validate --config a.toml"), Ok(Verb::Validate(_))));
        assert!(
            matches!(parse("sharebridge init"), Ok(Verb::Init(Init { file })) if file.ends_with("sharebridge.toml"))
        );
        assert!(matches!(
            parse("sharebridge status --address 127.0.0.1:1 --watch"),
            Ok(Verb::Status(Status { address: Some(_), watch: true, .. }))
        ));
        assert!(matches!(
            parse("sharebridge switch orders --to share --topic a --topic b --dry-run"),
            Ok(Verb::Switch(SwitchArgs { flow, to: Side::Share, topics, dry_run: true, json: false, .. }))
                if flow == "orders" && topics == ["a", "b"]
        ));
        assert!(matches!(
            parse("sharebridge dead-letters replay orders --letter 0:7 --dry-run"),
            Ok(Verb::DeadLetters(DeadLettersArgs { action: Action::Replay { letters, dry_run: true, .. } })) if letters == [(0, 7)]
        ));
        assert!(parse("sharebridge switch orders").is_err());
        assert!(matches!(parse("sharebridge verify"), Ok(Verb::Verify(Verify { source: None, .. }))));
        assert!(parse("sharebridge status --address 127.0.0.1:1 --config a.toml").is_err());
        assert!(parse("sharebridge verify --source a:1 --target b:1").is_err());
        assert!(parse("sharebridge verify --config a.toml --target b:1").is_err());
        assert!(parse("sharebridge verify --source a:1 --target b:1 --topic orders --flow orders").is_err());
        assert!(parse("sharebridge verify --config a.toml --source a:1 --target b:1 --topic orders").is_err());
        assert!(parse("sharebridge validate --config a.toml --flow x").is_err());
    }
}
