//! The configuration file of a verb: the one that is named, or the first that exists where people put it.

use std::path::{Path, PathBuf};

use prometheus_client::registry::Registry;

use super::refuse;
use crate::bridge::identity::Identities;
use crate::config::Config;
use crate::error::Exit;
use crate::flow::{self, Flow};

/// Where a configuration file is looked for if none is named, in this order.
pub(super) const PLACES: [&str; 2] = ["./sharebridge.toml", "/etc/sharebridge/sharebridge.toml"];

/// The argument that names a configuration file.
#[derive(Debug, clap::Args)]
pub struct ConfigFile {
    /// The configuration file [default: ./sharebridge.toml, else /etc/sharebridge/sharebridge.toml]
    #[arg(long = "config", value_name = "FILE")]
    pub path: Option<PathBuf>,
}

impl ConfigFile {
    /// Finds and reads the file, and the certificates and secrets that it names; what is wrong is said on the standard error.
    pub(super) fn load(&self) -> Result<(PathBuf, Config), Exit> {
        let path = self.path.clone().or_else(|| first(&PLACES)).ok_or_else(|| {
            eprintln!(
                "error: no configuration file: there is neither {} nor {}; write one with sharebridge init, or name yours with --config FILE",
                PLACES[0], PLACES[1]
            );
            Exit::Config
        })?;
        let loaded = Config::load(&path).and_then(|config| flow::check(&path, &config).map(|()| config));
        match loaded {
            Ok(config) => Ok((path, config)),
            Err(errors) => Err(refuse(&errors)),
        }
    }

    /// The flows of the file, and what is known of their clusters: nothing yet.
    pub(super) fn flows(&self) -> Result<(PathBuf, Vec<Flow>, Identities), Exit> {
        let (path, config) = self.load()?;
        let flows = Flow::all(config.flows, &mut Registry::default());
        let identities = Identities::new(&flows);
        Ok((path, flows, identities))
    }
}

fn first(places: &[&str]) -> Option<PathBuf> {
    places.iter().map(PathBuf::from).find(|path| Path::is_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_exists_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (near, far) = (at("near.toml"), at("far.toml"));
        assert_eq!(first(&[&near, &far]), None);
        std::fs::write(&far, "").unwrap();
        assert_eq!(first(&[&near, &far]), Some(far.clone().into()));
        std::fs::write(&near, "").unwrap();
        assert_eq!(first(&[&near, &far]), Some(near.into()));
    }
}
