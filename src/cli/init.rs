//! `sharebridge init`: writes a small configuration file to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use super::file::PLACES;
use crate::error::Exit;

/// The file that is written.
const MINIMAL: &str = include_str!("../../config/examples/minimal.toml");

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// Where to write it
    #[arg(value_name = "FILE", default_value = PLACES[0])]
    pub file: PathBuf,
}

impl Init {
    /// Writes the file, unless there is one.
    pub fn run(&self) -> Exit {
        let file = self.file.display();
        let written = OpenOptions::new().write(true).create_new(true).open(&self.file);
        match written.and_then(|mut created| created.write_all(MINIMAL.as_bytes())) {
            Ok(()) => {
                println!(
                    "{file}: written; name your clusters and topics in it, then: sharebridge check --config {file}"
                );
                Exit::Ok
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                eprintln!("error: {file} exists and is left as it is; name another file, or remove it");
                Exit::Failed
            }
            Err(error) => {
                eprintln!("error: {file} cannot be written ({error}); name a file in a folder that you may write to");
                Exit::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn what_is_written_is_small_and_good_and_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let init = Init { file: folder.path().join("sharebridge.toml") };
        assert_eq!(init.run(), Exit::Ok);
        assert_eq!(Config::load(&init.file).map(|config| config.flows.len()).ok(), Some(1));
        assert!(MINIMAL.lines().count() <= 16, "minimal is small");
        std::fs::write(&init.file, "mine").unwrap();
        assert_eq!(init.run(), Exit::Failed);
        assert_eq!(std::fs::read_to_string(&init.file).unwrap(), "mine");
    }

    #[test]
    fn a_folder_that_is_not_there_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Init { file: folder.path().join("none/sharebridge.toml") }.run(), Exit::Failed);
    }
}
