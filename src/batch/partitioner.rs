//! To which partition a key belongs.

/// The seed that Kafka's producer gives to the hash.
const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The partition of a key among `count`, which is above 0: the one that Kafka's producer in Java chooses by default, and librdkafka
/// with `partitioner=murmur2`. Source: KIP-480.
pub(super) fn partition_of(key: &[u8], count: i32) -> i32 {
    // Kafka takes the hash's sign away by masking it.
    (murmur2(key) & 0x7fff_ffff).cast_signed() % count
}

/// MurmurHash2 in 32 bits, by Austin Appleby, who has put it into the public domain.
fn murmur2(key: &[u8]) -> u32 {
    // The length is mixed in modulo 2^32.
    let mut hash = SEED ^ (key.len() as u32);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Signed hashes as Kafka's own unit tests list them.
    #[test]
    fn hashes_are_those_of_kafka() {
        let cases: [(&str, i32); 6] = [
            ("21", -973932308),
            ("foobar", -790332482),
            ("a-little-bit-long-string", -985981536),
            ("a-little-bit-longer-string", -1486304829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            ("abc", 479470107),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    proptest! {
        #[test]
        fn every_key_has_a_partition(key in prop::collection::vec(any::<u8>(), 0..20), count in 1..1000i32) {
            prop_assert!((0..count).contains(&partition_of(&key, count)));
        }
    }
}
