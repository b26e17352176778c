//! The same copy by a program of others, for a ratio.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use cluster::read::{Ends, Isolation};
use cluster::{Pair, Peer};

use crate::copy::{COPY_DEADLINE, Cost};
use crate::work::Work;

/// Time between two looks at the target; a copy is timed to within two of them.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What one look shows.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    cpu_seconds: f64,
    records: u64,
}

/// Copies the topic of `work` with a peer to a target that lacks it, and deletes the copy.
///
/// The clock runs from the first look that shows a record on the target to the first one that shows all.
/// Errors: it did not copy all in time.
pub(crate) fn mirror(pair: &Pair, work: &Work, start: impl FnOnce() -> anyhow::Result<Peer>) -> anyhow::Result<Cost> {
    pair.target.create_topic(work.topic, work.partitions, &[])?;
    let ends = Ends::of(pair.target.bootstrap(), work.topic, Isolation::Uncommitted)?;
    let mut peer = start()?;
    let deadline = Instant::now() + COPY_DEADLINE;
    let mut begin = None;
    let end = loop {
        peer.check_running()?;
        let now = look(&ends, &peer)?;
        if now.records > 0 {
            begin.get_or_insert(now);
        }
        if now.records >= work.load.records {
            break now;
        }
        if now.at >= deadline {
            bail!("{} of {} records were copied in {COPY_DEADLINE:?}", now.records, work.load.records);
        }
        sleep(LOOK_INTERVAL);
    };
    let begin = begin.unwrap_or(end);
    let peak_bytes = peer.peak_rss_bytes()?;
    drop(peer);
    pair.target.delete_topic(work.topic)?;
    Ok(Cost {
        wall: end.at - begin.at,
        cpu_seconds: end.cpu_seconds - begin.cpu_seconds,
        cpu_seconds_whole: end.cpu_seconds,
        peak_bytes,
    })
}

fn look(ends: &Ends, peer: &Peer) -> anyhow::Result<Look> {
    // Peers write without transactions here, so every offset is a record.
    let records = ends.now()?.iter().map(|end| end.unsigned_abs()).sum();
    Ok(Look { at: Instant::now(), cpu_seconds: peer.cpu_seconds()?, records })
}
