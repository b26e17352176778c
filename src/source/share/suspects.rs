//! Which partitions are fetched together (pure: time comes in).
//!
//! A broker that cannot read the log of one partition may refuse all that were asked for with it (tried on 4.4.0, with a batch whose
//! length was damaged on disk). So what was refused together is fetched by halves, until it is clear which partition it is.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::limits::HOLD_RETRY;
use crate::source::Key;

/// Partitions that were refused, in groups that are fetched together, each with the time of its next trial.
#[derive(Debug, Default)]
pub struct Suspects(Vec<(Instant, BTreeSet<Key>)>);

impl Suspects {
    /// What the next fetch asks for, out of what is followed: suspects whose trial is due; or all that are above suspicion; or,
    /// where nobody is, the suspects whose trial is next.
    pub fn select(&mut self, followed: &BTreeSet<Key>, now: Instant) -> BTreeSet<Key> {
        for (_, group) in &mut self.0 {
            group.retain(|key| followed.contains(key));
        }
        self.0.retain(|(_, group)| !group.is_empty());
        let Some((at, group)) = self.0.iter().min_by_key(|(at, _)| *at) else { return followed.clone() };
        let is_suspect = |key: &&Key| self.0.iter().any(|(_, group)| group.contains(*key));
        let sound = || followed.iter().filter(|key| !is_suspect(key)).copied().collect();
        let others: BTreeSet<Key> = if *at <= now { BTreeSet::new() } else { sound() };
        if others.is_empty() { group.clone() } else { others }
    }

    /// Whether a fetch of just these is a trial, for which nothing else should have to wait.
    pub fn is_trial(&self, asked: &BTreeSet<Key>) -> bool {
        self.0.iter().any(|(_, group)| group == asked)
    }

    /// A fetch of `asked` was answered, and `refused` of it. Who is refused alone is guilty, and tried again later.
    pub fn on_fetched(&mut self, asked: &BTreeSet<Key>, refused: BTreeSet<Key>, now: Instant) {
        self.0.retain(|(_, group)| group != asked);
        if asked.len() == 1 && !refused.is_empty() {
            self.0.push((now + HOLD_RETRY, refused));
        } else {
            let mut left = refused;
            let middle = left.iter().nth(left.len() / 2).copied();
            let right = middle.map(|middle| left.split_off(&middle)).unwrap_or_default();
            self.0.extend([left, right].into_iter().filter(|half| !half.is_empty()).map(|half| (now, half)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn keys(partitions: impl IntoIterator<Item = i32>) -> BTreeSet<Key> {
        partitions.into_iter().map(|partition| (Uuid::nil(), partition)).collect()
    }

    /// Fetches from a broker that refuses whatever is asked for together with `bad`; returns what was asked for.
    fn play(suspects: &mut Suspects, (rounds, bad): (usize, &BTreeSet<Key>), now: Instant) -> Vec<Vec<i32>> {
        let fetch = |_| {
            let asked = suspects.select(&keys(0..4), now);
            let refused = if asked.is_disjoint(bad) { BTreeSet::new() } else { asked.clone() };
            suspects.on_fetched(&asked, refused, now);
            asked.into_iter().map(|(_, partition)| partition).collect()
        };
        (0..rounds).map(fetch).collect()
    }

    #[test]
    fn the_guilty_one_is_found_and_stops_nobody() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        let (all, others) = (vec![0, 1, 2, 3], vec![0, 1, 3]);
        let asked = play(&mut suspects, (7, &keys([2])), now);
        assert_eq!(asked, [all.clone(), vec![0, 1], vec![2, 3], vec![2], vec![3], others.clone(), others.clone()]);
        assert_eq!(play(&mut suspects, (2, &keys([2])), now + HOLD_RETRY), [vec![2], others]);
        assert_eq!(play(&mut suspects, (2, &keys([])), now + 2 * HOLD_RETRY), [vec![2], all]);
    }

    #[test]
    fn with_nobody_above_suspicion_the_suspects_take_turns() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        let bad = keys(0..4);
        play(&mut suspects, (7, &bad), now);
        let asked: Vec<_> = (1..9).flat_map(|_| play(&mut suspects, (1, &bad), now)).collect();
        for partition in 0..4 {
            assert_eq!(asked.iter().filter(|asked| **asked == [partition]).count(), 2, "{asked:?}");
        }
    }

    #[test]
    fn what_is_followed_no_longer_is_no_suspect() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        suspects.on_fetched(&keys([0, 1]), keys([0, 1]), now);
        assert_eq!(suspects.select(&keys([2, 3]), now), keys([2, 3]));
        assert_eq!(suspects.select(&keys([0, 2]), now), keys([0, 2]));
    }

    #[test]
    fn one_that_is_followed_alone_is_fetched_all_the_same() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        suspects.on_fetched(&keys([0]), keys([0]), now);
        assert_eq!(suspects.select(&keys([0]), now), keys([0]));
        assert!(suspects.is_trial(&keys([0])));
        suspects.on_fetched(&keys([0]), keys([]), now);
        assert!(!suspects.is_trial(&keys([0])));
    }
}
