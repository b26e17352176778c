//! Dead letters read back, and delivered after all.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::{BatchBuilder, BatchError, Codec, Hop, OffsetRange, RecordBatch, committed, within};
use crate::config::ErrorsConfig;
use crate::dead_letter::Letter;
use crate::flow::Flow;
use crate::limits::HOLD_RETRY;
use crate::sink::kafka::KafkaSink;
use crate::sink::kafka::identity::transactional_id;
use crate::sink::{SinkError, write_alone};
use crate::source::{Hold, Parcel};
use crate::wire::client::TopicInfo;
use crate::wire::log::{Moment, list_offsets, read_log};
use crate::wire::offsets::{self, Committed};
use crate::wire::{Client, WireError};

/// The letters of a flow.
#[derive(Debug)]
pub struct Post {
    client: Client,
    topic: TopicInfo,
    /// The consumer group that remembers what was replayed.
    group: String,
}

/// A letter's place in its topic: partition and offset.
pub type Place = (i32, i64);

/// Why letters cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The flow keeps none.
    #[error("the flow has no dead letters: errors.deadletterqueue.topic.name is not set")]
    NoTopic,
    /// There is no such letter.
    #[error("there is no letter {}:{} in the topic", .0.0, .0.1)]
    NoLetter(Place),
    /// A partition has no leader.
    #[error("partition {0} of the topic has no leader now: try again")]
    Leaderless(i32),
    /// The cluster does not answer, or refuses.
    #[error(transparent)]
    Cluster(#[from] WireError),
    /// A record batch of the topic that cannot be read.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A letter that cannot be delivered.
    #[error("letter {}:{}: {error}", .place.0, .place.1)]
    Undelivered {
        /// Which one.
        place: Place,
        /// Why.
        error: SinkError,
    },
}

impl Post {
    /// The letters of a flow.
    pub async fn of(flow: &Flow) -> Result<Self, PostError> {
        let ErrorsConfig::DeadLetter(letters) = &flow.errors else { return Err(PostError::NoTopic) };
        let mut client = Client::new(flow.for_dead_letters(letters).sink);
        let found = client.topics(std::slice::from_ref(&letters.topic)).await?.pop();
        let topic = found.ok_or(PostError::NoTopic)?.1?;
        Ok(Self { client, topic, group: format!("sharebridge-{}-replayed", flow.name) })
    }

    /// How far each partition was replayed.
    pub async fn replayed(&mut self) -> Result<BTreeMap<i32, i64>, PostError> {
        let stored = offsets::committed(&mut self.client, &self.group).await?;
        let ours = stored.into_iter().filter(|stored| stored.topic == self.topic.name);
        Ok(ours.map(|stored| (stored.partition, stored.offset)).collect())
    }

    /// Shows all letters from these offsets on, in their order in each partition, to `visit`, until it says `false`.
    pub async fn read(
        &mut self,
        from: &BTreeMap<i32, i64>,
        mut visit: impl FnMut(Place, Letter) -> bool,
    ) -> Result<(), PostError> {
        let topics = [self.topic.clone()];
        let starts = list_offsets(&mut self.client, &topics, Moment::Earliest).await?;
        for ((_, partition), start) in starts {
            let mut next = from.get(&partition).map_or(start, |from| start.max(*from));
            while let Some(behind) = self.read_some((partition, next), &mut visit).await? {
                next = behind;
            }
        }
        Ok(())
    }

    /// One read; returns where the next one begins, or `None` where there is nothing more to be seen.
    async fn read_some(
        &mut self,
        (partition, from): Place,
        visit: &mut impl FnMut(Place, Letter) -> bool,
    ) -> Result<Option<i64>, PostError> {
        let (leader, _) = self.topic.leadership(partition).ok_or(PostError::Leaderless(partition))?;
        let read = read_log(&*self.client.broker(leader).await?, (self.topic.id, partition), from).await?;
        let batches: Vec<RecordBatch> = RecordBatch::split(read.records).collect::<Result<_, _>>()?;
        let visible = committed(&batches, &read.aborted);
        let behind = batches.last().map(|batch| batch.last_offset() + 1);
        for batch in &batches {
            batch.check()?;
            let unpacked = batch.unpack()?;
            for record in unpacked.records() {
                let record = record?;
                let span = OffsetRange { first: record.offset, last: record.offset };
                let is_letter = record.offset >= from && !within(&visible, span).is_empty();
                if is_letter && !visit((partition, record.offset), Letter::of(&record)?) {
                    return Ok(None);
                }
            }
        }
        Ok(behind)
    }

    /// The letter at a place.
    pub async fn letter(&mut self, place: Place) -> Result<Letter, PostError> {
        let mut found = None;
        let topics = [self.topic.clone()];
        let ends = list_offsets(&mut self.client, &topics, Moment::Stable).await?;
        if ends.get(&(self.topic.name.clone(), place.0)).is_some_and(|end| (0..*end).contains(&place.1)) {
            self.read_some(place, &mut |at, letter| {
                found = (at == place).then_some(letter);
                false
            })
            .await?;
        }
        found.ok_or(PostError::NoLetter(place))
    }

    /// Remembers that all letters below these offsets were replayed.
    pub async fn remember(&mut self, offsets: &BTreeMap<i32, i64>) -> Result<(), PostError> {
        let stored = |(partition, offset): (&i32, &i64)| Committed {
            topic: self.topic.name.clone(),
            partition: *partition,
            offset: *offset,
            leader_epoch: -1,
            metadata: String::new(),
        };
        let stored: Vec<Committed> = offsets.iter().map(stored).collect();
        Ok(offsets::commit(&mut self.client, &self.group, &stored).await?)
    }
}

/// Delivers letters as the records that they were.
#[derive(Debug)]
pub struct Replay {
    sink: KafkaSink,
}

impl Replay {
    /// Into the topics of a flow. `hop`: the ids of both clusters, for a flow with a hop header.
    pub fn into(flow: &Flow, hop: Option<Hop>) -> Self {
        Self { sink: KafkaSink::new(flow, transactional_id(&flow.name, Uuid::new_v4(), 0), hop) }
    }

    /// Delivers a letter in a transaction of its own; `false` where it is no record.
    pub async fn deliver(&mut self, place: Place, letter: &Letter) -> Result<bool, PostError> {
        let Some(at) = letter.origin().filter(|_| letter.is_record()) else { return Ok(false) };
        let span = OffsetRange { first: 0, last: 0 };
        let parcel = Parcel {
            at,
            topic_id: Uuid::nil(),
            leader: -1,
            records: record_of(letter)?,
            hold: Arc::new(Hold::new(vec![span], Instant::now() + HOLD_RETRY)),
            span,
            delivery_count: 1,
            fragile: true,
            fetched_at: Instant::now(),
        };
        let written = write_alone(&mut self.sink, parcel).await;
        written.map(|_| true).map_err(|error| PostError::Undelivered { place, error })
    }
}

/// The record that a letter holds, in a record batch at offset 0.
fn record_of(letter: &Letter) -> Result<bytes::Bytes, BatchError> {
    let mut builder = BatchBuilder::default();
    let headers: Vec<_> = letter.own().map(|(name, value)| (name.as_bytes(), value.as_deref())).collect();
    builder.push((0, letter.timestamp), (letter.key.as_deref(), letter.value.as_deref()), headers.into_iter());
    Ok(builder.finish(Codec::Uncompressed)?.bytes().clone())
}
