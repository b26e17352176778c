//! One socket to one broker: correlation, deadlines, throttling. In doubt it is poisoned once, and all who wait learn the same cause.

mod incoming;
mod pending;
mod shared;
mod writer;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::wire::call::Call;
use crate::wire::cluster::Cluster;
use crate::wire::error::{Code, Place, WireError, code_of, tame};
use crate::wire::tls::explain::explain_late;
use crate::wire::transport;
use crate::wire::versions::Versions;
use incoming::read_replies;
use shared::Shared;

pub use pending::Pending;
pub use writer::Writer;

/// An open connection. Dropping it closes the socket, and with it the share session that was bound to it.
#[derive(Debug)]
pub struct Connection {
    cluster: Arc<Cluster>,
    /// Longest wait for a reply that does not long-poll.
    pub request_timeout: Duration,
    versions: Versions,
    writer: Arc<AsyncMutex<Writer>>,
    shared: Arc<Shared>,
    _reader: Reader,
}

type OwnedWriter = OwnedMutexGuard<Writer>;

/// The reading task, which ends with its connection.
#[derive(Debug)]
struct Reader(AbortHandle);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Connects to `host:port` and asks for the broker's versions.
    pub async fn open(cluster: &Arc<Cluster>, address: &str) -> Result<Self, WireError> {
        match Self::try_open(cluster, address).await {
            Ok(connection) => {
                cluster.metrics.opened.inc();
                Ok(connection)
            }
            Err(error) => {
                cluster.metrics.failed.inc();
                count(cluster, &error);
                Err(error)
            }
        }
    }

    async fn try_open(cluster: &Arc<Cluster>, address: &str) -> Result<Self, WireError> {
        let place = Place { cluster: cluster.name.as_str().into(), address: address.into() };
        let (incoming, half) = transport::connect(&place, cluster.tls.as_ref()).await?;
        let shared = Shared::new(place, cluster);
        let reader = tokio::spawn(read_replies(incoming, shared.clone())).abort_handle();
        let request_timeout = cluster.request_timeout;
        let mut writer = Writer {
            half,
            correlation: 0,
            client_id: cluster.client_id.clone(),
            request_timeout,
            versions: Versions::default(),
            shared: shared.clone(),
            renew_at: None,
        };
        // Dropped with its reader, should anything go wrong from here on.
        let reader = Reader(reader);
        writer.versions = Versions::new(&ask_versions(&mut writer).await.map_err(|error| hint(cluster, error))?);
        if let Some(sasl) = &cluster.sasl {
            writer.authenticate(sasl).await?;
        }
        let versions = writer.versions.clone();
        let writer = Arc::new(AsyncMutex::new(writer));
        Ok(Self { cluster: cluster.clone(), request_timeout, versions, writer, shared, _reader: reader })
    }

    /// Sends a request and waits for its reply.
    pub async fn call<C: Call>(&self, call: &C) -> Result<C::Reply, WireError> {
        self.send(call).await?.reply(self.request_timeout).await
    }

    /// The same in some versions only, where a version says something by itself.
    pub async fn call_in<C: Call>(&self, versions: RangeInclusive<i16>, call: &C) -> Result<C::Reply, WireError> {
        self.send_in(versions, call).await?.reply(self.request_timeout).await
    }

    /// Sends a request; the reply can be waited for later, so that several are in flight.
    pub async fn send<C: Call>(&self, call: &C) -> Result<Pending<C>, WireError> {
        self.send_as(call, self.version_of::<C>()?).await
    }

    /// The same in some versions only.
    pub async fn send_in<C: Call>(&self, versions: RangeInclusive<i16>, call: &C) -> Result<Pending<C>, WireError> {
        self.send_as(call, self.versions.require(C::API.within(versions), self.place())?).await
    }

    /// The version in which a call would be sent here.
    ///
    /// Errors: `Unsupported` where broker and bridge have none in common.
    pub fn version_of<C: Call>(&self) -> Result<i16, WireError> {
        self.versions.require(C::API, self.place())
    }

    /// The same in some versions only.
    pub fn version_in<C: Call>(&self, versions: RangeInclusive<i16>) -> Result<i16, WireError> {
        self.versions.require(C::API.within(versions), self.place())
    }

    /// Level of a finalized feature as it is now: it may have been raised since we connected. 0 where the cluster lacks it.
    pub async fn feature(&self, name: &str) -> Result<i16, WireError> {
        let pending = self.send_as(&versions_request(), VERSIONS_VERSION).await?;
        let reply = pending.reply(self.request_timeout).await?;
        match code_of(reply.error_code) {
            None => Ok(Versions::new(&reply).feature(name)),
            Some(code) => Err(self.answered("ApiVersions", "versions", (code, None))),
        }
    }

    /// Makes sure that the cluster has raised a feature to `level`, as far as it was when we connected.
    ///
    /// Errors: `Unsupported` with the command that raises it.
    pub fn require(&self, feature: &'static str, level: i16) -> Result<(), WireError> {
        let found = self.versions.feature(feature);
        if found >= level {
            return Ok(());
        }
        let address = &self.place().address;
        Err(WireError::Unsupported {
            place: self.place().clone(),
            api: feature,
            ours: level.to_string(),
            theirs: found.to_string(),
            remedy: format!(
                "raise it with: kafka-features.sh --bootstrap-server {address} upgrade --feature {feature}={level}"
            ),
        })
    }

    /// Cluster and address.
    pub fn place(&self) -> &Place {
        &self.shared.place
    }

    /// Whether requests can still be sent.
    pub fn is_alive(&self) -> bool {
        self.shared.is_alive()
    }

    /// Whether the last reply has asked for silence: requests behind it are not read before that is over.
    pub fn is_throttled(&self) -> bool {
        self.shared.is_throttled()
    }

    /// Waits until the connection has ended.
    pub async fn ended(&self) {
        self.shared.ended().await;
    }

    /// The error for an error code in a reply that came over this connection.
    pub fn answered(&self, api: &'static str, what: &str, (code, message): (Code, Option<String>)) -> WireError {
        WireError::Answered {
            place: self.place().clone(),
            api,
            what: what.to_owned(),
            code,
            message: message.map(tame),
        }
    }

    async fn send_as<C: Call>(&self, call: &C, version: i16) -> Result<Pending<C>, WireError> {
        self.shared.keep_silent().await;
        let mut writer = self.writer.clone().lock_owned().await;
        if writer.renew_at.is_some_and(|at| Instant::now() >= at) {
            writer = self.authenticate_again(writer).await?;
        }
        writer.send(call, version).await
    }

    /// Begins a new session before the old one ends (KIP-368): a broker closes a connection whose session is over, and with it the
    /// share session. No request may cross the conversation: what is in flight is answered before, and what comes waits for it.
    async fn authenticate_again(&self, mut writer: OwnedWriter) -> Result<OwnedWriter, WireError> {
        let (cluster, shared) = (self.cluster.clone(), self.shared.clone());
        // In a task of its own: a caller that goes away would leave half a conversation behind.
        let renewing = tokio::spawn(async move {
            if tokio::time::timeout(writer.request_timeout, writer.shared.idle()).await.is_err() {
                return Err(writer.shared.poison("requests were not answered before the session had to be renewed"));
            }
            let sasl = cluster.sasl.as_ref().expect("only SASL gives a session an end");
            match writer.authenticate(sasl).await {
                Ok(()) => {
                    cluster.metrics.reauthenticated.inc();
                    Ok(writer)
                }
                Err(error) => {
                    count(&cluster, &error);
                    writer.shared.poison(&error.to_string());
                    Err(error)
                }
            }
        });
        renewing.await.unwrap_or_else(|_| Err(shared.poison("the process is ending")))
    }
}

/// Of ApiVersions: the first that tells finalized features (KIP-584), Kafka 2.4.
const VERSIONS_VERSION: i16 = 3;

fn versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("sharebridge"))
        .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")))
}

async fn ask_versions(writer: &mut Writer) -> Result<ApiVersionsResponse, WireError> {
    let timeout = writer.request_timeout;
    let mut reply = writer.send(&versions_request(), VERSIONS_VERSION).await?.reply(timeout).await?;
    if code_of(reply.error_code) == Some(Code::UnsupportedVersion) {
        reply = writer.send(&versions_request(), 0).await?.reply(timeout).await?;
    }
    match code_of(reply.error_code) {
        None => Ok(reply),
        Some(code) => {
            let (place, what) = (writer.place().clone(), "versions".to_owned());
            Err(WireError::Answered { place, api: "ApiVersions", what, code, message: None })
        }
    }
}

/// Says more of a connection that ended at its first request.
fn hint(cluster: &Cluster, error: WireError) -> WireError {
    let WireError::Lost { place, cause } = error else { return error };
    if cluster.tls.is_some() {
        // With TLS 1.3 a client learns behind the handshake that its certificate is refused.
        let (why, remedy) = explain_late(&cause);
        return WireError::Tls { place, why, remedy };
    }
    let hint =
        "the first request was not answered: if this listener wants TLS, set security.protocol to SSL or SASL_SSL";
    WireError::Lost { place, cause: format!("{cause} ({hint})").into() }
}

fn count(cluster: &Cluster, error: &WireError) {
    if matches!(error, WireError::Unauthenticated { .. }) {
        cluster.metrics.unauthenticated.inc();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.poison("closed");
    }
}
