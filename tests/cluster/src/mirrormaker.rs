use std::path::PathBuf;
use std::process::Child;

use anyhow::bail;

use crate::folder::{Folder, tail};
use crate::kafka::{Jvm, Kafka};
use crate::{Pair, proc, unique};

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

/// A MirrorMaker 2 process that copies one topic over a pair, under the same name. Dropped, it is killed.
#[derive(Debug)]
pub struct MirrorMaker {
    child: Child,
    log: PathBuf,
    _folder: Folder,
}

impl MirrorMaker {
    /// Starts it on `topic`, from its beginning; it writes with `compression`.
    ///
    /// Errors: its jars are missing; it says what to do.
    pub fn start(pair: &Pair, topic: &str, compression: &str) -> anyhow::Result<Self> {
        let kafka = Kafka::locate_mirrormaker()?;
        let folder = Folder::create("mirrormaker")?;
        let (file, log) = (folder.path().join("mm2.properties"), folder.path().join("mirrormaker.log"));
        std::fs::write(&file, properties(pair, topic, compression))?;
        let mut java = kafka.java("org.apache.kafka.connect.mirror.MirrorMaker", JVM);
        java.arg(&file);
        let child = folder.spawn(java, &log)?;
        Ok(Self { child, log, _folder: folder })
    }

    /// Errors, with the end of the log, if it ended or will never start to copy.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("MirrorMaker ended with {status}: {}", tail(&self.log, LOG_TAIL_BYTES_MAX));
        }
        if tail(&self.log, usize::MAX).contains(START_FAILURE) {
            bail!("MirrorMaker did not start: {}", tail(&self.log, LOG_TAIL_BYTES_MAX));
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

impl Drop for MirrorMaker {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("MirrorMaker {} could not be killed: {error}", self.child.id());
        }
    }
}

/// The alias of the source is a fresh one: MirrorMaker keeps how far it has come by that name.
fn properties(pair: &Pair, topic: &str, compression: &str) -> String {
    let source = unique("source");
    format!(
        "clusters={source},target
{source}.bootstrap.servers={}
target.bootstrap.servers={}
{source}->target.enabled=true
{source}->target.topics={topic}
target->{source}.enabled=false
{source}.consumer.auto.offset.reset=earliest
{source}.consumer.max.poll.records=20000
{source}.consumer.max.partition.fetch.bytes=4194304
target.producer.compression.type={compression}
{TUNING}",
        pair.source.bootstrap(),
        pair.target.bootstrap(),
    )
}
