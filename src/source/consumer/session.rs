//! A fetch session: what the broker knows of what we read, so that a request names only what has changed (KIP-227). Pure.

use std::collections::BTreeMap;

use crate::source::Key;
use crate::wire::fetch::{FetchFrom, TopicAt};

/// Epoch of the request that opens a session, and drops the one that it names.
const OPENING: i32 = 0;
/// Epoch of the request that closes a session.
const CLOSING: i32 = -1;

/// See the module.
#[derive(Debug, Default)]
pub struct FetchSession {
    id: i32,
    epoch: i32,
    /// What the last request has made the broker believe.
    known: BTreeMap<Key, FetchFrom>,
    /// How many sessions were opened: each begins with another partition, since a broker fills its reply from the first on.
    openings: usize,
}

/// What a request has to say of the session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Session.
    pub id: i32,
    /// Its epoch.
    pub epoch: i32,
    /// Partitions that are new, or stand elsewhere than the broker knows; all of them where the session is opened.
    pub partitions: Vec<FetchFrom>,
    /// Partitions that are not wanted any more.
    pub forget: Vec<TopicAt>,
}

impl FetchSession {
    /// What the next request says so that these partitions are read, and no others.
    pub fn say(&mut self, wanted: BTreeMap<Key, FetchFrom>) -> Said {
        let mut said = Said { id: self.id, epoch: self.epoch, ..Said::default() };
        if self.epoch == OPENING {
            said.partitions = wanted.values().cloned().collect();
            let first = self.openings % said.partitions.len().max(1);
            said.partitions.rotate_left(first);
            self.openings = self.openings.wrapping_add(1);
        } else {
            let is_news = |(key, from): &(&Key, &FetchFrom)| self.known.get(key) != Some(from);
            said.partitions = wanted.iter().filter(is_news).map(|(_, from)| from.clone()).collect();
            let gone = self.known.iter().filter(|(key, _)| !wanted.contains_key(key));
            said.forget = gone.map(|(_, from)| from.at.clone()).collect();
        }
        self.known = wanted;
        said
    }

    /// The offset that the last request has asked for in a partition.
    pub fn asked(&self, key: Key) -> Option<i64> {
        self.known.get(&key).map(|from| from.offset)
    }

    /// The partitions that the last request has asked for.
    pub fn all_asked(&self) -> impl Iterator<Item = Key> {
        self.known.keys().copied()
    }

    /// The broker has answered without an error, and names this session: 0 where it keeps none, so that all is said again.
    pub fn on_answered(&mut self, id: i32) {
        self.epoch = match self.epoch {
            _ if id == 0 => OPENING,
            i32::MAX => 1,
            epoch => epoch + 1,
        };
        self.id = id;
    }

    /// The next request opens a new session in place of this one: the broker has refused it, or nobody knows what it has read of it.
    pub fn begin_anew(&mut self) {
        self.epoch = OPENING;
    }

    /// The same, where the broker does not know the session.
    pub fn forget(&mut self) {
        self.id = 0;
        self.begin_anew();
    }

    /// The request that closes the session; `None` where there is none.
    pub fn close(&mut self) -> Option<Said> {
        let id = std::mem::take(&mut self.id);
        (id != 0).then(|| Said { id, epoch: CLOSING, ..Said::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn wanted(places: &[(i32, i64)]) -> BTreeMap<Key, FetchFrom> {
        let from = |&(partition, offset): &(i32, i64)| {
            let at = TopicAt { topic: "t".into(), topic_id: Uuid::nil(), partition };
            ((Uuid::nil(), partition), FetchFrom { at, offset, leader_epoch: 3, last_epoch: 2 })
        };
        places.iter().map(from).collect()
    }

    /// Session, epoch, what is named with its offset, what is forgotten.
    type Short = (i32, i32, Vec<(i32, i64)>, Vec<i32>);

    fn short(said: Said) -> Short {
        let partitions = said.partitions.iter().map(|from| (from.at.partition, from.offset)).collect();
        (said.id, said.epoch, partitions, said.forget.iter().map(|at| at.partition).collect())
    }

    #[test]
    fn a_session_names_all_once_and_then_what_has_changed() {
        let mut session = FetchSession::default();
        assert_eq!(short(session.say(wanted(&[(0, 5), (1, 7)]))), (0, 0, vec![(0, 5), (1, 7)], vec![]));
        session.on_answered(42);
        assert_eq!(short(session.say(wanted(&[(0, 5), (1, 8)]))), (42, 1, vec![(1, 8)], vec![]));
        session.on_answered(42);
        assert_eq!(short(session.say(wanted(&[(1, 8), (2, 0)]))), (42, 2, vec![(2, 0)], vec![0]));
        session.on_answered(42);
        assert_eq!(short(session.say(wanted(&[(1, 8), (2, 0)]))), (42, 3, vec![], vec![]));
        assert_eq!(session.close().map(short), Some((42, -1, vec![], vec![])));
        assert_eq!(session.close(), None);
    }

    #[test]
    fn another_leader_epoch_is_news() {
        let mut session = FetchSession::default();
        let mut places = wanted(&[(0, 5)]);
        session.say(places.clone());
        session.on_answered(1);
        places.values_mut().for_each(|from| from.leader_epoch += 1);
        assert_eq!(session.say(places).partitions.len(), 1);
    }

    #[test]
    fn without_a_session_everything_is_named_each_time_from_another_partition_on() {
        let mut session = FetchSession::default();
        let places = wanted(&[(0, 0), (1, 0), (2, 0)]);
        let firsts = (0..4).map(|_| {
            let said = session.say(places.clone());
            session.on_answered(0);
            assert_eq!((said.id, said.epoch, said.partitions.len()), (0, 0, 3));
            said.partitions[0].at.partition
        });
        assert_eq!(firsts.collect::<Vec<_>>(), [0, 1, 2, 0]);
    }

    #[test]
    fn a_refused_session_is_replaced_and_an_unknown_one_not_named() {
        let mut session = FetchSession::default();
        session.say(wanted(&[(0, 0)]));
        session.on_answered(42);
        session.begin_anew();
        assert_eq!(short(session.say(wanted(&[(0, 9)]))), (42, 0, vec![(0, 9)], vec![]));
        session.on_answered(43);
        session.forget();
        assert_eq!(short(session.say(wanted(&[(0, 9)]))), (0, 0, vec![(0, 9)], vec![]));
    }

    #[test]
    fn epochs_begin_again_behind_the_last() {
        let mut session = FetchSession { id: 1, epoch: i32::MAX, ..FetchSession::default() };
        session.on_answered(1);
        assert_eq!(session.say(BTreeMap::new()).epoch, 1);
    }

    proptest! {
        /// A broker that does as it is told always reads what is wanted, whatever is refused on the way.
        #[test]
        fn the_broker_knows_what_is_wanted(steps in prop::collection::vec((prop::collection::btree_map(0..6i32, 0..4i64, 0..6), 0..4), 1..30)) {
            let mut session = FetchSession::default();
            let mut broker: BTreeMap<i32, i64> = BTreeMap::new();
            for (places, fate) in steps {
                let places: Vec<(i32, i64)> = places.into_iter().collect();
                let said = session.say(wanted(&places));
                match fate {
                    0 => session.begin_anew(),
                    1 => session.forget(),
                    _ => {
                        if said.epoch == OPENING {
                            broker.clear();
                        }
                        broker.extend(said.partitions.iter().map(|from| (from.at.partition, from.offset)));
                        said.forget.iter().for_each(|at| { broker.remove(&at.partition); });
                        prop_assert_eq!(broker.clone(), places.into_iter().collect::<BTreeMap<_, _>>());
                        session.on_answered(if fate == 2 { 0 } else { 7 });
                    }
                }
            }
        }
    }
}
