//! A request without its reply.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::shared::Shared;
use crate::wire::call::{Answer, Call};
use crate::wire::error::WireError;

/// A request that was sent.
#[derive(Debug)]
pub struct Pending<C> {
    pub(super) reply: oneshot::Receiver<Bytes>,
    pub(super) version: i16,
    pub(super) sent_at: Instant,
    pub(super) shared: Arc<Shared>,
    pub(super) call: PhantomData<fn() -> C>,
}

impl<C: Call> Pending<C> {
    /// Waits for the reply. When `patience` ends, the connection is poisoned: a late reply would be of no use to anybody.
    pub async fn reply(self, patience: Duration) -> Result<C::Reply, WireError> {
        let place = || self.shared.place.clone();
        let bytes = match tokio::time::timeout(patience, self.reply).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) => return Err(self.shared.lost()),
            Err(_) => {
                let waited = self.sent_at.elapsed();
                self.shared.poison(&format!("{} was not answered within {} ms", C::API.name, waited.as_millis()));
                return Err(WireError::Timeout { place: place(), api: C::API.name, version: self.version, waited });
            }
        };
        let Answer { reply, throttle_ms } = C::decode(bytes, self.version).map_err(|cause| {
            self.shared.poison("a reply did not follow its schema");
            WireError::Malformed { place: place(), api: C::API.name, version: self.version, cause }
        })?;
        self.shared.silence(throttle_ms);
        Ok(reply)
    }
}
