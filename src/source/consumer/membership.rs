//! Membership in the consumer group: a task that keeps it, and tells what is ours.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use crate::source::Key;

/// What the coordinator lets this member read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Our member id.
    pub member: Arc<str>,
    /// Our name as a static member (KIP-345).
    pub instance: Option<Arc<str>>,
    /// Member epoch (KIP-848) or generation id (classic protocol): commits name it.
    pub epoch: i32,
    /// What is ours, and what is to be given up where it lacks what we own.
    pub partitions: BTreeSet<Key>,
    /// Until then nobody else is given our partitions: a session counted from before the last heartbeat that was answered.
    pub until: Instant,
}
