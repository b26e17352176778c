//! The suite: one module per subject, against real Kafka clusters.
#![allow(clippy::unwrap_used)] // clippy knows test functions, but not their helpers

mod attempts;
mod begun;
mod bridge;
mod check;
mod codecs;
mod compaction;
mod corrupt;
mod elastic;
mod feature;
mod flow;
mod forgotten;
mod guarded;
mod hold;
mod keeper;
mod lock;
mod many;
mod matrix;
mod network;
mod open_transaction;
mod partition;
mod refusal;
mod rights;
mod route;
mod secured;
mod session;
mod shutdown;
mod source_restart;
mod start;
mod stream;
mod switch;
mod tidy;
mod topics;
mod verify;
