use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// Makes brokers and tools log to standard error.
const LOG4J: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/log4j2.xml");

/// The version of MirrorMaker that `scripts/setup mirrormaker` fetches.
const MIRRORMAKER_VERSION: &str = "4.3.1";

/// How a JVM runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jvm {
    /// Largest heap, in MiB.
    pub heap_mb: u32,
    /// Whether it starts with little processor time and runs slower for it: the simple compiler, one thread for garbage.
    pub is_thrifty: bool,
}

/// A command line tool, which ends within a second or two.
pub(crate) const TOOL: Jvm = Jvm { heap_mb: 256, is_thrifty: true };

/// The jars of one Kafka version, as `scripts/setup` cached them.
#[derive(Debug, Clone)]
pub(crate) struct Kafka {
    jars: PathBuf,
    options: Vec<String>,
}

impl Kafka {
    /// Finds the jars of `version`.
    ///
    /// Errors: says how to get them if they are not there.
    pub(crate) fn locate(version: &str) -> anyhow::Result<Self> {
        Self::in_cache("kafka", version, version)
    }

    /// Finds the jars of MirrorMaker. Errors: as above.
    pub(crate) fn locate_mirrormaker() -> anyhow::Result<Self> {
        Self::in_cache("mirrormaker", MIRRORMAKER_VERSION, "mirrormaker")
    }

    fn in_cache(name: &str, version: &str, setup_argument: &str) -> anyhow::Result<Self> {
        let cache = cache()?;
        let jars = cache.join(format!("{name}-{version}"));
        if !jars.is_dir() {
            bail!("{name} {version} is not in {}: run scripts/setup {setup_argument}", cache.display());
        }
        Ok(Self { jars, options: Vec::new() })
    }

    /// The same with more options for each Java process.
    pub(crate) fn with_options(self, options: &[String]) -> Self {
        Self { options: options.to_vec(), ..self }
    }

    /// A Java command that runs `main_class`.
    ///
    /// Its temporary files go to its working directory.
    pub(crate) fn java(&self, main_class: &str, jvm: Jvm) -> Command {
        let mut java = Command::new("java");
        if jvm.is_thrifty {
            java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        }
        java.arg(format!("-Xmx{}m", jvm.heap_mb))
            .arg(format!("-Dlog4j2.configurationFile={LOG4J}"))
            // Both keep a killed JVM from leaving files in /tmp: its native libraries and its counters.
            .args(["-Djava.io.tmpdir=.", "-XX:-UsePerfData"])
            .args(&self.options)
            .arg("-cp")
            .arg(self.jars.join("*"))
            .arg(main_class);
        java
    }
}

/// The same folder that `scripts/setup` fills.
fn cache() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("SHAREBRIDGE_CACHE") {
        return Ok(path.into());
    }
    if let Some(path) = std::env::var_os("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(path).join("sharebridge"));
    }
    let home = std::env::var_os("HOME").context("neither SHAREBRIDGE_CACHE, XDG_CACHE_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/sharebridge"))
}
