use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::broker::{Broker, LOG_TAIL_BYTES_MAX};
use crate::folder::{Folder, tail};
use crate::kafka::{Jvm, Kafka, TOOL};
use crate::properties::{Node, Ports, server};
use crate::{Proxy, ports};

/// Starts that may fail because another process took a port between our look and the broker's bind.
pub(crate) const START_TRIES_MAX: usize = 3;

/// What three brokers on a small machine save: memory for threads, buffers and the log cleaner that tests do not need.
const SPARING: [(&str, &str); 5] = [
    ("num.network.threads", "2"),
    ("num.io.threads", "4"),
    ("background.threads", "4"),
    ("group.coordinator.threads", "1"),
    ("log.cleaner.dedupe.buffer.size", "4194304"),
];

/// What [`Cluster::start`] shall start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Shows in the name of the cluster's folder.
    pub name: String,
    /// A Kafka version that `scripts/setup` has fetched.
    pub version: String,
    /// Brokers. One is its own controller, several have one in a node of its own; from 3 on, topics have 3 replicas.
    pub brokers: usize,
    /// Broker properties, over those that suit tests; `{broker}` and `{controller}` in a value are the node's ports.
    pub overrides: Vec<(String, String)>,
    /// Feature levels to format with, over those of a fresh cluster, such as `("transaction.version", 1)`.
    pub features: Vec<(String, u16)>,
    /// SCRAM credentials to format with, such as `SCRAM-SHA-256=[name=a,password=b]`.
    pub credentials: Vec<String>,
    /// Each node.
    pub jvm: Jvm,
    /// More options of each Java process, such as `-Dname=value`.
    pub java_options: Vec<String>,
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
            credentials: Vec::new(),
            jvm: Jvm { heap_mb: 512, is_thrifty: false },
            java_options: Vec::new(),
        }
    }

    /// Three brokers of the newest Kafka that we know, small ones.
    pub fn three(name: &str) -> Self {
        let overrides = SPARING.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        Self { brokers: 3, overrides, jvm: Jvm { heap_mb: 320, is_thrifty: true }, ..Self::named(name) }
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
    /// `None` where the only broker is the controller.
    controller: Option<Broker>,
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
        let kafka = Kafka::locate(&spec.version)?.with_options(&spec.java_options);
        let folder = Arc::new(Folder::create(&spec.name)?);
        let mut free = ports::free(spec.brokers + 1)?;
        let ports = Ports { controller: free.remove(0), brokers: free };
        let mut paths = Vec::new();
        for id in 1..=ports.controller_id() {
            let data = folder.path().join(format!("data-{id}"));
            let path = folder.path().join(format!("node-{id}.properties"));
            std::fs::write(&path, server(&Node { id, ports: &ports, data: &data, overrides: &spec.overrides }))?;
            paths.push(path);
        }
        format_nodes(&kafka, &folder, spec, &paths)?;
        let new = |path| Broker::new(Arc::clone(&folder), kafka.clone(), spec.jvm, path);
        let mut brokers: Vec<Broker> = paths.into_iter().map(new).collect();
        let controller = brokers.drain(spec.brokers..).next();
        let addresses: Vec<String> = ports.brokers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Ok(Self { bootstrap: addresses.join(","), kafka, brokers, controller, folder })
    }

    /// `host:port` of every broker, joined by commas.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Where its files are, and others may be that are to end with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The brokers; node.id is the position plus 1.
    pub fn brokers(&self) -> &[Broker] {
        &self.brokers
    }

    /// The broker with the node.id `id`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn broker(&self, id: i32) -> &Broker {
        let position = usize::try_from(id - 1).expect("ids of brokers begin with 1");
        &self.brokers[position]
    }

    /// The brokers, then the controller where it has a node of its own.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.iter().chain(&self.controller)
    }

    /// Starts the nodes that are down, with their old data and ports; returns when the cluster answers.
    pub fn start_again(&self) -> anyhow::Result<()> {
        for node in self.nodes().filter(|node| node.pid().is_none()) {
            node.start()?;
        }
        self.wait_ready()
    }

    /// Brings all nodes back, whether they are down or suspended; returns when the cluster answers.
    pub fn recover(&self) -> anyhow::Result<()> {
        self.nodes().filter(|node| node.pid().is_some()).try_for_each(Broker::resume)?;
        self.start_again()
    }

    /// Shuts all nodes down in order (SIGTERM); returns when they are down.
    pub fn stop(&self) -> anyhow::Result<()> {
        // All brokers at once: one that waits for its peers must not wait alone. They hand over to the controller, so it goes last.
        let running: Vec<&Broker> = self.brokers.iter().filter(|broker| broker.pid().is_some()).collect();
        running.iter().try_for_each(|broker| broker.terminate())?;
        running.iter().try_for_each(|broker| broker.stop())?;
        self.controller.iter().filter(|controller| controller.pid().is_some()).try_for_each(Broker::stop)
    }

    /// Kills all nodes (SIGKILL); returns when they are down.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.nodes().try_for_each(Broker::kill)
    }

    /// Stops all nodes from running (SIGSTOP): connections stay open and nobody answers.
    pub fn suspend(&self) -> anyhow::Result<()> {
        self.nodes().try_for_each(Broker::suspend)
    }

    /// Lets suspended nodes run on (SIGCONT).
    pub fn resume(&self) -> anyhow::Result<()> {
        self.nodes().try_for_each(Broker::resume)
    }

    /// The end of each node's log.
    pub fn log_tail(&self) -> String {
        let mut text = String::new();
        for node in self.nodes() {
            let log = node.log();
            writeln!(text, "{}:\n{}", log.display(), tail(log, LOG_TAIL_BYTES_MAX)).expect("a String takes all");
        }
        text
    }

    /// Runs one of Kafka's command line tools, such as `org.apache.kafka.tools.consumer.group.ShareGroupCommand`,
    /// against this cluster and returns its standard output. Costs a JVM: about a second.
    ///
    /// Errors: the tool failed, with all that it said.
    pub fn tool(&self, main_class: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut java = self.kafka.java(main_class, TOOL);
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
        let mut java: Command = kafka.java("kafka.tools.StorageTool", TOOL);
        java.args(["format", "-t", &id, "-c"]).arg(path);
        for (feature, level) in &spec.features {
            java.args(["--feature", &format!("{feature}={level}")]);
        }
        for credential in &spec.credentials {
            java.args(["--add-scram", credential]);
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
