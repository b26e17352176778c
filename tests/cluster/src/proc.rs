use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal};

/// Between two looks at a condition that is waited for.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Waits for the end of `child`; `None` if `deadline` comes first.
pub(crate) fn wait(child: &mut Child, deadline: Instant) -> anyhow::Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        sleep(POLL);
    }
}

/// Sends `signal` to a child that has not been waited for, so its pid is still its own.
pub(crate) fn send(child: &Child, signal: Signal) -> anyhow::Result<()> {
    rustix::process::kill_process(Pid::from_child(child), signal)
        .with_context(|| format!("sending {signal:?} to process {}", child.id()))
}

/// Processor time of `pid` and its threads so far, in seconds, user and system together.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).with_context(|| format!("unexpected /proc/{pid}/stat: {stat}"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The most memory that `pid` ever held, in bytes (VmHWM).
pub(crate) fn peak_rss_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    peak_bytes(&status).with_context(|| format!("no VmHWM in /proc/{pid}/status"))
}

/// utime + stime of proc_pid_stat(5). The name in parentheses may itself hold spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut times = after_name.split(' ').skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

/// The line `VmHWM:   1234 kB`, in bytes.
fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_the_14th_and_15th_field() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 1100 22 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(1122));
        assert_eq!(cpu_ticks("7 (short) S 1"), None);
    }

    #[test]
    fn peak_is_in_bytes() {
        assert_eq!(peak_bytes("Name:\tx\nVmHWM:\t    2048 kB\n"), Some(2 * 1024 * 1024));
        assert_eq!(peak_bytes("Name:\tx\n"), None);
    }

    #[test]
    fn our_own_figures_are_sane() {
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert!(peak_rss_bytes(std::process::id()).unwrap() > 1024 * 1024);
    }
}
