//! sharebridge copies topics between Kafka clusters through a share group and transactions.

pub mod batch;
pub mod cli;
pub mod config;
pub mod health;
pub mod limits;
pub mod metrics;
pub mod settle;
pub mod sink;
pub mod source;
pub mod verify;
pub mod wire;
