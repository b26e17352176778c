//! Notices what unclean leader elections have rewritten: see [`rewritten`](super::rewritten).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use crate::source::Key;
use crate::source::TopicPartition;
use crate::source::share::frontier::Frontiers;
use crate::source::share::rewritten::{Rewritten, group};
use crate::wire::client::TopicInfo;
use crate::wire::log::{EpochOf, epoch_ends};
use crate::wire::offsets::{Committed, commit, committed};
use crate::wire::share::ShareProgress;
use crate::wire::{Client, WireError};

/// See the module.
#[derive(Debug)]
pub struct Lookout {
    /// The consumer group that remembers.
    group: String,
    frontiers: Frontiers,
    /// Partitions as they were at the last look.
    seen: HashMap<Key, Seen>,
    /// Found, and not remembered yet.
    found: Vec<Rewritten>,
    /// Cuts after which the share group's first delivery is still to be seen.
    awaited: HashMap<Key, Rewritten>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The newest leader epoch that was compared.
    epoch: i32,
    /// How far the group had come for sure while that epoch lasted, by the start offset that the broker tells.
    start_offset: Option<i64>,
    /// What it told at the last look. It counts once the next look shows the same leader epoch: metadata may be late.
    told: i64,
}

/// A partition with a new leader epoch.
#[derive(Debug)]
struct Succession {
    at: TopicPartition,
    key: Key,
    leader: i32,
    now: Seen,
    /// The offset behind what the group has finished, by the leader epoch under which it has.
    finished: BTreeMap<i32, i64>,
}

impl Lookout {
    /// A look at the share group of a flow that has seen nothing yet.
    pub fn new(share_group: &str, frontiers: Frontiers) -> Self {
        Self { group: group(share_group), frontiers, seen: HashMap::new(), found: vec![], awaited: HashMap::new() }
    }

    /// Compares partitions with a new leader epoch, and returns all that is still to be copied, whoever has found it. `topics` were
    /// asked for before `progress`, so that no progress is taken for older than it is.
    ///
    /// Errors: the cluster does not answer, or refuses the group that remembers; the next look tries again.
    pub async fn look(
        &mut self,
        client: &mut Client,
        topics: &[TopicInfo],
        progress: &[ShareProgress],
    ) -> Result<Vec<Rewritten>, WireError> {
        let topics: HashMap<Uuid, &TopicInfo> = topics.iter().map(|topic| (topic.id, topic)).collect();
        let mut led: BTreeMap<i32, Vec<Succession>> = BTreeMap::new();
        for partition in progress {
            let topic = topics.get(&partition.topic_id);
            // Nobody leads it, or nobody knows the topic any more: the next look sees it again.
            let Some(leadership) = topic.and_then(|topic| topic.leadership(partition.partition)) else { continue };
            if let Some(succession) = self.succession(partition, leadership) {
                led.entry(succession.leader).or_default().push(succession);
            }
        }
        self.compare(client, led).await?;
        self.await_delivery();
        let remembered = committed(client, &self.group).await?;
        let remembered: Vec<Rewritten> = remembered.iter().filter_map(Rewritten::from_committed).collect();
        let merged = merge(&self.found, &remembered);
        if !merged.is_empty() {
            self.remember(client, &merged).await?;
            self.found.clear();
        }
        let is_merged =
            |one: &Rewritten| merged.iter().any(|other| (other.topic_id, &other.at) == (one.topic_id, &one.at));
        let others = remembered.into_iter().filter(|one| !is_merged(one));
        // A topic that was created again has another id.
        let is_open = |one: &Rewritten| one.is_open() && topics.contains_key(&one.topic_id);
        Ok(merged.iter().cloned().chain(others).filter(is_open).collect())
    }

    /// Remembers how far the copies have come.
    pub async fn remember(&self, client: &mut Client, copied: &[Rewritten]) -> Result<(), WireError> {
        let offsets: Vec<Committed> = copied.iter().map(Rewritten::to_committed).collect();
        commit(client, &self.group, &offsets).await
    }

    /// Whether something was found that could not be remembered yet.
    pub fn is_alarmed(&self) -> bool {
        !self.found.is_empty()
    }

    /// Takes note of a partition; returns it if its leader epoch is new, or was never compared.
    fn succession(&mut self, partition: &ShareProgress, (leader, epoch): (i32, i32)) -> Option<Succession> {
        let key = (partition.topic_id, partition.partition);
        let told = partition.start_offset?;
        let mut finished = self.frontiers.ends_before(key, epoch);
        let start_offset = match self.seen.get_mut(&key) {
            None => None,
            Some(seen) if epoch > seen.epoch => {
                // What ended before was compared before, and is copied by now or remembered.
                finished = finished.split_off(&seen.epoch);
                let end = finished.entry(seen.epoch).or_default();
                *end = seen.start_offset.unwrap_or_default().max(*end);
                seen.start_offset
            }
            Some(seen) if epoch < seen.epoch => return None,
            Some(Seen { start_offset: Some(start_offset), told: before, .. }) => {
                *start_offset = (*start_offset).max(*before);
                *before = told;
                return None;
            }
            Some(seen) => {
                finished = [(epoch, seen.told)].into();
                Some(seen.told)
            }
        };
        let at = TopicPartition { topic: partition.topic.as_str().into(), partition: partition.partition };
        let now = Seen { epoch, start_offset, told };
        if finished.is_empty() {
            self.seen.insert(key, now);
            return None;
        }
        Some(Succession { at, key, leader, now, finished })
    }

    async fn compare(&mut self, client: &mut Client, led: BTreeMap<i32, Vec<Succession>>) -> Result<(), WireError> {
        for (leader, successions) in led {
            let asked: Vec<EpochOf> = successions.iter().flat_map(Succession::questions).collect();
            let mut ends = epoch_ends(&*client.broker(leader).await?, &asked).await?.into_iter();
            for succession in successions {
                let epochs = succession.epochs();
                let ends = epochs.into_iter().zip(ends.by_ref()).filter_map(|(epoch, end)| Some((epoch, end?)));
                let ends = ends.collect();
                self.judge(succession, &ends);
            }
        }
        Ok(())
    }

    /// `ends`: where each leader epoch ends in the log of the new leader.
    fn judge(&mut self, succession: Succession, ends: &BTreeMap<i32, i64>) {
        if let Some((cut, finished)) = succession.cut(ends) {
            let Succession { at, key, now, .. } = succession;
            tracing::warn!(
                %at, cut, finished, leader_epoch = now.epoch,
                "the log of the source was cut below what was copied (unclean leader election): what is written anew between the \
                 two offsets is not delivered by the share group, and is copied from the log"
            );
            let rewritten = Rewritten { at, topic_id: key.0, position: cut, end: finished, leader_epoch: now.epoch };
            self.awaited.insert(key, rewritten.clone());
            self.found.push(rewritten);
        }
        self.seen.insert(succession.key, succession.now);
    }

    /// Other workers may have finished more than we know before the cut, so the copy goes up to what the share group delivers first
    /// after it.
    fn await_delivery(&mut self) {
        let (frontiers, found) = (&self.frontiers, &mut self.found);
        self.awaited.retain(|key, rewritten| match frontiers.begin_after(*key, rewritten.leader_epoch - 1) {
            None => true,
            Some(first) => {
                if first > rewritten.end {
                    found.push(Rewritten { end: first, ..rewritten.clone() });
                }
                false
            }
        });
    }
}

impl Succession {
    /// Leader epochs whose ends decide. The one before the present one tells where that begins.
    fn epochs(&self) -> BTreeSet<i32> {
        let begin = self.finished.contains_key(&self.now.epoch).then_some(self.now.epoch - 1);
        self.finished.keys().copied().chain(begin).collect()
    }

    fn questions(&self) -> Vec<EpochOf> {
        let question = |epoch| EpochOf { topic: self.at.topic.to_string(), partition: self.at.partition, epoch };
        self.epochs().into_iter().map(question).collect()
    }

    /// The lowest offset at which the log was cut below what was finished, and the offset behind that.
    fn cut(&self, ends: &BTreeMap<i32, i64>) -> Option<(i64, i64)> {
        let cut_at = |(epoch, finished): (&i32, &i64)| {
            let end = ends.get(epoch).filter(|end| *end < finished)?;
            // Even the present epoch ends below: then all of it was written after the cut.
            let begin = ends.get(&(epoch - 1)).filter(|_| *epoch == self.now.epoch);
            Some((*begin.unwrap_or(end), *finished))
        };
        self.finished.iter().filter_map(cut_at).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }
}

/// What was found, together with what is remembered of the same partitions.
fn merge(found: &[Rewritten], remembered: &[Rewritten]) -> Vec<Rewritten> {
    let mut merged: BTreeMap<(Uuid, i32), Rewritten> = BTreeMap::new();
    for one in found {
        let key = (one.topic_id, one.at.partition);
        let of_it = |other: &&Rewritten| (other.topic_id, other.at.partition) == key;
        let known = merged.get(&key).or_else(|| remembered.iter().find(of_it));
        let merge = known.map_or_else(|| one.clone(), |known| known.merge(one));
        merged.insert(key, merge);
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::OffsetRange;
    use crate::batch::sample::Sample;

    const KEY: Key = (Uuid::nil(), 0);

    fn progress(start_offset: i64) -> ShareProgress {
        let (topic, (topic_id, partition)) = ("t".to_owned(), KEY);
        ShareProgress { topic, topic_id, partition, start_offset: Some(start_offset), lag: None }
    }

    fn finish(lookout: &Lookout, base_offset: i64, leader_epoch: i32) {
        let bytes = Sample { leader_epoch, ..Sample::of(base_offset, 0..10) }.bytes();
        lookout.frontiers.finish(KEY, &[OffsetRange { first: base_offset, last: base_offset + 9 }], &bytes);
    }

    /// What a look finds: where the group is told to be, under which leader epoch, and where epochs end in the leader's log.
    fn found(lookout: &mut Lookout, (start, epoch): (i64, i32), ends: &[(i32, i64)]) -> Vec<(i64, i64)> {
        if let Some(succession) = lookout.succession(&progress(start), (1, epoch)) {
            let ends = ends.iter().copied().filter(|(epoch, _)| succession.epochs().contains(epoch)).collect();
            lookout.judge(succession, &ends);
        }
        lookout.await_delivery();
        lookout.found.drain(..).map(|rewritten| (rewritten.position, rewritten.end)).collect()
    }

    fn lookout() -> Lookout {
        Lookout::new("g", Frontiers::default())
    }

    /// One that has seen a partition in leader epoch 0, with all done up to `start`.
    fn settled(start: i64) -> Lookout {
        let mut lookout = lookout();
        (0..3).for_each(|_| assert_eq!(found(&mut lookout, (start, 0), &[(0, start)]), []));
        lookout
    }

    #[test]
    fn a_log_cut_below_what_we_have_finished_is_found_once() {
        let mut lookout = settled(0);
        finish(&lookout, 90, 0);
        assert_eq!(found(&mut lookout, (84, 1), &[(0, 80)]), [(80, 100)]);
        (0..3).for_each(|_| assert_eq!(found(&mut lookout, (84, 1), &[(1, 90), (0, 80)]), []));
    }

    #[test]
    fn a_log_cut_below_what_others_have_finished_is_found() {
        assert_eq!(found(&mut settled(100), (100, 1), &[(0, 80)]), [(80, 100)]);
    }

    #[test]
    fn a_new_leader_that_has_everything_is_nothing_to_tell() {
        let mut lookout = settled(0);
        finish(&lookout, 90, 0);
        assert_eq!(found(&mut lookout, (84, 1), &[(0, 100)]), []);
        finish(&lookout, 100, 1);
        assert_eq!(found(&mut lookout, (104, 2), &[(0, 100), (1, 130)]), []);
    }

    #[test]
    fn progress_of_a_new_leader_is_not_taken_for_that_of_the_one_before() {
        let mut lookout = settled(90);
        // The metadata are late: this is progress under leader epoch 1 already.
        assert_eq!(found(&mut lookout, (120, 0), &[]), []);
        assert_eq!(found(&mut lookout, (130, 1), &[(0, 100)]), []);
        assert_eq!(found(&mut lookout, (140, 0), &[]), [], "a broker that knows less");
    }

    #[test]
    fn a_cut_is_found_even_if_no_look_went_well_before_it() {
        let mut lookout = lookout();
        finish(&lookout, 90, 0);
        assert_eq!(found(&mut lookout, (84, 1), &[(0, 80), (1, 95)]), [(80, 100)]);
    }

    #[test]
    fn of_two_cuts_between_two_looks_both_are_found() {
        let mut lookout = settled(0);
        finish(&lookout, 90, 0);
        finish(&lookout, 100, 1);
        assert_eq!(found(&mut lookout, (84, 2), &[(0, 80), (1, 120)]), [(80, 100)]);
        finish(&lookout, 120, 2);
        finish(&lookout, 130, 3);
        assert_eq!(found(&mut lookout, (84, 4), &[(2, 125), (3, 135)]), [(125, 140)]);
    }

    #[test]
    fn a_group_beyond_the_end_of_the_log_shows_a_cut_before_our_start() {
        let mut lookout = lookout();
        assert_eq!(found(&mut lookout, (100, 3), &[]), []);
        assert_eq!(found(&mut lookout, (100, 3), &[(3, 90), (2, 80)]), [(80, 100)]);
        assert_eq!(found(&mut lookout, (100, 3), &[(3, 90), (2, 80)]), []);
    }

    #[test]
    fn the_copy_goes_up_to_the_first_delivery_after_the_cut() {
        let mut lookout = settled(0);
        finish(&lookout, 80, 0);
        assert_eq!(found(&mut lookout, (84, 1), &[(0, 70)]), [(70, 90)]);
        finish(&lookout, 100, 1);
        assert_eq!(found(&mut lookout, (84, 1), &[(1, 110)]), [(70, 100)], "others had finished up to 100");
        assert_eq!(found(&mut lookout, (84, 1), &[(1, 110)]), []);
    }

    #[test]
    fn what_is_found_is_added_to_what_is_remembered() {
        let at = TopicPartition { topic: "t".into(), partition: 0 };
        let one = |position, end| Rewritten { at: at.clone(), topic_id: KEY.0, position, end, leader_epoch: 1 };
        assert_eq!(merge(&[one(70, 90), one(70, 100)], &[one(85, 90)]), [one(85, 100)]);
        assert_eq!(merge(&[], &[one(85, 90)]), []);
    }
}
