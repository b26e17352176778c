//! `sharebridge status`: what a running process does, from its status server.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{ConfigFile, runtime};
use crate::error::Exit;
use crate::limits::{STATUS_ANSWER_MAX, STATUS_BYTES_MAX};

/// Pause between two looks of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Moves the cursor home and erases what is below it.
const ERASE_SCREEN: &str = "\x1b[H\x1b[J";

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// The file of the process, whose status.address is asked
    #[command(flatten)]
    pub config: ConfigFile,
    /// Where the process listens, in place of a configuration file
    #[arg(long, value_name = "IP:PORT", conflicts_with = "path")]
    pub address: Option<SocketAddr>,
    /// Look again every second, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// Print the document of the process as it is
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
}

impl Status {
    /// Says what the process does: [`Exit::Ok`] where it is ready, [`Exit::TryAgain`] where it is not, [`Exit::Unavailable`] where
    /// nobody answers.
    pub fn run(&self) -> Exit {
        let address = match self.address {
            Some(address) => address,
            None => match self.config.load() {
                Ok((_, config)) => config.bridge.status_address,
                Err(exit) => return exit,
            },
        };
        match runtime() {
            Ok(runtime) => runtime.block_on(self.look(address)),
            Err(exit) => exit,
        }
    }

    async fn look(&self, address: SocketAddr) -> Exit {
        let mut before: Option<Value> = None;
        loop {
            let found = match ask(address).await {
                Ok(found) => found,
                Err(error) => {
                    eprintln!(
                        "error: no sharebridge answers at {address} ({error}); is it running, with this status.address?"
                    );
                    return Exit::Unavailable;
                }
            };
            match (self.json, self.watch) {
                (true, _) => println!("{found}"),
                (false, false) => print!("{}", table(&found, before.as_ref())),
                (false, true) => print!("{ERASE_SCREEN}{address}\n{}", table(&found, before.as_ref())),
            }
            if !self.watch {
                return if found["ready"] == true { Exit::Ok } else { Exit::TryAgain };
            }
            before = Some(found);
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }
}

async fn ask(address: SocketAddr) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    let asking = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::get("/status").header(HOST, address.to_string()).body(Empty::<Bytes>::new())?;
        let reply = sender.send_request(request).await?;
        let body = Limited::new(reply.into_body(), STATUS_BYTES_MAX).collect().await?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
    };
    tokio::time::timeout(STATUS_ANSWER_MAX, asking).await?
}

/// A line for each flow, with rates where there was a look a second before; then what is wrong.
fn table(now: &Value, before: Option<&Value>) -> String {
    let mut text = format!(
        "{:<24} {:<8} {:>12} {:>10} {:>12} {:>8} {:>10} {:>12}\n",
        "flow",
        "protocol",
        if before.is_some() { "records/s" } else { "records" },
        if before.is_some() { "MB/s" } else { "MB" },
        "backlog",
        "delay s",
        "held",
        "redelivered"
    );
    let flows = |document: &Value| document["flows"].as_array().cloned().unwrap_or_default();
    let earlier = before.map(flows).unwrap_or_default();
    for flow in flows(now) {
        let before = earlier.iter().find(|before| before["flow"] == flow["flow"]);
        let since = |name: &str| count(&flow[name]) - before.map_or(0.0, |before| count(&before[name]));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<24} {:<8} {:>12} {:>10.1} {:>12} {:>8} {:>10} {:>12}",
            flow["flow"].as_str().unwrap_or_default(),
            flow["protocol"].as_str().unwrap_or_default(),
            since("records"),
            since("bytes") / 1e6,
            known(&flow["backlog"]),
            known(&flow["delay_seconds"]),
            known(&flow["held"]),
            known(&flow["redelivered"]),
        );
    }
    for trouble in now["troubles"].as_array().into_iter().flatten() {
        let words = |name: &str| trouble[name].as_str().unwrap_or_default();
        let _ = writeln!(text, "not ready: {}: {}", words("subject"), words("reason"));
    }
    text
}

fn count(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn known(value: &Value) -> String {
    value.as_i64().map_or("unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(records: u64, troubles: Value) -> Value {
        let flow = json!({
            "flow": "orders", "protocol": "share", "records": records, "bytes": records * 1_000_000, "backlog": null, "delay_seconds": 4, "held": 0,
            "redelivered": 1
        });
        json!({ "ready": troubles == json!([]), "flows": [flow], "troubles": troubles })
    }

    #[test]
    fn totals_become_rates_after_the_first_look() {
        let (first, second) = (document(100, json!([])), document(130, json!([])));
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            words(&lines(table(&first, None))[1]),
            ["orders", "share", "100", "100.0", "unknown", "4", "0", "1"]
        );
        assert_eq!(
            words(&lines(table(&second, Some(&first)))[1]),
            ["orders", "share", "30", "30.0", "unknown", "4", "0", "1"]
        );
    }

    #[test]
    fn troubles_are_named() {
        let text = table(&document(0, json!([{ "subject": "orders/target", "reason": "no answer" }])), None);
        assert!(text.ends_with("not ready: orders/target: no answer\n"), "{text}");
    }
}
