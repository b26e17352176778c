//! From decoded records to the record batches of a parcel.

use bytes::{Bytes, BytesMut};
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp};

use crate::batch::{BatchBuilder, BatchError, Codec, OffsetRange};
use crate::error::catching;
use crate::limits::{MADE_BATCH_BYTES, RECORDS_PER_BATCH_MAX};

/// Records of one partition in their order. A gap between their offsets stays a gap.
#[derive(Debug, Default)]
pub(super) struct Package {
    finished: BytesMut,
    builder: BatchBuilder,
    span: Option<OffsetRange>,
}

/// Why a record cannot go on as it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error(
        "the record at offset {0} has a header whose name is no UTF-8, which librdkafka's binding cannot read; read the flow natively \
         (consumer.engine = \"native\")"
    )]
    HeaderName(i64),
    #[error(transparent)]
    Batch(#[from] BatchError),
}

impl Package {
    /// Bytes so far.
    pub(super) fn size_bytes(&self) -> usize {
        self.finished.len() + self.builder.size_bytes()
    }

    /// Appends a record, which comes behind the others.
    pub(super) fn push(&mut self, message: &BorrowedMessage<'_>) -> Result<(), Unfit> {
        let offset = message.offset();
        let headers = headers(message).ok_or(Unfit::HeaderName(offset))?;
        let is_full = self.builder.size_bytes() >= MADE_BATCH_BYTES || self.builder.count() >= RECORDS_PER_BATCH_MAX;
        if is_full || !self.builder.takes(offset) {
            self.end_batch()?;
        }
        let timestamp = match message.timestamp() {
            Timestamp::NotAvailable => -1,
            // The target's topic has CreateTime, whatever the source's has.
            Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
        };
        let headers = headers.iter().map(|(name, value)| (name.as_bytes(), *value));
        self.builder.push((offset, timestamp), (message.key(), message.payload()), headers);
        self.span = Some(OffsetRange { first: self.span.map_or(offset, |span| span.first), last: offset });
        Ok(())
    }

    /// The batches, the offsets from the first record to the last; `None` where there is none.
    pub(super) fn finish(mut self) -> Result<Option<(Bytes, OffsetRange)>, Unfit> {
        self.end_batch()?;
        Ok(self.span.map(|span| (self.finished.freeze(), span)))
    }

    fn end_batch(&mut self) -> Result<(), BatchError> {
        let builder = std::mem::take(&mut self.builder);
        if builder.count() > 0 {
            self.finished.extend_from_slice(builder.finish(Codec::Uncompressed)?.bytes());
        }
        Ok(())
    }
}

type Header<'a> = (&'a str, Option<&'a [u8]>);

/// The headers in order, or `None` if a name is not UTF-8.
fn headers<'a>(message: &'a BorrowedMessage<'_>) -> Option<Vec<Header<'a>>> {
    let Some(headers) = message.headers() else {
        return Some(vec![]);
    };
    // rdkafka 0.39 panics on such a name; one record must not end the process.
    catching(|| headers.iter().map(|header| (header.key, header.value)).collect())
}
