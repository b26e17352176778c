//! Logs, and the live line in a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::bridge::View;
use crate::config::{BridgeConfig, LogFormat};
use crate::error::{self, Exit};

/// Erases the live line, which the next second writes again.
const ERASE_LINE: &str = "\r\x1b[K";

/// Starts logging to the standard error.
pub fn start(config: &BridgeConfig) {
    let filter = EnvFilter::new(&config.log_level);
    let is_terminal = stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let as_json = match config.log_format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !is_terminal,
    };
    if as_json {
        builder.json().flatten_event(true).with_writer(stderr).init();
    } else {
        builder.with_ansi(is_terminal).with_writer(OverLiveLine { is_terminal }).init();
    }
}

/// Ends the process when any of its tasks panics: what is left would go on without it, and nobody would notice.
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        if error::catches() {
            return;
        }
        tracing::error!(%panic, "a fault of sharebridge itself: please report it");
        std::process::exit(Exit::Internal as i32);
    }));
}

/// Writes log lines over the live line.
struct OverLiveLine {
    is_terminal: bool,
}

impl<'a> MakeWriter<'a> for OverLiveLine {
    type Writer = std::io::Stderr;

    fn make_writer(&'a self) -> Self::Writer {
        let mut out = stderr();
        if self.is_terminal {
            // A terminal that has gone away is no reason to stop.
            let _ = write!(out, "{ERASE_LINE}");
        }
        out
    }
}

/// Shows every second what flows, where there is a terminal.
pub async fn live_line(view: View) {
    if !stderr().is_terminal() {
        return;
    }
    let mut before = Totals::of(&view);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = Totals::of(&view);
        let troubles = match view.health.troubles().len() {
            0 => String::new(),
            count => format!(" | not ready: {count}"),
        };
        let line = format!(
            "{} records/s | {:.1} MB/s | backlog {} | held {}{troubles}",
            now.records - before.records,
            (now.bytes - before.bytes) as f64 / 1e6,
            now.backlog.map_or("unknown".to_owned(), |backlog| backlog.to_string()),
            now.held,
        );
        // A terminal that has gone away is no reason to stop.
        let _ = write!(stderr(), "{ERASE_LINE}{line}");
        before = now;
    }
}

/// Sums over all flows.
struct Totals {
    records: u64,
    bytes: u64,
    backlog: Option<i64>,
    held: i64,
}

impl Totals {
    fn of(view: &View) -> Self {
        let flows = || view.flows.iter().map(|flow| &flow.metrics);
        Self {
            records: flows().map(|metrics| metrics.sent()).sum(),
            bytes: flows().map(|metrics| metrics.bytes_sent.get()).sum(),
            backlog: flows().map(|metrics| Some(metrics.backlog.get()).filter(|lag| *lag >= 0)).sum(),
            held: flows().map(|metrics| metrics.held.get()).sum(),
        }
    }
}
