//! The command line: what may be typed, and one small file a verb.

mod validate;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use validate::Validate;

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
    /// Check a configuration file and name all that is wrong with it
    Validate(Validate),
    /// Copy until told to stop
    Run(Run),
    /// Compare the topics of flows on source and sink, record by record
    Verify(Verify),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Compare only this flow
    #[arg(long, value_name = "NAME")]
    pub flow: Option<String>,
}

#[cfg(test)]
mod tests {
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
            Ok(Verb::Run(Run { config })) if config.ends_with("a.toml")
        ));
        assert!(matches!(
            parse("sharebridge verify --config a.toml --flow orders"),
            Ok(Verb::Verify(Verify { flow: Some(flow), .. })) if flow == "orders"
        ));
        assert!(matches!(
            parse("sharebridge validate --config a.toml"),
            Ok(Verb::Validate(_))
        ));
        assert!(parse("sharebridge run").is_err());
        assert!(parse("sharebridge validate --config a.toml --flow x").is_err());
    }
}
