//! What is copied.

use cluster::load::{Load, Payload};

/// Partitions of each topic, where nothing else is said.
pub(crate) const PARTITIONS: i32 = 4;

/// Largest batch of a producer with Kafka's defaults, in bytes.
const BATCH_BYTES_DEFAULT: usize = 16 * 1024;

/// Largest batch of a producer that was tuned for compression, in bytes before compression: about what Kafka's own producer
/// writes with `batch.size` = 100000, which counts compressed bytes (librdkafka's, used here, counts them as they come in).
const BATCH_BYTES_TUNED: usize = 200_000;

/// A topic full of records.
#[derive(Debug)]
pub(crate) struct Work {
    /// Size of each record and codec, as the table shows them.
    pub(crate) name: &'static str,
    pub(crate) topic: &'static str,
    pub(crate) partitions: i32,
    pub(crate) load: Load,
}

impl Work {
    /// All that is measured, with `factor` times its records.
    pub(crate) fn all(factor: f64) -> [Self; 4] {
        let works = [
            Self::lz4("70 B, lz4", "bench-70-lz4", (5_000_000, 70)),
            Self::none("100 B, none", "bench-100-none", (5_000_000, 100)),
            Self::lz4("1 KB, lz4", "bench-1k-lz4", (1_000_000, 1_000)),
            Self::none("1 KB, none", "bench-1k-none", (1_000_000, 1_000)),
        ];
        works.map(|mut work| {
            work.load.records = (work.load.records as f64 * factor).ceil() as u64;
            work
        })
    }

    /// What comes from far away: so many records in the batches of a producer with Kafka's defaults.
    pub(crate) fn far(topic: &'static str, partitions: i32, records: u64) -> Self {
        Self { partitions, ..Self::none("100 B, none", topic, (records, 100)) }
    }

    /// What is copied before the first measurement: brokers serve each kind of batch by code of its own.
    pub(crate) fn warm_ups() -> [Self; 2] {
        [
            Self::none("warm-up, none", "bench-warm-up-none", (2_000_000, 100)),
            Self::lz4("warm-up, lz4", "bench-warm-up-lz4", (5_000_000, 70)),
        ]
    }

    fn lz4(name: &'static str, topic: &'static str, (records, value_bytes): (u64, usize)) -> Self {
        let load = Load { value_bytes, payload: Payload::Orders, batch_bytes: BATCH_BYTES_TUNED, ..Load::of(records) };
        Self { name, topic, partitions: PARTITIONS, load }
    }

    fn none(name: &'static str, topic: &'static str, size: (u64, usize)) -> Self {
        let mut work = Self::lz4(name, topic, size);
        work.load.compression = "none".to_owned();
        work.load.batch_bytes = BATCH_BYTES_DEFAULT;
        work
    }
}
