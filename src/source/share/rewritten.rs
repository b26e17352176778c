//! Records that a share group never delivers, since an unclean leader election has rewritten their offsets.
//!
//! A new leader whose log is shorter than what the group had finished gives the offsets behind its end to new records. The share
//! partition goes on where it was, and passes them over (tried on 4.4.0: a log cut from 100 to 80, 45 new records, and only 100 to 124
//! were delivered), and nothing at the broker shows it later. So the bridge compares, at each new leader epoch, where the
//! last one ends in the new log with what was finished under it.
//!
//! What is found is committed on the source, as offsets of a consumer group beside the share group: the next offset to copy, the
//! leader epoch, and where to stop. So every process of the flow knows it, and the next one goes on where one has died.

use uuid::Uuid;

use crate::source::TopicPartition;
use crate::wire::offsets::Committed;

/// The consumer group that remembers what a share group will not deliver.
pub fn group(share_group: &str) -> String {
    format!("{share_group}-rewritten")
}

/// Offsets of a topic partition that hold new records, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// Where.
    pub at: TopicPartition,
    /// Id of the topic: one that was deleted and created again is another one.
    pub topic_id: Uuid,
    /// The next offset to copy.
    pub position: i64,
    /// The first offset that the share group delivers again.
    pub end: i64,
    /// Leader epoch that has cut the log.
    pub leader_epoch: i32,
}

impl Rewritten {
    /// Whether anything is left to copy.
    pub fn is_open(&self) -> bool {
        self.position < self.end
    }

    /// Offsets that are left.
    pub fn count(&self) -> i64 {
        self.end.saturating_sub(self.position).max(0)
    }

    /// Both together. After a second cut the copy begins at the lower position again; the same cut, seen by several processes, begins
    /// only once.
    pub fn merge(&self, other: &Self) -> Self {
        let (older, newer) = if self.leader_epoch <= other.leader_epoch { (self, other) } else { (other, self) };
        let position = match older.leader_epoch == newer.leader_epoch {
            true => older.position.max(newer.position),
            false if older.is_open() => older.position.min(newer.position),
            false => newer.position,
        };
        Self { position, end: older.end.max(newer.end), ..newer.clone() }
    }

    /// As an offset to commit.
    pub fn to_committed(&self) -> Committed {
        Committed {
            topic: self.at.topic.to_string(),
            partition: self.at.partition,
            offset: self.position,
            leader_epoch: self.leader_epoch,
            metadata: format!("{} {}", self.topic_id, self.end),
        }
    }

    /// From a committed offset; `None` where somebody else has committed it.
    pub fn from_committed(committed: &Committed) -> Option<Self> {
        let (topic_id, end) = committed.metadata.split_once(' ')?;
        Some(Self {
            at: TopicPartition { topic: committed.topic.as_str().into(), partition: committed.partition },
            topic_id: topic_id.parse().ok()?,
            position: committed.offset,
            end: end.parse().ok()?,
            leader_epoch: committed.leader_epoch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(position: i64, end: i64, leader_epoch: i32) -> Rewritten {
        let at = TopicPartition { topic: "t".into(), partition: 3 };
        Rewritten { at, topic_id: Uuid::from_u128(7), position, end, leader_epoch }
    }

    #[test]
    fn what_is_committed_is_read_back() {
        let found = rewritten(80, 100, 4);
        assert_eq!(Rewritten::from_committed(&found.to_committed()), Some(found.clone()));
        for metadata in ["", "x", "7 100", &format!("{} ", Uuid::nil())] {
            let foreign = Committed { metadata: metadata.to_owned(), ..found.to_committed() };
            assert_eq!(Rewritten::from_committed(&foreign), None, "{metadata}");
        }
    }

    #[test]
    fn the_same_cut_seen_twice_is_copied_once() {
        let (first, second) = (rewritten(93, 100, 4), rewritten(80, 104, 4));
        assert_eq!(first.merge(&second), rewritten(93, 104, 4));
        assert_eq!(second.merge(&first), rewritten(93, 104, 4));
    }

    #[test]
    fn a_second_cut_begins_at_the_lower_position() {
        assert_eq!(rewritten(85, 100, 4).merge(&rewritten(90, 120, 6)), rewritten(85, 120, 6));
        assert_eq!(rewritten(70, 75, 6).merge(&rewritten(85, 100, 4)), rewritten(70, 100, 6));
    }

    #[test]
    fn a_cut_after_a_finished_one_begins_anew() {
        assert_eq!(rewritten(100, 100, 4).merge(&rewritten(150, 160, 6)), rewritten(150, 160, 6));
    }
}
