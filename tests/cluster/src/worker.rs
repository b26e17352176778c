use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::http::http_get;
use crate::metrics::Metrics;
use crate::process::Bridge;
use crate::{Pair, ports, proc};

/// How long a worker may take until its status server gives the answer that is waited for.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// How long an orderly end may take; a worker drains for at most 25 s unless told otherwise.
const END_DEADLINE: Duration = Duration::from_secs(40);

/// Keys of the configuration with their values, in TOML.
pub type Settings = Vec<(String, String)>;

/// One flow, from the source of a pair to its target.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Its topics, which exist on the source.
    pub topics: Vec<String>,
    /// The share group; workers of one group share the work.
    pub group: String,
    /// More keys of the flow.
    pub settings: Settings,
    /// The keys of both clusters where they are not reached by their plain listeners.
    pub ends: Option<[Settings; 2]>,
}

impl Flow {
    /// What `binary verb` says of it, before any worker is started. Errors: with what it says, where it ends with another code than 0.
    pub fn ask(&self, binary: &Path, pair: &Pair, verb: &str) -> anyhow::Result<String> {
        let mut file = tempfile::NamedTempFile::new()?;
        let status = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free_port()?));
        std::io::Write::write_all(&mut file, self.config(pair, status).as_bytes())?;
        let output = Command::new(binary).arg(verb).arg("--config").arg(file.path()).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{verb} ended with {}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok(said)
    }

    /// The configuration of a worker that copies it.
    fn config(&self, pair: &Pair, status: SocketAddr) -> String {
        let lines = |settings: &Settings| {
            settings.iter().fold(String::new(), |mut text, (key, value)| {
                writeln!(text, "{key} = {value}").expect("a String takes all");
                text
            })
        };
        let plain = |bootstrap: &str| vec![("bootstrap.servers".to_owned(), format!("{bootstrap:?}"))];
        let [source, target] =
            self.ends.clone().unwrap_or_else(|| [plain(pair.source.bootstrap()), plain(pair.target.bootstrap())]);
        format!(
            "[bridge]
status.address = \"{status}\"

[clusters.source]
{}
[clusters.target]
{}
[flows.copy]
source.cluster = \"source\"
sink.cluster = \"target\"
topics.names = {:?}
share.group.id = {:?}
{}",
            lines(&source),
            lines(&target),
            self.topics,
            self.group,
            lines(&self.settings),
        )
    }
}

/// A `sharebridge run` of one flow, and its status server.
#[derive(Debug)]
pub struct Worker {
    bridge: Bridge,
    address: SocketAddr,
}

impl Worker {
    /// Starts `binary run`; it answers later.
    pub fn start(binary: &Path, pair: &Pair, flow: &Flow) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free_port()?));
        let bridge = Bridge::start(binary, &flow.config(pair, address))?;
        Ok(Self { bridge, address })
    }

    /// Waits until `path` of the status server is answered with 200: `/live` or `/ready`.
    ///
    /// Errors: the worker ended, or said something else for 60 s; with the end of its log.
    pub fn wait_for(&mut self, path: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + ANSWER_DEADLINE;
        loop {
            if let Ok(status) = self.bridge.wait_exit(Duration::ZERO) {
                bail!("the worker ended with {status}: {}", self.bridge.log());
            }
            match http_get(self.address, path) {
                Ok((200, _)) => return Ok(()),
                answer if Instant::now() >= deadline => {
                    bail!("{}{path}: {answer:?} after {ANSWER_DEADLINE:?}: {}", self.address, self.bridge.log());
                }
                _ => sleep(proc::POLL),
            }
        }
    }

    /// Its metrics now. Errors: with its log.
    pub fn metrics(&self) -> anyhow::Result<Metrics> {
        Metrics::of(self.address).with_context(|| format!("the worker does not answer: {}", self.bridge.log()))
    }

    /// Ends it in order (SIGTERM). Errors: it failed, or took too long.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.bridge.terminate()?;
        let status = self.bridge.wait_exit(END_DEADLINE)?;
        if !status.success() {
            bail!("the worker ended with {status}: {}", self.bridge.log());
        }
        Ok(())
    }

    /// The process.
    pub fn bridge(&mut self) -> &mut Bridge {
        &mut self.bridge
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.bridge.config()
    }

    /// Where its status server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its processor time so far, in seconds.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.bridge.cpu_seconds()
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_rss_bytes(&self) -> anyhow::Result<u64> {
        self.bridge.peak_rss_bytes()
    }
}

/// The `sharebridge` that was built beside the program that asks. Errors: there is none.
pub fn built_beside() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("sharebridge");
    if !binary.is_file() {
        bail!("{} is missing: run cargo build --release --workspace", binary.display());
    }
    Ok(binary)
}
