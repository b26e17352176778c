//! What a reader says about records that it was given: done, still in work, and at last good-bye.

use tokio::time::Instant;

use super::Reader;
use crate::batch::OffsetRange;
use crate::limits::FETCH_BYTES_MIN;
use crate::source::Settled;
use crate::source::share::session::{Key, chunks, halves, merge};
use crate::wire::share::SharePartitionRequest;
use crate::wire::{Code, WireError};

/// Ranges that the broker has refused, with its reason.
type Refused = Vec<(Key, OffsetRange, Code)>;

impl Reader {
    /// Acknowledges finished records. What the broker does not take will be delivered again: nothing is tried twice, except after
    /// the session was opened anew.
    pub(super) async fn settle(&mut self, partitions: Vec<SharePartitionRequest>) -> Settled {
        let mut settled = Settled::default();
        for chunk in chunks(merge(partitions)) {
            let total = count(&chunk);
            let lost = match self.acknowledge(chunk).await {
                Ok(refused) => refused.iter().map(|(_, range, _)| range.count()).sum(),
                Err(error) => {
                    tracing::warn!(broker = self.node, offsets = total, %error, "acknowledgements are undecided: records may come again");
                    total
                }
            };
            settled += Settled { acknowledged: total - lost, lost };
        }
        settled
    }

    /// Starts the locks of everything that is held anew. A lock that the broker does not renew is lost, and the lane is told.
    pub(super) async fn renew(&mut self) {
        let asked_at = Instant::now();
        for chunk in chunks(self.session.renewals()) {
            self.metrics.renewals.inc_by(count(&chunk));
            match self.acknowledge(chunk).await {
                Ok(refused) => {
                    for (key, range, code) in refused {
                        tracing::warn!(broker = self.node, partition = key.1, %range, %code, "lock not renewed");
                        if is_lock_lost(code) {
                            self.session.lose(key, range);
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(broker = self.node, %error, "locks could not be renewed");
                    break;
                }
            }
        }
        // Also after an error: the next try comes after half a lock, or at once with a new session.
        self.session.on_renewed(asked_at, self.lock);
    }

    /// Closes the session. Returns how many offsets were released by that.
    pub(super) async fn close(&mut self) -> u64 {
        let released = count(&self.session.renewals());
        let request = self.session.close();
        if let Some(connection) = self.connection.take().filter(|_| self.session.is_open()) {
            // Without an answer the broker still sees the connection end, and releases all the same.
            if let Err(error) = connection.call(&request).await {
                tracing::warn!(broker = self.node, %error, "share session not closed in order");
            }
        }
        released
    }

    /// Sends acknowledgements. A partition's list that is refused as a whole is cut in halves, so that one lost record does not
    /// undo the rest. After 122 or 123 the session is opened anew once, which keeps the locks.
    async fn acknowledge(&mut self, list: Vec<SharePartitionRequest>) -> Result<Refused, WireError> {
        let mut refused = vec![];
        let mut queue = vec![list];
        while let Some(partitions) = queue.pop() {
            let answers = match self.exchange(partitions.clone()).await {
                Err(error) if is_session_lost(&error) => {
                    self.session.reopen();
                    self.reopen_now().await?;
                    self.exchange(partitions.clone()).await
                }
                answers => answers,
            };
            let answers = answers.inspect_err(|error| self.on_error(error))?;
            for (key, code) in answers {
                let Some(partition) = partitions.iter().find(|p| (p.topic, p.partition) == key) else {
                    continue;
                };
                match halves(partition) {
                    Some(halves) if code == Code::InvalidRecordState => queue.extend(halves.map(|half| vec![half])),
                    _ => refused.extend(partition.acknowledgements.iter().map(|ack| (key, ack.range, code))),
                }
            }
        }
        Ok(refused)
    }

    /// One ShareAcknowledge: the partitions that were refused.
    async fn exchange(&mut self, partitions: Vec<SharePartitionRequest>) -> Result<Vec<(Key, Code)>, WireError> {
        let request = self.session.acknowledge(partitions);
        let connection = self.connected().await?;
        let reply = connection.call(&request).await?;
        if let Some(code) = reply.error {
            let what = format!("group {}", request.group);
            return Err(connection.answered("ShareAcknowledge", &what, (code, reply.message)));
        }
        self.session.count_up();
        let refused = reply.partitions.into_iter();
        Ok(refused.filter_map(|(topic, partition, code)| Some(((topic, partition), code?))).collect())
    }

    /// Only a fetch opens a session; what it brings goes the usual way.
    async fn reopen_now(&mut self) -> Result<(), WireError> {
        let arrival = self.fetch(FETCH_BYTES_MIN).await?;
        // Only a lane that was dropped does not listen.
        let _ = self.arrivals.send(arrival).await;
        Ok(())
    }
}

fn is_session_lost(error: &WireError) -> bool {
    matches!(error.code(), Some(Code::ShareSessionNotFound | Code::InvalidShareSessionEpoch))
}

/// Whether a refused renewal means that the records are ours no longer. After any other code the lock still runs: hold on.
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
    partitions.iter().flat_map(|p| &p.acknowledgements).map(|ack| ack.range.count()).sum()
}
