//! The native Kafka client: exactly the requests that a bridge needs.
//!
//! Rings inside, lowest first: [`codec`] (bytes), [`call`] (one request and its reply), [`connection`] (one socket), [`cluster`] (what all clients
//! of a cluster share), [`client`] (which broker), then a file per subject: [`share`], [`fetch`], [`produce`], [`transaction`], [`admin`].
//! Only this folder names `kafka-protocol`.

pub mod admin;
pub mod backoff;
pub mod call;
pub mod client;
pub mod cluster;
pub mod codec;
pub mod connection;
pub mod error;
pub mod fetch;
pub mod group;
pub mod leaders;
pub mod log;
pub mod offsets;
pub mod probe;
pub mod produce;
pub mod rights;
pub mod sasl;
pub mod share;
pub mod subscription;
pub mod tls;
pub mod topics;
pub mod transaction;
pub mod transport;
pub mod versions;

pub use client::Client;
pub use cluster::Cluster;
pub use connection::Connection;
pub use error::{Code, WireError};
