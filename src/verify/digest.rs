//! The hash of one record and the order-independent digest of many.

use std::fmt;

use twox_hash::XxHash3_128;

/// Sum of the hashes of a number of records, wrapping: equal contents in any order have equal digests.
///
/// It finds faults, not forgeries: the hash is not cryptographic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// Adds one record by its hash.
    pub(super) fn add(&mut self, hash: u128) {
        self.0 = self.0.wrapping_add(hash);
    }

    /// Adds all records of another digest.
    pub(super) fn merge(&mut self, other: Digest) {
        self.add(other.0);
    }
}

/// 32 hexadecimal digits; a precision shortens it: `{:.8}`.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        f.pad(&digits)
    }
}

/// Name and value of a record header.
pub(super) type NamedValue<'a> = (&'a str, Option<&'a [u8]>);

/// What two records must share to be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    /// Milliseconds since 1970, or -1 for none. Its type (CreateTime, LogAppendTime) belongs to the topic.
    pub(super) timestamp: i64,
    /// In the record's order, names may repeat.
    pub(super) headers: Vec<NamedValue<'a>>,
}

/// Hashes records; keeps its buffer between them.
#[derive(Default)]
pub(super) struct RecordHasher {
    buffer: Vec<u8>,
}

impl RecordHasher {
    /// 128-bit hash (XXH3) over all fields, each with its length, so that null differs from empty and fields cannot
    /// run together.
    pub(super) fn hash(&mut self, fields: &Fields<'_>) -> u128 {
        self.buffer.clear();
        self.put(fields.key);
        self.put(fields.value);
        self.buffer.extend_from_slice(&fields.timestamp.to_le_bytes());
        for (name, value) in &fields.headers {
            self.put(Some(name.as_bytes()));
            self.put(*value);
        }
        XxHash3_128::oneshot(&self.buffer)
    }

    fn put(&mut self, field: Option<&[u8]>) {
        // No slice is longer than i64::MAX bytes, so the largest length is free to stand for null.
        let length = field.map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(field.unwrap_or_default());
    }
}

/// Hash of a record key alone.
pub(super) fn key_hash(key: &[u8]) -> u128 {
    XxHash3_128::oneshot(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (Option<Vec<u8>>, Option<Vec<u8>>, i64, Vec<(String, Option<Vec<u8>>)>);

    /// Few and short values, so that unequal records are often nearly equal.
    fn owned() -> impl Strategy<Value = Owned> {
        let bytes = || proptest::option::of(proptest::collection::vec(0u8..2, 0..3));
        let headers = proptest::collection::vec(("[ab]{0,2}", bytes()), 0..3);
        (bytes(), bytes(), -1i64..2, headers)
    }

    fn fields(owned: &Owned) -> Fields<'_> {
        let headers = owned.3.iter();
        Fields {
            key: owned.0.as_deref(),
            value: owned.1.as_deref(),
            timestamp: owned.2,
            headers: headers.map(|(n, v)| (n.as_str(), v.as_deref())).collect(),
        }
    }

    proptest! {
        #[test]
        fn hashes_are_equal_exactly_where_records_are(a in owned(), b in owned()) {
            let mut hasher = RecordHasher::default();
            let equal = hasher.hash(&fields(&a)) == hasher.hash(&fields(&b));
            prop_assert_eq!(equal, a == b);
        }

        #[test]
        fn the_order_of_records_does_not_change_a_digest(mut hashes: Vec<u128>) {
            let sum = |hashes: &[u128]| {
                let mut digest = Digest::default();
                hashes.iter().for_each(|hash| digest.add(*hash));
                digest
            };
            let before = sum(&hashes);
            hashes.reverse();
            prop_assert_eq!(before, sum(&hashes));
        }
    }

    #[test]
    fn null_differs_from_empty_in_every_field() {
        let mut hasher = RecordHasher::default();
        let empty = Some(&b""[..]);
        let variants = [
            Fields::default(),
            Fields { key: empty, ..Fields::default() },
            Fields { value: empty, ..Fields::default() },
            Fields { headers: vec![("", None)], ..Fields::default() },
            Fields { headers: vec![("", empty)], ..Fields::default() },
        ];
        let mut hashes: Vec<_> = variants.iter().map(|f| hasher.hash(f)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), variants.len());
    }

    #[test]
    fn a_digest_prints_all_digits_or_a_few() {
        let mut digest = Digest::default();
        digest.add(0xabcd << 112);
        assert_eq!(digest.to_string(), format!("abcd{}", "0".repeat(28)));
        assert_eq!(format!("{digest:.8}"), "abcd0000");
    }
}
