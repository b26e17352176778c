//! The bytes that the fetchers of a lane may read ahead, together.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Mutex as AsyncMutex, Notify};

/// See the module. What is taken comes back when it is dropped, wherever that happens.
///
/// A record batch comes whole, even if it is larger than what was asked for, and than all there is: then more is taken than there was,
/// and nobody else gets anything until that is made good.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    free: Mutex<i64>,
    /// Whose turn it is to wait: first come, first served.
    turn: AsyncMutex<()>,
    returned: Notify,
}

/// A part of the room.
#[derive(Debug)]
pub struct Taken {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, free: Mutex::new(signed(bytes)), turn: AsyncMutex::default(), returned: Notify::new() })
    }

    /// Waits for `least` bytes, or for all that there is if that is less, and takes up to `most`.
    pub async fn take(self: &Arc<Self>, least: usize, most: usize) -> Taken {
        let _turn = self.turn.lock().await;
        let least = least.min(self.bytes);
        loop {
            if let Some(bytes) = self.try_take(least, most.max(least)) {
                return Taken { room: self.clone(), bytes };
            }
            self.returned.notified().await;
        }
    }

    fn try_take(&self, least: usize, most: usize) -> Option<usize> {
        let mut free = self.lock();
        let bytes = usize::try_from(*free).ok().filter(|free| *free >= least)?.min(most);
        *free -= signed(bytes);
        Some(bytes)
    }

    /// Bytes that are taken.
    pub fn used(&self) -> usize {
        usize::try_from(signed(self.bytes) - *self.lock()).unwrap_or(0)
    }

    fn put_back(&self, bytes: usize) {
        *self.lock() += signed(bytes);
        // One waits at most, and a word that nobody hears is kept for the next.
        self.returned.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, i64> {
        self.free.lock().expect("no code panics while it holds this lock")
    }
}

impl Taken {
    /// How much it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A part for itself. Where this one has less, the rest is taken all the same: the bytes are in memory already.
    pub fn part(&mut self, bytes: usize) -> Taken {
        let own = bytes.min(self.bytes);
        self.bytes -= own;
        *self.room.lock() -= signed(bytes - own);
        Taken { room: self.room.clone(), bytes }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.put_back(self.bytes);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("no machine has 2^63 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this much can be had now.
    async fn can_take(room: &Arc<Room>, least: usize) -> bool {
        tokio::select! {
            biased;
            _ = room.take(least, least) => true,
            () = tokio::task::yield_now() => false,
        }
    }

    #[tokio::test]
    async fn what_is_dropped_is_free_again() {
        let room = Room::new(100);
        let mut taken = room.take(10, 80).await;
        assert_eq!((taken.bytes(), room.used()), (80, 80));
        let part = taken.part(30);
        drop(taken);
        assert_eq!((part.bytes(), room.used()), (30, 30));
        assert!(!can_take(&room, 71).await && can_take(&room, 70).await);
        drop(part);
        assert_eq!(room.used(), 0);
    }

    #[tokio::test]
    async fn more_than_all_there_is_waits_for_all_and_may_overdraw() {
        let room = Room::new(100);
        let mut taken = room.take(1_000, 1_000).await;
        assert_eq!(taken.bytes(), 100);
        let large = taken.part(400);
        drop(taken);
        assert_eq!(room.used(), 400);
        let small = large.room.clone();
        assert!(!can_take(&small, 1).await);
        drop(large);
        assert!(can_take(&room, 100).await);
    }

    #[tokio::test]
    async fn who_comes_first_is_served_first() {
        let room = Room::new(100);
        let all = room.take(100, 100).await;
        let (first, second) = (room.clone(), room.clone());
        let first = tokio::spawn(async move { first.take(90, 90).await });
        tokio::task::yield_now().await;
        let second = tokio::spawn(async move { second.take(5, 5).await });
        tokio::task::yield_now().await;
        assert!(!first.is_finished() && !second.is_finished());
        drop(all);
        let first = first.await.unwrap();
        let second = second.await.unwrap();
        assert_eq!((first.bytes(), second.bytes()), (90, 5));
    }
}
