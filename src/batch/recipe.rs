//! How records are to look and to lie on the target.

use std::sync::Arc;

use super::Codec;
use super::partitioner::partition_of;
use super::records::Body;

/// The header that tells through which clusters a record has come: one for each, its value being the cluster's id.
pub const HOP_HEADER: &str = "sharebridge-hop";

/// What the target takes, and what the flow wants of its records beyond what they are at the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Largest batch that the target takes, bytes: its `max.message.bytes`.
    pub size_max: usize,
    /// How records are compressed; `None` leaves them as they are.
    pub codec: Option<Codec>,
    /// Into which partitions they go.
    pub placement: Placement,
    /// Between which clusters they go, where they shall say so.
    pub hop: Option<Hop>,
}

/// Into which partitions of the target the records of one partition of the source go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All into one.
    Whole(i32),
    /// Each to where its key belongs.
    ByKey {
        /// Partitions of the target, above 0.
        count: i32,
        /// Where records without a key go.
        keyless: i32,
    },
}

/// Two clusters by their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Where records come from.
    pub from: Arc<str>,
    /// Where they go.
    pub to: Arc<str>,
}

impl Recipe {
    /// Batches as they are, into one partition.
    pub fn plain(size_max: usize, partition: i32) -> Self {
        Self { size_max, codec: None, placement: Placement::Whole(partition), hop: None }
    }

    /// Whether batches may have to be taken apart that the target would take as they are.
    pub fn is_demanding(&self) -> bool {
        self.codec.is_some() || self.hop.is_some() || matches!(self.placement, Placement::ByKey { .. })
    }
}

impl Placement {
    /// The partition for a record. Errors: a body that cannot be read.
    pub(super) fn of(self, body: &[u8]) -> Result<i32, &'static str> {
        match self {
            Placement::Whole(partition) => Ok(partition),
            Placement::ByKey { count, keyless } => {
                Ok(Body::read(body)?.key.map_or(keyless, |key| partition_of(key, count)))
            }
        }
    }
}

impl Hop {
    /// The body of a record with one more hop; `None` where the record has been on the target before.
    ///
    /// Errors: a body that cannot be read.
    pub(super) fn passed(&self, body: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
        let body = Body::read(body)?;
        for header in body.headers() {
            let (name, value) = header?;
            if name == HOP_HEADER.as_bytes() && value == Some(self.to.as_bytes()) {
                return Ok(None);
            }
        }
        Ok(Some(body.with_header(HOP_HEADER.as_bytes(), self.from.as_bytes())))
    }
}
