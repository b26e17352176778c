use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::bail;

use crate::folder::{Folder, tail};
use crate::kafka::{Jvm, Kafka};
use crate::{proc, unique};

/// The process.
const JVM: Jvm = Jvm { heap_mb: 1024, is_thrifty: false };

/// How much of the log goes into an error message.
const LOG_TAIL_BYTES_MAX: usize = 4 * 1024;

/// What MirrorMaker logs when it will never copy anything, though its process stays.
const START_FAILURE: &str = "Failed to start";

/// Copies for throughput with as little else as possible: no heartbeats, no checkpoints, no access lists.
const TUNING: &str = "\
tasks.max=2
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.replication.factor=1
status.storage.partitions=1
config.storage.replication.factor=1
emit.heartbeats.enabled=false
emit.checkpoints.enabled=false
sync.group.offsets.enabled=false
sync.topic.acls.enabled=false
target.producer.batch.size=131072
target.producer.linger.ms=5
";

/// A program of others that copies one topic under the same name. Dropped, it is killed.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    child: Child,
    log: PathBuf,
    _folder: Folder,
}

impl Peer {
    /// MirrorMaker 2 between two bootstrap servers, from the beginning of `topic`; it writes with `compression`.
    ///
    /// Errors: its jars are missing; it says what to do.
    pub fn mirrormaker(ends: (&str, &str), topic: &str, compression: &str) -> anyhow::Result<Self> {
        let kafka = Kafka::locate_mirrormaker()?;
        let folder = Folder::create("mirrormaker")?;
        let file = folder.path().join("mm2.properties");
        std::fs::write(&file, properties(ends, topic, compression))?;
        let mut java = kafka.java("org.apache.kafka.connect.mirror.MirrorMaker", JVM);
        java.arg(&file);
        Self::start("MirrorMaker", java, folder)
    }

    /// The mirror on franz-go of `scripts/peers/franz`, likewise. The topic must exist on the target.
    ///
    /// Errors: `binary`, which `scripts/bench` builds, is missing.
    pub fn franz(
        binary: &Path,
        (source, target): (&str, &str),
        topic: &str,
        compression: &str,
    ) -> anyhow::Result<Self> {
        let folder = Folder::create("franz")?;
        let mut command = Command::new(binary);
        command.args([source, target, topic, &unique("franz"), compression]);
        Self::start("the franz-go mirror", command, folder)
    }

    fn start(name: &'static str, command: Command, folder: Folder) -> anyhow::Result<Self> {
        let log = folder.path().join("peer.log");
        let child = folder.spawn(command, &log)?;
        Ok(Self { name, child, log, _folder: folder })
    }

    /// Errors, with the end of the log, if it ended or will never start to copy.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended with {status}: {}", self.name, tail(&self.log, LOG_TAIL_BYTES_MAX));
        }
        if tail(&self.log, usize::MAX).contains(START_FAILURE) {
            bail!("{} did not start: {}", self.name, tail(&self.log, LOG_TAIL_BYTES_MAX));
        }
        Ok(())
    }

    /// Its processor time so far, in seconds.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        proc::cpu_seconds(self.child.id())
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_rss_bytes(&self) -> anyhow::Result<u64> {
        proc::peak_rss_bytes(self.child.id())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("{} ({}) could not be killed: {error}", self.name, self.child.id());
        }
    }
}

/// The alias of the source is a fresh one: MirrorMaker keeps how far it has come by that name.
fn properties((from, to): (&str, &str), topic: &str, compression: &str) -> String {
    let source = unique("source");
    format!(
        "clusters={source},target
{source}.bootstrap.servers={from}
target.bootstrap.servers={to}
{source}->target.enabled=true
{source}->target.topics={topic}
target->{source}.enabled=false
{source}.consumer.auto.offset.reset=earliest
{source}.consumer.max.poll.records=20000
{source}.consumer.max.partition.fetch.bytes=4194304
target.producer.compression.type={compression}
{TUNING}"
    )
}
