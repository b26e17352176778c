//! What retention has left: how far back a side still reaches.

use super::plan::Span;
use super::reader::{Tally, TooMany};
use super::record::Fields;
use super::sighting::Sighting;
use crate::limits::EXPIRY_SLACK;

/// What retention may have removed from a side, which the other side may still hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Horizon {
    /// Offsets below the log start: no more records than these were removed.
    removed: u64,
    /// Timestamp up to which a record may be among them; `None` if the side has no record left.
    timestamp: Option<i64>,
}

impl Horizon {
    /// `log_start`: the first offset that the side still has. `oldest`: the timestamp of its first record, if it has one.
    pub(super) fn new(log_start: i64, oldest: Option<i64>) -> Horizon {
        let slack_ms = EXPIRY_SLACK.as_millis() as i64;
        Horizon {
            removed: Span { low: 0, end: log_start }.len(),
            timestamp: oldest.map(|oldest| oldest.saturating_add(slack_ms)),
        }
    }

    /// Takes those copies from `sighting`, on the other side, that may have been removed from this one, and counts them.
    pub(super) fn take(&mut self, sighting: &mut Sighting) -> u64 {
        let is_old = self.timestamp.is_none_or(|timestamp| sighting.timestamp <= timestamp);
        let taken = if is_old { sighting.copies.min(self.removed) } else { 0 };
        self.removed -= taken;
        sighting.copies -= taken;
        taken
    }
}

/// Takes note of the first record alone.
#[derive(Default)]
pub(super) struct Oldest {
    /// Milliseconds since 1970, or -1 for none.
    pub(super) timestamp: Option<i64>,
}

impl Tally for Oldest {
    fn add(&mut self, _offset: i64, fields: &Fields<'_>) -> Result<(), TooMany> {
        self.timestamp.get_or_insert(fields.timestamp);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.timestamp.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLACK_MS: i64 = EXPIRY_SLACK.as_millis() as i64;

    fn taken(mut horizon: Horizon, timestamp: i64) -> u64 {
        horizon.take(&mut Sighting { copies: 3, offset: 0, timestamp })
    }

    #[test]
    fn only_old_records_were_removed() {
        let horizon = Horizon::new(100, Some(1_000));
        assert_eq!(taken(horizon, -1), 3);
        assert_eq!(taken(horizon, 1_000 + SLACK_MS), 3);
        assert_eq!(taken(horizon, 1_001 + SLACK_MS), 0);
        assert_eq!(taken(Horizon::new(100, None), i64::MAX), 3, "nothing is left");
    }

    #[test]
    fn no_more_records_were_removed_than_offsets() {
        assert_eq!(taken(Horizon::new(0, Some(1_000)), 0), 0);
        assert_eq!(taken(Horizon::new(2, Some(1_000)), 0), 2);
        let mut horizon = Horizon::new(4, Some(1_000));
        let mut sighting = Sighting { copies: 3, offset: 0, timestamp: 0 };
        assert_eq!((horizon.take(&mut sighting), sighting.copies), (3, 0));
        assert_eq!(taken(horizon, 0), 1);
    }
}
