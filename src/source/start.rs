//! Where a new group starts: before its first member joins, its offsets are looked up and set.
//!
//! A group that has begun is never moved. It has begun when it has a member, or when an offset of one of the topics is stored: by
//! us, by a reader, or by Kafka's tool. Brokers take offsets from outside only while the group is empty, so of several workers that start
//! at once the first to join decides, and the others accept.
//!
//! One window stays open, since brokers compare nothing when they set offsets: a worker that is frozen right between its look and
//! its request moves a group that has meanwhile begun and been left by all its members. So the look is the last thing before the
//! request.

use std::time::SystemTime;

use crate::config::{FlowConfig, OffsetReset, Protocol, StartPosition};
use crate::limits::NAMED_TOPICS_MAX;
use crate::source::group::{Group, Offsets, is_occupied, known};
use crate::wire::admin::share_progress;
use crate::wire::client::TopicInfo;
use crate::wire::log::{Moment, list_offsets};
use crate::wire::offsets::committed;
use crate::wire::share::ShareProgress;
use crate::wire::{Client, WireError};

/// Why a group was not placed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The cluster does not answer, or not yet: try again.
    #[error(transparent)]
    Cluster(#[from] WireError),
    /// The group that it should go on from is nowhere in the flow's topics.
    #[error(
        "cluster {cluster}: start.position of the {group} is group:{other}, which has committed no offset in any topic of the \
         flow: correct the group's id, or let the flow begin at a position of its own"
    )]
    Nowhere {
        /// The cluster.
        cluster: String,
        /// The group, with its type.
        group: String,
        /// The group that it should go on from.
        other: String,
    },
}

/// Puts a new group to its start position. Kept over several tries, of which one may have set some of the offsets.
#[derive(Debug)]
pub struct Placement {
    group: Group,
    start: StartPosition,
    /// Whether offsets may have been set by us, some of them or all.
    has_tried: bool,
}

impl Placement {
    /// For the flow's group of a type; nothing has been tried yet.
    pub fn of(flow: &FlowConfig, protocol: Protocol) -> Self {
        let start = match protocol {
            Protocol::Share => &flow.group.start,
            Protocol::Consumer => &flow.consumer.start,
        };
        Self { group: Group::of(flow, protocol), start: start.clone(), has_tried: false }
    }

    /// Whether the reset rule alone decides, so that nothing is to be placed.
    pub fn is_automatic(&self) -> bool {
        self.start == StartPosition::Auto
    }

    /// Sets the offsets of all partitions that these topics have now, unless the group has begun. Partitions that come later begin
    /// where the group's reset rule says: at their beginning.
    ///
    /// Errors: `Cluster` may pass; `Nowhere` does not.
    pub async fn place(&mut self, client: &mut Client, topics: &[TopicInfo]) -> Result<(), StartError> {
        if self.has_begun(client, topics).await? {
            return Ok(());
        }
        let offsets = self.look_up(client, topics).await?;
        if !offsets.is_empty() {
            self.put(client, topics, &offsets).await?;
        }
        Ok(())
    }

    async fn has_begun(&self, client: &mut Client, topics: &[TopicInfo]) -> Result<bool, WireError> {
        if !self.group.members(client).await?.is_empty() {
            return Ok(true);
        }
        let stored = self.group.stored(client).await?;
        let is_placed = stored.keys().any(|(name, _)| topics.iter().any(|topic| topic.name == *name));
        Ok(is_placed && !self.has_tried)
    }

    /// The first offsets of all partitions that these topics have now; nothing where the reset rule alone decides.
    pub async fn look_up(&self, client: &mut Client, topics: &[TopicInfo]) -> Result<Offsets, StartError> {
        Ok(match &self.start {
            StartPosition::Auto => Offsets::new(),
            StartPosition::Earliest => list_offsets(client, topics, Moment::Earliest).await?,
            StartPosition::Latest => list_offsets(client, topics, Moment::Stable).await?,
            StartPosition::Timestamp(ms) => since(client, topics, *ms).await?,
            StartPosition::Group(other) => return self.follow(client, topics, other).await,
        })
    }

    /// From where another group stands.
    async fn follow(&self, client: &mut Client, topics: &[TopicInfo], other: &str) -> Result<Offsets, StartError> {
        let (mut stands, earliest, ends) = stand(client, topics, other).await?;
        stands.retain(|at, _| earliest.contains_key(at));
        if stands.is_empty() {
            let (cluster, group) = (client.cluster().to_owned(), self.group.to_string());
            return Err(StartError::Nowhere { cluster, group, other: other.to_owned() });
        }
        let mut offsets = Offsets::new();
        let mut amiss = vec![];
        for (at, earliest) in earliest {
            let log = (earliest, ends.get(&at).copied().unwrap_or(earliest));
            let (offset, why) = continued(stands.get(&at).copied(), log);
            amiss.extend(why.map(|why| format!("{}-{} ({why})", at.0, at.1)));
            offsets.insert(at, offset);
        }
        if !amiss.is_empty() {
            let named = amiss.iter().take(NAMED_TOPICS_MAX).cloned().collect::<Vec<_>>().join(", ");
            tracing::warn!(
                group = self.group.id,
                other,
                partitions = amiss.len(),
                named,
                "these begin at their beginning"
            );
        }
        Ok(offsets)
    }

    async fn put(&mut self, client: &mut Client, topics: &[TopicInfo], offsets: &Offsets) -> Result<(), WireError> {
        let group = &self.group.id;
        match self.group.put(client, topics, offsets).await {
            Ok(()) => {
                let start = format!("{:?}", self.start);
                tracing::info!(group, start, partitions = offsets.len(), "start offsets set");
                Ok(())
            }
            Err(error) if is_occupied(&error) => {
                tracing::info!(group, "another worker has set the start offsets, and joined");
                Ok(())
            }
            Err(error) => {
                self.has_tried = true;
                Err(error)
            }
        }
    }
}

/// The first offsets of records that are not older than `ms`; behind the last record where there is none.
async fn since(client: &mut Client, topics: &[TopicInfo], ms: i64) -> Result<Offsets, WireError> {
    // In this order: what is written between the two is found by its time, or lies behind the end.
    let mut offsets = list_offsets(client, topics, Moment::Stable).await?;
    offsets.extend(list_offsets(client, topics, Moment::At(ms)).await?);
    Ok(offsets)
}

/// Where the partitions of these topics begin for which nothing is stored.
pub(super) async fn by_rule(
    client: &mut Client,
    topics: &[TopicInfo],
    rule: OffsetReset,
) -> Result<Offsets, WireError> {
    match rule {
        OffsetReset::Earliest => list_offsets(client, topics, Moment::Earliest).await,
        OffsetReset::Latest => list_offsets(client, topics, Moment::Stable).await,
        OffsetReset::Within(age) => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let ms = now.saturating_sub(age).as_millis();
            since(client, topics, i64::try_from(ms).unwrap_or(i64::MAX)).await
        }
    }
}

/// Where a share group stands; nothing where there is none.
pub(super) async fn reached_by(client: &mut Client, topics: &[TopicInfo], group: &str) -> Result<Offsets, WireError> {
    // In this order: what a share group has done by the time of its answer, it had done up to an end that was found before.
    let ends = list_offsets(client, topics, Moment::End).await?;
    let progress = known(share_progress(client, group).await)?.unwrap_or_default();
    Ok(progress.into_iter().filter_map(|progress| reached(progress, &ends)).collect())
}

/// Where another group stands, and where the partitions begin and end.
async fn stand(
    client: &mut Client,
    topics: &[TopicInfo],
    other: &str,
) -> Result<(Offsets, Offsets, Offsets), WireError> {
    let ends = list_offsets(client, topics, Moment::End).await?;
    let earliest = list_offsets(client, topics, Moment::Earliest).await?;
    // Of a consumer group, a share coordinator knows nothing.
    let mut stands = reached_by(client, topics, other).await?;
    if stands.is_empty() {
        stands = committed(client, other).await?.into_iter().map(|c| ((c.topic, c.partition), c.offset)).collect();
    }
    Ok((stands, earliest, ends))
}

/// Where a share group has come to: its start offset, below which all is done. Some above it may be done as well; only where nothing is
/// left to do, all of it is (tried on 4.4.0: a start offset stays behind until something else is stored).
pub fn reached(progress: ShareProgress, ends: &Offsets) -> Option<((String, i32), i64)> {
    let start = progress.start_offset?;
    let at = (progress.topic, progress.partition);
    let end = ends.get(&at).copied().filter(|_| progress.lag == Some(0));
    Some((at, end.map_or(start, |end| end.max(start))))
}

/// From where to go on in a log that begins and ends there, and what is amiss. In doubt it is the beginning: copying twice loses nothing.
fn continued(stands: Option<i64>, (earliest, end): (i64, i64)) -> (i64, Option<&'static str>) {
    match stands {
        None => (earliest, Some("no offset committed")),
        Some(offset) if offset < earliest => (earliest, Some("its log begins later")),
        Some(offset) if offset > end => (earliest, Some("its log ends before")),
        Some(offset) => (offset, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_is_followed_where_its_offset_is_in_the_log() {
        assert_eq!(continued(Some(0), (0, 10)), (0, None));
        assert_eq!(continued(Some(7), (0, 10)), (7, None));
        assert_eq!(continued(Some(10), (0, 10)), (10, None));
        for (stands, log) in [(None, (3, 10)), (Some(2), (3, 10)), (Some(11), (3, 10)), (None, (3, 3))] {
            let (offset, why) = continued(stands, log);
            assert!(offset == 3 && why.is_some(), "{stands:?} {log:?}");
        }
    }

    #[test]
    fn a_share_group_that_has_done_everything_stands_at_the_end() {
        let reached = |start_offset, lag| {
            let (topic, topic_id) = ("t".to_owned(), uuid::Uuid::nil());
            let progress = ShareProgress { topic, topic_id, partition: 0, start_offset, lag };
            reached(progress, &[(("t".to_owned(), 0), 10)].into()).map(|(_, offset)| offset)
        };
        assert_eq!(reached(Some(4), Some(1)), Some(4));
        assert_eq!(reached(Some(4), None), Some(4));
        assert_eq!(reached(Some(4), Some(0)), Some(10));
        assert_eq!(reached(Some(12), Some(0)), Some(12));
        assert_eq!(reached(None, Some(0)), None);
    }
}
