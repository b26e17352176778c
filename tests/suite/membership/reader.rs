//! A member of the group with a source that reads nothing: it owns partitions, takes its time to give them up, and commits before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sharebridge::health::Health;
use sharebridge::source::Key;
use sharebridge::source::catalog::Watched as Catalog;
use sharebridge::source::consumer::membership::{Assignment, Membership, Watched};
use sharebridge::wire::client::CoordinatorKind;
use sharebridge::wire::group::Member;
use sharebridge::wire::offsets::{Committed, commit_as};
use sharebridge::wire::{Client, Code, WireError};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::DEADLINE;
use super::group::Group;
use super::ledger::Ledger;

/// A running member.
pub(crate) struct Reader {
    name: String,
    ledger: Ledger,
    pub(crate) seen: watch::Receiver<Option<Assignment>>,
    source: (JoinHandle<()>, oneshot::Sender<()>),
    membership: (JoinHandle<()>, oneshot::Sender<()>),
}

impl Reader {
    /// Joins.
    pub(crate) fn join(group: &Group, name: &str, lane: u32) -> Self {
        let (membership, watched) = Membership::new(&group.flow, lane, group.catalog.subscribe(), Health::default());
        let seen = watched.assignment.clone();
        let source = Source {
            name: name.to_owned(),
            group: group.flow.consumer.id.clone(),
            client: Client::new(group.flow.source.clone()),
            catalog: group.catalog.subscribe(),
            ledger: group.ledger.clone(),
            transaction_ms: group.transaction_ms.clone(),
            watched,
        };
        let ((stop, stopped), (leave, left)) = (oneshot::channel(), oneshot::channel());
        Self {
            name: name.to_owned(),
            ledger: group.ledger.clone(),
            seen,
            source: (tokio::spawn(source.run(stopped)), stop),
            membership: (tokio::spawn(membership.run(left)), leave),
        }
    }

    /// Gives everything up in order, and leaves.
    pub(crate) async fn leave(self) {
        for (task, end) in [self.source, self.membership] {
            end.send(()).unwrap();
            tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap();
        }
    }

    /// Dies with all that it owns.
    pub(crate) async fn kill(self) {
        for (task, _) in [self.source, self.membership] {
            task.abort();
            let _ = task.await;
        }
        let until = self.seen.borrow().as_ref().expect("only members are killed").until;
        self.ledger.bury(&self.name, until);
    }

    /// Waits until it is a member.
    pub(crate) async fn joined(&mut self) {
        let joined = self.seen.wait_for(Option::is_some);
        tokio::time::timeout(DEADLINE, joined).await.unwrap().unwrap();
    }

    /// Waits until so many more of its heartbeats were answered.
    pub(crate) async fn beats(&mut self, count: usize) {
        self.seen.mark_unchanged();
        for _ in 0..count {
            tokio::time::timeout(DEADLINE, self.seen.changed()).await.unwrap().unwrap();
        }
    }

    /// Its assignment.
    pub(crate) fn assignment(&self) -> Assignment {
        self.seen.borrow().clone().expect("a member")
    }
}

struct Source {
    name: String,
    group: String,
    client: Client,
    catalog: Catalog,
    ledger: Ledger,
    transaction_ms: Arc<AtomicU64>,
    watched: Watched,
}

impl Source {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let ours = self.watched.assignment.borrow_and_update().clone().map(|ours| ours.partitions);
            match ours {
                Some(ours) => self.follow(&ours).await,
                None => self.owned().into_iter().for_each(|key| self.drop(key)),
            }
            tokio::select! {
                changed = self.watched.assignment.changed() => changed.unwrap(),
                _ = &mut stopped => break,
            }
        }
        self.follow(&BTreeSet::new()).await;
    }

    fn owned(&self) -> BTreeSet<Key> {
        self.watched.owned.borrow().clone()
    }

    async fn follow(&mut self, ours: &BTreeSet<Key>) {
        for key in self.owned().difference(ours) {
            let longest = self.transaction_ms.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..longest))).await;
            self.commit(*key).await;
            self.drop(*key);
        }
        for key in ours.difference(&self.owned()) {
            if self.watched.take(*key) {
                self.ledger.take(*key, &self.name);
            }
        }
    }

    fn drop(&self, key: Key) {
        self.ledger.give_up(key, &self.name);
        self.watched.give_up(key);
    }

    /// Commits what was read of a partition, with whatever epoch the group is in; it is ours until that is done.
    async fn commit(&mut self, key: Key) {
        let deadline = Instant::now() + DEADLINE;
        while self.watched.assignment.borrow().is_some() {
            match self.try_commit(key).await {
                Ok(None) => return,
                Ok(Some(Code::StaleMemberEpoch | Code::IllegalGeneration | Code::RebalanceInProgress)) => {}
                Ok(Some(Code::UnknownMemberId)) => {}
                Ok(Some(code)) => self.ledger.complain(format!("{} could not commit {key:?}: {code}", self.name)),
                Err(error) => {
                    self.client.forget_coordinators();
                    println!("{}: {error}", self.name);
                }
            }
            if Instant::now() >= deadline {
                return self.ledger.complain(format!("{} could not commit {key:?} in {DEADLINE:?}", self.name));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn try_commit(&mut self, (topic, partition): Key) -> Result<Option<Code>, WireError> {
        let name = self.catalog.borrow().topics.get(&topic).map(|topic| topic.name.clone());
        let Some(name) = name else { return Ok(None) };
        let connection = self.client.coordinator(CoordinatorKind::Group, &self.group).await?;
        let Some(ours) = self.watched.assignment.borrow().clone() else { return Ok(None) };
        let (id, instance) = (Arc::clone(&ours.member), ours.instance.clone());
        let member = Member { group: &self.group, id: &id, instance: instance.as_deref(), epoch: ours.epoch };
        let offset = Committed { topic: name, partition, offset: 1, leader_epoch: -1, metadata: String::new() };
        Ok(commit_as(&connection, &member, &[offset]).await?[0])
    }
}
