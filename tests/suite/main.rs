//! The suite: one module per subject, against real Kafka clusters.
#![allow(clippy::unwrap_used)] // clippy knows test functions, but not their helpers

mod session;
mod tidy;
mod verify;
