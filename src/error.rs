//! The exit codes, in one place, and the panics that do not lead to one.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
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

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Runs what may panic by a fault that is not ours; `None` if it did.
pub fn catching<T>(run: impl FnOnce() -> T) -> Option<T> {
    CATCHES.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    CATCHES.set(false);
    outcome.ok()
}

/// Whether a panic of this thread would be caught now, and the process goes on.
pub fn catches() -> bool {
    CATCHES.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_where_it_is_expected_and_nowhere_else() {
        assert_eq!(catching(|| 1), Some(1));
        assert_eq!(catching(|| -> i32 { panic!("a fault of somebody else: {}", catches()) }), None);
        assert!(!catches());
    }
}
