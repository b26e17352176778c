//! sharebridge copies topics between Kafka clusters through a share group and transactions.

pub mod batch;
pub mod cli;
pub mod config;
pub mod verify;
