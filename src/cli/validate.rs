//! `sharebridge validate`: whether a configuration file is good.

use std::path::PathBuf;

use crate::config::{Config, ConfigErrors};
use crate::flow;

/// Arguments of `validate`.
#[derive(Debug, clap::Args)]
pub struct Validate {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

impl Validate {
    /// Checks the file without reaching any cluster, and returns the line to print.
    ///
    /// Errors: all that is wrong with the file, one line each.
    pub fn run(&self) -> Result<String, ConfigErrors> {
        let config = Config::load(&self.config)?;
        flow::check(&self.config, &config)?;
        let noun = match config.flows.len() {
            1 => "flow",
            _ => "flows",
        };
        let file = self.config.display();
        Ok(format!("{file}: ok, {} {noun}", config.flows.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_many_flows_are_good() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("sharebridge.toml");
        let clusters = "clusters.a.bootstrap.servers = 'a:1'\nclusters.b.bootstrap.servers = 'b:1'\n";
        let flow = |name: &str| {
            format!("[flows.{name}]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['{name}']\n")
        };
        let validate = Validate { config };
        let said = |text: String| {
            std::fs::write(&validate.config, text).expect("the folder is writable");
            validate.run().map_err(|errors| errors.to_string())
        };
        let file = validate.config.display();

        let one = format!("{clusters}{}", flow("x"));
        assert_eq!(said(one.clone()), Ok(format!("{file}: ok, 1 flow")));
        assert_eq!(said(one + &flow("y")), Ok(format!("{file}: ok, 2 flows")));
        let none = format!("{file}: there is no flow, add a table [flows.<name>]");
        assert_eq!(said(clusters.to_owned()), Err(none));
        Ok(())
    }
}
