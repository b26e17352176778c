//! Kerberos (RFC 4752), through the system's library. That library blocks while it asks KDCs, and is told keytab and credential cache by
//! the environment of its process only: so each cluster has a helper, a process of this same program, which can be ended and started anew.

mod frame;
#[cfg(feature = "kerberos")]
pub mod library;

use std::fs::File;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

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
    /// `None` before the first conversation, and after trouble.
    process: Mutex<Option<Process>>,
    conversations: AtomicU64,
}

impl Helper {
    /// Begins a conversation with the broker at a host. Returns its number with the first token.
    pub(super) async fn begin(&self, config: &KerberosConfig, host: &str) -> Result<(u64, Said), KerberosError> {
        check(config)?;
        let number = self.conversations.fetch_add(1, Ordering::Relaxed);
        // A host-based service name. Source: RFC 2743, section 4.1.
        let service = format!("{}@{host}", config.service).into_bytes();
        let said = self.ask(config, Frame { kind: Kind::Begin, number, data: service }).await?;
        Ok((number, said))
    }

    /// Goes on with what the broker has answered.
    pub(super) async fn answer(
        &self,
        config: &KerberosConfig,
        (number, token): (u64, &[u8]),
    ) -> Result<Said, KerberosError> {
        self.ask(config, Frame { kind: Kind::Answer, number, data: token.to_vec() }).await
    }

    /// A broker did not accept us: new tickets are fetched for the next conversation.
    pub(super) async fn forget(&self) {
        *self.process.lock().await = None;
    }

    async fn ask(&self, config: &KerberosConfig, question: Frame) -> Result<Said, KerberosError> {
        let asking = async {
            let mut kept = self.process.lock().await;
            // Taken out: one whose answer nobody waits for any more must not be asked again.
            let mut process = match kept.take() {
                Some(process) => process,
                None => Process::start(config)?,
            };
            let answer = process.exchange(question).await?;
            *kept = Some(process);
            Ok::<_, KerberosError>(answer)
        };
        let Frame { kind, data, .. } =
            tokio::time::timeout(KERBEROS_WAIT_MAX, asking).await.map_err(|_| KerberosError::Silent)??;
        match kind {
            Kind::Token | Kind::Last => Ok(Said { token: data, is_last: kind == Kind::Last }),
            Kind::Begin | Kind::Answer | Kind::Fault => {
                Err(KerberosError::Library(String::from_utf8_lossy(&data).into_owned()))
            }
        }
    }
}

/// A running helper. Dropped, it is killed.
#[derive(Debug)]
struct Process {
    questions: ChildStdin,
    answers: ChildStdout,
    _child: Child,
}

impl Process {
    fn start(config: &KerberosConfig) -> std::io::Result<Self> {
        let mut command = Command::new(OURSELVES);
        command.arg0("sharebridge").arg(HELPER_VERB);
        if let Some(principal) = &config.principal {
            command.arg("--principal").arg(principal);
        }
        if let Some(keytab) = &config.keytab {
            // From these two the library fetches tickets, and fetches others when they end. Source: MIT Kerberos, "client keytab".
            let mut name = std::ffi::OsString::from("FILE:");
            name.push(keytab);
            command.env("KRB5_CLIENT_KTNAME", name).env("KRB5CCNAME", "MEMORY:sharebridge");
        }
        // A group of its own: a Ctrl-C in the terminal must not end it while flows drain.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let questions = child.stdin.take().expect("its standard input is a pipe");
        let answers = child.stdout.take().expect("its standard output is a pipe");
        Ok(Self { questions, answers, _child: child })
    }

    async fn exchange(&mut self, question: Frame) -> std::io::Result<Frame> {
        self.questions.write_all(&question.bytes()).await?;
        let mut head = [0; HEAD_BYTES];
        self.answers.read_exact(&mut head).await?;
        let (kind, number, length) = frame::head(head)?;
        let mut data = vec![0; length];
        self.answers.read_exact(&mut data).await?;
        Ok(Frame { kind, number, data })
    }
}
