//! Carving: the acquired records of batches that cannot be forwarded become new batches that can.
//!
//! Key, value and headers of a record are copied as bytes and never decoded, so nothing in them can change; only the recipe may add a
//! header.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::builder::BatchBuilder;
use super::unpack::{Unpacked, Walked};
use super::{BatchError, Codec, OffsetRange, Recipe, RecordBatch, append};
use crate::limits::CARVED_TOGETHER_BYTES;

/// Takes records out of batches in the order of the source, and makes new batches of them.
#[derive(Debug)]
pub struct Carver<'a> {
    recipe: &'a Recipe,
    /// Of the records below.
    codec: Codec,
    pending: Vec<Selected>,
    /// Decompressed bytes that they keep in memory.
    pending_bytes: usize,
    done: Vec<(i32, RecordBatch)>,
}

/// What a carver took out of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// The source offsets of the records, ascending, as few ranges as can be. Whatever else was acquired of the batch's offsets holds
    /// no data: gaps of compaction, or markers.
    pub offsets: Vec<OffsetRange>,
    /// How many of them have been on the target before, and go there no more.
    pub looped: u64,
}

/// A record with what a consumer of the source sees, and where it goes.
#[derive(Debug)]
struct Selected {
    offset: i64,
    timestamp: i64,
    partition: i32,
    body: Bytes,
}

impl<'a> Carver<'a> {
    /// A carver that has taken nothing yet.
    pub fn new(recipe: &'a Recipe) -> Self {
        Self { recipe, codec: Codec::Uncompressed, pending: vec![], pending_bytes: 0, done: vec![] }
    }

    /// Takes the acquired records of `batch`, whose checksum must be verified.
    ///
    /// `acquired`: ascending and disjoint. Timestamps become CreateTime with the value that a consumer of the source sees. A control
    /// batch and one without records give nothing.
    /// Errors: records that cannot be read within bounds, and those of [`finish`](Self::finish).
    pub fn take(&mut self, batch: &RecordBatch, acquired: &[OffsetRange]) -> Result<Taken, BatchError> {
        if batch.is_control() || batch.record_count() == 0 {
            return Ok(Taken::default());
        }
        let wanted = self.recipe.codec.map_or_else(|| batch.codec(), Ok)?;
        let unpacked = batch.unpack()?;
        if wanted != self.codec || self.pending_bytes >= CARVED_TOGETHER_BYTES {
            self.encode_pending()?;
        }
        self.codec = wanted;
        self.pending_bytes += unpacked.block().len();
        self.select(&unpacked, acquired)
    }

    /// Walks all records, so that a malformed one is found wherever it is, and keeps those in `acquired`.
    fn select(&mut self, unpacked: &Unpacked<'_>, acquired: &[OffsetRange]) -> Result<Taken, BatchError> {
        let mut acquired = acquired.iter().peekable();
        let mut taken = Taken::default();
        for walked in unpacked.walk() {
            let Walked { index, offset, timestamp, body } = walked?;
            while acquired.next_if(|range| range.last < offset).is_some() {}
            if acquired.peek().is_none_or(|range| range.first > offset) {
                continue;
            }
            append(&mut taken.offsets, OffsetRange { first: offset, last: offset });
            match self.body(unpacked.block(), body).map_err(|why| unpacked.malformed(index, why))? {
                Some((partition, body)) => self.pending.push(Selected { offset, timestamp, partition, body }),
                None => taken.looped += 1,
            }
        }
        Ok(taken)
    }

    /// Where a record goes and what it looks like there; `None` where it has been there before.
    fn body(&self, block: &Bytes, body: &[u8]) -> Result<Option<(i32, Bytes)>, &'static str> {
        let partition = self.recipe.placement.of(body)?;
        let body = match &self.recipe.hop {
            Some(hop) => hop.passed(body)?.map(Bytes::from),
            None => Some(block.slice_ref(body)),
        };
        Ok(body.map(|body| (partition, body)))
    }

    /// What has become of all that was taken: batches to forward, each with its partition, in the order of the source within a
    /// partition. They have base offset 0, no producer, and deltas 0, 1, 2...
    ///
    /// Errors: [`BatchError::RecordTooLarge`] where a record does not fit alone.
    pub fn finish(&mut self) -> Result<Vec<(i32, RecordBatch)>, BatchError> {
        self.encode_pending()?;
        Ok(std::mem::take(&mut self.done))
    }

    fn encode_pending(&mut self) -> Result<(), BatchError> {
        let mut partitions: BTreeMap<i32, Vec<Selected>> = BTreeMap::new();
        for record in self.pending.drain(..) {
            partitions.entry(record.partition).or_default().push(record);
        }
        self.pending_bytes = 0;
        partitions.into_iter().try_for_each(|(partition, records)| self.pack(partition, &records))
    }

    /// Makes one batch of the records, or halves them until each half fits: how well they compress is only known afterwards.
    fn pack(&mut self, partition: i32, records: &[Selected]) -> Result<(), BatchError> {
        let Some((first, others)) = records.split_first() else {
            return Ok(());
        };
        let batch = encode(records, self.codec)?;
        let (size, size_max) = (batch.size_bytes(), self.recipe.size_max);
        if size <= size_max {
            self.done.push((partition, batch));
            return Ok(());
        }
        if others.is_empty() {
            return Err(BatchError::RecordTooLarge { offset: first.offset, size, size_max });
        }
        let (front, back) = records.split_at(records.len() / 2);
        self.pack(partition, front)?;
        self.pack(partition, back)
    }
}

/// A batch of these records, at least one, with offsets 0, 1, 2...
fn encode(records: &[Selected], codec: Codec) -> Result<RecordBatch, BatchError> {
    let mut builder = BatchBuilder::default();
    for (offset, record) in (0..).zip(records) {
        builder.push_body((offset, record.timestamp), &record.body);
    }
    let base_offset = records.first().map_or(-1, |record| record.offset);
    builder.finish(codec).map_err(|error| match error {
        BatchError::Compression { codec, source, .. } => BatchError::Compression { base_offset, codec, source },
        error => error,
    })
}

#[cfg(test)]
mod tests;
