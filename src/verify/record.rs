//! What makes two records equal, and the hash that stands for one.

use twox_hash::XxHash3_128;

/// Which records of a topic are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Every record, with its multiplicity.
    EveryRecord,
    /// The last record of each key, because the topic is compacted on a side. A key whose last record is a tombstone
    /// equals an absent key, and records without a key do not count: the log cleaner removes both in its own time.
    LastPerKey,
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

/// The hash of one record, in two halves of 64 bits: equal where the records are.
///
/// It finds faults, not forgeries: the hash (XXH3) is not cryptographic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordHash {
    /// Which record it is, whatever became of it: its key and timestamp, or its key alone on the basis of
    /// [`Basis::LastPerKey`]. A record without a key has no other identity than all that it holds.
    pub(super) identity: u64,
    /// All that it holds.
    pub(super) content: u64,
}

impl RecordHash {
    /// In which of `count` equal ranges of identities it lies.
    pub(super) fn bucket(self, count: u32) -> usize {
        ((u128::from(self.identity) * u128::from(count)) >> 64) as usize
    }

    /// Both halves, identity first.
    pub(super) fn whole(self) -> u128 {
        u128::from(self.identity) << 64 | u128::from(self.content)
    }
}

/// Hashes records; keeps its buffer between them.
pub(super) struct RecordHasher {
    basis: Basis,
    buffer: Vec<u8>,
}

impl RecordHasher {
    pub(super) fn new(basis: Basis) -> RecordHasher {
        RecordHasher { basis, buffer: Vec::new() }
    }

    /// Hashes all fields, each with its length, so that null differs from empty and fields cannot run together.
    pub(super) fn hash(&mut self, fields: &Fields<'_>) -> RecordHash {
        self.buffer.clear();
        self.put(fields.key);
        let key_end = self.buffer.len();
        self.buffer.extend_from_slice(&fields.timestamp.to_le_bytes());
        let timestamp_end = self.buffer.len();
        self.put(fields.value);
        for (name, value) in &fields.headers {
            self.put(Some(name.as_bytes()));
            self.put(*value);
        }
        let all = XxHash3_128::oneshot(&self.buffer);
        let identity = match self.basis {
            Basis::LastPerKey => XxHash3_128::oneshot(&self.buffer[..key_end]) as u64,
            Basis::EveryRecord if fields.key.is_some() => XxHash3_128::oneshot(&self.buffer[..timestamp_end]) as u64,
            Basis::EveryRecord => (all >> 64) as u64,
        };
        RecordHash { identity, content: all as u64 }
    }

    fn put(&mut self, field: Option<&[u8]>) {
        // No slice is longer than i64::MAX bytes, so the largest length is free to stand for null.
        let length = field.map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(field.unwrap_or_default());
    }
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
            let mut hasher = RecordHasher::new(Basis::EveryRecord);
            let (left, right) = (hasher.hash(&fields(&a)), hasher.hash(&fields(&b)));
            prop_assert_eq!(left == right, a == b);
            prop_assert_eq!(left.content == right.content, a == b);
        }

        #[test]
        fn identities_are_equal_where_key_and_timestamp_are(a in owned(), b in owned()) {
            let mut hasher = RecordHasher::new(Basis::EveryRecord);
            let same = hasher.hash(&fields(&a)).identity == hasher.hash(&fields(&b)).identity;
            prop_assert_eq!(same, if a.0.is_some() { (&a.0, a.2) == (&b.0, b.2) } else { a == b });
            let mut hasher = RecordHasher::new(Basis::LastPerKey);
            let same = hasher.hash(&fields(&a)).identity == hasher.hash(&fields(&b)).identity;
            prop_assert_eq!(same, a.0 == b.0);
        }

        #[test]
        fn buckets_divide_the_identities_in_order(identity: u64, count in 1u32..100) {
            let bucket = RecordHash { identity, content: 0 }.bucket(count);
            prop_assert!(bucket < count as usize);
            let next = RecordHash { identity: identity.saturating_add(1), content: 0 }.bucket(count);
            prop_assert!(next - bucket <= 1);
        }
    }

    #[test]
    fn null_differs_from_empty_in_every_field() {
        let mut hasher = RecordHasher::new(Basis::EveryRecord);
        let empty = Some(&b""[..]);
        let variants = [
            Fields::default(),
            Fields { key: empty, ..Fields::default() },
            Fields { value: empty, ..Fields::default() },
            Fields { headers: vec![("", None)], ..Fields::default() },
            Fields { headers: vec![("", empty)], ..Fields::default() },
        ];
        let mut hashes: Vec<_> = variants.iter().map(|f| hasher.hash(f).content).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), variants.len());
    }
}
