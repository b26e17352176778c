//! How far a flow has finished each topic partition, by the leader epoch of what it finished (pure).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::batch::{OffsetRange, RecordBatch, within};
use crate::limits::FRONTIER_EPOCHS_MAX;
use crate::source::Key;

/// What all lanes of a flow in this process have finished. A clone shares it.
#[derive(Debug, Clone, Default)]
pub struct Frontiers {
    finished: Arc<Mutex<HashMap<Key, Epochs>>>,
}

/// From the lowest to the highest offset finished, by leader epoch.
type Epochs = BTreeMap<i32, OffsetRange>;

impl Frontiers {
    /// Takes note of finished offsets; their leader epochs stand in `records`.
    pub fn finish(&self, key: Key, held: &[OffsetRange], records: &Bytes) {
        let mut finished = self.finished.lock().expect("no code panics while it holds this lock");
        let epochs = finished.entry(key).or_default();
        // What can't be read is not written either, so it is never finished.
        for batch in RecordBatch::split(records.clone()).map_while(Result::ok) {
            for part in within(held, batch.offsets()) {
                let range = epochs.entry(batch.leader_epoch()).or_insert(part);
                *range = OffsetRange { first: range.first.min(part.first), last: range.last.max(part.last) };
            }
        }
        while epochs.len() > FRONTIER_EPOCHS_MAX {
            epochs.pop_first();
        }
    }

    /// For each leader epoch below `epoch`: the offset behind all that was finished up to it.
    pub fn ends_before(&self, key: Key, epoch: i32) -> BTreeMap<i32, i64> {
        let finished = self.finished.lock().expect("no code panics while it holds this lock");
        let mut end = 0;
        let ends = finished.get(&key).into_iter().flat_map(|epochs| epochs.range(..epoch)).map(|(epoch, range)| {
            end = end.max(range.last + 1);
            (*epoch, end)
        });
        ends.collect()
    }

    /// The lowest offset that was finished after this leader epoch.
    pub fn begin_after(&self, key: Key, epoch: i32) -> Option<i64> {
        let finished = self.finished.lock().expect("no code panics while it holds this lock");
        finished.get(&key)?.range(epoch.saturating_add(1)..).map(|(_, range)| range.first).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample::Sample;
    use uuid::Uuid;

    fn range(first: i64, last: i64) -> OffsetRange {
        OffsetRange { first, last }
    }

    fn batch(base_offset: i64, records: i32, leader_epoch: i32) -> Bytes {
        Sample { leader_epoch, ..Sample::of(base_offset, 0..records) }.bytes()
    }

    #[test]
    fn what_is_finished_is_known_by_leader_epoch() {
        let (frontiers, key, other) = (Frontiers::default(), (Uuid::nil(), 0), (Uuid::nil(), 1));
        let both = [batch(90, 10, 3), batch(100, 5, 4), batch(105, 5, 4)].concat().into();
        frontiers.finish(key, &[range(92, 95), range(97, 98), range(103, 109)], &both);
        assert_eq!(frontiers.ends_before(key, 9), [(3, 99), (4, 110)].into());
        assert_eq!(frontiers.ends_before(key, 4), [(3, 99)].into());
        assert_eq!([2, 3, 4].map(|epoch| frontiers.begin_after(key, epoch)), [Some(92), Some(103), None]);
        assert_eq!((frontiers.ends_before(other, 9).len(), frontiers.begin_after(other, 0)), (0, None));
    }

    #[test]
    fn only_the_newest_epochs_are_remembered() {
        let (frontiers, key) = (Frontiers::default(), (Uuid::nil(), 0));
        for epoch in 0..20 {
            frontiers.finish(key, &[range(0, 9)], &batch(0, 10, epoch));
        }
        assert_eq!(frontiers.ends_before(key, 99).into_keys().collect::<Vec<_>>(), (12..20).collect::<Vec<_>>());
    }
}
