//! One measured copy.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use cluster::{Flow, Pair, Settings, Verification, Worker, unique};

use crate::work::Work;

/// Time between two looks at the metrics; a copy is timed to within two of them.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long one copy may take.
pub(crate) const COPY_DEADLINE: Duration = Duration::from_secs(300);

/// What a copy took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// From the first record to the last.
    pub(crate) wall: Duration,
    /// Processor time of the copying process within that span, in seconds.
    pub(crate) cpu_seconds: f64,
    /// The same from the start of the process.
    pub(crate) cpu_seconds_whole: f64,
    /// The most memory that the process held, in bytes.
    pub(crate) peak_bytes: u64,
}

/// What one look at a worker shows.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    cpu_seconds: f64,
    acquired: u64,
    acknowledged: u64,
}

/// Copies the topic of `work` through a new share group to a target that lacks it, and deletes the copy after `look_at` has seen it.
/// `ends`: how both clusters are reached, where that is not by their plain listeners.
///
/// The clock runs from the first record that a lane was given to the last acknowledged one; through a consumer group, to the last one that is
/// committed on the target. Returns the cost, and what `look_at` has found.
/// Errors: the copy took too long, or those of `look_at`.
pub(crate) fn copy<T>(
    (binary, pair, ends): (&Path, &Pair, Option<[Settings; 2]>),
    work: &Work,
    look_at: impl FnOnce(&Worker) -> anyhow::Result<T>,
) -> anyhow::Result<(Cost, T)> {
    let flow = Flow { topics: vec![work.topic.to_owned()], group: unique("bench"), settings: Vec::new(), ends };
    copy_flow((binary, pair), &flow, work.load.records, look_at)
}

/// The same for a flow of one topic that holds so many records.
pub(crate) fn copy_flow<T>(
    (binary, pair): (&Path, &Pair),
    flow: &Flow,
    records: u64,
    look_at: impl FnOnce(&Worker) -> anyhow::Result<T>,
) -> anyhow::Result<(Cost, T)> {
    let mut worker = Worker::start(binary, pair, flow)?;
    worker.wait_for("/live")?;
    let (begin, end) = watch(&worker, records)?;
    let cost = Cost {
        wall: end.at - begin.at,
        cpu_seconds: end.cpu_seconds - begin.cpu_seconds,
        cpu_seconds_whole: end.cpu_seconds,
        peak_bytes: worker.peak_rss_bytes()?,
    };
    let found = look_at(&worker)?;
    worker.end()?;
    flow.topics.iter().try_for_each(|topic| pair.target.delete_topic(topic))?;
    Ok((cost, found))
}

/// Compares every record of a copy with its original; returns how long that took. Errors: any is missing or doubled.
pub(crate) fn verify(binary: &Path, worker: &Worker, work: &Work) -> anyhow::Result<Duration> {
    let verification = Verification::run(binary, &worker.config())?;
    if !verification.is_exact() || verification.source != work.load.records {
        bail!("{} records were loaded:\n{}", work.load.records, verification.report);
    }
    Ok(verification.elapsed)
}

/// The last look before the first record was acquired, and the first one after the last was acknowledged.
fn watch(worker: &Worker, records: u64) -> anyhow::Result<(Look, Look)> {
    let mut begin = look(worker)?;
    let deadline = begin.at + COPY_DEADLINE;
    loop {
        let now = look(worker)?;
        if now.acquired == 0 {
            begin = now;
        }
        if now.acknowledged >= records {
            return Ok((begin, now));
        }
        if now.at >= deadline {
            bail!("{} of {records} records are acknowledged after {COPY_DEADLINE:?}", now.acknowledged);
        }
        sleep(LOOK_INTERVAL);
    }
}

fn look(worker: &Worker) -> anyhow::Result<Look> {
    let metrics = worker.metrics()?;
    // Through a consumer group records are not acknowledged one by one: there, what is committed on the target counts.
    let is_shared = metrics.sum("sink_record_acknowledge_total").is_some();
    let acknowledged = if is_shared { "sink_record_acknowledge_total" } else { "sink_record_send_total" };
    // What a lane counts of a topic is told from the first record on.
    let count = |name| metrics.sum(name).unwrap_or_default().unsigned_abs();
    Ok(Look {
        at: Instant::now(),
        cpu_seconds: worker.cpu_seconds()?,
        acquired: count("sink_record_read_total"),
        acknowledged: count(acknowledged),
    })
}
