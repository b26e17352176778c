//! Which fetches may wait at a broker for records to come: those of a process must not wait for its own records.
//!
//! A worker that dies leaves its waiting fetches behind for a moment. The broker releases what the worker held, gives it to one of
//! these fetches, finds that one's connection closed as well, and releases it again: the records have lost two delivery attempts
//! instead of one (tried on 4.4.0: with two lanes on one partition, a kill raised the delivery count from 1 to 3). So a fetch waits
//! only where nobody in the process holds or waits for any of its partitions; otherwise it takes what is there, and is sent
//! again when something changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::source::Key;

/// What the readers of a flow hold and wait for, in this process.
#[derive(Debug, Clone, Default)]
pub struct Parking {
    spots: Arc<Mutex<BTreeMap<u64, Taken>>>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Taken {
    held: BTreeSet<Key>,
    awaited: BTreeSet<Key>,
}

/// The entry of one reader; it goes with the reader.
#[derive(Debug)]
pub struct Spot {
    parking: Parking,
    number: u64,
    changes: watch::Receiver<()>,
}

impl Parking {
    /// A new entry.
    pub fn spot(&self) -> Spot {
        let mut spots = self.lock();
        let number = spots.last_key_value().map_or(0, |(number, _)| number + 1);
        spots.insert(number, Taken::default());
        Spot { parking: self.clone(), number, changes: self.changes.subscribe() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Taken>> {
        self.spots.lock().expect("no code panics while it holds this lock")
    }
}

impl Spot {
    /// Whether a fetch from `wanted` may wait; if so, others may not until [`leave`](Self::leave).
    pub fn park(&mut self, wanted: &BTreeSet<Key>) -> bool {
        self.changes.mark_unchanged();
        let mut spots = self.parking.lock();
        let is_free = spots.iter().all(|(number, taken)| {
            taken.held.is_disjoint(wanted) && (*number == self.number || taken.awaited.is_disjoint(wanted))
        });
        if is_free && let Some(taken) = spots.get_mut(&self.number) {
            taken.awaited.clone_from(wanted);
        }
        is_free
    }

    /// The fetch does not wait any more.
    pub fn leave(&self) {
        self.change(|taken| taken.awaited.clear());
    }

    /// The partitions of which the reader holds records.
    pub fn hold(&self, held: BTreeSet<Key>) {
        self.change(|taken| taken.held = held);
    }

    /// Waits until a partition has become free since the last [`park`](Self::park).
    pub async fn changed(&mut self) {
        // The sender lives in the parking that this spot belongs to.
        let _ = self.changes.changed().await;
    }

    /// Tells the others only of what becomes free: a fetch for what was just taken would bring nothing, and a worker that is killed
    /// in that moment would leave it behind.
    fn change(&self, change: impl FnOnce(&mut Taken)) {
        let mut spots = self.parking.lock();
        let Some(taken) = spots.get_mut(&self.number) else { return };
        let before: Vec<Key> = taken.held.union(&taken.awaited).copied().collect();
        change(taken);
        let is_freed = before.iter().any(|key| !taken.held.contains(key) && !taken.awaited.contains(key));
        drop(spots);
        if is_freed {
            self.parking.changes.send_replace(());
        }
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        self.parking.lock().remove(&self.number);
        self.parking.changes.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn keys(partitions: &[i32]) -> BTreeSet<Key> {
        partitions.iter().map(|partition| (Uuid::nil(), *partition)).collect()
    }

    #[test]
    fn nobody_waits_for_what_is_held_or_awaited_in_the_same_process() {
        let parking = Parking::default();
        let (mut a, mut b) = (parking.spot(), parking.spot());
        assert!(a.park(&keys(&[0, 1])));
        assert!(!b.park(&keys(&[1, 2])));
        assert!(b.park(&keys(&[2, 3])), "other partitions don't matter");
        b.leave();
        a.leave();
        a.hold(keys(&[1]));
        assert!(!b.park(&keys(&[1])) && !a.park(&keys(&[0, 1])), "not even the holder itself");
        a.hold(keys(&[]));
        assert!(b.park(&keys(&[1])));
        drop(b);
        assert!(a.park(&keys(&[1])));
    }

    #[tokio::test]
    async fn who_may_not_wait_is_told_when_something_becomes_free() {
        let parking = Parking::default();
        let (a, mut b) = (parking.spot(), parking.spot());
        a.hold(keys(&[1]));
        assert!(!b.park(&keys(&[1])));
        a.hold(keys(&[1, 2]));
        assert!(!b.changes.has_changed().unwrap(), "what is taken is nothing to look for");
        a.hold(keys(&[2]));
        b.changed().await;
        assert!(b.park(&keys(&[1])));
    }
}
