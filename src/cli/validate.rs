//! `sharebridge validate`: whether a configuration file is good.

use super::ConfigFile;
use crate::error::Exit;

/// Arguments of `validate`.
#[derive(Debug, clap::Args)]
pub struct Validate {
    /// Which file
    #[command(flatten)]
    pub config: ConfigFile,
}

impl Validate {
    /// Checks the file without reaching any cluster, and says how many flows it has, or all that is wrong.
    pub fn run(&self) -> Exit {
        let (file, config) = match self.config.load() {
            Ok(loaded) => loaded,
            Err(exit) => return exit,
        };
        let noun = match config.flows.len() {
            1 => "flow",
            _ => "flows",
        };
        println!("{}: ok, {} {noun}", file.display(), config.flows.len());
        Exit::Ok
    }
}
