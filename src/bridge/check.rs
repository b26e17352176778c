//! Whether a flow can work as it is configured, asked of both of its clusters. Nothing is changed by it.
//!
//! `sharebridge check` shows all that is found; `run` asks the same before it begins, and ends with what no waiting would mend.

use std::fmt;

use tokio::time::Instant;

use crate::batch::Hop;
use crate::bridge::dead_letters;
use crate::bridge::discovery::Discovery;
use crate::bridge::identity::Identities;
use crate::bridge::order::Order;
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::NOT_YET_MAX;
use crate::metrics::FlowMetrics;
use crate::wire::backoff::Backoff;
use crate::wire::{Client, WireError};

pub mod ceiling;
mod source;
pub(super) mod target;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, such as `source share group`.
    pub subject: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was found and, unless it is fine, what to do.
    pub says: String,
}

/// How something is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// The flow runs, but not as well, or not with all of its topics.
    Warning,
    /// The flow cannot run before the configuration is changed.
    Misconfigured,
    /// The flow cannot run before an administrator of the cluster allows it.
    NotPermitted,
}

impl Verdict {
    /// The word in a table and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Misconfigured => "misconfigured",
            Self::NotPermitted => "not permitted",
        }
    }

    /// Whether waiting would not help.
    pub fn is_final(self) -> bool {
        self >= Self::Misconfigured
    }
}

impl Finding {
    pub(super) fn new(subject: impl Into<String>, verdict: Verdict, says: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict, says: says.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<13} {:<22} {}", self.verdict.word(), self.subject, self.says)
    }
}

/// Looks at a flow's clusters; returns their ids, too.
///
/// Errors: a cluster does not answer, or not yet.
pub async fn check(flow: &Flow, identities: &Identities) -> Result<(Vec<Finding>, Hop), WireError> {
    let (mut source, mut target) = (Client::new(flow.source.clone()), Client::new(flow.sink.clone()));
    let hop = identities.learn(flow).await?;
    let mut findings = vec![];
    if let Some(found) = identities.find_loop() {
        let says = format!("two names in the file are one cluster, as its id tells, and {found}");
        findings.push(Finding::new("cluster ids", Verdict::Misconfigured, says));
    }
    findings.extend(source::look(&mut source, flow).await?);
    findings.push(target::transactions(&mut target, flow).await?);
    let mut discovery = Discovery::new(flow.clone(), identities.clone(), (Health::default(), FlowMetrics::default()));
    let seen = discovery.look().await?;
    findings.extend(source::topics(&mut source, flow, &seen).await?);
    findings.extend(target::topics(&mut target, &seen, &discovery.plan(&seen)).await?);
    findings.extend(dead_letters::look(flow).await?);
    findings.push(order(flow));
    findings.extend(ceiling::look(&mut source, &mut target, flow).await?);
    Ok((findings, hop))
}

/// What is kept of the order of records.
fn order(flow: &Flow) -> Finding {
    Finding::new("order", Verdict::Note, Order::of(flow).to_string())
}

/// Asks again for a while where a cluster answers that it is not ready yet, as right after its start.
pub async fn patiently<T, F: Future<Output = Result<T, WireError>>>(ask: impl Fn() -> F) -> Result<T, WireError> {
    let deadline = Instant::now() + NOT_YET_MAX;
    let mut backoff = Backoff::default();
    loop {
        match ask().await {
            Err(error) if error.code().is_some_and(|code| code.is_retriable()) && Instant::now() < deadline => {
                tokio::time::sleep(backoff.pause()).await;
            }
            answer => return answer,
        }
    }
}

/// A flow that cannot run before somebody changes something.
#[derive(Debug, thiserror::Error)]
#[error("flow {flow} cannot run as it is:{}", .findings.iter().map(|finding| format!("\n  {finding}")).collect::<String>())]
pub struct Unfit {
    flow: String,
    findings: Vec<Finding>,
}

impl Unfit {
    /// Whether it is the configuration that has to be changed, and not only a right.
    pub fn is_misconfigured(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Misconfigured)
    }
}

/// Asks until both clusters answer, and returns their ids; what is worth a warning is logged.
///
/// Errors: no waiting would mend what was found.
pub async fn admit(flow: &Flow, identities: &Identities, health: &Health) -> Result<Hop, Unfit> {
    let mut backoff = Backoff::default();
    loop {
        match check(flow, identities).await {
            Ok((findings, hop)) => {
                health.well("check");
                let (unfit, others): (Vec<_>, Vec<_>) =
                    findings.into_iter().partition(|finding| finding.verdict.is_final());
                for Finding { subject, says, .. } in others.iter().filter(|finding| finding.verdict == Verdict::Warning)
                {
                    tracing::warn!(flow = flow.name, subject, "{says}");
                }
                if unfit.is_empty() {
                    return Ok(hop);
                }
                return Err(Unfit { flow: flow.name.clone(), findings: unfit });
            }
            Err(error) => health.trouble("check", error),
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// What an answer means that may be a refusal: nothing where it is none.
///
/// Errors: the cluster does not answer, or not yet.
pub(super) fn refusal(subject: &str, answer: Result<(), WireError>) -> Result<Option<Finding>, WireError> {
    match answer {
        Ok(()) => Ok(None),
        Err(error) if is_refusal(&error) => Ok(Some(Finding::new(subject, Verdict::NotPermitted, error.to_string()))),
        Err(error) => Err(error),
    }
}

/// Whether an error says what will not pass by itself.
fn is_refusal(error: &WireError) -> bool {
    matches!(error, WireError::Unsupported { .. }) || error.code().is_some_and(|code| !code.is_retriable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;
    use crate::wire::error::Place;

    fn answered(code: Code) -> WireError {
        let place = Place { cluster: "a".into(), address: "a:1".into() };
        WireError::Answered { place, api: "EndTxn", what: "id".into(), code, message: None }
    }

    #[test]
    fn what_passes_by_itself_is_no_finding() {
        assert!(refusal("s", Err(answered(Code::CoordinatorLoadInProgress))).is_err());
        assert_eq!(refusal("s", Ok(())).ok(), Some(None));
        let found = refusal("s", Err(answered(Code::TransactionalIdAuthorizationFailed))).ok().flatten();
        let found = found.expect("a refusal is found");
        assert_eq!(found.verdict, Verdict::NotPermitted);
        assert!(found.says.contains("grant WRITE on the transactional id"), "{}", found.says);
    }
}
