//! Dead letters: records that could not be delivered, unchanged, with headers that say where they come from and why (pure).
//!
//! The headers have the names of Kafka Connect (KIP-298), `__connect.errors.` and what follows, so that tools for its dead-letter
//! queues read ours; `source.cluster`, `topic.id`, `leader.epoch`, `delivery.count`, `timestamp` and `unreadable.batch` are our own.

use bytes::Bytes;

use crate::batch::{BatchBuilder, BatchError, Codec, Header, OffsetRange, Record, RecordBatch, append, within};
use crate::limits::MADE_BATCH_BYTES;
use crate::source::{Parcel, TopicPartition};

/// What the names of all headers begin with.
pub const PREFIX: &str = "__connect.errors.";

/// What `stage` says: Connect's word for the delivery to a sink.
const STAGE: &str = "TASK_PUT";

/// What `class.name` says: who could not deliver.
const CLASS: &str = "sharebridge";

/// Where the letters of a lane come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The flow.
    pub flow: String,
    /// Number of the lane.
    pub lane: u32,
    /// Name of the source cluster in the configuration.
    pub cluster: String,
}

/// Why records could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// What kind of error it is, in one word.
    pub class: String,
    /// In words for people.
    pub why: String,
    /// Whether the records cannot even be read, so that their batches are what is kept.
    pub is_unreadable: bool,
}

impl Blame {
    /// The broker would not deliver the records again.
    pub fn last_chance(delivery_count: i16) -> Self {
        let why = format!(
            "delivered {delivery_count} times without an acknowledgement: after that the broker gives up \
             (share.max.delivery.count)"
        );
        Self { class: "DeliveryLimit".to_owned(), why, is_unreadable: false }
    }
}

/// Record batches with a letter for each record that a parcel holds, at its offset; where they cannot be read, one for all of them,
/// whose value is the record batches as they came.
///
/// `now`: milliseconds since 1970. Returns the offsets of the letters, too. Errors: records that cannot be read.
pub fn letters(
    parcel: &Parcel,
    sender: &Sender,
    blame: &Blame,
    now: i64,
) -> Result<(Bytes, Vec<OffsetRange>), BatchError> {
    let mut batches = Batches::default();
    let held = parcel.held();
    if blame.is_unreadable {
        let first = held.first().map_or(parcel.span.first, |range| range.first);
        let headers = Headers::of(parcel, sender, blame, now).at(first, -1, true);
        batches.push((first, now), (None, Some(&parcel.records)), (&[], &headers))?;
        return batches.finish();
    }
    let headers = Headers::of(parcel, sender, blame, now);
    for batch in RecordBatch::split(parcel.records.clone()) {
        let batch = batch?;
        if within(&held, batch.offsets()).is_empty() {
            continue;
        }
        let unpacked = batch.unpack()?;
        for record in unpacked.records() {
            let record = record?;
            if !held.iter().any(|range| (range.first..=range.last).contains(&record.offset)) {
                continue;
            }
            let ours = headers.at(record.offset, batch.leader_epoch(), false);
            let own: Vec<Header<'_>> = record.headers().collect::<Result<_, _>>()?;
            batches.push((record.offset, record.timestamp), (record.key, record.value), (&own, &ours))?;
        }
    }
    batches.finish()
}

/// Name and value of each header that a letter adds.
#[derive(Debug)]
struct Headers {
    same: Vec<(String, String)>,
}

impl Headers {
    fn of(parcel: &Parcel, sender: &Sender, blame: &Blame, now: i64) -> Self {
        let same = [
            ("topic", parcel.at.topic.to_string()),
            ("partition", parcel.at.partition.to_string()),
            ("connector.name", sender.flow.clone()),
            ("task.id", sender.lane.to_string()),
            ("stage", STAGE.to_owned()),
            ("class.name", CLASS.to_owned()),
            ("exception.class.name", blame.class.clone()),
            ("exception.message", blame.why.clone()),
            ("source.cluster", sender.cluster.clone()),
            ("topic.id", parcel.topic_id.to_string()),
            ("delivery.count", parcel.delivery_count.to_string()),
            ("timestamp", now.to_string()),
        ];
        Self { same: same.map(|(name, value)| (format!("{PREFIX}{name}"), value)).into() }
    }

    fn at(&self, offset: i64, leader_epoch: i32, is_unreadable: bool) -> Vec<(String, String)> {
        let named = |name: &str, value: String| (format!("{PREFIX}{name}"), value);
        let mut headers = self.same.clone();
        headers.push(named("offset", offset.to_string()));
        headers.push(named("leader.epoch", leader_epoch.to_string()));
        headers.extend(is_unreadable.then(|| named("unreadable.batch", "true".to_owned())));
        headers
    }
}

/// Batches that are being made.
#[derive(Debug, Default)]
struct Batches {
    done: Vec<u8>,
    offsets: Vec<OffsetRange>,
    builder: BatchBuilder,
}

impl Batches {
    fn push(
        &mut self,
        at: (i64, i64),
        body: (Option<&[u8]>, Option<&[u8]>),
        (own, ours): (&[Header<'_>], &[(String, String)]),
    ) -> Result<(), BatchError> {
        if self.builder.size_bytes() >= MADE_BATCH_BYTES || !self.builder.takes(at.0) {
            self.close()?;
        }
        let ours = ours.iter().map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())));
        let headers: Vec<Header<'_>> = own.iter().copied().chain(ours).collect();
        self.builder.push(at, body, headers.into_iter());
        append(&mut self.offsets, OffsetRange { first: at.0, last: at.0 });
        Ok(())
    }

    fn close(&mut self) -> Result<(), BatchError> {
        if self.builder.count() > 0 {
            let batch = std::mem::take(&mut self.builder).finish(Codec::Uncompressed)?;
            self.done.extend_from_slice(batch.bytes());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Bytes, Vec<OffsetRange>), BatchError> {
        self.close()?;
        Ok((self.done.into(), self.offsets))
    }
}

/// A letter that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Milliseconds since 1970, of the record.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value, or the record batches that could not be read.
    pub value: Option<Vec<u8>>,
    /// Its headers, with those of the letter. Kafka's header names are UTF-8; others are shown with replacement characters.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Letter {
    /// A record of a topic of dead letters.
    ///
    /// Errors: a header that cannot be read.
    pub fn of(record: &Record<'_>) -> Result<Self, BatchError> {
        let owned = |header: Result<Header<'_>, BatchError>| {
            let (name, value) = header?;
            Ok((String::from_utf8_lossy(name).into_owned(), value.map(<[u8]>::to_vec)))
        };
        Ok(Self {
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers().map(owned).collect::<Result<_, _>>()?,
        })
    }

    /// What one of the letter's own headers says, by the name behind [`PREFIX`].
    pub fn says(&self, name: &str) -> Option<String> {
        let is_it = |header: &&(String, Option<Vec<u8>>)| header.0.strip_prefix(PREFIX) == Some(name);
        let value = self.headers.iter().rev().find(is_it)?.1.as_deref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Where the record was read; `None` where nobody has said so.
    pub fn origin(&self) -> Option<TopicPartition> {
        let (topic, partition) = (self.says("topic")?, self.says("partition")?);
        Some(TopicPartition { topic: topic.as_str().into(), partition: partition.parse().ok()? })
    }

    /// Whether it can be delivered as the record that it was.
    pub fn is_record(&self) -> bool {
        self.origin().is_some() && self.says("unreadable.batch").is_none()
    }

    /// The headers that the record had.
    pub fn own(&self) -> impl ExactSizeIterator<Item = &(String, Option<Vec<u8>>)> {
        let own: Vec<_> = self.headers.iter().filter(|(name, _)| !name.starts_with(PREFIX)).collect();
        own.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::sample;
    use crate::source::Hold;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    fn parcel(held: &[(i64, i64)]) -> Parcel {
        let ranges = held.iter().map(|&(first, last)| OffsetRange { first, last }).collect();
        Parcel {
            at: TopicPartition { topic: "t".into(), partition: 3 },
            topic_id: uuid::Uuid::nil(),
            leader: 1,
            records: sample::batches(10, &[5, 5]),
            hold: Arc::new(Hold::new(ranges, Instant::now() + Duration::from_secs(30))),
            span: OffsetRange { first: 10, last: 19 },
            delivery_count: 2,
            fragile: true,
            fetched_at: Instant::now(),
        }
    }

    fn sender() -> Sender {
        Sender { flow: "f".to_owned(), lane: 1, cluster: "c".to_owned() }
    }

    fn read(records: Bytes) -> Vec<(i64, Letter)> {
        let mut letters = vec![];
        for batch in RecordBatch::split(records).map(Result::unwrap) {
            batch.check().unwrap();
            let unpacked = batch.unpack().unwrap();
            let records = unpacked.records().map(Result::unwrap);
            letters.extend(records.map(|record| (record.offset, Letter::of(&record).unwrap())));
        }
        letters
    }

    #[test]
    fn each_held_record_becomes_a_letter_that_says_where_it_was_and_why() {
        let blame = Blame { class: "Picky".to_owned(), why: "too blue".to_owned(), is_unreadable: false };
        let parcel = parcel(&[(11, 11), (14, 15)]);
        let (records, offsets) = letters(&parcel, &sender(), &blame, 77).unwrap();
        let ranges =
            |pairs: &[(i64, i64)]| pairs.iter().map(|&(first, last)| OffsetRange { first, last }).collect::<Vec<_>>();
        assert_eq!(offsets, ranges(&[(11, 11), (14, 15)]));
        let before: Vec<(i64, Letter)> = read(parcel.records.clone());
        let letters = read(records);
        assert_eq!(letters.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [11, 14, 15]);
        for (offset, letter) in &letters {
            let (_, record) = before.iter().find(|(known, _)| known == offset).unwrap();
            assert_eq!((letter.timestamp, &letter.key, &letter.value), (record.timestamp, &record.key, &record.value));
            assert!(letter.own().eq(&record.headers));
            assert_eq!((letter.origin(), letter.is_record()), (Some(parcel.at.clone()), true));
            let said = |name: &str| letter.says(name).unwrap();
            assert_eq!((said("offset"), said("exception.class.name")), (offset.to_string(), "Picky".to_owned()));
            assert_eq!(
                (said("delivery.count"), said("timestamp"), said("task.id")),
                ("2".into(), "77".into(), "1".into())
            );
        }
    }

    #[test]
    fn what_cannot_be_read_becomes_one_letter_with_its_bytes() {
        let blame = Blame { class: "BatchCorrupt".to_owned(), why: "bits".to_owned(), is_unreadable: true };
        let mut parcel = parcel(&[(10, 19)]);
        let mut broken = parcel.records.to_vec();
        *broken.last_mut().unwrap() ^= 1;
        parcel.records = broken.clone().into();
        let (records, offsets) = letters(&parcel, &sender(), &blame, 77).unwrap();
        assert_eq!(offsets, [OffsetRange { first: 10, last: 10 }]);
        let letters = read(records);
        assert_eq!((letters.len(), letters[0].1.value.as_deref()), (1, Some(&broken[..])));
        assert!(!letters[0].1.is_record());
    }

    #[test]
    fn gaps_leave_no_letter() {
        let blame = Blame::last_chance(10);
        let mut empty = parcel(&[(20, 25)]);
        empty.span = OffsetRange { first: 20, last: 25 };
        assert!(letters(&empty, &sender(), &blame, 0).unwrap().1.is_empty());
    }
}
