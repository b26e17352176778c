//! The bridge as a process of its own, to be killed and measured.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::Signal;

use crate::folder::{Folder, tail};
use crate::proc;

/// How much of the log goes into an error message.
const LOG_TAIL_BYTES_MAX: usize = 4 * 1024;

/// The configuration within the folder.
const CONFIG_FILE: &str = "sharebridge.toml";

/// A `sharebridge run` of its own. Dropped, it is killed, and its files are removed.
#[derive(Debug)]
pub struct Bridge {
    child: Child,
    log: PathBuf,
    folder: Folder,
}

impl Bridge {
    /// Starts `binary run --config FILE` with `config` in FILE. It answers later, on the `status.address` of its config.
    pub fn start(binary: &Path, config: &str) -> anyhow::Result<Self> {
        Self::start_in(binary, config, &[])
    }

    /// The same with these variables in its environment.
    pub fn start_in(binary: &Path, config: &str, variables: &[(String, PathBuf)]) -> anyhow::Result<Self> {
        let folder = Folder::create("bridge")?;
        let file = folder.path().join(CONFIG_FILE);
        let log = folder.path().join("bridge.log");
        std::fs::write(&file, config)?;
        let mut command = Command::new(std::path::absolute(binary)?);
        command.args(["run", "--config"]).arg(&file).envs(variables.iter().cloned());
        let child = folder.spawn(command, &log)?;
        Ok(Self { child, log, folder })
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it runs, with its configuration and its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder().join(CONFIG_FILE)
    }

    /// Kills it (SIGKILL); returns when it is gone.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to drain and end (SIGTERM).
    ///
    /// Errors: it has ended already.
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops it from running (SIGSTOP), as a long pause of its machine would.
    pub fn suspend(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it run on (SIGCONT).
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Waits for its end, at most `deadline`.
    ///
    /// Errors: it still runs then; with the end of its log.
    pub fn wait_exit(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        match proc::wait(&mut self.child, Instant::now() + deadline)? {
            Some(status) => Ok(status),
            None => bail!("the bridge still runs after {deadline:?}: {}", tail(&self.log, LOG_TAIL_BYTES_MAX)),
        }
    }

    /// Its processor time so far, in seconds, user and system together.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        proc::cpu_seconds(self.pid())
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_rss_bytes(&self) -> anyhow::Result<u64> {
        proc::peak_rss_bytes(self.pid())
    }

    /// All that it wrote to standard output and standard error.
    pub fn log(&self) -> String {
        tail(&self.log, usize::MAX)
    }

    fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the bridge ended with {status}: {}", tail(&self.log, LOG_TAIL_BYTES_MAX));
        }
        proc::send(&self.child, signal)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("the bridge {} could not be killed: {error}", self.pid());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn start(script: &str) -> Bridge {
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-in");
        Bridge::start(&stand_in, script).unwrap()
    }

    #[test]
    fn it_gets_its_config_and_its_exit_code_is_seen() {
        let mut bridge = start(r#"echo "$1 $2"; exit 78"#);
        let status = bridge.wait_exit(Duration::from_secs(20)).unwrap();
        assert_eq!(status.code(), Some(78));
        assert_eq!(bridge.log(), "run --config\n");
        let ended = bridge.terminate().unwrap_err().to_string();
        assert!(ended.contains("78"), "{ended}");
    }

    #[test]
    fn it_is_killed_and_its_folder_removed_on_drop() {
        let bridge = start("exec sleep 1000");
        let (folder, pid) = (bridge.folder().to_owned(), bridge.pid());
        assert!(folder.is_dir());
        drop(bridge);
        assert!(!folder.exists());
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_signal_shows_in_the_exit_status() {
        let mut bridge = start("exec sleep 1000");
        bridge.wait_exit(Duration::ZERO).unwrap_err();
        bridge.suspend().unwrap();
        bridge.resume().unwrap();
        bridge.terminate().unwrap();
        assert_eq!(bridge.wait_exit(Duration::from_secs(20)).unwrap().signal(), Some(15));
    }
}
