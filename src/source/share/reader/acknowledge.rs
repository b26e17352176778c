//! What a reader says about records that it was given: done, still in work, and at last good-bye.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{Reader, is_session_lost};
use crate::limits::{ACKNOWLEDGE_PATIENCE_DIVISOR, RENEW_AT_DIVISOR};
use crate::source::Key;
use crate::source::share::session::{chunks, halves, merge, request};
use crate::wire::backoff::Backoff;
use crate::wire::share::{AcknowledgeType, Acknowledgement, SharePartitionRequest};
use crate::wire::{Code, WireError};

/// What the broker has refused, with its reason.
type Refused = Vec<(Key, Acknowledgement, Code)>;

impl Reader {
    /// Acknowledges finished records. What the broker refuses for a reason that may pass is tried again, as long as the records are
    /// still ours; what it does not take in the end will be delivered again.
    pub(super) async fn settle(&mut self, partitions: Vec<SharePartitionRequest>) {
        for chunk in chunks(merge(partitions)) {
            let total = count(&chunk);
            let mut done = counts(&chunk);
            match self.acknowledge_with_tries(chunk).await {
                Ok(refused) => {
                    for (key, ack, _) in refused {
                        let done = done.entry((key, ack.kind == AcknowledgeType::Reject));
                        done.and_modify(|offsets| *offsets = offsets.saturating_sub(ack.range.count()));
                    }
                }
                Err(error) => {
                    tracing::warn!(broker = self.node, offsets = total, %error, "acknowledgements undecided: records may come again");
                    done.clear();
                }
            }
            self.metrics.lost.inc_by(total - done.values().sum::<u64>());
            for ((key, is_rejected), offsets) in done {
                self.record(key, offsets, |topic| if is_rejected { &topic.rejected } else { &topic.acknowledged });
            }
        }
    }

    async fn acknowledge_with_tries(&mut self, chunk: Vec<SharePartitionRequest>) -> Result<Refused, WireError> {
        let mut backoff = Backoff::default();
        let deadline = Instant::now() + self.lock / ACKNOWLEDGE_PATIENCE_DIVISOR;
        let mut refused = self.acknowledge(chunk).await?;
        loop {
            let (lost, passing): (Refused, Refused) = refused.into_iter().partition(|(_, _, code)| is_lock_lost(*code));
            if passing.is_empty() || Instant::now() >= deadline {
                return Ok(lost.into_iter().chain(passing).collect());
            }
            tokio::time::sleep(backoff.pause()).await;
            let again = passing.into_iter().map(|(key, ack, _)| request(key, vec![ack])).collect();
            refused = self.acknowledge(merge(again)).await?;
            refused.extend(lost);
        }
    }

    /// Starts the locks of everything that is held anew. A lock that the broker does not renew is lost, and the lane is told.
    pub(super) async fn renew(&mut self) {
        let asked_at = Instant::now();
        if self.losing("expired", |session| session.expire(asked_at)) {
            tracing::warn!(broker = self.node, "locks ended before they were renewed: the records will come again");
        }
        let mut not_renewed: BTreeSet<Key> = BTreeSet::new();
        for chunk in chunks(self.session.renewals()) {
            let (offsets, keys) = (count(&chunk), chunk.iter().map(|partition| (partition.topic, partition.partition)));
            let keys: Vec<Key> = keys.collect();
            match self.acknowledge(chunk).await {
                Ok(refused) => {
                    self.metrics.renewals.inc_by(offsets);
                    not_renewed.extend(self.on_refused_renewals(refused));
                }
                Err(error) => {
                    tracing::warn!(broker = self.node, %error, "locks could not be renewed yet");
                    not_renewed.extend(keys);
                }
            }
        }
        self.session.on_renewed(&not_renewed, (asked_at, self.lock));
    }

    /// Gives up what is lost; returns the partitions of what may still be renewed.
    fn on_refused_renewals(&mut self, refused: Refused) -> Vec<Key> {
        let mut passing = vec![];
        for (key, ack, code) in refused {
            tracing::warn!(broker = self.node, partition = key.1, range = %ack.range, %code, "lock not renewed");
            if is_lock_lost(code) {
                self.losing("refused", |session| session.lose(key, ack.range));
            } else {
                passing.push(key);
            }
        }
        passing
    }

    /// Releases what is held and closes the session. Returns how many offsets were released.
    pub(super) async fn close(&mut self) -> u64 {
        let releases = self.session.releases();
        let released = count(&releases);
        counts(&releases)
            .into_iter()
            .for_each(|((key, _), offsets)| self.record(key, offsets, |topic| &topic.released));
        for chunk in chunks(releases) {
            // Without an answer the broker still sees the connection end, or the locks.
            if let Err(error) = self.acknowledge(chunk).await {
                tracing::warn!(broker = self.node, %error, "records not released in order");
                break;
            }
        }
        if let Some(connection) = self.connection.take().filter(|_| self.session.is_open())
            && let Err(error) = connection.call(&self.session.close()).await
        {
            tracing::warn!(broker = self.node, %error, "share session not closed in order");
        }
        released
    }

    /// Sends acknowledgements. A partition's list that is refused as a whole is cut in halves, so that one lost record does not
    /// undo the rest. After 122 or 123 the session is opened anew once, which keeps the locks.
    async fn acknowledge(&mut self, list: Vec<SharePartitionRequest>) -> Result<Refused, WireError> {
        let mut refused = vec![];
        let mut queue = vec![list];
        while let Some(partitions) = queue.pop() {
            let answers = match self.exchange(&partitions).await {
                Err(error) if is_session_lost(&error) => {
                    self.open_again().await?;
                    self.exchange(&partitions).await
                }
                answers => answers,
            };
            let answers = match answers.inspect_err(|error| self.on_error(error)) {
                // The broker refuses all of it: a right is missing, or it is too busy. Until the locks end, the records are ours.
                Err(WireError::Answered { code, .. }) => vec![Some(code); partitions.len()],
                answers => answers?,
            };
            let (mut left, mut right) = (vec![], vec![]);
            for (partition, code) in partitions.iter().zip(answers).filter_map(|(p, code)| Some((p, code?))) {
                match halves(partition).filter(|_| code == Code::InvalidRecordState) {
                    Some([first, second]) => {
                        left.push(first);
                        right.push(second);
                    }
                    None => {
                        let key = (partition.topic, partition.partition);
                        refused.extend(partition.acknowledgements.iter().map(|ack| (key, *ack, code)));
                    }
                }
            }
            queue.extend([left, right].into_iter().filter(|half| !half.is_empty()));
        }
        Ok(refused)
    }

    /// One ShareAcknowledge; returns for each partition why it was refused, if it was.
    ///
    /// On a connection that has ended there is nothing to acknowledge: the broker has released the records.
    async fn exchange(&mut self, partitions: &[SharePartitionRequest]) -> Result<Vec<Option<Code>>, WireError> {
        let Some(connection) = self.connection.clone() else {
            return Err(WireError::Nobody { cluster: self.cluster.name.as_str().into(), what: self.subject() });
        };
        let request = self.session.acknowledge(partitions.to_vec());
        // A longer wait would outlast the locks.
        let patience = connection.request_timeout.min(self.lock / RENEW_AT_DIVISOR);
        let reply = connection.send(&request).await?.reply(patience).await?;
        if let Some(code) = reply.error {
            let what = format!("group {}", request.group);
            return Err(connection.answered("ShareAcknowledge", &what, (code, reply.message)));
        }
        self.session.count_up();
        self.adopt_lock(reply.lock_ms);
        // A partition that the broker passes over in silence was not acknowledged.
        let answer = |partition: &SharePartitionRequest| {
            let mut answers = reply.partitions.iter();
            let found = answers.find(|(topic, number, _)| (*topic, *number) == (partition.topic, partition.partition));
            found.map_or(Some(Code::UnknownServerError), |(_, _, code)| *code)
        };
        Ok(partitions.iter().map(answer).collect())
    }

    /// Only a fetch opens a session: one that names no partition acquires nothing, and the locks stay ours.
    async fn open_again(&mut self) -> Result<(), WireError> {
        self.session.reopen();
        let Some(connection) = self.connection.clone() else { return Ok(()) };
        self.exchange_fetch(&connection, &self.session.open()).await?;
        self.session.on_opened();
        Ok(())
    }
}

/// Whether a refusal means that the records are ours no longer. After any other code the lock still runs: hold on.
fn is_lock_lost(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidRecordState
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopicId
            | Code::NotLeaderOrFollower
            | Code::FencedLeaderEpoch
    )
}

fn count(partitions: &[SharePartitionRequest]) -> u64 {
    counts(partitions).into_values().sum()
}

/// Offsets by topic partition, those that are rejected apart.
fn counts(partitions: &[SharePartitionRequest]) -> BTreeMap<(Key, bool), u64> {
    let mut counts = BTreeMap::new();
    for partition in partitions {
        for ack in &partition.acknowledgements {
            let key = (partition.topic, partition.partition);
            *counts.entry((key, ack.kind == AcknowledgeType::Reject)).or_default() += ack.range.count();
        }
    }
    counts
}
