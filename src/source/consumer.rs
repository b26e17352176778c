//! The consumer-group source: one member of the group, which reads its partitions by classic Fetch, each in order.

pub mod fetcher;
pub mod librdkafka;
pub mod membership;
pub mod progress;
pub mod table;
