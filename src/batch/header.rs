//! Layout of the 61-byte batch header: positions, attribute bits, checksum.
//!
//! Source: Kafka's message format, "Record Batch". All fields are big endian.

use crc_fast::{CrcAlgorithm, Digest};

pub(super) const BASE_OFFSET: usize = 0;
pub(super) const LENGTH: usize = 8;
/// The length field counts from here on.
pub(super) const LENGTH_END: usize = 12;
pub(super) const LEADER_EPOCH: usize = 12;
pub(super) const MAGIC: usize = 16;
pub(super) const CRC: usize = 17;
/// The checksum covers everything from here on.
pub(super) const ATTRIBUTES: usize = 21;
pub(super) const LAST_OFFSET_DELTA: usize = 23;
pub(super) const BASE_TIMESTAMP: usize = 27;
pub(super) const MAX_TIMESTAMP: usize = 35;
pub(super) const PRODUCER_ID: usize = 43;
pub(super) const PRODUCER_EPOCH: usize = 51;
pub(super) const BASE_SEQUENCE: usize = 53;
pub(super) const RECORD_COUNT: usize = 57;
pub(super) const SIZE: usize = 61;

pub(super) const MAGIC_V2: i8 = 2;
/// What a client writes as leader epoch: the leader fills it in.
pub(super) const NO_LEADER_EPOCH: i32 = -1;

pub(super) const CODEC_MASK: i16 = 0b111;
pub(super) const LOG_APPEND_TIME: i16 = 1 << 3;
pub(super) const TRANSACTIONAL: i16 = 1 << 4;
pub(super) const CONTROL: i16 = 1 << 5;

/// A header under construction.
#[derive(Debug, Clone)]
pub(super) struct Header([u8; SIZE]);

impl Header {
    /// Starts from the header that `batch` begins with, which must be whole.
    pub(super) fn of(batch: &[u8]) -> Self {
        let mut header = [0; SIZE];
        header.copy_from_slice(&batch[..SIZE]);
        Header(header)
    }

    /// Writes a field at its position.
    pub(super) fn set<const N: usize>(&mut self, position: usize, field: [u8; N]) -> &mut Self {
        self.0[position..position + N].copy_from_slice(&field);
        self
    }

    /// Ends with the checksum over the header as it is now and the payload that will follow it.
    pub(super) fn seal(&mut self, payload: &[u8]) -> &[u8; SIZE] {
        let crc = crc32c(&[&self.0[ATTRIBUTES..], payload]);
        self.set(CRC, crc.to_be_bytes());
        &self.0
    }
}

/// CRC-32C of the parts in a row.
pub(super) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).expect("a CRC-32 has 32 bits")
}
