//! Whether a limit holds: a minute of a copy that could go much faster.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cluster::load::{Load, produce};
use cluster::{Flow, Pair, Worker, unique};

use crate::work::PARTITIONS;

/// What is measured, after a start of [`START`].
const SPAN: Duration = Duration::from_secs(60);

/// By then both lanes are at work.
const START: Duration = Duration::from_secs(5);

/// The smoothness is looked at in windows of this.
const WINDOW: Duration = Duration::from_secs(5);

/// Size of each record, in batches of some 200 KB: several a second at 1 MB/s.
const VALUE_BYTES: usize = 1_000;

/// Copies with `limit.bytes.per.second` = `bytes`; prints what passed over the span, and in its slowest and quickest window.
///
/// Errors: the source ran dry, or a cluster does not answer.
pub(crate) fn measure(binary: &Path, pair: &Pair, bytes: u64) -> anyhow::Result<()> {
    let topic = "bench-limit";
    pair.source.create_topic(topic, PARTITIONS, &[])?;
    let records = bytes * (SPAN + 4 * START).as_secs() / VALUE_BYTES as u64;
    let load = Load {
        value_bytes: VALUE_BYTES,
        batch_bytes: 200_000,
        compression: "none".to_owned(),
        ..Load::of(records.max(1))
    };
    produce(pair.source.bootstrap(), topic, &load)?;
    let settings = vec![("limit.bytes.per.second".to_owned(), bytes.to_string())];
    let flow = Flow { topics: vec![topic.to_owned()], group: unique("bench"), settings, ends: None };
    let mut worker = Worker::start(binary, pair, &flow)?;
    worker.wait_for("/live")?;
    while sent(&worker)? == 0 {
        sleep(Duration::from_millis(20));
    }
    sleep(START);
    let (begun, first) = (Instant::now(), sent(&worker)?);
    let mut rates = vec![];
    let mut last = (begun, first);
    while begun.elapsed() < SPAN {
        sleep(WINDOW);
        let now = (Instant::now(), sent(&worker)?);
        rates.push((now.1 - last.1) as f64 / (now.0 - last.0).as_secs_f64());
        last = now;
    }
    if worker.metrics()?.sum("group_backlog").is_none_or(|backlog| backlog <= 0) {
        bail!("the source ran dry: its records did not last");
    }
    let rate = (last.1 - first) as f64 / (last.0 - begun).as_secs_f64();
    let (min, max) = rates.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), rate| (min.min(*rate), max.max(*rate)));
    println!(
        "limit {bytes} bytes/s: {rate:.0} bytes/s over {} s ({:+.1} %), {min:.0} to {max:.0} in windows of {} s, CPU {:.2} s",
        (last.0 - begun).as_secs(),
        (rate / bytes as f64 - 1.0) * 100.0,
        WINDOW.as_secs(),
        worker.cpu_seconds()?,
    );
    worker.end()
}

fn sent(worker: &Worker) -> anyhow::Result<u64> {
    let sent = worker.metrics()?.sum("sink_byte_send_total").context("the worker has no metric of bytes sent")?;
    Ok(sent.unsigned_abs())
}
