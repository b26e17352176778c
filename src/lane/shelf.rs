//! Topic partitions and single records that are held while the others go on (pure: time comes in).

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;

use crate::lane::retry::Patience;
use crate::limits::HOLD_RETRY;
use crate::source::{Parcel, TopicPartition};
use crate::wire::backoff::Backoff;

/// What is held: a topic partition, or one record of it, by its offset.
pub type Subject = (TopicPartition, Option<i64>);

/// Parcels that wait, by what is held, with the time of the next try.
#[derive(Debug, Default)]
pub struct Shelf {
    slots: BTreeMap<Subject, Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    parcels: Vec<Parcel>,
    /// `None` while its parcels are being tried.
    again_at: Option<(Instant, Patience)>,
    backoff: Backoff,
}

impl Shelf {
    /// Puts parcels aside. Their bytes are copied: otherwise each would keep a whole reply in memory.
    pub fn put(&mut self, subject: &Subject, parcels: Vec<Parcel>, (now, patience): (Instant, Patience)) {
        let slot = self.slots.entry(subject.clone()).or_default();
        let compact = |parcel: Parcel| Parcel { records: Bytes::copy_from_slice(&parcel.records), ..parcel };
        slot.parcels.extend(parcels.into_iter().map(compact));
        let pause = match patience {
            Patience::Soon => slot.backoff.pause(),
            Patience::Long | Patience::Record | Patience::Batch => HOLD_RETRY,
        };
        slot.again_at = Some((now + pause, patience));
    }

    /// Takes down what is due for the longest time, so that trials leave room for others. It stays known until
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

    /// What was taken down, with the outcome still open.
    pub fn on_trial(&self) -> Vec<Subject> {
        let slots = self.slots.iter().filter(|(_, slot)| slot.again_at.is_none());
        slots.map(|(subject, _)| subject.clone()).collect()
    }

    /// What was taken down of a subject is done with; `false` where nothing was.
    pub fn end_trial(&mut self, subject: &Subject) -> bool {
        let on_trial = self.slots.get(subject).is_some_and(|slot| slot.again_at.is_none());
        on_trial && self.slots.remove(subject).is_some()
    }

    /// Whether anything of a topic partition is held.
    pub fn has(&self, at: &TopicPartition) -> bool {
        self.slots.keys().any(|(known, _)| known == at)
    }

    /// Parcels that wait with their topic partition.
    pub fn count(&self, at: &TopicPartition) -> usize {
        self.slots.get(&(at.clone(), None)).map_or(0, |slot| slot.parcels.len())
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

    fn subject() -> Subject {
        (at(), None)
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
        shelf.put(&subject(), vec![parcel()], (now, Patience::Long));
        assert_eq!((shelf.due_at(), shelf.soon_at()), (Some(now + HOLD_RETRY), None));
        assert!(shelf.take_due(now).is_empty());
        assert_eq!(shelf.take_due(now + HOLD_RETRY).len(), 1);
        assert_eq!((shelf.on_trial(), shelf.due_at()), (vec![subject()], None));
        assert!(shelf.end_trial(&subject()) && shelf.on_trial().is_empty());
    }

    #[test]
    fn the_success_of_others_takes_nothing_from_what_still_waits() {
        let (now, mut shelf) = (Instant::now(), Shelf::default());
        shelf.put(&subject(), vec![parcel()], (now, Patience::Soon));
        assert!(!shelf.end_trial(&subject()));
        assert_eq!(shelf.parcels().count(), 1);
        assert!(shelf.soon_at().is_some());
    }
}
