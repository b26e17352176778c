//! The consumer-group source: one member of the group, which reads its partitions by classic Fetch, each in order.

pub mod appetite;
pub mod fetcher;
pub mod membership;
pub mod room;
pub mod session;
pub mod visible;
