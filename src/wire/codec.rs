//! Bytes: request frames whose record batches are not copied, and the primitives of Kafka's flexible encoding.
//!
//! Source: KIP-482 (tagged fields, compact types); the primitive types of Kafka's protocol guide.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use uuid::Uuid;

use crate::limits::{ARRAY_COUNT_MAX, COPY_BYTES_MAX};

/// A request under construction: a list of chunks that leave in one vectored write.
#[derive(Debug, Default)]
pub struct Frame {
    chunks: VecDeque<Bytes>,
    /// What was written since the last shared chunk.
    pub tail: BytesMut,
}

impl Frame {
    /// Appends bytes, by reference where they are long.
    pub fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < COPY_BYTES_MAX {
            self.tail.put_slice(bytes);
        } else {
            self.chunks.push_back(self.tail.split().freeze());
            self.chunks.push_back(bytes.clone());
        }
    }

    /// Bytes in the frame so far.
    pub fn size(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum::<usize>() + self.tail.len()
    }

    /// The finished frame behind its length prefix, ready for a vectored write.
    pub fn finish(mut self) -> Outgoing {
        let size = u32::try_from(self.size()).expect("requests are bounded by PRODUCE_BYTES_MAX");
        self.chunks.push_back(self.tail.freeze());
        self.chunks.push_front(Bytes::copy_from_slice(&size.to_be_bytes()));
        self.chunks.retain(|chunk| !chunk.is_empty());
        Outgoing { chunks: self.chunks }
    }
}

/// A frame on its way out.
#[derive(Debug)]
pub struct Outgoing {
    chunks: VecDeque<Bytes>,
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |chunk| chunk)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = self.chunks.iter().zip(slices);
        filled.map(|(chunk, slice)| *slice = IoSlice::new(chunk)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let front = self.chunks.front_mut().expect("Buf's contract: never past the end");
            let step = count.min(front.len());
            front.advance(step);
            count -= step;
            if front.is_empty() {
                self.chunks.pop_front();
            }
        }
    }
}

/// Writes the flexible types of requests that we encode ourselves.
pub trait Put: BufMut {
    /// An unsigned varint.
    fn put_uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }

    /// The length of a compact array, string or byte field.
    fn put_compact_len(&mut self, len: usize) {
        self.put_uvarint(u32::try_from(len + 1).expect("request fields are bounded far below 4 GiB"));
    }

    /// A compact string.
    fn put_compact_str(&mut self, text: &str) {
        self.put_compact_len(text.len());
        self.put_slice(text.as_bytes());
    }

    /// A uuid.
    fn put_uuid(&mut self, id: Uuid) {
        self.put_slice(id.as_bytes());
    }

    /// An empty set of tagged fields: the end of every flexible structure.
    fn put_no_tags(&mut self) {
        self.put_u8(0);
    }
}

impl<B: BufMut> Put for B {}

/// A reply that ended early, or breaks a bound.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// A field reaches past the end.
    #[error("ends inside {0}")]
    Short(&'static str),
    /// More elements than the reply has bytes, or than our bound.
    #[error("{0} elements in an array")]
    Array(usize),
    /// A varint of more than 32 bits.
    #[error("varint too long")]
    Varint,
    /// Offsets that no partition can have, or not in order.
    #[error("impossible offsets")]
    Offsets,
    /// A string that is not UTF-8.
    #[error("text is not UTF-8")]
    Text,
}

/// Reads the types of replies that we decode ourselves. Every length is checked before memory is taken.
#[derive(Debug)]
pub struct Reader {
    rest: Bytes,
}

macro_rules! fixed {
    ($($name:ident: $type:ty, $get:ident;)*) => {$(
        #[doc = concat!("A big-endian ", stringify!($type), ".")]
        pub fn $name(&mut self) -> Result<$type, ReadError> {
            self.need(size_of::<$type>(), stringify!($type))?;
            Ok(self.rest.$get())
        }
    )*};
}

impl Reader {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    fixed! {
        i8: i8, get_i8;
        i16: i16, get_i16;
        i32: i32, get_i32;
        i64: i64, get_i64;
    }

    /// What has not been read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn need(&self, count: usize, what: &'static str) -> Result<(), ReadError> {
        if self.rest.len() < count { Err(ReadError::Short(what)) } else { Ok(()) }
    }

    /// So many bytes, zero-copy.
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<Bytes, ReadError> {
        self.need(len, what)?;
        Ok(self.rest.split_to(len))
    }

    /// A uuid.
    pub fn uuid(&mut self) -> Result<Uuid, ReadError> {
        self.need(16, "uuid")?;
        let mut id = [0; 16];
        self.rest.copy_to_slice(&mut id);
        Ok(Uuid::from_bytes(id))
    }

    /// An unsigned varint.
    pub fn uvarint(&mut self) -> Result<u32, ReadError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            self.need(1, "varint")?;
            let byte = self.rest.get_u8();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| ReadError::Varint);
            }
        }
        Err(ReadError::Varint)
    }

    /// A string of the encoding before KIP-482; null reads as empty.
    pub fn str(&mut self) -> Result<String, ReadError> {
        let len = usize::try_from(self.i16()?).unwrap_or(0);
        self.need(len, "string")?;
        String::from_utf8(self.rest.split_to(len).to_vec()).map_err(|_| ReadError::Text)
    }

    /// Bytes of the encoding before KIP-482, zero-copy; null reads as empty.
    pub fn bytes(&mut self) -> Result<Bytes, ReadError> {
        let len = usize::try_from(self.i32()?).unwrap_or(0);
        self.need(len, "bytes")?;
        Ok(self.rest.split_to(len))
    }

    /// The count of an array of the encoding before KIP-482, checked; null reads as 0.
    pub fn count(&mut self) -> Result<usize, ReadError> {
        let count = usize::try_from(self.i32()?).unwrap_or(0);
        self.bounded(count)
    }

    /// The count of a compact array, checked; null reads as 0.
    pub fn compact_count(&mut self) -> Result<usize, ReadError> {
        let count = (self.uvarint()? as usize).saturating_sub(1);
        self.bounded(count)
    }

    fn bounded(&self, count: usize) -> Result<usize, ReadError> {
        let is_possible = count <= ARRAY_COUNT_MAX && count <= self.rest.len();
        is_possible.then_some(count).ok_or(ReadError::Array(count))
    }

    /// Compact bytes, zero-copy; null reads as empty.
    pub fn compact_bytes(&mut self) -> Result<Bytes, ReadError> {
        let len = (self.uvarint()? as usize).saturating_sub(1);
        self.need(len, "bytes")?;
        Ok(self.rest.split_to(len))
    }

    /// A compact string; null is `None`.
    pub fn compact_str(&mut self) -> Result<Option<String>, ReadError> {
        let Some(len) = (self.uvarint()? as usize).checked_sub(1) else {
            return Ok(None);
        };
        self.need(len, "string")?;
        String::from_utf8(self.rest.split_to(len).to_vec()).map(Some).map_err(|_| ReadError::Text)
    }

    /// A compact array; null reads as empty. `element` reads one element, whose tagged fields it skips itself.
    pub fn array<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let count = self.compact_count()?;
        (0..count).map(|_| element(self)).collect()
    }

    /// Skips the tagged fields at the end of a structure.
    pub fn tags(&mut self) -> Result<(), ReadError> {
        self.tags_with(|_, _| Ok(()))
    }

    /// Reads the tagged fields at the end of a structure: `field` gets each tag with its bytes, and may leave them.
    pub fn tags_with(
        &mut self,
        mut field: impl FnMut(u32, &mut Reader) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let len = self.uvarint()? as usize;
            self.need(len, "tagged field")?;
            field(tag, &mut Reader::new(self.rest.split_to(len)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_keeps_the_order_of_its_chunks() {
        let mut frame = Frame::default();
        frame.tail.put_slice(b"head");
        frame.put_shared(&Bytes::from(vec![7; COPY_BYTES_MAX]));
        frame.put_shared(&Bytes::from_static(b"short"));
        let mut outgoing = frame.finish();
        let whole = outgoing.copy_to_bytes(outgoing.remaining());
        assert_eq!(&whole[..8], b"\0\0\x02\x09head");
        assert_eq!(&whole[8..8 + COPY_BYTES_MAX], &[7; COPY_BYTES_MAX]);
        assert_eq!(&whole[8 + COPY_BYTES_MAX..], b"short");
    }

    #[test]
    fn an_array_longer_than_the_reply_takes_no_memory() {
        let mut reader = Reader::new(Bytes::from_static(&[0xff, 0xff, 0x3f, 0, 0]));
        assert_eq!(reader.array(|r| r.i8()), Err(ReadError::Array(0xf_fffe)));
    }

    proptest! {
        #[test]
        fn varints_come_back(value: u32) {
            let mut out = BytesMut::new();
            out.put_uvarint(value);
            prop_assert_eq!(Reader::new(out.freeze()).uvarint(), Ok(value));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            let mut reader = Reader::new(Bytes::from(bytes));
            let _ = reader.array(|r| { r.compact_str()?; r.compact_bytes()?; r.uuid()?; r.tags() });
        }
    }
}
