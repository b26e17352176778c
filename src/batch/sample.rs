//! Record batches for tests, written field by field so that they can also be wrong.

use bytes::Bytes;

use super::header::{self, Header};
use super::records::put_varint;
use super::{Codec, RecordBatch};

/// A batch to be encoded; [`Sample::of`] gives a sound one.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) base_offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) attributes: i16,
    pub(crate) producer_id: i64,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) record_count: i32,
    pub(crate) records: Vec<SampleRecord>,
}

/// One record of a [`Sample`]; `body` is key, value and headers as they stand in the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampleRecord {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) body: Vec<u8>,
}

impl SampleRecord {
    /// No key, the given value, no headers.
    pub(crate) fn new(offset_delta: i32, value: &[u8]) -> Self {
        let mut body = Vec::new();
        put_varint(&mut body, -1);
        put_varint(&mut body, value.len() as i64);
        body.extend_from_slice(value);
        put_varint(&mut body, 0);
        SampleRecord { timestamp_delta: offset_delta.into(), offset_delta, body }
    }
}

impl Sample {
    /// An uncompressed batch with CreateTime and one record at each of the offset deltas.
    pub(crate) fn of(base_offset: i64, deltas: impl IntoIterator<Item = i32>) -> Self {
        let records: Vec<_> =
            deltas.into_iter().map(|delta| SampleRecord::new(delta, format!("value {delta}").as_bytes())).collect();
        Sample {
            base_offset,
            leader_epoch: 7,
            attributes: 0,
            producer_id: 4711,
            last_offset_delta: records.last().map_or(0, |last| last.offset_delta),
            base_timestamp: 1_700_000_000_000,
            max_timestamp: 1_700_000_000_000 + records.len() as i64,
            record_count: records.len() as i32,
            records,
        }
    }

    pub(crate) fn with_attributes(self, attributes: i16) -> Self {
        Sample { attributes, ..self }
    }

    pub(crate) fn block(&self) -> Vec<u8> {
        let mut block = Vec::new();
        for record in &self.records {
            let mut fields = vec![0];
            put_varint(&mut fields, record.timestamp_delta);
            put_varint(&mut fields, record.offset_delta.into());
            fields.extend_from_slice(&record.body);
            put_varint(&mut block, fields.len() as i64);
            block.extend_from_slice(&fields);
        }
        block
    }

    /// The batch's bytes around the given payload.
    pub(crate) fn around(&self, payload: &[u8]) -> Bytes {
        let length = (header::SIZE - header::LENGTH_END + payload.len()) as i32;
        let mut header = Header::of(&[0; header::SIZE]);
        header
            .set(header::BASE_OFFSET, self.base_offset.to_be_bytes())
            .set(header::LENGTH, length.to_be_bytes())
            .set(header::LEADER_EPOCH, self.leader_epoch.to_be_bytes())
            .set(header::MAGIC, header::MAGIC_V2.to_be_bytes())
            .set(header::ATTRIBUTES, self.attributes.to_be_bytes())
            .set(header::LAST_OFFSET_DELTA, self.last_offset_delta.to_be_bytes())
            .set(header::BASE_TIMESTAMP, self.base_timestamp.to_be_bytes())
            .set(header::MAX_TIMESTAMP, self.max_timestamp.to_be_bytes())
            .set(header::PRODUCER_ID, self.producer_id.to_be_bytes())
            .set(header::PRODUCER_EPOCH, 3i16.to_be_bytes())
            .set(header::BASE_SEQUENCE, 42i32.to_be_bytes())
            .set(header::RECORD_COUNT, self.record_count.to_be_bytes());
        [&header.seal(payload)[..], payload].concat().into()
    }

    /// The batch's bytes, compressed by the codec in the attributes if there is such a codec.
    pub(crate) fn bytes(&self) -> Bytes {
        match Codec::from_number(self.attributes & header::CODEC_MASK) {
            Some(codec) => self.around(&codec.compress(self.block()).unwrap()),
            None => self.around(&self.block()),
        }
    }

    pub(crate) fn batch(&self) -> RecordBatch {
        RecordBatch::parse(self.bytes()).unwrap()
    }
}

/// Every codec with its number in the attributes.
pub(crate) const CODECS: [(Codec, i16); 5] =
    [(Codec::Uncompressed, 0), (Codec::Gzip, 1), (Codec::Snappy, 2), (Codec::Lz4, 3), (Codec::Zstd, 4)];

/// Uncompressed batches in a row, as a fetch brings them: one for each count of records.
pub(crate) fn batches(first_offset: i64, counts: &[i32]) -> Bytes {
    let mut base = first_offset;
    let mut bytes = Vec::new();
    for count in counts {
        bytes.extend_from_slice(&Sample::of(base, 0..*count).bytes());
        base += i64::from(*count);
    }
    bytes.into()
}
