//! The share group's configs, which must stand before a flow may join it.

use crate::bridge::discovery::Discovery;
use crate::config::Protocol;
use crate::flow::Flow;
use crate::health::Health;
use crate::source::share::group::{self, GroupError};
use crate::source::share::start::Placement;
use crate::wire::Client;
use crate::wire::backoff::Backoff;
use crate::wire::client::TopicInfo;

/// Tries until the group is as configured, and stands where it is to start; only what no waiting would mend ends it early.
pub async fn prepare(flow: &Flow, discovery: &mut Discovery, health: &Health) -> Result<(), GroupError> {
    if flow.protocol == Protocol::Consumer {
        return Ok(());
    }
    let mut source = Client::new(flow.source.clone());
    let mut backoff = Backoff::default();
    let mut placement = Placement::new(flow.group.clone());
    loop {
        let prepared = match group::prepare(&mut source, &flow.group, &flow.topics).await {
            Ok(()) => place(&mut placement, &mut source, discovery).await,
            failed => failed,
        };
        match prepared {
            Ok(()) => break,
            Err(GroupError::Cluster(error)) => {
                source.forget_coordinators();
                health.trouble("share group", error);
                tokio::time::sleep(backoff.pause()).await;
            }
            Err(refused) => return Err(refused),
        }
    }
    health.well("share group");
    Ok(())
}

async fn place(placement: &mut Placement, source: &mut Client, discovery: &mut Discovery) -> Result<(), GroupError> {
    if placement.is_automatic() {
        return Ok(());
    }
    let seen = discovery.look().await.map_err(GroupError::Cluster)?;
    let topics: Vec<TopicInfo> = seen.sorted.copied.into_iter().map(|copied| copied.topic).collect();
    placement.place(source, &topics).await
}
