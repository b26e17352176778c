//! A share session with one broker: its epoch, its partitions, and what it holds (pure).
//!
//! Source: KIP-932. A session is bound to a connection; epoch 0 opens it, every request counts one up, -1 closes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::batch::OffsetRange;
use crate::limits::{ACKNOWLEDGE_RANGES_MAX, FETCH_RECORDS_MAX, RENEW_AGAIN_DIVISOR, RENEW_AT_DIVISOR};
use crate::source::{Hold, Key};
use crate::wire::share::{AcknowledgeType, Acknowledgement, ShareAcknowledge, ShareFetch, SharePartitionRequest};

const OPEN: i32 = 0;
const CLOSE: i32 = -1;

/// See the module.
#[derive(Debug)]
pub struct ShareSession {
    group: String,
    member: String,
    epoch: i32,
    wanted: BTreeSet<Key>,
    joined: BTreeSet<Key>,
    holdings: Vec<Holding>,
}

/// What one parcel keeps locked at the broker.
#[derive(Debug)]
struct Holding {
    key: Key,
    hold: Arc<Hold>,
    renew_at: Instant,
}

impl ShareSession {
    /// A session that is not open yet.
    pub fn new(group: &str, member: &str) -> Self {
        Self {
            group: group.to_owned(),
            member: member.to_owned(),
            epoch: OPEN,
            wanted: BTreeSet::new(),
            joined: BTreeSet::new(),
            holdings: vec![],
        }
    }

    /// Sets the partitions to fetch from; the next fetch tells the broker.
    pub fn want(&mut self, partitions: BTreeSet<Key>) {
        self.wanted = partitions;
    }

    /// Partitions that are fetched from.
    pub fn wanted(&self) -> &BTreeSet<Key> {
        &self.wanted
    }

    /// The next fetch. On an open session it lists only what has changed.
    pub fn fetch(&self, bytes_max: usize, wait: Duration) -> ShareFetch {
        let add = self.wanted.difference(&self.joined).map(|key| request(*key, vec![]));
        ShareFetch {
            group: self.group.clone(),
            member: self.member.clone(),
            epoch: self.epoch,
            wait_ms: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
            bytes_max: i32::try_from(bytes_max).unwrap_or(i32::MAX),
            records_max: FETCH_RECORDS_MAX.cast_signed(),
            add: add.collect(),
            forget: self.joined.difference(&self.wanted).copied().collect(),
        }
    }

    /// The broker has answered a fetch: it knows our partitions now.
    pub fn on_fetched(&mut self) {
        self.joined = self.wanted.clone();
        self.count_up();
    }

    /// Holds acquired ranges of a partition whose locks were taken at `asked_at` at the earliest, for `lock`.
    ///
    /// What was held of them before is ours no longer: they would not have been given again.
    pub fn hold(&mut self, key: Key, ranges: Vec<OffsetRange>, (asked_at, lock): (Instant, Duration)) -> Arc<Hold> {
        ranges.iter().for_each(|range| self.lose(key, *range));
        let hold = Arc::new(Hold::new(ranges, asked_at + lock));
        self.holdings.push(Holding { key, hold: hold.clone(), renew_at: asked_at + lock / RENEW_AT_DIVISOR });
        hold
    }

    /// Partitions of which something is held.
    pub fn held(&self) -> BTreeSet<Key> {
        self.holdings.iter().map(|holding| holding.key).collect()
    }

    /// How many offsets are held.
    pub fn held_count(&self) -> u64 {
        self.holdings.iter().flat_map(|holding| holding.hold.ranges()).map(|range| range.count()).sum()
    }

    /// Whether anything is held.
    pub fn is_holding(&self) -> bool {
        !self.holdings.is_empty()
    }

    /// What was settled is no longer renewed.
    pub fn let_go(&mut self) {
        self.holdings.retain(|holding| !holding.hold.is_empty());
    }

    /// When the first lock is to be renewed.
    pub fn renew_at(&self) -> Option<Instant> {
        self.holdings.iter().map(|holding| holding.renew_at).min()
    }

    /// Renewals of everything that is held.
    pub fn renewals(&self) -> Vec<SharePartitionRequest> {
        self.all_held(AcknowledgeType::Renew)
    }

    /// Releases of everything that is held.
    pub fn releases(&self) -> Vec<SharePartitionRequest> {
        self.all_held(AcknowledgeType::Release)
    }

    /// Renewals that were asked for at `asked_at` have been answered; of the partitions in `not_renewed` some were not, without
    /// being lost: they are tried again soon, long before their locks end.
    pub fn on_renewed(&mut self, not_renewed: &BTreeSet<Key>, (asked_at, lock): (Instant, Duration)) {
        self.let_go();
        for holding in &mut self.holdings {
            if not_renewed.contains(&holding.key) {
                holding.renew_at = asked_at + lock / RENEW_AGAIN_DIVISOR;
            } else {
                holding.renew_at = asked_at + lock / RENEW_AT_DIVISOR;
                holding.hold.extend(asked_at + lock);
            }
        }
    }

    /// Gives up what nobody has renewed in time. Returns whether there was anything.
    pub fn expire(&mut self, now: Instant) -> bool {
        let expired = self.holdings.iter().filter(|holding| holding.hold.expire(now)).count();
        self.let_go();
        expired > 0
    }

    /// A range is not ours any more.
    pub fn lose(&mut self, key: Key, range: OffsetRange) {
        for holding in self.holdings.iter().filter(|holding| holding.key == key) {
            holding.hold.drop_range(range);
        }
    }

    /// Everything that is held, with one fate.
    fn all_held(&self, kind: AcknowledgeType) -> Vec<SharePartitionRequest> {
        let acknowledge = |range| Acknowledgement { range, kind };
        let holdings = self.holdings.iter().filter(|holding| !holding.hold.is_empty());
        let requests = holdings.map(|h| request(h.key, h.hold.ranges().into_iter().map(acknowledge).collect()));
        merge(requests.collect())
    }

    /// A request with acknowledgements.
    pub fn acknowledge(&self, partitions: Vec<SharePartitionRequest>) -> ShareAcknowledge {
        let mut kinds = partitions.iter().flat_map(|p| &p.acknowledgements).map(|ack| ack.kind);
        let renews = kinds.any(|kind| kind == AcknowledgeType::Renew);
        let (group, member) = (self.group.clone(), self.member.clone());
        ShareAcknowledge { group, member, epoch: self.epoch, renews, partitions }
    }

    /// The last request: it ends the session.
    pub fn close(&self) -> ShareAcknowledge {
        ShareAcknowledge { epoch: CLOSE, ..self.acknowledge(vec![]) }
    }

    /// A fetch that opens the session and takes nothing: it names no partition.
    pub fn open(&self) -> ShareFetch {
        ShareFetch { add: vec![], ..self.fetch(1, Duration::ZERO) }
    }

    /// The broker has answered [`open`](Self::open).
    pub fn on_opened(&mut self) {
        self.joined.clear();
        self.count_up();
    }

    /// Whether acknowledgements can be sent: a broker refuses them on a session that is not open.
    pub fn is_open(&self) -> bool {
        self.epoch != OPEN
    }

    /// The broker has answered a request of this session.
    pub fn count_up(&mut self) {
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
    }

    /// The broker does not know the session, or counts otherwise: open it anew. The locks stay ours.
    pub fn reopen(&mut self) {
        self.epoch = OPEN;
        self.joined.clear();
    }

    /// The connection has ended, and with it the session: the broker has released everything. Returns whether there was anything.
    pub fn on_disconnected(&mut self) -> bool {
        self.reopen();
        let had_held = self.is_holding();
        for holding in self.holdings.drain(..) {
            holding.hold.drop_all();
        }
        had_held
    }
}

/// One partition of a request.
pub fn request((topic, partition): Key, acknowledgements: Vec<Acknowledgement>) -> SharePartitionRequest {
    SharePartitionRequest { topic, partition, acknowledgements }
}

/// Brings acknowledgements into the form that a broker takes: one list for each partition, ascending.
pub fn merge(mut requests: Vec<SharePartitionRequest>) -> Vec<SharePartitionRequest> {
    requests.sort_by_key(|request| (request.topic, request.partition));
    let mut merged: Vec<SharePartitionRequest> = vec![];
    for request in requests {
        match merged.last_mut() {
            Some(last) if (last.topic, last.partition) == (request.topic, request.partition) => {
                last.acknowledgements.extend(request.acknowledgements);
            }
            _ => merged.push(request),
        }
    }
    for request in &mut merged {
        request.acknowledgements.sort_by_key(|ack| ack.range.first);
    }
    merged
}

/// Cuts a list of acknowledgements into requests of bounded size.
pub fn chunks(partitions: Vec<SharePartitionRequest>) -> Vec<Vec<SharePartitionRequest>> {
    let mut chunks = vec![];
    let (mut chunk, mut room) = (vec![], ACKNOWLEDGE_RANGES_MAX);
    for partition in partitions {
        let key = (partition.topic, partition.partition);
        let mut rest = &partition.acknowledgements[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(room));
            chunk.push(request(key, now.to_vec()));
            room -= now.len();
            rest = later;
            if room == 0 {
                chunks.push(std::mem::take(&mut chunk));
                room = ACKNOWLEDGE_RANGES_MAX;
            }
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// Cuts a list that was refused as a whole in two; `None` where it can't be cut any more.
pub fn halves(partition: &SharePartitionRequest) -> Option<[SharePartitionRequest; 2]> {
    let acknowledgements = &partition.acknowledgements;
    let (left, right) = acknowledgements.split_at(acknowledgements.len() / 2);
    let half = |acks: &[Acknowledgement]| request((partition.topic, partition.partition), acks.to_vec());
    (!left.is_empty()).then(|| [half(left), half(right)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const LOCK: Duration = Duration::from_secs(30);

    fn key(partition: i32) -> Key {
        (Uuid::from_u128(1), partition)
    }

    fn range(first: i64, last: i64) -> OffsetRange {
        OffsetRange { first, last }
    }

    fn open(partitions: &[i32]) -> ShareSession {
        let mut session = ShareSession::new("g", "m");
        session.want(partitions.iter().map(|p| key(*p)).collect());
        session.on_fetched();
        session
    }

    #[test]
    fn partitions_are_passed_once_and_forgotten_once() {
        let mut session = ShareSession::new("g", "m");
        session.want([key(0), key(1)].into());
        let first = session.fetch(1, Duration::ZERO);
        assert_eq!((first.epoch, first.add.len(), first.forget.len()), (0, 2, 0));
        session.on_fetched();
        session.want([key(1), key(2)].into());
        let second = session.fetch(1, Duration::ZERO);
        assert_eq!((second.epoch, &second.forget[..]), (1, &[key(0)][..]));
        assert_eq!(second.add, [request(key(2), vec![])]);
        session.on_fetched();
        let third = session.fetch(1, Duration::ZERO);
        assert_eq!((third.epoch, third.add.len(), third.forget.len()), (2, 0, 0));
    }

    #[test]
    fn a_reopened_session_lists_everything_and_keeps_its_locks() {
        let mut session = open(&[0, 1]);
        let hold = session.hold(key(0), vec![range(0, 9)], (Instant::now(), LOCK));
        session.reopen();
        let fetch = session.fetch(1, Duration::ZERO);
        assert_eq!((fetch.epoch, fetch.add.len()), (0, 2));
        assert_eq!(hold.ranges(), [range(0, 9)]);
    }

    #[test]
    fn a_lost_connection_loses_every_lock() {
        let mut session = open(&[0]);
        let hold = session.hold(key(0), vec![range(0, 9)], (Instant::now(), LOCK));
        session.on_disconnected();
        assert_eq!((hold.is_empty(), session.is_holding(), session.is_open()), (true, false, false));
    }

    #[test]
    fn locks_are_renewed_at_half_their_time_until_settled() {
        let start = Instant::now();
        let mut session = open(&[0]);
        let first = session.hold(key(0), vec![range(0, 9)], (start, LOCK));
        let second = session.hold(key(0), vec![range(10, 19), range(20, 29)], (start + LOCK / 4, LOCK));
        assert_eq!(session.renew_at(), Some(start + LOCK / 2));
        let renewals = session.renewals();
        assert_eq!(renewals.len(), 1);
        assert!(renewals[0].acknowledgements.iter().all(|ack| ack.kind == AcknowledgeType::Renew));
        assert!(session.acknowledge(renewals).renews);
        session.lose(key(0), range(10, 19));
        session.on_renewed(&BTreeSet::new(), (start + LOCK / 2, LOCK));
        assert_eq!((second.ranges(), session.renew_at()), (vec![range(20, 29)], Some(start + LOCK)));
        first.drop_all();
        second.drop_all();
        session.let_go();
        assert_eq!(session.renew_at(), None);
    }

    #[test]
    fn a_renewal_that_was_refused_for_now_is_tried_again_before_the_lock_ends() {
        let start = Instant::now();
        let mut session = open(&[0, 1]);
        let refused = session.hold(key(0), vec![range(0, 9)], (start, LOCK));
        let renewed = session.hold(key(1), vec![range(0, 9)], (start, LOCK));
        session.on_renewed(&[key(0)].into(), (start + LOCK / 2, LOCK));
        assert!(session.renew_at().unwrap() < start + LOCK);
        assert!(!session.expire(start + LOCK - Duration::from_millis(1)));
        assert!(session.expire(start + LOCK));
        assert_eq!((refused.is_empty(), renewed.is_empty()), (true, false));
    }

    #[test]
    fn what_is_acquired_again_was_lost_before() {
        let start = Instant::now();
        let mut session = open(&[0]);
        let old = session.hold(key(0), vec![range(0, 9)], (start, LOCK));
        let new = session.hold(key(0), vec![range(4, 6)], (start, LOCK));
        assert_eq!((old.ranges(), new.ranges()), (vec![range(0, 3), range(7, 9)], vec![range(4, 6)]));
    }

    #[test]
    fn a_session_is_opened_without_taking_anything() {
        let mut session = open(&[0, 1]);
        session.reopen();
        let opening = session.open();
        assert_eq!((opening.epoch, opening.add.len(), opening.forget.len()), (0, 0, 0));
        session.on_opened();
        let next = session.fetch(1, Duration::ZERO);
        assert_eq!((next.epoch, next.add.len()), (1, 2));
    }

    #[test]
    fn the_epoch_skips_zero_when_it_wraps() {
        let mut session = open(&[0]);
        session.epoch = i32::MAX;
        session.count_up();
        assert_eq!(session.epoch, 1);
    }

    #[test]
    fn refused_lists_are_halved_down_to_one_range() {
        let ack = |first| Acknowledgement { range: range(first, first), kind: AcknowledgeType::Accept };
        let [left, right] = halves(&request(key(0), vec![ack(1), ack(2), ack(3)])).unwrap();
        assert_eq!((left.acknowledgements.len(), right.acknowledgements.len()), (1, 2));
        assert_eq!(halves(&left), None);
    }

    #[test]
    fn requests_are_cut_at_the_bound_and_lose_nothing() {
        let ack = |first| Acknowledgement { range: range(first, first), kind: AcknowledgeType::Accept };
        let many = |n: i64| (0..n).map(ack).collect::<Vec<_>>();
        let list = vec![request(key(0), many(1500)), request(key(1), many(2600))];
        let chunks = chunks(list);
        let sizes: Vec<usize> = chunks.iter().map(|c| c.iter().map(|p| p.acknowledgements.len()).sum()).collect();
        assert_eq!(sizes, [2000, 2000, 100]);
    }
}
