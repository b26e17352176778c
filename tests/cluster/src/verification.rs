use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// What `sharebridge verify` said.
#[derive(Debug, Clone)]
pub struct Verification {
    /// The whole report, for people.
    pub report: String,
    /// Records on the source.
    pub source: u64,
    /// Records on the target.
    pub target: u64,
    /// Records that the target lacks.
    pub missing: u64,
    /// Records that only the target has.
    pub extra: u64,
    /// Records that the target has more often than the source.
    pub duplicates: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Verification {
    /// Runs `binary verify --config FILE` on a file with one flow.
    ///
    /// Errors: source and target differ, or they could not be compared; both with all that it said.
    pub fn run(binary: &Path, config: &Path) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let output = Command::new(binary).args(["verify", "--config"]).arg(config).output()?;
        let elapsed = begin.elapsed();
        let report = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if !output.status.success() {
            bail!(
                "sharebridge verify ended with {}:\n{report}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Self::parse(&report, elapsed).with_context(|| format!("an unknown form of report:\n{report}"))
    }

    /// Every record is there, and none twice.
    pub fn is_exact(&self) -> bool {
        (self.source, self.missing, self.extra, self.duplicates) == (self.target, 0, 0, 0)
    }

    /// Reads the last line, `verdict: ...: 1 record on the source, 1 on the target, 0 missing, 0 extra, 0 duplicates`.
    fn parse(report: &str, elapsed: Duration) -> Option<Self> {
        let (_, counts) = report.lines().next_back()?.strip_prefix("verdict: ")?.split_once(": ")?;
        let mut counts = counts.split(", ");
        let mut next = |noun: &str| {
            let (count, rest) = counts.next()?.split_once(' ')?;
            rest.ends_with(noun).then(|| count.parse().ok())?
        };
        Some(Self {
            report: report.to_owned(),
            source: next("on the source")?,
            target: next("on the target")?,
            missing: next("missing")?,
            extra: next("extra")?,
            duplicates: next("duplicates")?,
            elapsed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let counts = "3 records on the source, 4 on the target, 0 missing, 0 extra, 1 duplicates";
        let report = format!("flow a\ntopic ...\nverdict: complete with duplicates: {counts}");
        let verification = Verification::parse(&report, Duration::ZERO).unwrap();
        assert_eq!((verification.source, verification.target, verification.duplicates), (3, 4, 1));
        assert!(!verification.is_exact());
        let exact = report.replace("4 on", "3 on").replace("1 dup", "0 dup");
        assert!(Verification::parse(&exact, Duration::ZERO).unwrap().is_exact());
    }

    #[test]
    fn another_form_is_not_taken_for_a_verdict() {
        assert!(Verification::parse("", Duration::ZERO).is_none());
        assert!(Verification::parse("verdict: complete: 3 records on the source", Duration::ZERO).is_none());
    }
}
