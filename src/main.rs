//! sharebridge: parse, call the verb, end with its exit code.

use std::process::ExitCode;

use clap::Parser;
use sharebridge::cli::Cli;
use sharebridge::error::Exit;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => cli.dispatch().into(),
        Err(said) => {
            // Help and version are asked for; everything else is a mistake. A closed terminal is neither.
            let _ = said.print();
            if said.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() }
        }
    }
}
