//! Kerberos (RFC 4752), through the system's library. That library blocks while it asks KDCs, and is told keytab and credential cache by
//! the environment of its process only: so each cluster has a helper, a process of this same program, which can be ended and started anew.

mod frame;
#[cfg(feature = "kerberos")]
pub mod library;

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex as AsyncMutex;

use crate::config::security::KerberosConfig;
use crate::limits::KERBEROS_WAIT_MAX;
use frame::{Frame, HEAD_BYTES, Kind};

/// The verb of this program that serves as a helper; people never type it.
pub const HELPER_VERB: &str = "kerberos-helper";

/// Our own program, even where its file has been replaced since we were started.
const OURSELVES: &str = "/proc/self/exe";

/// Why Kerberos does not let us go on. No variant holds a key or a ticket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KerberosError {
    /// The keytab is not readable.
    #[error("cannot read the keytab {file}: {cause}")]
    Keytab {
        /// Its path.
        file: String,
        /// What the system says.
        cause: String,
    },
    /// What the library says, or what it makes of the broker's words.
    #[error("{0}")]
    Library(String),
    /// No answer.
    #[error("the Kerberos library has not answered within {} s: no KDC answers it", KERBEROS_WAIT_MAX.as_secs())]
    Silent,
    /// The helper could not be started, or has ended.
    #[error("the process that speaks Kerberos is gone: {0}")]
    Gone(#[from] std::io::Error),
}

/// Whether the keytab can be read as it is now.
pub(super) fn check(config: &KerberosConfig) -> Result<(), KerberosError> {
    let Some(path) = &config.keytab else { return Ok(()) };
    let fault =
        |cause: std::io::Error| KerberosError::Keytab { file: path.display().to_string(), cause: cause.to_string() };
    File::open(path).map(drop).map_err(fault)
}

/// What to tell the broker next.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) token: Vec<u8>,
    /// The broker has the last word behind it.
    pub(super) is_last: bool,
}

/// The helper of a cluster, shared by its connections. It keeps the tickets.
#[derive(Debug, Default)]
pub(super) struct Helper {
    /// `None` before the first conversation.
    process: Mutex<Option<Arc<Process>>>,
    conversations: AtomicU64,
}

impl Helper {
    /// Begins a conversation with the broker at a host, by its first token.
    pub(super) async fn begin(
        &self,
        config: &KerberosConfig,
        host: &str,
    ) -> Result<(Conversation, Said), KerberosError> {
        check(config)?;
        let number = self.conversations.fetch_add(1, Ordering::Relaxed);
        let conversation = Conversation { process: self.process(config)?, number };
        // A host-based service name. Source: RFC 2743, section 4.1.
        let said = conversation.ask(Kind::Begin, format!("{}@{host}", config.service).into_bytes()).await?;
        Ok((conversation, said))
    }

    /// A broker did not accept us: new tickets are fetched for the next conversation. Others go on with what they have.
    pub(super) fn forget(&self) {
        *self.kept() = None;
    }

    fn process(&self, config: &KerberosConfig) -> std::io::Result<Arc<Process>> {
        let mut kept = self.kept();
        if let Some(process) = kept.as_ref().filter(|process| process.is_alive()) {
            return Ok(process.clone());
        }
        let process = Arc::new(Process::start(config)?);
        *kept = Some(process.clone());
        Ok(process)
    }

    fn kept(&self) -> MutexGuard<'_, Option<Arc<Process>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One authentication of one connection.
#[derive(Debug)]
pub(super) struct Conversation {
    process: Arc<Process>,
    number: u64,
}

impl Conversation {
    /// Goes on with what the broker has answered.
    pub(super) async fn answer(&self, token: &[u8]) -> Result<Said, KerberosError> {
        self.ask(Kind::Answer, token.to_vec()).await
    }

    async fn ask(&self, kind: Kind, data: Vec<u8>) -> Result<Said, KerberosError> {
        let question = Frame { kind, number: self.number, data };
        let asking = tokio::time::timeout(KERBEROS_WAIT_MAX, self.process.exchange(&question));
        let Frame { kind, data, .. } = asking.await.map_err(|_| KerberosError::Silent)??;
        match kind {
            Kind::Token | Kind::Last => Ok(Said { token: data, is_last: kind == Kind::Last }),
            Kind::Begin | Kind::Answer | Kind::Fault => {
                Err(KerberosError::Library(String::from_utf8_lossy(&data).into_owned()))
            }
        }
    }
}

/// A helper that was started. Dropped, it is killed.
#[derive(Debug)]
struct Process(AsyncMutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    questions: ChildStdin,
    answers: ChildStdout,
    child: Child,
}

impl Process {
    fn start(config: &KerberosConfig) -> std::io::Result<Self> {
        let mut command = Command::new(OURSELVES);
        command.arg0("sharebridge").arg(HELPER_VERB);
        if let Some(principal) = &config.principal {
            // In one word: a principal may begin with a hyphen.
            command.arg(format!("--principal={principal}"));
        }
        if let Some(keytab) = &config.keytab {
            // From these two the library fetches tickets, and fetches others when they end. Source: MIT Kerberos, "client keytab".
            let mut name = OsString::from("FILE:");
            name.push(keytab);
            command.env("KRB5_CLIENT_KTNAME", name).env("KRB5CCNAME", "MEMORY:sharebridge");
        }
        // A group of its own: a Ctrl-C in the terminal must not end it while flows drain.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let questions = child.stdin.take().expect("its standard input is a pipe");
        let answers = child.stdout.take().expect("its standard output is a pipe");
        Ok(Self(AsyncMutex::new(Some(Running { questions, answers, child }))))
    }

    /// One that is busy counts as alive: whoever waits for it will find out.
    fn is_alive(&self) -> bool {
        self.0.try_lock().map_or(true, |mut running| {
            running.as_mut().is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
        })
    }

    async fn exchange(&self, question: &Frame) -> std::io::Result<Frame> {
        let mut kept = self.0.lock().await;
        // Taken out: one whose answer nobody waits for any more must not be asked again, and ends.
        let mut running = kept.take().ok_or(ErrorKind::BrokenPipe)?;
        running.questions.write_all(&question.bytes()).await?;
        let mut head = [0; HEAD_BYTES];
        running.answers.read_exact(&mut head).await?;
        let (kind, number, length) = frame::head(head)?;
        let mut data = vec![0; length];
        running.answers.read_exact(&mut data).await?;
        *kept = Some(running);
        Ok(Frame { kind, number, data })
    }
}
