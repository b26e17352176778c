//! Topic partitions that are held while the others go on (pure: time comes in).

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;

use crate::lane::retry::Patience;
use crate::limits::HOLD_RETRY;
use crate::source::{Parcel, TopicPartition};
use crate::wire::backoff::Backoff;

/// Parcels that wait, by topic partition, with the time of the next try.
#[derive(Debug, Default)]
pub struct Shelf {
    slots: BTreeMap<TopicPartition, Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    parcels: Vec<Parcel>,
    /// `None` while its parcels are being tried.
    again_at: Option<(Instant, Patience)>,
    backoff: Backoff,
}

impl Shelf {
    /// Puts parcels of one topic partition aside. Their bytes are copied: otherwise each would keep a whole reply in memory.
    pub fn put(&mut self, at: &TopicPartition, parcels: Vec<Parcel>, (now, patience): (Instant, Patience)) {
        let slot = self.slots.entry(at.clone()).or_default();
        let compact = |parcel: Parcel| Parcel { records: Bytes::copy_from_slice(&parcel.records), ..parcel };
        slot.parcels.extend(parcels.into_iter().map(compact));
        let pause = match patience {
            Patience::Soon => slot.backoff.pause(),
            Patience::Long => HOLD_RETRY,
        };
        slot.again_at = Some((now + pause, patience));
    }

    /// Takes down the topic partition that is due for the longest time, so that trials leave room for others. It stays known until
    /// its trial [ends](Self::end_trial).
    pub fn take_due(&mut self, now: Instant) -> Vec<Parcel> {
        let due = self.slots.values_mut().filter(|slot| slot.again_at.is_some_and(|(at, _)| at <= now));
        let Some(slot) = due.min_by_key(|slot| slot.again_at.map(|(at, _)| at)) else { return vec![] };
        slot.again_at = None;
        std::mem::take(&mut slot.parcels)
    }

    /// When the next try is due.
    pub fn due_at(&self) -> Option<Instant> {
        self.slots.values().filter_map(|slot| Some(slot.again_at?.0)).min()
    }

    /// When the next try is due of something that should heal by itself.
    pub fn soon_at(&self) -> Option<Instant> {
        let soon =
            self.slots.values().filter_map(|slot| slot.again_at.filter(|(_, patience)| *patience == Patience::Soon));
        soon.map(|(at, _)| at).min()
    }

    /// Topic partitions whose parcels were taken down, with the outcome still open.
    pub fn on_trial(&self) -> Vec<TopicPartition> {
        let slots = self.slots.iter().filter(|(_, slot)| slot.again_at.is_none());
        slots.map(|(at, _)| at.clone()).collect()
    }

    /// The parcels of a topic partition that were taken down are done with; `false` where none were.
    pub fn end_trial(&mut self, at: &TopicPartition) -> bool {
        let on_trial = self.slots.get(at).is_some_and(|slot| slot.again_at.is_none());
        on_trial && self.slots.remove(at).is_some()
    }

    /// All parcels that wait.
    pub fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.slots.values().flat_map(|slot| &slot.parcels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::OffsetRange;
    use crate::source::Hold;
    use std::sync::Arc;
    use std::time::Duration;

    fn far_off() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn at() -> TopicPartition {
        TopicPartition { topic: "t".into(), partition: 0 }
    }

    fn parcel() -> Parcel {
        let span = OffsetRange { first: 0, last: 9 };
        Parcel {
            at: at(),
            topic_id: uuid::Uuid::nil(),
            leader: 1,
            records: Bytes::from_static(b"x"),
            hold: Arc::new(Hold::new(vec![span], far_off())),
            span,
            delivery_count: 1,
            fragile: false,
            fetched_at: Instant::now(),
        }
    }

    #[test]
    fn what_waits_is_tried_again_when_its_time_comes() {
        let (now, mut shelf) = (Instant::now(), Shelf::default());
        shelf.put(&at(), vec![parcel()], (now, Patience::Long));
        assert_eq!((shelf.due_at(), shelf.soon_at()), (Some(now + HOLD_RETRY), None));
        assert!(shelf.take_due(now).is_empty());
        assert_eq!(shelf.take_due(now + HOLD_RETRY).len(), 1);
        assert_eq!((shelf.on_trial(), shelf.due_at()), (vec![at()], None));
        assert!(shelf.end_trial(&at()) && shelf.on_trial().is_empty());
    }

    #[test]
    fn the_success_of_others_takes_nothing_from_what_still_waits() {
        let (now, mut shelf) = (Instant::now(), Shelf::default());
        shelf.put(&at(), vec![parcel()], (now, Patience::Soon));
        assert!(!shelf.end_trial(&at()));
        assert_eq!(shelf.parcels().count(), 1);
        assert!(shelf.soon_at().is_some());
    }
}
