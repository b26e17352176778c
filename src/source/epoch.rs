//! Under which leader epochs records were written (KIP-101): a committed offset carries that of the record before it, so that a
//! consumer notices when the log was cut below (KIP-320).

use std::collections::BTreeMap;

use crate::source::group::Offsets;
use crate::wire::client::TopicInfo;
use crate::wire::log::{EpochOf, epoch_ends};
use crate::wire::{Client, WireError};

/// A search among the leader epochs of a partition for the first one that ends at an offset or behind it (pure).
#[derive(Debug)]
struct Search {
    offset: i64,
    low: i32,
    high: i32,
}

impl Search {
    /// The newest epoch ends behind everything.
    fn new(offset: i64, newest: i32) -> Self {
        Self { offset, low: 0, high: newest.max(0) }
    }

    /// The epoch to ask for; `None` once it is found.
    fn question(&self) -> Option<i32> {
        (self.low < self.high).then(|| self.low + (self.high - self.low) / 2)
    }

    /// Where the epoch that was asked for ends. A log that has nothing so old does not tell.
    fn on_answer(&mut self, asked: i32, end: Option<i64>) {
        if end.is_some_and(|end| end >= self.offset) {
            self.high = asked;
        } else {
            self.low = asked + 1;
        }
    }
}

/// Leader epochs of the records before these offsets. Partitions that nobody leads, and those at offset 0, are left out.
///
/// It takes a round trip for each halving of the leader epochs. Where a leader does not tell, the newer epoch is taken, under which a
/// reader notices later cuts.
pub(super) async fn epochs_before(
    client: &mut Client,
    topics: &[TopicInfo],
    offsets: &Offsets,
) -> Result<BTreeMap<(String, i32), i32>, WireError> {
    let mut led: BTreeMap<i32, Vec<(EpochOf, Search)>> = BTreeMap::new();
    for ((topic, partition), offset) in offsets.iter().filter(|(_, offset)| **offset > 0) {
        let info = topics.iter().find(|info| info.name == *topic);
        let Some((leader, newest)) = info.and_then(|info| info.leadership(*partition)) else { continue };
        let asked = EpochOf { topic: topic.clone(), partition: *partition, epoch: 0 };
        led.entry(leader).or_default().push((asked, Search::new(*offset, newest)));
    }
    let mut epochs = BTreeMap::new();
    for (leader, mut searches) in led {
        let connection = client.broker(leader).await?;
        loop {
            let mut open: Vec<&mut Search> = vec![];
            let mut questions = vec![];
            for (of, search) in &mut searches {
                let Some(epoch) = search.question() else { continue };
                questions.push(EpochOf { epoch, ..of.clone() });
                open.push(search);
            }
            if questions.is_empty() {
                break;
            }
            let ends = epoch_ends(&connection, &questions).await?;
            for ((search, question), end) in open.into_iter().zip(&questions).zip(ends) {
                search.on_answer(question.epoch, end);
            }
        }
        epochs.extend(searches.into_iter().map(|(of, search)| ((of.topic, of.partition), search.low)));
    }
    Ok(epochs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches in a log whose epochs end there; those before the first are not told.
    fn found(offset: i64, ends: &[(i32, i64)]) -> i32 {
        let newest = ends.last().expect("the log has an epoch").0;
        let mut search = Search::new(offset, newest);
        for _ in 0..64 {
            let Some(epoch) = search.question() else { return search.low };
            let end = ends.iter().rev().find(|(known, _)| *known <= epoch).map(|(_, end)| *end);
            search.on_answer(epoch, end);
        }
        panic!("it never ends");
    }

    #[test]
    fn the_epoch_of_the_record_before_is_found() {
        let log = [(3, 100), (4, 250), (9, 300)];
        assert_eq!([50, 100, 101, 250, 251, 300].map(|offset| found(offset, &log)), [3, 3, 4, 4, 9, 9]);
        assert_eq!(found(7, &[(0, 10)]), 0);
        assert_eq!(found(7, &[(1_000_000, 10)]), 1_000_000);
    }
}
