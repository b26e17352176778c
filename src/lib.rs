//! sharebridge copies topics between Kafka clusters: in through a share group, out through transactions.
//!
//! ```text
//! source ──poll──▶ parcels ──▶ sink.write ──commit──▶ settle ──acknowledge──▶ source
//!  share group    raw record     one transaction        ACCEPT only
//!                  batches        on the target         after commit
//! ```
//!
//! Modules in reading order: what travels ([`batch`]), where it comes from ([`source`]), where it goes ([`sink`]), what is
//! acknowledged ([`settle`]), where on the target it belongs ([`route`]), the loop between them ([`lane`]), and what builds and watches the loops ([`bridge`]). Below them
//! lies the Kafka client ([`wire`]); beside them stand [`config`], [`limits`], [`health`] and [`metrics`]. `docs/ARCHITECTURE.md`
//! tells the whole story.

pub mod batch;
pub mod bridge;
pub mod dead_letter;
pub mod flow;
pub mod lane;
pub mod route;
pub mod settle;
pub mod sink;
pub mod source;

pub mod wire;

pub mod config;
pub mod health;
pub mod limits;
pub mod metrics;

pub mod cli;
pub mod error;
pub mod status;
pub mod telemetry;
pub mod verify;
