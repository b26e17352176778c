//! What must stand at the source before a flow may join its group: a share group's configs, and where the group begins.

use crate::bridge::Refusal;
use crate::bridge::discovery::Discovery;
use crate::config::Protocol;
use crate::flow::Flow;
use crate::health::Health;
use crate::source::share::group::{self, GroupError};
use crate::source::start::{Placement, StartError};
use crate::wire::Client;
use crate::wire::backoff::Backoff;
use crate::wire::client::TopicInfo;

/// Tries until the group is as configured, and stands where it is to start; only what no waiting would mend ends it early.
pub async fn prepare(flow: &Flow, discovery: &mut Discovery, health: &Health) -> Result<(), Refusal> {
    let mut source = Client::new(flow.source.clone());
    let mut backoff = Backoff::default();
    let subject = format!("{} group", flow.protocol.word());
    let mut placement = Placement::of(flow, flow.protocol);
    loop {
        match try_prepare(flow, &mut source, discovery, &mut placement).await {
            Ok(()) => break,
            Err(Refusal::Group(GroupError::Cluster(error)) | Refusal::Start(StartError::Cluster(error))) => {
                source.forget_coordinators();
                health.trouble(&subject, error);
                tokio::time::sleep(backoff.pause()).await;
            }
            Err(refused) => return Err(refused),
        }
    }
    health.well(&subject);
    Ok(())
}

async fn try_prepare(
    flow: &Flow,
    source: &mut Client,
    discovery: &mut Discovery,
    placement: &mut Placement,
) -> Result<(), Refusal> {
    // A consumer group has no configs that a flow depends on.
    if flow.protocol == Protocol::Share {
        group::prepare(source, &flow.group, &flow.topics).await?;
    }
    if placement.is_automatic() {
        return Ok(());
    }
    let seen = discovery.look().await.map_err(StartError::Cluster)?;
    let topics: Vec<TopicInfo> = seen.sorted.copied.into_iter().map(|copied| copied.topic).collect();
    Ok(placement.place(source, &topics).await?)
}
