use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt;

use anyhow::Context;

/// Waits for the end of its parent, then kills whatever works in the folder `$1` and removes it.
///
/// Processes are found by their working directory: there is no list of pids that could be stale or incomplete.
/// The loop repeats until none is left, since a killed process still writes until it is gone.
const GUARD: &str = r#"
cat >/dev/null
while
    busy=
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$1" ]; then
            kill -KILL "${process#/proc/}" 2>/dev/null
            busy=1
        fi
    done
    [ "$busy" ]
do
    sleep 0.05
done
rm -rf -- "$1"
"#;

/// A temporary folder that ends with its owner, together with every process started in it.
///
/// A shell holds the far end of a pipe to us. When the pipe closes, by drop, by exit or because we were killed,
/// the shell cleans up. So even a folder in a `static`, which is never dropped, leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    guard: Child,
}

impl Folder {
    /// Makes a fresh folder whose name shows `name`.
    pub(crate) fn create(name: &str) -> anyhow::Result<Self> {
        let fresh = tempfile::Builder::new()
            .prefix(&format!("sharebridge-{name}-"))
            .tempdir()
            .context("making a temporary folder")?;
        let path = fresh.path().canonicalize()?;
        // A group of its own: a Ctrl-C in the terminal must not reach the one that cleans up.
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting the guard of a temporary folder")?;
        let _guarded = fresh.keep();
        Ok(Self { path, guard })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts `command` in this folder, so that it ends with it; its output is appended to `log`.
    pub(crate) fn spawn(&self, mut command: Command, log: &Path) -> anyhow::Result<Child> {
        let output = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening {}", log.display()))?;
        command
            .current_dir(&self.path)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))
    }
}

impl Drop for Folder {
    /// Returns when all is gone.
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        if let Err(error) = self.guard.wait() {
            eprintln!("the guard of {} is lost: {error}", self.path.display());
        }
    }
}

/// The last `bytes_max` bytes of a log file, for error messages.
pub(crate) fn tail(log: &Path, bytes_max: usize) -> String {
    let mut text = Vec::new();
    match std::fs::File::open(log).and_then(|mut file| file.read_to_end(&mut text)) {
        Ok(_) => String::from_utf8_lossy(&text[text.len().saturating_sub(bytes_max)..]).into_owned(),
        Err(error) => format!("{}: {error}", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until `path` is gone.
    fn assert_goes(path: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while path.exists() {
            assert!(Instant::now() < deadline, "{} is left", path.display());
            sleep(Duration::from_millis(10));
        }
    }

    /// Prints its folder and a process in it, and would go on forever: the test below kills it.
    #[test]
    #[ignore = "the victim of its_end_survives_a_killed_parent"]
    fn victim() {
        let folder = Folder::create("victim").unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut child = folder.spawn(command, &folder.path().join("log")).unwrap();
        println!("\n{}\n/proc/{}", folder.path().display(), child.id());
        child.wait().unwrap();
    }

    #[test]
    fn its_end_survives_a_killed_parent() {
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "folder::tests::victim", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(parent.stdout.take().unwrap());
        let paths: Vec<PathBuf> = output
            .lines()
            .map(Result::unwrap)
            .filter(|line| line.starts_with('/'))
            .take(2)
            .map(PathBuf::from)
            .collect();
        assert!(paths.iter().all(|path| path.exists()) && paths.len() == 2, "{paths:?}");
        parent.kill().unwrap();
        parent.wait().unwrap();
        paths.iter().for_each(|path| assert_goes(path));
    }

    #[test]
    fn all_is_gone_when_drop_returns() {
        let folder = Folder::create("dropped").unwrap();
        let path = folder.path().to_owned();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do echo busy >> file; done"]);
        let mut child = folder.spawn(command, &path.join("log")).unwrap();
        drop(folder);
        assert!(!path.exists());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_tail_is_the_end_of_the_log() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\nlast").unwrap();
        assert_eq!(tail(file.path(), 4), "last");
        assert_eq!(tail(file.path(), 100), "first\nlast");
    }
}
