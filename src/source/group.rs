//! A group on the source, of either type: who is in it, where it stands, and where it is put.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::{FlowConfig, OffsetReset, Protocol};
use crate::source::epoch::epochs_before;
use crate::wire::admin::share_progress;
use crate::wire::client::TopicInfo;
use crate::wire::log::{Moment, list_offsets};
use crate::wire::offsets::{
    Committed, MemberInfo, commit, committed, consumer_members, set_share_offsets, share_members,
};
use crate::wire::share::ShareProgress;
use crate::wire::{Client, Code, WireError};

/// Offsets by topic and partition.
pub type Offsets = BTreeMap<(String, i32), i64>;

/// A group of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its type.
    pub protocol: Protocol,
    /// Its id.
    pub id: String,
    /// Where it begins in a partition that it has no offset for.
    pub offset_reset: OffsetReset,
}

/// How far a group has come in a topic partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// The first offset that is not done, or where the group would begin; `None` where that is unknown.
    pub position: Option<i64>,
    /// Records still to be done; `None` where that is unknown.
    pub lag: Option<u64>,
}

impl From<ShareProgress> for Standing {
    fn from(told: ShareProgress) -> Self {
        Self { topic: told.topic, partition: told.partition, position: told.start_offset, lag: told.lag }
    }
}

impl Group {
    /// The flow's group of a type.
    pub fn of(flow: &FlowConfig, protocol: Protocol) -> Self {
        let (id, offset_reset) = match protocol {
            Protocol::Share => {
                let policy = OffsetReset::parse(&flow.group.offset_reset);
                (&flow.group.id, policy.expect("the configuration was checked"))
            }
            Protocol::Consumer => (&flow.consumer.id, flow.consumer.offset_reset),
        };
        Self { protocol, id: id.clone(), offset_reset }
    }

    /// Who is in it; nobody where it does not exist.
    pub async fn members(&self, client: &mut Client) -> Result<Vec<MemberInfo>, WireError> {
        let told = match self.protocol {
            Protocol::Share => share_members(client, &self.id).await,
            Protocol::Consumer => consumer_members(client, &self.id).await,
        };
        Ok(known(told)?.unwrap_or_default())
    }

    /// The offsets that are stored for it: a share group's start offsets, which trail what it has done, or what a consumer group has
    /// committed.
    pub async fn stored(&self, client: &mut Client) -> Result<Offsets, WireError> {
        Ok(match self.protocol {
            Protocol::Share => {
                let progress = known(share_progress(client, &self.id).await)?.unwrap_or_default();
                progress.into_iter().filter_map(|p| Some(((p.topic, p.partition), p.start_offset?))).collect()
            }
            Protocol::Consumer => {
                let committed = committed(client, &self.id).await?;
                committed.into_iter().map(|c| ((c.topic, c.partition), c.offset)).collect()
            }
        })
    }

    /// How far it has come in these topics, as far as it is known. Topics of which a partition has no leader are left out for a
    /// consumer group.
    pub async fn standings(&self, client: &mut Client, topics: &[TopicInfo]) -> Result<Vec<Standing>, WireError> {
        if self.protocol == Protocol::Consumer {
            return self.committed_standings(client, topics).await;
        }
        let progress = known(share_progress(client, &self.id).await)?.unwrap_or_default();
        let progress = progress.into_iter().filter(|p| topics.iter().any(|topic| topic.name == p.topic));
        Ok(progress.map(Standing::from).collect())
    }

    async fn committed_standings(&self, client: &mut Client, topics: &[TopicInfo]) -> Result<Vec<Standing>, WireError> {
        let led: Vec<TopicInfo> =
            topics.iter().filter(|topic| topic.leaders.iter().all(Option::is_some)).cloned().collect();
        // In this order: nothing is committed beyond an end that is found later.
        let committed = self.stored(client).await?;
        let earliest = list_offsets(client, &led, Moment::Earliest).await?;
        let ends = list_offsets(client, &led, Moment::Stable).await?;
        let from_earliest = self.offset_reset == OffsetReset::Earliest;
        let standing = |((topic, partition), end): ((String, i32), i64)| {
            let at = (topic, partition);
            let log = (earliest.get(&at).copied().unwrap_or(0), end);
            let (position, lag) = left(committed.get(&at).copied(), log, from_earliest).unzip();
            Standing { topic: at.0, partition, position, lag }
        };
        Ok(ends.into_iter().map(standing).collect())
    }

    /// Puts it to these offsets of these topics. The group is made by it.
    ///
    /// Errors: see [`is_occupied`] where it has members.
    pub async fn put(&self, client: &mut Client, topics: &[TopicInfo], offsets: &Offsets) -> Result<(), WireError> {
        if self.protocol == Protocol::Share {
            return set_share_offsets(client, &self.id, offsets).await;
        }
        let epochs = epochs_before(client, topics, offsets).await?;
        let committed = |(at, offset): (&(String, i32), &i64)| Committed {
            topic: at.0.clone(),
            partition: at.1,
            offset: *offset,
            leader_epoch: epochs.get(at).copied().unwrap_or(-1),
            metadata: String::new(),
        };
        let committed: Vec<Committed> = offsets.iter().map(committed).collect();
        commit(client, &self.id, &committed).await
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} group {}", self.protocol.word(), self.id)
    }
}

/// Whether a group was not put anywhere because it has members.
pub fn is_occupied(error: &WireError) -> bool {
    matches!(
        error.code(),
        Some(Code::NonEmptyGroup | Code::UnknownMemberId | Code::IllegalGeneration | Code::RebalanceInProgress)
    )
}

/// What is known of a group; `None` where it is not there, or of another type.
pub(super) fn known<T>(told: Result<T, WireError>) -> Result<Option<T>, WireError> {
    match told {
        Err(error) if error.code() == Some(Code::GroupIdNotFound) => Ok(None),
        told => told.map(Some),
    }
}

/// Where a consumer group goes on in a log that begins and ends there, and how much is left; `None` where its first look decides.
fn left(committed: Option<i64>, (earliest, end): (i64, i64), from_earliest: bool) -> Option<(i64, u64)> {
    let position = match committed {
        Some(offset) => offset.max(earliest),
        None if from_earliest || earliest == end => earliest,
        None => return None,
    };
    Some((position, end.saturating_sub(position).max(0).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_a_consumer_group_lies_between_its_offset_and_the_end() {
        let log = (10, 30);
        assert_eq!(left(Some(20), log, true), Some((20, 10)));
        assert_eq!(left(Some(5), log, true), Some((10, 20)), "retention has removed the first ones");
        assert_eq!(left(Some(40), log, true), Some((40, 0)), "its log was cut");
        assert_eq!(left(None, log, true), Some((10, 20)));
        assert_eq!(left(None, log, false), None);
        assert_eq!(left(None, (10, 10), false), Some((10, 0)));
    }
}
