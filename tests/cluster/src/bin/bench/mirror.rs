//! The same copy by MirrorMaker 2, for a ratio.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use cluster::read::{Isolation, end_offsets};
use cluster::{MirrorMaker, Pair};

use crate::PARTITIONS;
use crate::copy::{COPY_DEADLINE, Cost};
use crate::work::Work;

/// Time between two looks at the target: each makes a client of its own. Copies take seconds.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// What one look shows.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    cpu_seconds: f64,
    records: u64,
}

/// Copies the topic of `work` with MirrorMaker to a target that lacks it, and deletes the copy.
///
/// The clock runs from the first look that shows a record on the target to the first one that shows all.
/// Errors: it did not copy all in time.
pub(crate) fn mirror(pair: &Pair, work: &Work) -> anyhow::Result<Cost> {
    pair.target.create_topic(work.topic, PARTITIONS, &[])?;
    let mut mirrormaker = MirrorMaker::start(pair, work.topic, &work.load.compression)?;
    let deadline = Instant::now() + COPY_DEADLINE;
    let mut begin = None;
    let end = loop {
        mirrormaker.check_running()?;
        let now = look(pair, work, &mirrormaker)?;
        if now.records > 0 {
            begin.get_or_insert(now);
        }
        if now.records >= work.load.records {
            break now;
        }
        if now.at >= deadline {
            bail!("MirrorMaker copied {} of {} records in {COPY_DEADLINE:?}", now.records, work.load.records);
        }
        sleep(LOOK_INTERVAL);
    };
    let begin = begin.unwrap_or(end);
    let peak_bytes = mirrormaker.peak_rss_bytes()?;
    drop(mirrormaker);
    pair.target.delete_topic(work.topic)?;
    Ok(Cost {
        wall: end.at - begin.at,
        cpu_seconds: end.cpu_seconds - begin.cpu_seconds,
        cpu_seconds_whole: end.cpu_seconds,
        peak_bytes,
    })
}

fn look(pair: &Pair, work: &Work, mirrormaker: &MirrorMaker) -> anyhow::Result<Look> {
    // MirrorMaker writes without transactions here, so every offset is a record.
    let ends = end_offsets(pair.target.bootstrap(), work.topic, Isolation::Uncommitted)?;
    let records = ends.iter().map(|end| end.unsigned_abs()).sum();
    Ok(Look { at: Instant::now(), cpu_seconds: mirrormaker.cpu_seconds()?, records })
}
