use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;

use crate::folder::{Folder, tail};
use crate::kafka::{Jvm, Kafka};
use crate::proc;

/// How long an ordered shutdown may take before the broker is killed.
///
/// The last nodes of a stopping quorum may have no controller left to hand over to.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// How much of a broker's log goes into an error message.
pub(crate) const LOG_TAIL_BYTES_MAX: usize = 8 * 1024;

/// One node of a [`Cluster`](crate::Cluster): broker, controller, or both in one JVM.
///
/// It may be down for a while; data, ports and log file stay.
#[derive(Debug)]
pub struct Broker {
    folder: Arc<Folder>,
    kafka: Kafka,
    jvm: Jvm,
    properties: PathBuf,
    log: PathBuf,
    /// `None` while the broker is down.
    process: Mutex<Option<Child>>,
}

impl Broker {
    /// A broker with the server.properties `properties`, formatted but not started.
    pub(crate) fn new(folder: Arc<Folder>, kafka: Kafka, jvm: Jvm, properties: PathBuf) -> Self {
        let log = properties.with_extension("log");
        Self { folder, kafka, jvm, properties, log, process: Mutex::new(None) }
    }

    /// Starts the process, which answers some seconds later: see [`Cluster::wait_ready`](crate::Cluster::wait_ready).
    ///
    /// Errors: it is running already.
    pub fn start(&self) -> anyhow::Result<()> {
        let mut process = self.process();
        if process.is_some() {
            bail!("{} is running already", self.properties.display());
        }
        let mut java = self.kafka.java("kafka.Kafka", self.jvm);
        java.arg(&self.properties);
        *process = Some(self.folder.spawn(java, &self.log)?);
        Ok(())
    }

    /// Shuts the broker down in order (SIGTERM), by force after [`STOP_DEADLINE`]; returns when it is down.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        // A stopped process acts on SIGTERM only once it runs again.
        self.signal(Signal::CONT)?;
        let mut process = self.process();
        if let Some(child) = process.as_mut()
            && proc::wait(child, Instant::now() + STOP_DEADLINE)?.is_none()
        {
            child.kill()?;
            child.wait()?;
        }
        *process = None;
        Ok(())
    }

    /// Asks for an ordered shutdown (SIGTERM) and does not wait.
    pub(crate) fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Kills the broker (SIGKILL); returns when it is down.
    pub fn kill(&self) -> anyhow::Result<()> {
        if let Some(mut child) = self.process().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Stops the broker from running (SIGSTOP): its connections stay open and nobody answers.
    pub fn suspend(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a suspended broker run on (SIGCONT).
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// The pid, while the broker is up.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Child::id)
    }

    /// Processor time since its last start, in seconds.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        proc::cpu_seconds(self.pid().context("the broker is down")?)
    }

    /// The most memory it held since its last start, in bytes.
    pub fn peak_rss_bytes(&self) -> anyhow::Result<u64> {
        proc::peak_rss_bytes(self.pid().context("the broker is down")?)
    }

    /// The file that holds everything the broker has logged since the cluster was made.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Errors, with the end of the log, if the process ended by itself.
    pub(crate) fn check_running(&self) -> anyhow::Result<()> {
        let mut process = self.process();
        let child = process.as_mut().context("the broker is down")?;
        if let Some(status) = child.try_wait()? {
            *process = None;
            bail!("the broker ended with {status}: {}", tail(&self.log, LOG_TAIL_BYTES_MAX));
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process();
        let child = process.as_ref().context("the broker is down")?;
        proc::send(child, signal)
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().expect("nothing panics while holding the process")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{} could not be killed: {error}", self.properties.display());
        }
    }
}
