//! The order-independent digest of many records.

use std::fmt;

use super::record::RecordHash;

/// Sum of the hashes of a number of records, wrapping: equal contents in any order have equal digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// Adds one record by its hash.
    pub(super) fn add(&mut self, hash: RecordHash) {
        self.0 = self.0.wrapping_add(hash.whole());
    }

    /// Adds all records of another digest.
    pub(super) fn merge(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// 32 hexadecimal digits; a precision shortens it: `{:.8}`.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        f.pad(&digits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(hashes: &[(u64, u64)]) -> Digest {
        let mut digest = Digest::default();
        hashes.iter().for_each(|(identity, content)| digest.add(RecordHash { identity: *identity, content: *content }));
        digest
    }

    proptest! {
        #[test]
        fn neither_order_nor_grouping_change_a_digest(mut hashes: Vec<(u64, u64)>, cut: proptest::sample::Index) {
            let before = sum(&hashes);
            hashes.reverse();
            let (head, tail) = hashes.split_at(cut.index(hashes.len() + 1));
            let mut merged = sum(head);
            merged.merge(sum(tail));
            prop_assert_eq!(before, merged);
        }
    }

    #[test]
    fn a_digest_prints_all_digits_or_a_few() {
        let digest = sum(&[(0xabcd << 48, 0)]);
        assert_eq!(digest.to_string(), format!("abcd{}", "0".repeat(28)));
        assert_eq!(format!("{digest:.8}"), "abcd0000");
    }
}
