//! sharebridge copies topics between Kafka clusters through a share group and transactions.

pub mod batch;
pub mod config;
pub mod limits;
pub mod verify;
pub mod wire;
