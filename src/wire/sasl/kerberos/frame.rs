//! What goes over the pipes between us and a helper: one answer to each question.

use std::io::{Error, ErrorKind};

use crate::limits::KERBEROS_TOKEN_BYTES_MAX;

/// A kind, the number of the conversation, and the length of the data: 1, 8 and 4 bytes.
pub(super) const HEAD_BYTES: usize = 13;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Question: the first token for this host-based service.
    Begin = 1,
    /// Question: what follows this token of the broker.
    Answer,
    /// Answer: a token for the broker, which answers with another.
    Token,
    /// Answer: the last token for the broker.
    Last,
    /// Answer: why the conversation has ended, in words.
    Fault,
}

/// A question or an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) data: Vec<u8>,
}

impl Frame {
    /// The frame as it is sent. Too long ones are refused by the reader.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![self.kind as u8];
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(&self.data);
        bytes
    }
}

/// Reads the head of a frame: kind, number, and how many bytes of data follow, at most [`KERBEROS_TOKEN_BYTES_MAX`].
pub(super) fn head(bytes: [u8; HEAD_BYTES]) -> std::io::Result<(Kind, u64, usize)> {
    let [kind, n0, n1, n2, n3, n4, n5, n6, n7, l0, l1, l2, l3] = bytes;
    let kinds = [Kind::Begin, Kind::Answer, Kind::Token, Kind::Last, Kind::Fault];
    let kind = kinds.into_iter().find(|known| *known as u8 == kind);
    let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    match kind {
        Some(kind) if length <= KERBEROS_TOKEN_BYTES_MAX => {
            Ok((kind, u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]), length))
        }
        _ => Err(Error::new(ErrorKind::InvalidData, "no frame of a Kerberos helper")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read() {
        let bytes = Frame { kind: Kind::Last, number: 1 << 40, data: vec![7; 300] }.bytes();
        let (first, data) = bytes.split_at(HEAD_BYTES);
        assert_eq!(head(first.try_into().unwrap()).unwrap(), (Kind::Last, 1 << 40, 300));
        assert_eq!(data, [7; 300]);
    }

    #[test]
    fn other_bytes_are_refused_before_memory_is_taken() {
        let mut good: [u8; HEAD_BYTES] =
            Frame { kind: Kind::Token, number: 0, data: vec![] }.bytes().try_into().unwrap();
        assert!(head(good).is_ok());
        good[9] = 0x7f;
        assert!(head(good).is_err());
        assert!(head([0; HEAD_BYTES]).is_err());
    }
}
