//! Real Apache Kafka clusters for tests, demo and bench.
//!
//! ```no_run
//! use cluster::{Cluster, Spec};
//!
//! let cluster = Cluster::start(Spec::named("source"))?;
//! cluster.create_topic("orders", 4, &[("compression.type", "lz4")])?;
//! cluster.kill()?;
//! cluster.start_again()?;
//! # anyhow::Ok(())
//! ```
//!
//! Brokers run from the jars that `scripts/setup` fetched, listen on 127.0.0.1, and leave neither a process
//! nor a file behind, whichever way their parent ends.

mod admin;
mod broker;
mod cluster;
mod folder;
mod http;
mod kafka;
mod kerberos;
pub mod load;
mod metrics;
mod pair;
mod peer;
mod placement;
mod ports;
mod proc;
pub mod process;
mod properties;
mod proxy;
pub mod read;
mod secured;
mod verification;
mod worker;

pub use broker::Broker;
pub use cluster::{Cluster, Spec};
pub use http::http_get;
pub use kafka::Jvm;
pub use kerberos::Kdc;
pub use metrics::Metrics;
pub use pair::{Pair, pair, unique};
pub use peer::Peer;
pub use placement::Coordinated;
pub use ports::free_port;
pub use proxy::{Proxy, Way};
pub use secured::{Authority, Certificate, Doors, Guest};
pub use verification::Verification;
pub use worker::{Flow, Settings, Worker, built_beside};
