//! The exit codes, in one place.

use std::process::ExitCode;

/// How a process ends, for scripts and service managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All well.
    Ok = 0,
    /// It ran, and the answer is no: source and target differ, or something failed.
    Failed = 1,
    /// The command line is wrong. Source: `EX_USAGE` of sysexits.h, as the next ones.
    Usage = 64,
    /// A cluster, or the process that is asked about, cannot be reached.
    Unavailable = 69,
    /// A fault of our own: the process ends, so that a supervisor starts it afresh.
    Internal = 70,
    /// Something that may pass: try again.
    TryAgain = 75,
    /// A cluster refuses what is needed: starting again would not help.
    NotPermitted = 77,
    /// The configuration is wrong: starting again would not help.
    Config = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
