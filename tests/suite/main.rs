//! The suite: one module per subject, against real Kafka clusters.
#![allow(clippy::unwrap_used)] // clippy knows test functions, but not their helpers

mod attempts;
mod bridge;
mod codecs;
mod compaction;
mod elastic;
mod flow;
mod guarded;
mod hold;
mod keeper;
mod network;
mod partition;
mod refusal;
mod rights;
mod session;
mod shutdown;
mod source_restart;
mod tidy;
mod verify;
