//! Who reads what, written down by the readers themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use sharebridge::source::Key;
use tokio::time::Instant;

/// Shared by all readers of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    owners: BTreeMap<Key, String>,
    /// Readers that were killed: until when what they own is nobody else's.
    dead: BTreeMap<String, Instant>,
    violations: Vec<String>,
    /// How often a partition was taken.
    moves: usize,
}

impl Ledger {
    /// A reader begins with a partition. That nobody else may be at it is checked here, once for each time.
    pub(crate) fn take(&self, key: Key, reader: &str) {
        let mut pages = self.pages();
        pages.moves += 1;
        let Some(before) = pages.owners.insert(key, reader.to_owned()) else { return };
        match pages.dead.get(&before) {
            Some(until) if Instant::now() >= *until => {}
            Some(until) => {
                let early = *until - Instant::now();
                pages.violations.push(format!("{reader} has {key:?} {early:?} before the session of {before} is over"));
            }
            None => pages.violations.push(format!("{reader} has {key:?}, and so has {before}")),
        }
    }

    /// A reader has given a partition up, or lost it.
    pub(crate) fn give_up(&self, key: Key, reader: &str) {
        let mut pages = self.pages();
        if pages.owners.get(&key).is_some_and(|owner| owner == reader) {
            pages.owners.remove(&key);
        }
    }

    /// Something that must not be.
    pub(crate) fn complain(&self, complaint: String) {
        self.pages().violations.push(complaint);
    }

    /// A reader was killed: what it owned stays its own until then.
    pub(crate) fn bury(&self, reader: &str, until: Instant) {
        self.pages().dead.insert(reader.to_owned(), until);
    }

    /// What each reader has.
    pub(crate) fn shares(&self) -> BTreeMap<String, BTreeSet<Key>> {
        let mut shares: BTreeMap<String, BTreeSet<Key>> = BTreeMap::new();
        for (key, reader) in &self.pages().owners {
            shares.entry(reader.clone()).or_default().insert(*key);
        }
        shares
    }

    /// How often a partition was taken so far.
    pub(crate) fn moves(&self) -> usize {
        self.pages().moves
    }

    /// Fails if ever anything was wrong.
    pub(crate) fn check(&self) {
        let violations = self.pages().violations.clone();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap()
    }
}
