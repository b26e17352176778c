//! Looks at a consumer group as a whole.

use tokio::sync::watch;

use super::lags::Lags;
use crate::config::Protocol;
use crate::flow::Flow;
use crate::lane::{Wish, told};
use crate::limits::PROGRESS_EVERY;
use crate::metrics::FlowMetrics;
use crate::source::catalog::Watched;
use crate::source::group::{Group, Standing};
use crate::wire::client::TopicInfo;
use crate::wire::{Client, WireError};

/// See the module. What an unclean leader election has cut, the readers of a consumer group see by themselves.
#[derive(Debug)]
pub struct ConsumerObserver {
    client: Client,
    group: Group,
    catalog: Watched,
    lags: Lags,
}

impl ConsumerObserver {
    /// An observer of the consumer group of a flow.
    pub fn new((flow, catalog): (&Flow, Watched), metrics: FlowMetrics) -> Self {
        let group = Group::of(flow, Protocol::Consumer);
        Self { client: Client::new(flow.source.clone()), group, catalog, lags: Lags::new(metrics) }
    }

    /// Looks again and again, until the process wants to end.
    pub async fn run(mut self, mut wish: watch::Receiver<Wish>) {
        loop {
            match self.look().await {
                Ok(standings) => self.lags.show(&standings),
                Err(error) => {
                    self.client.forget_coordinators();
                    tracing::debug!(group = self.group.id, %error, "progress of the consumer group unknown");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PROGRESS_EVERY) => {}
                () = told(&mut wish, Wish::Drain) => return,
            }
        }
    }

    async fn look(&mut self) -> Result<Vec<Standing>, WireError> {
        standings(&mut self.client, &self.group, &self.catalog).await
    }
}

/// How far a group has come in the topics of a catalog; nothing where there are none.
pub(super) async fn standings(
    client: &mut Client,
    group: &Group,
    catalog: &Watched,
) -> Result<Vec<Standing>, WireError> {
    let names = catalog.borrow().subscribed.clone();
    if names.is_empty() {
        return Ok(vec![]);
    }
    let topics = client.topics(&names).await?.into_iter().filter_map(|(_, topic)| topic.ok());
    group.standings(client, &topics.collect::<Vec<TopicInfo>>()).await
}
