//! Topic partitions that are held while the others go on (pure: time comes in).

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::lane::retry::Patience;
use crate::limits::HOLD_RETRY;
use crate::source::{Parcel, TopicPartition};
use crate::wire::backoff::Backoff;

/// Parcels that wait, by topic partition, with the time of the next try.
#[derive(Debug, Default)]
pub struct Shelf {
    places: BTreeMap<TopicPartition, Place>,
}

#[derive(Debug)]
struct Place {
    parcels: Vec<Parcel>,
    /// `None` while its parcels are being tried.
    again_at: Option<Instant>,
    backoff: Backoff,
}

impl Shelf {
    /// Puts parcels of one topic partition aside.
    pub fn put(&mut self, at: &TopicPartition, parcels: Vec<Parcel>, (now, patience): (Instant, Patience)) {
        let place = self.places.entry(at.clone()).or_insert_with(|| Place {
            parcels: vec![],
            again_at: None,
            backoff: Backoff::default(),
        });
        place.parcels.extend(parcels);
        let pause = match patience {
            Patience::Soon => place.backoff.pause(),
            Patience::Long => HOLD_RETRY,
        };
        place.again_at = Some(now + pause);
    }

    /// Takes down what is to be tried again. Its topic partition stays known until the trial [ends](Self::end_trial).
    pub fn take_due(&mut self, now: Instant) -> Vec<Parcel> {
        let due = self.places.values_mut().filter(|place| place.again_at.is_some_and(|at| at <= now));
        due.flat_map(|place| {
            place.again_at = None;
            std::mem::take(&mut place.parcels)
        })
        .collect()
    }

    /// When the next try is due.
    pub fn due_at(&self) -> Option<Instant> {
        self.places.values().filter_map(|place| place.again_at).min()
    }

    /// Topic partitions whose parcels were taken down, with the outcome still open.
    pub fn on_trial(&self) -> Vec<TopicPartition> {
        let places = self.places.iter().filter(|(_, place)| place.again_at.is_none());
        places.map(|(at, _)| at.clone()).collect()
    }

    /// A topic partition works again; `false` where it was not held.
    pub fn end_trial(&mut self, at: &TopicPartition) -> bool {
        self.places.remove(at).is_some()
    }

    /// All parcels that wait.
    pub fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.places.values().flat_map(|place| &place.parcels)
    }
}
