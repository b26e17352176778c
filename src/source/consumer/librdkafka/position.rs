//! Where to begin in a partition, and where to read on when its position is not valid any more.

use std::time::{Duration, SystemTime};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::settings::Consumer;
use crate::config::OffsetReset;
use crate::limits::ENGINE_ANSWER_MAX;
use crate::source::TopicPartition;

/// Partitions that come to what is ours, each with the offset that it begins at: what is committed, or the first record. Where neither
/// is known, or wanted, librdkafka finds that it has no position, and [`find`] is asked.
pub(super) fn begin(consumer: &Consumer, ats: &[TopicPartition], reset: OffsetReset) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    ats.iter().for_each(|at| {
        list.add_partition(&at.topic, at.partition);
    });
    let Ok(begin) = consumer.committed_offsets(list.clone(), ENGINE_ANSWER_MAX) else { return list };
    for mut element in begin.elements() {
        let is_new = element.error().is_ok() && !matches!(element.offset(), Offset::Offset(_));
        if is_new && reset == OffsetReset::Earliest {
            element.set_offset(Offset::Beginning).expect("librdkafka has a number for it");
        }
    }
    begin
}

/// Where reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing is committed: where the flow wants to.
    Begin(i64),
    /// Retention has removed what was to be read: at the first record that is left.
    Expired(i64),
    /// The log was cut: nobody tells here from where on it was written anew.
    Cut,
}

/// Asks the cluster. `next`: where reading would go on; `None` asks for what is committed.
///
/// Errors: librdkafka's, when it gets no answer in time. Blocks.
pub(super) fn find(
    consumer: &Consumer,
    at: &TopicPartition,
    (next, reset): (Option<i64>, OffsetReset),
) -> Result<Place, KafkaError> {
    let next = match next {
        Some(next) => Some(next),
        None => committed(consumer, at)?,
    };
    let (low, high) = consumer.fetch_watermarks(&at.topic, at.partition, ENGINE_ANSWER_MAX)?;
    let first = match (next, reset) {
        (Some(next), _) => return Ok(place(next, low)),
        (None, OffsetReset::Earliest) => low,
        (None, OffsetReset::Latest) => high,
        (None, OffsetReset::Within(age)) => not_older(consumer, at, age)?.unwrap_or(high),
    };
    Ok(Place::Begin(first))
}

fn place(next: i64, low: i64) -> Place {
    if next < low { Place::Expired(low) } else { Place::Cut }
}

/// The first record that is not older; `None` where all are.
fn not_older(consumer: &Consumer, at: &TopicPartition, age: Duration) -> Result<Option<i64>, KafkaError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&at.topic, at.partition, Offset::Offset(since))?;
    concrete(&consumer.offsets_for_times(list, ENGINE_ANSWER_MAX)?)
}

fn committed(consumer: &Consumer, at: &TopicPartition) -> Result<Option<i64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition(&at.topic, at.partition);
    let list = consumer.committed_offsets(list, ENGINE_ANSWER_MAX)?;
    concrete(&list)
}

/// The offset of the only partition in a list, if it is one of a record.
fn concrete(list: &TopicPartitionList) -> Result<Option<i64>, KafkaError> {
    let Some(element) = list.elements().pop() else { return Ok(None) };
    element.error()?;
    match element.offset() {
        Offset::Offset(offset) => Ok(Some(offset)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_moved_only_where_nothing_can_be_missed() {
        assert_eq!(place(2, 3), Place::Expired(3));
        assert_eq!((place(3, 3), place(12, 3)), (Place::Cut, Place::Cut));
    }
}
