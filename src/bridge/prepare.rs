//! The share group's configs, which must stand before a flow may join it.

use crate::flow::Flow;
use crate::health::Health;
use crate::source::share::group::{self, GroupError};
use crate::wire::Client;
use crate::wire::backoff::Backoff;

/// Tries until the group is as configured; only refused configs end it early.
pub async fn prepare(flow: &Flow, health: &Health) -> Result<(), GroupError> {
    let mut source = Client::new(flow.source.clone());
    let mut backoff = Backoff::default();
    loop {
        match group::prepare(&mut source, &flow.group, &flow.topics).await {
            Ok(()) => break,
            Err(GroupError::Cluster(error)) => {
                health.trouble("share group", error);
                tokio::time::sleep(backoff.pause()).await;
            }
            Err(refused) => return Err(refused),
        }
    }
    health.well("share group");
    Ok(())
}
