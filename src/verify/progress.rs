//! How far a comparison is, and a bar that shows it.

use std::io::{self, IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

use crate::limits::LINE_INTERVAL;

/// Characters of the bar itself.
const BAR_WIDTH: u64 = 30;

/// How far a comparison is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Offsets passed on both sides.
    pub read: u64,
    /// Offsets to pass: at least the records to read, since some offsets hold none.
    pub total: u64,
    /// The topic that is being read.
    pub topic: String,
}

/// Shows progress: a bar that redraws itself on a terminal, else a line every [`LINE_INTERVAL`].
pub struct Bar<W: Write> {
    out: W,
    terminal: bool,
    started: Instant,
    lines: u32,
}

impl Bar<Stderr> {
    /// A bar on the standard error output.
    pub fn stderr() -> Bar<Stderr> {
        let out = io::stderr();
        let terminal = out.is_terminal();
        Bar::new(out, terminal)
    }
}

impl<W: Write> Bar<W> {
    /// A bar on any output; `terminal` tells whether a carriage return rewrites its line.
    pub fn new(out: W, terminal: bool) -> Bar<W> {
        Bar { out, terminal, started: Instant::now(), lines: 0 }
    }

    /// Draws the bar. That it cannot be drawn is no reason to stop a comparison, so errors are ignored.
    pub fn show(&mut self, progress: &Progress) {
        let elapsed = self.started.elapsed();
        let line = line(progress, elapsed);
        if self.terminal {
            let _ = write!(self.out, "\r\x1b[2K{line}");
            let _ = self.out.flush();
        } else if elapsed >= LINE_INTERVAL * (self.lines + 1) {
            self.lines += 1;
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// Takes the bar off the terminal.
    pub fn clear(&mut self) {
        if self.terminal {
            let _ = write!(self.out, "\r\x1b[2K");
            let _ = self.out.flush();
        }
    }
}

fn line(progress: &Progress, elapsed: Duration) -> String {
    let total = progress.total.max(1);
    let read = progress.read.min(total);
    let part = |whole: u64| (u128::from(read) * u128::from(whole) / u128::from(total)) as usize;
    let filled = part(BAR_WIDTH);
    let rate = progress.read as f64 / elapsed.as_secs_f64().max(0.001);
    format!(
        "[{}{}] {:>3}%  {} of {} offsets, {}/s  {}",
        "#".repeat(filled),
        "-".repeat(BAR_WIDTH as usize - filled),
        part(100),
        short(progress.read as f64),
        short(progress.total as f64),
        short(rate),
        progress.topic,
    )
}

/// A number with three significant digits or so.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(read: u64, total: u64) -> Progress {
        Progress { read, total, topic: "orders".into() }
    }

    #[test]
    fn a_line_tells_part_amount_rate_and_topic() {
        let text = line(&progress(1_500_000, 3_000_000), Duration::from_secs(3));
        let bar = format!("[{}{}]  50%", "#".repeat(15), "-".repeat(15));
        assert_eq!(text, format!("{bar}  1.50 M of 3.00 M offsets, 500.0 k/s  orders"));
    }

    #[test]
    fn nothing_to_read_and_too_much_read_are_drawn_too() {
        assert!(line(&progress(0, 0), Duration::ZERO).contains("  0%"));
        assert!(line(&progress(u64::MAX, 1), Duration::ZERO).contains("100%"));
    }

    #[test]
    fn a_terminal_is_redrawn_and_cleared() {
        let mut out = Vec::new();
        let mut bar = Bar::new(&mut out, true);
        bar.show(&progress(1, 2));
        bar.clear();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("\r") && text.contains("50%") && text.ends_with("\x1b[2K"));
    }

    #[test]
    fn a_file_is_spared_short_runs() {
        let mut out = Vec::new();
        let mut bar = Bar::new(&mut out, false);
        bar.show(&progress(1, 2));
        bar.clear();
        assert!(out.is_empty());
    }
}
