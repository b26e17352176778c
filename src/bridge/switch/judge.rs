//! Where a group goes on in a partition that another one has copied so far (pure).

use crate::config::Protocol;

/// What is known of a partition, at both groups and in its log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Start offset of the share group.
    pub(super) start: Option<i64>,
    /// What the share group still has to do.
    pub(super) lag: Option<u64>,
    /// Offset that the consumer group has committed.
    pub(super) committed: Option<i64>,
    /// Where the log begins.
    pub(super) earliest: i64,
    /// Where the log ended before the groups were looked at: what a group has done by then, lies below or was written since.
    pub(super) end_before: i64,
    /// Where it ended after that.
    pub(super) end: i64,
}

/// How the flow is set up, for all partitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Which group is to go on.
    pub(super) to: Protocol,
    /// Whether the group that is left begins at the beginning of partitions that it has no offset for.
    pub(super) from_earliest: bool,
    /// Records of a partition that may be in flight in the share group.
    pub(super) window: u32,
}

/// What becomes of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The group that goes on is put to this offset.
    Goes {
        /// The offset.
        to: i64,
        /// Records above it that have been copied, and are copied again: at most so many.
        repeated: u64,
        /// Offsets below it that retention has removed before they were copied.
        removed: u64,
    },
    /// The group that goes on stays where it is: it stands there already, or the one that is left knows nothing of the partition.
    Stays,
    /// The group that goes on stands further than the one that is left, which is here.
    Ahead(i64),
    /// The group that is left stands here, behind the end of the log.
    Cut(i64),
}

impl Known {
    /// Where the share group has come to. All below its start offset is done, and all that there is where nothing is left to do
    /// (tried on 4.4.0: a start offset stays behind until something else is stored).
    fn shared(&self) -> Option<i64> {
        let start = self.start?;
        Some(if self.lag == Some(0) { start.max(self.end_before) } else { start })
    }

    /// Where the group stands that goes on.
    pub(super) fn now(&self, to: Protocol) -> Option<i64> {
        match to {
            Protocol::Share => self.start,
            Protocol::Consumer => self.committed,
        }
    }

    /// Records from `offset` on that the share group has done: at most so many.
    fn done_from(&self, offset: i64, window: u32) -> u64 {
        let Some(start) = self.start else { return 0 };
        let all = self.end.saturating_sub(start).max(0).cast_unsigned();
        let done = self.lag.map_or(all.min(window.into()), |lag| all.saturating_sub(lag));
        done.min(self.end.saturating_sub(offset).max(0).cast_unsigned())
    }

    /// Decides.
    pub(super) fn judge(&self, rules: Rules) -> Outcome {
        let left = match rules.to {
            Protocol::Share => self.committed,
            Protocol::Consumer => self.shared(),
        };
        let now = self.now(rules.to);
        let begins = (now.is_none() && rules.from_earliest).then_some(self.earliest);
        let Some(stands) = left.or(begins) else { return Outcome::Stays };
        let to = stands.max(self.earliest);
        match now {
            _ if stands > self.end => Outcome::Cut(stands),
            Some(now) if now == to => Outcome::Stays,
            Some(now) if now > to => Outcome::Ahead(stands),
            _ => Outcome::Goes { to, repeated: self.done_from(to, rules.window), removed: to.abs_diff(stands) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Known = Known { start: None, lag: None, committed: None, earliest: 100, end_before: 1_000, end: 1_000 };

    fn judge(known: Known, to: Protocol) -> Outcome {
        known.judge(Rules { to, from_earliest: true, window: 50 })
    }

    fn goes(to: i64, repeated: u64, removed: u64) -> Outcome {
        Outcome::Goes { to, repeated, removed }
    }

    #[test]
    fn a_consumer_group_goes_on_at_the_start_offset_and_repeats_what_is_done_above() {
        let at = |start, lag| judge(Known { start: Some(start), lag, ..LOG }, Protocol::Consumer);
        assert_eq!(at(400, Some(600)), goes(400, 0, 0));
        assert_eq!(at(400, Some(570)), goes(400, 30, 0), "30 are done in the window");
        assert_eq!(at(400, None), goes(400, 50, 0), "a window at most");
        assert_eq!(at(990, None), goes(990, 10, 0), "the log ends within the window");
        assert_eq!(at(960, Some(0)), goes(1_000, 0, 0), "nothing is left to do");
        assert_eq!(at(960, Some(1)), goes(960, 39, 0), "one is left, and may be the first");
        assert_eq!(at(60, Some(900)), goes(100, 40, 40), "retention has removed the first ones");
        let busy = Known { start: Some(960), lag: Some(0), end_before: 990, ..LOG };
        assert_eq!(judge(busy, Protocol::Consumer), goes(990, 10, 0), "who knows what was written since");
        assert_eq!(at(1_200, Some(0)), Outcome::Cut(1_200));
    }

    #[test]
    fn a_share_group_goes_on_at_the_committed_offset_and_repeats_only_what_it_has_done_beyond() {
        let at =
            |start, lag, committed| judge(Known { start, lag, committed: Some(committed), ..LOG }, Protocol::Share);
        assert_eq!(at(None, None, 700), goes(700, 0, 0));
        assert_eq!(at(Some(400), Some(600), 700), goes(700, 0, 0));
        assert_eq!(at(Some(400), Some(570), 420), goes(420, 30, 0), "some of them may lie below");
        assert_eq!(at(Some(400), Some(570), 990), goes(990, 10, 0));
        assert_eq!(at(Some(400), Some(570), 400), Outcome::Stays, "nothing was copied since: its state is kept");
        assert_eq!(at(None, None, 40), goes(100, 0, 60));
        assert_eq!(at(None, None, 1_001), Outcome::Cut(1_001));
    }

    #[test]
    fn no_group_goes_back() {
        let known = Known { start: Some(400), lag: Some(600), committed: Some(700), ..LOG };
        assert_eq!(judge(known, Protocol::Consumer), Outcome::Ahead(400));
        let known = Known { start: Some(400), lag: Some(600), committed: Some(300), ..LOG };
        assert_eq!(judge(known, Protocol::Share), Outcome::Ahead(300));
        let known = Known { start: Some(400), lag: Some(600), committed: Some(401), ..LOG };
        assert_eq!(judge(known, Protocol::Consumer), Outcome::Ahead(400), "not by a single record");
        let at = |start, committed| {
            let known = Known { start: Some(start), lag: Some(900), committed: Some(committed), ..LOG };
            judge(known, Protocol::Consumer)
        };
        assert_eq!(at(60, 150), Outcome::Ahead(60), "said is where it stands, not where the log begins");
        assert_eq!(at(60, 80), goes(100, 40, 40), "what lies between was removed");
        assert_eq!(at(1_200, 1_200), Outcome::Cut(1_200), "both stand behind the end");
    }

    #[test]
    fn a_partition_that_was_never_read_is_read_from_its_beginning() {
        assert_eq!(judge(LOG, Protocol::Consumer), goes(100, 0, 0));
        assert_eq!(judge(LOG, Protocol::Share), goes(100, 0, 0));
        let latest = Rules { to: Protocol::Consumer, from_earliest: false, window: 50 };
        assert_eq!(LOG.judge(latest), Outcome::Stays, "its first look decides");
        let other = Known { committed: Some(500), ..LOG };
        assert_eq!(judge(other, Protocol::Consumer), Outcome::Stays, "only the other group knows it");
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_was_not_copied_is_passed_over(
            start in proptest::option::of(0i64..200), lag in proptest::option::of(0u64..200), committed in proptest::option::of(0i64..200),
            earliest in 0i64..100, length in 0i64..100, to_share: bool,
        ) {
            let known = Known { start, lag, committed, earliest, end_before: earliest + length / 2, end: earliest + length };
            let to = if to_share { Protocol::Share } else { Protocol::Consumer };
            if let Outcome::Goes { to: offset, removed, .. } = judge(known, to) {
                let done_below = if to_share { committed } else { known.shared() };
                // What lies between was in no log any more.
                proptest::prop_assert_eq!(done_below.map_or(earliest, |done| done + removed.cast_signed()), offset);
                proptest::prop_assert!(removed == 0 || offset == earliest);
                proptest::prop_assert!(known.now(to).is_none_or(|now| now < offset));
            }
        }
    }
}
