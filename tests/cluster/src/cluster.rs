use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::broker::{Broker, LOG_TAIL_BYTES_MAX};
use crate::folder::{Folder, tail};
use crate::kafka::Kafka;
use crate::{Proxy, ports, properties};

/// Starts that may fail because another process took a port between our look and the broker's bind.
pub(crate) const START_TRIES_MAX: usize = 3;

/// Heap of a command line tool, in MiB.
const TOOL_HEAP_MB: u32 = 256;

/// What [`Cluster::start`] shall start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Shows in the name of the cluster's folder.
    pub name: String,
    /// A Kafka version that `scripts/setup` has fetched.
    pub version: String,
    /// Nodes, each of them broker and controller; from 3 on, internal topics have 3 replicas.
    pub brokers: usize,
    /// Broker properties, over those that suit tests; `{broker}` and `{controller}` in a value are the node's ports.
    pub overrides: Vec<(String, String)>,
    /// Feature levels to format with, over those of a fresh cluster, such as `("transaction.version", 1)`.
    pub features: Vec<(String, u16)>,
    /// Heap of each node, in MiB.
    pub heap_mb: u32,
}

impl Spec {
    /// One node of the newest Kafka that we know.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: "4.4.0".to_owned(),
            brokers: 1,
            overrides: Vec::new(),
            features: Vec::new(),
            heap_mb: 512,
        }
    }

    /// Sets a broker property.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.overrides.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Gives the only broker a second listener that is reached through a proxy. Clients of the proxy never leave it.
    #[must_use]
    pub fn behind(self, proxy: &Proxy) -> Self {
        let (port, broker_port) = proxy.ports();
        let broker = "PLAINTEXT://127.0.0.1:{broker}";
        self.with(
            "listeners",
            &format!("{broker},CONTROLLER://127.0.0.1:{{controller}},PROXIED://127.0.0.1:{broker_port}"),
        )
        .with("advertised.listeners", &format!("{broker},PROXIED://127.0.0.1:{port}"))
        .with("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT")
    }
}

/// A running Kafka cluster. Dropped, it takes its processes and files with it.
#[derive(Debug)]
pub struct Cluster {
    bootstrap: String,
    kafka: Kafka,
    // Before the folder: brokers die first, so that nobody writes while the folder is removed.
    brokers: Vec<Broker>,
    folder: Arc<Folder>,
}

impl Cluster {
    /// Formats and starts a fresh cluster; returns when it answers.
    ///
    /// Errors: the jars are missing (it says what to do), or a broker did not come up (with the end of its log).
    pub fn start(spec: Spec) -> anyhow::Result<Self> {
        let mut tries = 1;
        loop {
            let started = Self::format(&spec).and_then(|cluster| {
                cluster.start_again()?;
                Ok(cluster)
            });
            match started {
                Err(error) if tries < START_TRIES_MAX && is_port_clash(&error) => tries += 1,
                other => {
                    return other.with_context(|| format!("starting the cluster {}", spec.name));
                }
            }
        }
    }

    /// A formatted cluster on ports that are free now, not started.
    fn format(spec: &Spec) -> anyhow::Result<Self> {
        let kafka = Kafka::locate(&spec.version)?;
        let folder = Arc::new(Folder::create(&spec.name)?);
        let free = ports::free(2 * spec.brokers)?;
        let ports: Vec<(u16, u16)> = free.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let bootstrap: Vec<String> = ports.iter().map(|(broker, _)| format!("127.0.0.1:{broker}")).collect();
        let mut paths = Vec::new();
        for id in 1..=spec.brokers {
            let data = folder.path().join(format!("data-{id}"));
            let text =
                properties::server(&properties::Node { id, ports: &ports, data: &data, overrides: &spec.overrides });
            let path = folder.path().join(format!("broker-{id}.properties"));
            std::fs::write(&path, text)?;
            paths.push(path);
        }
        format_nodes(&kafka, &folder, spec, &paths)?;
        let new = |path| Broker::new(Arc::clone(&folder), kafka.clone(), spec.heap_mb, path);
        let brokers = paths.into_iter().map(new).collect();
        Ok(Self { bootstrap: bootstrap.join(","), kafka, brokers, folder })
    }

    /// `host:port` of every broker, joined by commas.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The nodes; node.id is the position plus 1.
    pub fn brokers(&self) -> &[Broker] {
        &self.brokers
    }

    /// Starts the brokers that are down, with their old data and ports; returns when the cluster answers.
    pub fn start_again(&self) -> anyhow::Result<()> {
        for broker in self.brokers.iter().filter(|broker| broker.pid().is_none()) {
            broker.start()?;
        }
        self.wait_ready()
    }

    /// Shuts all brokers down in order (SIGTERM); returns when they are down.
    pub fn stop(&self) -> anyhow::Result<()> {
        // All at once, then one by one: a node that waits for its peers must not wait alone.
        let running: Vec<&Broker> = self.brokers.iter().filter(|broker| broker.pid().is_some()).collect();
        running.iter().try_for_each(|broker| broker.terminate())?;
        running.iter().try_for_each(|broker| broker.stop())
    }

    /// Kills all brokers (SIGKILL); returns when they are down.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.brokers.iter().try_for_each(Broker::kill)
    }

    /// Stops all brokers from running (SIGSTOP): connections stay open and nobody answers.
    pub fn suspend(&self) -> anyhow::Result<()> {
        self.brokers.iter().try_for_each(Broker::suspend)
    }

    /// Lets suspended brokers run on (SIGCONT).
    pub fn resume(&self) -> anyhow::Result<()> {
        self.brokers.iter().try_for_each(Broker::resume)
    }

    /// The end of each broker's log.
    pub fn log_tail(&self) -> String {
        let mut text = String::new();
        for broker in &self.brokers {
            let log = broker.log();
            writeln!(text, "{}:\n{}", log.display(), tail(log, LOG_TAIL_BYTES_MAX)).expect("a String takes all");
        }
        text
    }

    /// Runs one of Kafka's command line tools, such as `org.apache.kafka.tools.consumer.group.ShareGroupCommand`,
    /// against this cluster and returns its standard output. Costs a JVM: about a second.
    ///
    /// Errors: the tool failed, with all that it said.
    pub fn tool(&self, main_class: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut java = self.kafka.java(main_class, TOOL_HEAP_MB);
        java.current_dir(self.folder.path()).args(["--bootstrap-server", &self.bootstrap]).args(args);
        let output = java.output().with_context(|| format!("running {main_class}"))?;
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{main_class} {args:?} ended with {}: {answer}{complaint}", output.status);
        }
        Ok(answer)
    }
}

/// Formats the data folders of all nodes at once, with one fresh cluster id.
fn format_nodes(kafka: &Kafka, folder: &Folder, spec: &Spec, paths: &[PathBuf]) -> anyhow::Result<()> {
    let id = cluster_id();
    let log = folder.path().join("format.log");
    let mut running: Vec<Child> = Vec::new();
    for path in paths {
        let mut java: Command = kafka.java("kafka.tools.StorageTool", TOOL_HEAP_MB);
        java.args(["format", "-t", &id, "-c"]).arg(path);
        for (feature, level) in &spec.features {
            java.args(["--feature", &format!("{feature}={level}")]);
        }
        running.push(folder.spawn(java, &log)?);
    }
    for mut child in running {
        let status = child.wait()?;
        if !status.success() {
            bail!("formatting ended with {status}: {}", tail(&log, LOG_TAIL_BYTES_MAX));
        }
    }
    Ok(())
}

/// A random cluster id in Kafka's form: 16 bytes in the URL-safe base64 alphabet, 22 characters.
///
/// The last one carries 2 bits, and Kafka refuses a leading dash, hence the two short alphabets.
fn cluster_id() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let draw = |alphabet: &[u8]| char::from(alphabet[fastrand::usize(..alphabet.len())]);
    let middle: String = (0..20).map(|_| draw(ALPHABET)).collect();
    format!("{}{middle}{}", draw(&ALPHABET[..62]), draw(b"AQgw"))
}

fn is_port_clash(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("Address already in use")
}
