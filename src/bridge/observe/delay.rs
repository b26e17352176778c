//! How long records have waited at the source, told from how the ends of its logs have moved.
//!
//! A record at offset n was written at the latest when the end of the log was first seen behind n. So a few sightings of each end,
//! with their times, tell the age of the oldest record that is still to be done, without reading any record. What was there before
//! the first sighting is as old as that, at least.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::DELAY_SIGHTINGS_MAX;
use crate::source::group::Standing;

/// Sightings of all topic partitions of a group (pure).
#[derive(Debug, Default)]
pub(super) struct Delays {
    partitions: HashMap<(String, i32), Sightings>,
}

impl Delays {
    /// Takes note of the group's progress; returns the age of the oldest record that is still to be done, zero where all is done, or
    /// `None` where that is unknown.
    pub(super) fn look(&mut self, now: Instant, standings: &[Standing]) -> Option<Duration> {
        let mut before = std::mem::take(&mut self.partitions);
        let ages = standings.iter().map(|partition| {
            let key = (partition.topic.clone(), partition.partition);
            let mut sightings = before.remove(&key).unwrap_or_default();
            let position = partition.position.zip(partition.lag);
            let age = position.map(|(position, lag)| sightings.look(now, position, lag));
            self.partitions.insert(key, sightings);
            age
        });
        let ages: Option<Vec<Duration>> = ages.collect();
        ages?.into_iter().max()
    }
}

/// When the end of a log was first seen behind which offset; both ascend.
#[derive(Debug, Default)]
struct Sightings(VecDeque<(i64, Instant)>);

impl Sightings {
    /// The broker does not count what a share group has done behind its start offset, so that the end may seem to go back by a window: it is
    /// behind what was seen all the same.
    fn look(&mut self, now: Instant, position: i64, lag: u64) -> Duration {
        let end = position.saturating_add_unsigned(lag);
        if self.0.back().is_none_or(|(seen, _)| *seen < end) {
            self.0.push_back((end, now));
        }
        while self.0.front().is_some_and(|(seen, _)| *seen <= position) {
            self.0.pop_front();
        }
        if self.0.len() > DELAY_SIGHTINGS_MAX {
            self.thin();
        }
        match (lag, self.0.front()) {
            (0, _) | (_, None) => Duration::ZERO,
            (_, Some((_, seen_at))) => now - *seen_at,
        }
    }

    /// Forgets every second sighting. A record then counts as written with the later one, but the oldest and the last stay.
    fn thin(&mut self) {
        let last = self.0.len() - 1;
        let mut index = 0;
        self.0.retain(|_| {
            index += 1;
            (index - 1) % 2 == 0 || index - 1 == last
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: i64, lag: Option<u64>) -> Vec<Standing> {
        vec![Standing { topic: "t".to_owned(), partition: 0, position: Some(position), lag }]
    }

    /// Looks once a second; each step is start offset, lag, and the delay that is to be told.
    fn looks(steps: &[(i64, u64, u64)]) {
        let (mut delays, begin) = (Delays::default(), Instant::now());
        for (second, (start_offset, lag, told)) in (0..).zip(steps) {
            let now = begin + Duration::from_secs(second);
            let delay = delays.look(now, &at(*start_offset, Some(*lag)));
            assert_eq!(delay, Some(Duration::from_secs(*told)), "in second {second}");
        }
    }

    #[test]
    fn a_record_ages_from_when_it_was_first_behind_the_position() {
        looks(&[(10, 0, 0), (10, 5, 0), (10, 5, 1), (10, 7, 2), (15, 2, 1), (17, 0, 0), (17, 0, 0), (17, 1, 0)]);
    }

    #[test]
    fn a_backlog_is_as_old_as_it_is_known() {
        looks(&[(0, 100, 0), (50, 60, 1), (100, 10, 1), (105, 5, 2), (110, 0, 0)]);
    }

    #[test]
    fn what_is_done_out_of_order_makes_nothing_younger() {
        looks(&[(0, 10, 0), (0, 4, 1), (0, 12, 2), (10, 2, 1), (12, 0, 0)]);
    }

    #[test]
    fn the_oldest_of_all_partitions_counts_and_an_unknown_one_makes_it_unknown() {
        let (mut delays, begin) = (Delays::default(), Instant::now());
        let mut two = at(0, Some(1));
        two.extend(at(0, Some(0)));
        two[1].partition = 1;
        delays.look(begin, &two);
        let later = begin + Duration::from_secs(9);
        assert_eq!(delays.look(later, &two), Some(Duration::from_secs(9)));
        two[1].lag = None;
        assert_eq!(delays.look(later, &two), None);
        assert_eq!(delays.look(later, &[]), None);
        assert!(delays.partitions.is_empty(), "forgets what the group has no more");
    }

    #[test]
    fn sightings_are_bounded_and_the_oldest_stays() {
        let (mut sightings, begin) = (Sightings::default(), Instant::now());
        for second in 0..10_000_u64 {
            let now = begin + Duration::from_secs(second);
            assert_eq!(sightings.look(now, 0, second + 1), Duration::from_secs(second));
            assert!(sightings.0.len() <= DELAY_SIGHTINGS_MAX);
        }
    }
}
