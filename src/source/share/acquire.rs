//! From a fetch reply to parcels: what travels together, and what travels alone (pure).

use bytes::Bytes;

use crate::batch::{OffsetRange, RecordBatch};
use crate::limits::{FRAGILE_DELIVERIES_DIVISOR, FRAGILE_RECORDS_MAX};
use crate::wire::share::AcquiredRange;

/// Ranges of one topic partition that become a parcel, with the bytes that they need.
#[derive(Debug, PartialEq, Eq)]
pub struct Lot {
    /// Ascending.
    pub ranges: Vec<OffsetRange>,
    /// Whole record batches.
    pub records: Bytes,
    /// Highest delivery count.
    pub delivery_count: i16,
    /// Whether it must travel alone.
    pub fragile: bool,
}

impl Lot {
    /// From the first offset to the last.
    pub fn span(&self) -> OffsetRange {
        let first = self.ranges.first().map_or(0, |range| range.first);
        OffsetRange { first, last: self.ranges.last().map_or(-1, |range| range.last) }
    }
}

/// Sorts what was acquired into lots. Records that have used up half of their delivery attempts are fragile: each small group of
/// them becomes a lot of its own, cut where record batches end, so that one that kills its worker takes few others along.
pub fn lots(acquired: &[AcquiredRange], records: &Bytes, delivery_count_max: u32) -> Vec<Lot> {
    let is_fragile = |range: &&AcquiredRange| {
        u32::try_from(range.delivery_count).unwrap_or(0) > delivery_count_max / FRAGILE_DELIVERIES_DIVISOR
    };
    let (fragile, sound): (Vec<&AcquiredRange>, Vec<_>) = acquired.iter().partition(is_fragile);
    let mut lots: Vec<Lot> = fragile.into_iter().flat_map(|range| cut(range, records)).collect();
    if let Some(delivery_count) = sound.iter().map(|range| range.delivery_count).max() {
        let ranges = sound.into_iter().map(|acquired| acquired.range).collect();
        lots.push(Lot { ranges, records: records.clone(), delivery_count, fragile: false });
    }
    lots
}

/// Cuts one range at batch boundaries, about every [`FRAGILE_RECORDS_MAX`] offsets. Each lot begins with the batch before its own: it
/// shows that a hole at the beginning of the range was delivered as a hole.
fn cut(acquired: &AcquiredRange, records: &Bytes) -> Vec<Lot> {
    let whole = acquired.range;
    let lot =
        |range, records| Lot { ranges: vec![range], records, delivery_count: acquired.delivery_count, fragile: true };
    let batches: Result<Vec<_>, _> = RecordBatch::split(records.clone()).collect();
    // What cannot be taken apart stays together; whoever packs it reports why.
    let Ok(batches) = batches else {
        return vec![lot(whole, records.clone())];
    };
    let (mut lots, mut first, mut begin, mut position) = (vec![], whole.first, 0, 0);
    for batch in &batches {
        let end = position + batch.size_bytes();
        let last = batch.last_offset().min(whole.last);
        if batch.last_offset() < first {
            begin = position;
        } else if batch.base_offset() <= whole.last {
            let full = OffsetRange { first, last }.count() >= FRAGILE_RECORDS_MAX;
            if full && last < whole.last {
                lots.push(lot(OffsetRange { first, last }, records.slice(begin..end)));
                (first, begin) = (last + 1, position);
            }
        }
        position = end;
    }
    lots.push(lot(OffsetRange { first, last: whole.last }, records.slice(begin..)));
    lots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample;

    fn acquired(first: i64, last: i64, delivery_count: i16) -> AcquiredRange {
        AcquiredRange { range: OffsetRange { first, last }, delivery_count }
    }

    fn ranges(lots: &[Lot]) -> Vec<(i64, i64, bool)> {
        let ends = |lot: &Lot| (lot.ranges[0].first, lot.ranges.last().unwrap().last, lot.fragile);
        lots.iter().map(ends).collect()
    }

    #[test]
    fn fresh_records_travel_together() {
        let records = sample::batches(0, &[60, 60, 60]);
        let lots = lots(&[acquired(0, 59, 1), acquired(60, 179, 5)], &records, 10);
        assert_eq!(ranges(&lots), [(0, 179, false)]);
        assert_eq!((lots[0].delivery_count, lots[0].records.len()), (5, records.len()));
    }

    #[test]
    fn records_near_their_limit_travel_in_small_groups_first() {
        let records = sample::batches(0, &[60, 60, 60, 60]);
        let lots = lots(&[acquired(0, 59, 1), acquired(70, 239, 6)], &records, 10);
        assert_eq!(ranges(&lots), [(70, 179, true), (180, 239, true), (0, 59, false)]);
        let bases = |lot: &Lot| -> Vec<i64> {
            RecordBatch::split(lot.records.clone()).map(|batch| batch.unwrap().base_offset()).collect()
        };
        assert_eq!((bases(&lots[0]), bases(&lots[1])), (vec![0, 60, 120], vec![120, 180]));
    }
}
