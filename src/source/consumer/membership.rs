//! Membership in the consumer group: a task that keeps it, and tells what is ours.
//!
//! Source: KIP-848 where the coordinator leads the group, else the classic protocol with cooperative assignment (KIP-429).

mod assign;
mod classic;
mod led;
mod standing;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::flow::Flow;
use crate::health::Health;
use crate::source::Key;
use crate::source::catalog;
use classic::Classic;
use led::Led;
use standing::{End, Standing};

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

/// The source's end of a membership.
#[derive(Debug)]
pub struct Watched {
    /// `None`: we are no member, and somebody else may read what we own. Everything uncommitted is to be dropped; only when nothing is
    /// owned any more does the member join again, so that no `None` is missed.
    pub assignment: watch::Receiver<Option<Assignment>>,
    /// What the source reads, or has read and not committed yet.
    pub owned: watch::Sender<BTreeSet<Key>>,
}

impl Watched {
    /// Begins to own a partition, if it is ours still. Nothing of it may be read before.
    ///
    /// The order of the two steps matters: the member tells a new assignment, and looks at what is owned only then. So it sees the partition,
    /// or we see that it is ours no longer.
    pub fn take(&self, key: Key) -> bool {
        self.owned.send_if_modified(|owned| owned.insert(key));
        let is_ours = self.assignment.borrow().as_ref().is_some_and(|ours| ours.partitions.contains(&key));
        if !is_ours {
            self.give_up(key);
        }
        is_ours
    }

    /// Gives a partition up: its last commit is done, or never will be.
    pub fn give_up(&self, key: Key) {
        self.owned.send_if_modified(|owned| owned.remove(&key));
    }
}

/// A member of a consumer group: one for each lane.
#[derive(Debug)]
pub struct Membership {
    standing: Standing,
}

impl Membership {
    /// A member that has not joined yet, and what its source sees of it.
    pub fn new(flow: &Flow, lane: u32, catalog: catalog::Watched, health: Health) -> (Self, Watched) {
        health.pending(standing::SUBJECT, "has not joined yet");
        let (assignment, owned) = (watch::Sender::new(None), watch::Sender::new(BTreeSet::new()));
        let watched = Watched { assignment: assignment.subscribe(), owned };
        let owned = watched.owned.subscribe();
        (Self { standing: Standing::new((flow, lane), catalog, (assignment, owned), health) }, watched)
    }

    /// Keeps the membership until `leave` is told or dropped, then leaves the group; a static member only for as long as its session
    /// lasts. What is owned should have been given up before.
    pub async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        match Led::new(&mut self.standing).run(&mut leave).await {
            End::Left => {}
            End::Refused(reason) => {
                tracing::info!(group = self.standing.group, %reason, "this group is joined by the classic protocol");
                Classic::new(&mut self.standing).run(&mut leave).await;
            }
        }
    }
}
