//! The driver of one fetch session: a task for each broker that is read from. It reads ahead of the lane.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::batch::OffsetRange;
use crate::source::{Key, TopicPartition};
use crate::wire::client::NodeId;
use crate::wire::leaders::Endpoint;

/// What a source asks of a fetcher.
#[derive(Debug)]
pub enum Command {
    /// From now on read these partitions and no others. One that is read already in the same turn goes on where it is.
    Follow {
        /// `host:port` of the broker; `None` where the cluster does not know it any more.
        address: Option<Arc<str>>,
        /// What to read.
        places: Vec<Place>,
    },
    /// Close the session and end.
    Close,
}

/// Where reading begins in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// By id.
    pub key: Key,
    /// By name.
    pub at: TopicPartition,
    /// Counts how often reading has begun anew: what a fetcher brings of an earlier turn is thrown away.
    pub turn: u64,
    /// The next offset to read.
    pub position: i64,
    /// Leader epoch of the record before; -1 where it is not known.
    pub last_epoch: i32,
    /// Leader epoch that we know the leader by; -1 where it is not known.
    pub leader_epoch: i32,
}

/// What a fetcher brings.
#[derive(Debug)]
pub struct Arrival {
    /// The broker.
    pub node: NodeId,
    /// What was read: for each partition in the order of its log.
    pub fetched: Vec<Fetched>,
    /// Partitions that are to be read from another broker: their new leader, or the replica that the leader prefers for our rack.
    pub moved: Vec<Moved>,
    /// Where brokers are.
    pub endpoints: Vec<Endpoint>,
    /// Whether something went wrong that fresh metadata may mend.
    pub stale: bool,
}

/// A partition that is to be read elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It has another leader.
    Leader(Key, NodeId),
    /// Its leader asks us to read from this replica (KIP-392).
    Replica(Key, NodeId),
    /// The replica that we read from cannot serve us: back to the leader.
    BackToLeader(Key),
}

/// What one fetch brought of a partition.
#[derive(Debug)]
pub struct Fetched {
    /// The partition.
    pub key: Key,
    /// The turn of its [`Place`].
    pub turn: u64,
    /// Where reading stood before.
    pub from: i64,
    /// Where it goes on: all committed records between are in `records`, unless there was a jump.
    pub next: i64,
    /// Leader epoch of the last record batch; -1 where it is not known.
    pub last_epoch: i32,
    /// Whole record batches as the broker sent them; they may begin below `from`.
    pub records: Bytes,
    /// The offsets from `from` on, below `next`, that hold committed records, as far as headers of batches tell: ascending.
    pub visible: Vec<OffsetRange>,
    /// Why `next` is not where the records end.
    pub jump: Option<Jump>,
    /// Room that `records` take of what a lane may read ahead; free again with this value.
    pub room: Option<OwnedSemaphorePermit>,
}

/// Why reading goes on elsewhere than where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    /// Retention has removed what was to be read: the log begins at `next`.
    Expired,
    /// The log was cut below the position by an unclean leader election (KIP-320): what was written anew begins at `next`.
    Truncated,
}
