//! Notices what unclean leader elections have rewritten: see [`rewritten`](super::rewritten).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::source::TopicPartition;
use crate::source::share::frontier::Frontiers;
use crate::source::share::rewritten::{Rewritten, group};
use crate::source::share::session::Key;
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
    /// The newest leader epoch of each partition that was compared, and how far the group was then.
    seen: HashMap<Key, Seen>,
    /// Found, and not remembered yet.
    found: Vec<Rewritten>,
    /// Cuts after which the share group's first delivery is still to be seen.
    awaited: HashMap<Key, Rewritten>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    epoch: i32,
    start_offset: i64,
}

/// A partition with a new leader epoch.
#[derive(Debug)]
struct Succession {
    at: TopicPartition,
    key: Key,
    now: Seen,
    /// The offset behind what the group has finished, by the leader epoch under which it has.
    finished: BTreeMap<i32, i64>,
}

impl Lookout {
    /// A look at the share group of a flow that has seen nothing yet.
    pub fn new(share_group: &str, frontiers: Frontiers) -> Self {
        Self { group: group(share_group), frontiers, seen: HashMap::new(), found: vec![], awaited: HashMap::new() }
    }

    /// Compares partitions with a new leader epoch, and returns all that is still to be copied, whoever has found it.
    ///
    /// The first look should come before the first fetch, which overwrites the leader epoch that the broker has stored.
    /// Errors: the cluster does not answer, or refuses the group that remembers; the next look tries again.
    pub async fn look(&mut self, client: &mut Client, progress: &[ShareProgress]) -> Result<Vec<Rewritten>, WireError> {
        let successions: Vec<Succession> = progress.iter().filter_map(|partition| self.succession(partition)).collect();
        if !successions.is_empty() {
            self.compare(client, successions).await?;
        }
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
        let is_known = |one: &Rewritten| progress.iter().any(|partition| partition.topic_id == one.topic_id);
        Ok(merged.iter().cloned().chain(others).filter(|one| one.is_open() && is_known(one)).collect())
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

    /// Takes note of a partition; returns it if its leader epoch is new.
    fn succession(&mut self, partition: &ShareProgress) -> Option<Succession> {
        let key = (partition.topic_id, partition.partition);
        let now = Seen { epoch: partition.leader_epoch, start_offset: partition.start_offset? };
        let mut finished = self.frontiers.ends_before(key, now.epoch);
        let before = match self.seen.get_mut(&key) {
            None => now,
            Some(seen) if now.epoch > seen.epoch => {
                // What ended before was compared before, and is copied by now or remembered.
                finished = finished.split_off(&seen.epoch);
                *seen
            }
            Some(seen) => {
                seen.start_offset = seen.start_offset.max(now.start_offset);
                return None;
            }
        };
        let end = finished.entry(before.epoch).or_default();
        *end = before.start_offset.max(*end);
        let at = TopicPartition { topic: partition.topic.as_str().into(), partition: partition.partition };
        Some(Succession { at, key, now, finished })
    }

    async fn compare(&mut self, client: &mut Client, successions: Vec<Succession>) -> Result<(), WireError> {
        let mut names: Vec<String> = successions.iter().map(|succession| succession.at.topic.to_string()).collect();
        names.dedup();
        let topics: Vec<TopicInfo> = client.topics(&names).await?.into_iter().filter_map(|(_, t)| t.ok()).collect();
        let mut led: BTreeMap<i32, Vec<Succession>> = BTreeMap::new();
        for succession in successions {
            // Nobody leads it, or nobody knows the topic any more: the next look sees it again.
            if let Some(leader) = leader(&topics, succession.key) {
                led.entry(leader).or_default().push(succession);
            }
        }
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

fn leader(topics: &[TopicInfo], (id, partition): Key) -> Option<i32> {
    let topic = topics.iter().find(|topic| topic.id == id)?;
    *topic.leaders.get(usize::try_from(partition).ok()?)?
}

/// What was found, together with what is remembered of the same partitions.
fn merge(found: &[Rewritten], remembered: &[Rewritten]) -> Vec<Rewritten> {
    let mut merged: BTreeMap<(uuid::Uuid, i32), Rewritten> = BTreeMap::new();
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
    use uuid::Uuid;

    const KEY: Key = (Uuid::nil(), 0);

    fn progress(start_offset: i64, leader_epoch: i32) -> ShareProgress {
        ShareProgress {
            topic: "t".into(),
            topic_id: KEY.0,
            partition: KEY.1,
            start_offset: Some(start_offset),
            leader_epoch,
            lag: None,
        }
    }

    fn finish(lookout: &Lookout, base_offset: i64, leader_epoch: i32) {
        let bytes = Sample { leader_epoch, ..Sample::of(base_offset, 0..10) }.bytes();
        lookout.frontiers.finish(KEY, &[OffsetRange { first: base_offset, last: base_offset + 9 }], &bytes);
    }

    /// What a look finds when the new leader says where these leader epochs end.
    fn found(lookout: &mut Lookout, progress: &ShareProgress, ends: &[(i32, i64)]) -> Vec<(i64, i64)> {
        if let Some(succession) = lookout.succession(progress) {
            let ends = ends.iter().copied().filter(|(epoch, _)| succession.epochs().contains(epoch)).collect();
            lookout.judge(succession, &ends);
        }
        lookout.await_delivery();
        lookout.found.drain(..).map(|rewritten| (rewritten.position, rewritten.end)).collect()
    }

    fn lookout() -> Lookout {
        Lookout::new("g", Frontiers::default())
    }

    #[test]
    fn a_log_cut_below_what_was_finished_is_found_once() {
        let mut lookout = lookout();
        assert_eq!(found(&mut lookout, &progress(0, 0), &[(0, 0)]), []);
        finish(&lookout, 90, 0);
        assert_eq!(found(&mut lookout, &progress(84, 0), &[]), []);
        assert_eq!(found(&mut lookout, &progress(84, 1), &[(0, 80)]), [(80, 100)]);
        assert_eq!(found(&mut lookout, &progress(84, 1), &[(0, 80)]), []);
    }

    #[test]
    fn a_new_leader_that_has_everything_is_nothing_to_tell() {
        let mut lookout = lookout();
        assert_eq!(found(&mut lookout, &progress(0, 0), &[(0, 0)]), []);
        finish(&lookout, 90, 0);
        assert_eq!(found(&mut lookout, &progress(84, 1), &[(0, 100)]), []);
        finish(&lookout, 100, 1);
        assert_eq!(found(&mut lookout, &progress(104, 2), &[(0, 100), (1, 130)]), []);
    }

    #[test]
    fn a_cut_is_found_even_if_no_look_went_well_before_it() {
        let mut lookout = lookout();
        finish(&lookout, 90, 0);
        assert_eq!(found(&mut lookout, &progress(84, 1), &[(0, 80), (1, 95)]), [(80, 100)]);
    }

    #[test]
    fn of_two_cuts_between_two_looks_both_are_found() {
        let mut lookout = lookout();
        assert_eq!(found(&mut lookout, &progress(0, 0), &[(0, 0)]), []);
        finish(&lookout, 90, 0);
        finish(&lookout, 100, 1);
        assert_eq!(found(&mut lookout, &progress(84, 2), &[(0, 80), (1, 120)]), [(80, 100)]);
        finish(&lookout, 120, 2);
        finish(&lookout, 130, 3);
        assert_eq!(found(&mut lookout, &progress(84, 4), &[(2, 125), (3, 135)]), [(125, 140)]);
    }

    #[test]
    fn what_a_cut_before_our_start_has_left_is_found_at_the_first_look() {
        assert_eq!(found(&mut lookout(), &progress(100, 3), &[(3, 90), (2, 80)]), [(80, 100)]);
        assert_eq!(found(&mut lookout(), &progress(100, 3), &[(3, 90)]), [(90, 100)]);
        assert_eq!(found(&mut lookout(), &progress(100, 3), &[(3, 100), (2, 80)]), [], "an old cut that was passed");
    }

    #[test]
    fn the_copy_goes_up_to_the_first_delivery_after_the_cut() {
        let mut lookout = lookout();
        assert_eq!(found(&mut lookout, &progress(0, 0), &[(0, 0)]), []);
        finish(&lookout, 80, 0);
        assert_eq!(found(&mut lookout, &progress(84, 1), &[(0, 70)]), [(70, 90)]);
        finish(&lookout, 100, 1);
        assert_eq!(found(&mut lookout, &progress(84, 1), &[]), [(70, 100)], "others had finished up to 100");
        assert_eq!(found(&mut lookout, &progress(84, 1), &[]), []);
    }

    #[test]
    fn what_is_found_is_added_to_what_is_remembered() {
        let at = TopicPartition { topic: "t".into(), partition: 0 };
        let one = |position, end| Rewritten { at: at.clone(), topic_id: KEY.0, position, end, leader_epoch: 1 };
        assert_eq!(merge(&[one(70, 90), one(70, 100)], &[one(85, 90)]), [one(85, 100)]);
        assert_eq!(merge(&[], &[one(85, 90)]), []);
    }
}
