//! What was handed out of one partition in order, and how far it is finished (pure).

use std::collections::VecDeque;

use crate::batch::OffsetRange;

/// A place between two records of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The next offset.
    pub offset: i64,
    /// Leader epoch of the record before; -1 where it is not known.
    pub epoch: i32,
}

/// See the module. What is finished is finished in the order in which it was handed out.
#[derive(Debug, Clone)]
pub struct Progress {
    done: Position,
    steps: VecDeque<Step>,
}

/// What was handed out at once.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Where it ends.
    end: Position,
    /// Whether there is nothing to finish in it: markers, aborted records, what compaction or retention has taken.
    is_empty: bool,
}

impl Progress {
    /// Nothing was handed out yet; all below `start` is finished.
    pub fn at(start: Position) -> Self {
        Self { done: start, steps: VecDeque::new() }
    }

    /// What goes on where the last step has ended, up to `end`, was handed out, or needs not to be.
    pub fn hand(&mut self, end: Position, is_empty: bool) {
        self.steps.push_back(Step { end, is_empty });
        self.pass_empty();
    }

    /// These offsets are finished: the next ones in order. Returns whether they were; otherwise nothing changes.
    pub fn finish(&mut self, span: OffsetRange) -> bool {
        let Some(step) = self.steps.front() else { return false };
        if span.first > self.done.offset || span.last < self.done.offset || span.last >= step.end.offset {
            return false;
        }
        if span.last + 1 == step.end.offset {
            self.done = step.end;
            self.steps.pop_front();
            self.pass_empty();
        } else {
            // The epoch of the step is that of its last record.
            self.done = Position { offset: span.last + 1, epoch: -1 };
        }
        true
    }

    fn pass_empty(&mut self) {
        while let Some(step) = self.steps.front().filter(|step| step.is_empty) {
            self.done = step.end;
            self.steps.pop_front();
        }
    }

    /// All below is finished.
    pub fn done(&self) -> Position {
        self.done
    }

    /// Whether everything that was handed out is finished.
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn position(offset: i64, epoch: i32) -> Position {
        Position { offset, epoch }
    }

    fn range(first: i64, last: i64) -> OffsetRange {
        OffsetRange { first, last }
    }

    #[test]
    fn what_is_finished_may_be_committed_and_nothing_beyond() {
        let mut progress = Progress::at(position(10, 3));
        progress.hand(position(20, 3), false);
        progress.hand(position(25, 4), false);
        assert!(!progress.finish(range(20, 24)), "the second before the first");
        assert!(progress.finish(range(10, 14)));
        assert_eq!(progress.done(), position(15, -1));
        assert!(progress.finish(range(15, 19)) && !progress.is_idle());
        assert_eq!(progress.done(), position(20, 3));
        assert!(progress.finish(range(20, 24)) && progress.is_idle());
        assert_eq!(progress.done(), position(25, 4));
    }

    #[test]
    fn what_holds_nothing_is_passed_when_its_turn_comes() {
        let mut progress = Progress::at(position(0, 1));
        progress.hand(position(5, 1), true);
        assert_eq!(progress.done(), position(5, 1));
        progress.hand(position(9, 1), false);
        progress.hand(position(12, 2), true);
        assert_eq!(progress.done(), position(5, 1));
        assert!(progress.finish(range(5, 8)) && progress.is_idle());
        assert_eq!(progress.done(), position(12, 2));
    }

    proptest! {
        /// Whatever parts are finished in order, the committed offset is the end of what is finished, and never more.
        #[test]
        fn the_position_is_the_end_of_what_is_finished(steps in prop::collection::vec((1i64..6, any::<bool>()), 1..12), stop in 0usize..40) {
            let mut progress = Progress::at(position(0, 0));
            let (mut end, mut full) = (0, vec![]);
            for (length, is_empty) in steps {
                if !is_empty {
                    full.extend(end..end + length);
                }
                end += length;
                progress.hand(position(end, 0), is_empty);
            }
            let (finished, rest) = full.split_at(stop.min(full.len()));
            for offset in finished {
                prop_assert!(progress.finish(range(*offset, *offset)));
            }
            prop_assert_eq!(progress.done().offset, rest.first().copied().unwrap_or(end));
            prop_assert_eq!(progress.is_idle(), rest.is_empty());
        }
    }
}
