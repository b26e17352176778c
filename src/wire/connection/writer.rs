//! The sending half of a connection: frames leave in order, and each is registered before it leaves.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::pending::Pending;
use super::shared::Shared;
use crate::limits::SESSION_LEFT_DIVISOR;
use crate::wire::call::{Call, Head};
use crate::wire::codec::Frame;
use crate::wire::error::{Place, WireError};
use crate::wire::sasl::{Sasl, SessionMs};
use crate::wire::transport::Departing;
use crate::wire::versions::Versions;

/// Who holds it may send; the others wait.
pub struct Writer {
    pub(super) half: Departing,
    pub(super) correlation: i32,
    pub(super) client_id: String,
    pub(super) request_timeout: Duration,
    pub(super) versions: Versions,
    pub(super) shared: Arc<Shared>,
    /// When to authenticate again, on connections whose session ends.
    pub(super) renew_at: Option<Instant>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer at {}", self.correlation)
    }
}

impl Writer {
    /// Cluster and address.
    pub fn place(&self) -> &Place {
        &self.shared.place
    }

    /// Sends a request and waits for its reply; nobody else sends meanwhile.
    pub async fn exchange<C: Call>(&mut self, call: &C) -> Result<C::Reply, WireError> {
        let version = self.versions.require(C::API, self.place())?;
        self.send(call, version).await?.reply(self.request_timeout).await
    }

    /// Says who we are, on a connection that is new or whose session is about to end.
    pub(super) async fn authenticate(&mut self, sasl: &Sasl) -> Result<(), WireError> {
        let asked_at = Instant::now();
        let session = sasl.converse(self).await?;
        self.renew_at = renewal(session).map(|after| asked_at + after);
        Ok(())
    }

    pub(super) async fn send<C: Call>(&mut self, call: &C, version: i16) -> Result<Pending<C>, WireError> {
        self.correlation = self.correlation.wrapping_add(1);
        let correlation = self.correlation;
        let mut frame = Frame::default();
        let head = Head { version, correlation, client_id: &self.client_id };
        call.encode(&head, &mut frame).map_err(|cause| WireError::Encode {
            place: self.shared.place.clone(),
            api: C::API.name,
            version,
            cause,
        })?;
        let reply = self.shared.register(correlation)?;
        // A caller that goes away in the middle of a write leaves half a frame behind: nobody may use the socket after it.
        let guard = PoisonOnDrop { shared: Some(&self.shared) };
        let mut outgoing = frame.finish();
        let half = &mut self.half;
        let writing = async {
            half.write_all_buf(&mut outgoing).await?;
            // TLS keeps the end of a large write in its own buffer.
            half.flush().await
        };
        let written = tokio::time::timeout(self.request_timeout, writing).await;
        guard.disarm();
        match written {
            Ok(Ok(())) => {
                let sent_at = Instant::now();
                Ok(Pending { reply, version, sent_at, shared: self.shared.clone(), call: PhantomData })
            }
            Ok(Err(cause)) => Err(self.shared.poison(&cause.to_string())),
            Err(_) => Err(self.shared.poison("the broker takes no more bytes")),
        }
    }
}

/// When to authenticate again, after the last time; `None` is never.
fn renewal(session: SessionMs) -> Option<Duration> {
    let session = Duration::from_millis(u64::try_from(session).ok().filter(|ms| *ms > 0)?);
    Some(session - session / SESSION_LEFT_DIVISOR)
}

struct PoisonOnDrop<'a> {
    shared: Option<&'a Shared>,
}

impl PoisonOnDrop<'_> {
    fn disarm(mut self) {
        self.shared = None;
    }
}

impl Drop for PoisonOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared {
            shared.poison("a write was given up half-way");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_renewed_before_its_end_and_an_endless_one_never() {
        assert_eq!(renewal(1_000), Some(Duration::from_millis(900)));
        assert_eq!(renewal(0), None);
        assert_eq!(renewal(-1), None);
    }
}
