//! One socket to one broker: correlation, deadlines, throttling. In doubt it is poisoned once, and all who wait learn the same cause.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::limits::{BROKER_WORDS_CHARS_MAX, FRAME_BYTES_MAX, READ_BUFFER_BYTES, REQUESTS_IN_FLIGHT_MAX, THROTTLE_MAX};
use crate::metrics::ClusterMetrics;
use crate::wire::call::{Answer, Api, Call, Head};
use crate::wire::cluster::Cluster;
use crate::wire::codec::Frame;
use crate::wire::error::{Place, WireError, code_of};
use crate::wire::transport::{self, Departing, Incoming};
use crate::wire::versions::Versions;

/// An open connection. Dropping it closes the socket, and with it the share session that was bound to it.
#[derive(Debug)]
pub struct Connection {
    place: Place,
    client_id: String,
    /// Longest wait for a reply that does not long-poll.
    pub request_timeout: Duration,
    versions: Versions,
    departing: AsyncMutex<Writer>,
    shared: Arc<Shared>,
    reader: AbortHandle,
}

struct Writer {
    half: Departing,
    correlation: i32,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer at {}", self.correlation)
    }
}

/// What the reading task and the callers share.
#[derive(Debug)]
struct Shared {
    place: Place,
    state: Mutex<State>,
    ended: Notify,
    metrics: ClusterMetrics,
}

#[derive(Debug)]
struct State {
    /// Requests without a reply, by correlation id; `None` once the connection is poisoned.
    waiting: Option<HashMap<i32, oneshot::Sender<Bytes>>>,
    cause: Arc<str>,
    silent_until: Option<Instant>,
}

impl Connection {
    /// Connects to `host:port` and asks for the broker's versions.
    pub async fn open(cluster: &Cluster, address: &str) -> Result<Self, WireError> {
        match Self::try_open(cluster, address).await {
            Ok(connection) => {
                cluster.metrics.opened.inc();
                Ok(connection)
            }
            Err(error) => {
                cluster.metrics.failed.inc();
                Err(error)
            }
        }
    }

    async fn try_open(cluster: &Cluster, address: &str) -> Result<Self, WireError> {
        let place = Place { cluster: cluster.name.as_str().into(), address: address.into() };
        let (incoming, half) = transport::connect(address)
            .await
            .map_err(|cause| WireError::Connect { place: place.clone(), cause: Arc::new(cause) })?;
        let state = State { waiting: Some(HashMap::new()), cause: "closed".into(), silent_until: None };
        let metrics = cluster.metrics.clone();
        let shared = Shared { place: place.clone(), state: Mutex::new(state), ended: Notify::new(), metrics };
        let shared = Arc::new(shared);
        let reader = tokio::spawn(read_replies(incoming, shared.clone())).abort_handle();
        let mut connection = Self {
            place,
            client_id: cluster.client_id.clone(),
            request_timeout: cluster.request_timeout,
            versions: Versions::default(),
            departing: AsyncMutex::new(Writer { half, correlation: 0 }),
            shared,
            reader,
        };
        connection.versions = Versions::new(&connection.ask_versions().await?);
        Ok(connection)
    }

    /// Every broker that we can work with speaks version 3, the first that tells finalized features (KIP-584).
    async fn ask_versions(&self) -> Result<ApiVersionsResponse, WireError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("sharebridge"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let reply = self.send_as(&request, 3).await?.reply(self.request_timeout).await?;
        match code_of(reply.error_code) {
            None => Ok(reply),
            Some(code) => Err(self.answered("ApiVersions", "versions", (code, None))),
        }
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
        self.send_as(call, self.agree(C::API)?).await
    }

    /// The same in some versions only.
    pub async fn send_in<C: Call>(&self, versions: RangeInclusive<i16>, call: &C) -> Result<Pending<C>, WireError> {
        self.send_as(call, self.agree(C::API.within(versions))?).await
    }

    /// The version in which a call would be sent here.
    ///
    /// Errors: `Unsupported` where broker and bridge have none in common.
    pub fn version_of<C: Call>(&self) -> Result<i16, WireError> {
        self.agree(C::API)
    }

    fn agree(&self, api: Api) -> Result<i16, WireError> {
        self.versions.agree(api).ok_or_else(|| WireError::Unsupported {
            place: self.place.clone(),
            api: api.name,
            ours: format!("{}-{}", api.min, api.max),
            theirs: self.versions.offered(api),
            remedy: "see the table of supported brokers in OPERATIONS.md".to_owned(),
        })
    }

    /// Level of a finalized feature as it is now: it may have been raised since we connected. 0 where the cluster lacks it.
    pub async fn feature(&self, name: &str) -> Result<i16, WireError> {
        Ok(Versions::new(&self.ask_versions().await?).feature(name))
    }

    /// Makes sure that the cluster has raised a feature to `level`, as far as it was when we connected.
    ///
    /// Errors: `Unsupported` with the command that raises it.
    pub fn require(&self, feature: &'static str, level: i16) -> Result<(), WireError> {
        let found = self.versions.feature(feature);
        if found >= level {
            return Ok(());
        }
        let address = &self.place.address;
        Err(WireError::Unsupported {
            place: self.place.clone(),
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
        &self.place
    }

    /// Whether requests can still be sent.
    pub fn is_alive(&self) -> bool {
        self.shared.lock().waiting.is_some()
    }

    /// Whether the last reply has asked for silence: requests behind it are not read before that is over.
    pub fn is_throttled(&self) -> bool {
        self.shared.lock().silent_until.is_some()
    }

    /// Waits until the connection has ended.
    pub async fn ended(&self) {
        loop {
            let ended = self.shared.ended.notified();
            if !self.is_alive() {
                return;
            }
            ended.await;
        }
    }

    /// The error for an error code in a reply that came over this connection.
    pub fn answered(
        &self,
        api: &'static str,
        what: &str,
        (code, message): (crate::wire::Code, Option<String>),
    ) -> WireError {
        WireError::Answered { place: self.place.clone(), api, what: what.to_owned(), code, message: message.map(tame) }
    }

    async fn send_as<C: Call>(&self, call: &C, version: i16) -> Result<Pending<C>, WireError> {
        self.shared.keep_silent().await;
        let mut writer = self.departing.lock().await;
        writer.correlation = writer.correlation.wrapping_add(1);
        let correlation = writer.correlation;
        let mut frame = Frame::default();
        let head = Head { version, correlation, client_id: &self.client_id };
        call.encode(&head, &mut frame).map_err(|cause| WireError::Encode {
            place: self.place.clone(),
            api: C::API.name,
            version,
            cause,
        })?;
        let reply = self.shared.register(correlation)?;
        // A caller that goes away in the middle of a write leaves half a frame behind: nobody may use the socket after it.
        let guard = PoisonOnDrop { shared: Some(&self.shared) };
        let mut outgoing = frame.finish();
        let written = tokio::time::timeout(self.request_timeout, writer.half.write_all_buf(&mut outgoing)).await;
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

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
        self.shared.poison("closed");
    }
}

/// A broker's words as they may stand in a log: one line of bounded length.
fn tame(words: String) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    words.chars().take(BROKER_WORDS_CHARS_MAX).map(visible).collect()
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

/// A request that was sent.
#[derive(Debug)]
pub struct Pending<C> {
    reply: oneshot::Receiver<Bytes>,
    version: i16,
    sent_at: Instant,
    shared: Arc<Shared>,
    call: PhantomData<fn() -> C>,
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }

    fn lost(&self) -> WireError {
        WireError::Lost { place: self.place.clone(), cause: self.lock().cause.clone() }
    }

    /// Ends the connection for everybody; the first cause stays.
    fn poison(&self, cause: &str) -> WireError {
        let mut state = self.lock();
        if state.waiting.take().is_some() {
            state.cause = cause.into();
        }
        drop(state);
        self.ended.notify_waiters();
        self.lost()
    }

    fn register(&self, correlation: i32) -> Result<oneshot::Receiver<Bytes>, WireError> {
        let (sender, receiver) = oneshot::channel();
        let registered = match &mut self.lock().waiting {
            None => Err("closed"),
            Some(waiting) if waiting.len() >= REQUESTS_IN_FLIGHT_MAX => Err("too many requests without an answer"),
            Some(waiting) => Ok(waiting.insert(correlation, sender)),
        };
        match registered {
            Ok(_) => Ok(receiver),
            Err(cause) => Err(self.poison(cause)),
        }
    }

    fn silence(&self, throttle_ms: u32) {
        self.metrics.throttled_ms.inc_by(throttle_ms.into());
        let pause = Duration::from_millis(throttle_ms.into()).min(THROTTLE_MAX);
        self.lock().silent_until = (throttle_ms > 0).then(|| Instant::now() + pause);
    }

    /// Source: KIP-219, a throttled client waits before its next request.
    async fn keep_silent(&self) {
        let until = self.lock().silent_until;
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}

async fn read_replies(mut incoming: Incoming, shared: Arc<Shared>) {
    let mut buffer = BytesMut::with_capacity(READ_BUFFER_BYTES);
    loop {
        let delivered = match read_frame(&mut incoming, &mut buffer).await {
            Ok(frame) => deliver(frame, &shared),
            Err(cause) => Err(cause),
        };
        if let Err(cause) = delivered {
            shared.poison(&cause);
            return;
        }
    }
}

fn deliver(mut frame: Bytes, shared: &Shared) -> Result<(), String> {
    let correlation = frame.get_i32();
    let waiter = shared.lock().waiting.as_mut().and_then(|waiting| waiting.remove(&correlation));
    // A waiter that has gone away is no fault of the broker.
    let waiter = waiter.ok_or_else(|| format!("a reply to a request that was never sent ({correlation})"))?;
    let _ = waiter.send(frame);
    Ok(())
}

/// Reads one frame without its length prefix: correlation id first, at least four bytes.
async fn read_frame(incoming: &mut Incoming, buffer: &mut BytesMut) -> Result<Bytes, String> {
    let mut missing = 8;
    loop {
        if let Some(prefix) = buffer.first_chunk::<4>() {
            let size = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
            if !(4..=FRAME_BYTES_MAX).contains(&size) {
                return Err(format!("a frame of {size} bytes; at most {FRAME_BYTES_MAX} are taken"));
            }
            if buffer.len() >= size + 4 {
                buffer.advance(4);
                return Ok(buffer.split_to(size).freeze());
            }
            missing = size + 4 - buffer.len();
        }
        buffer.reserve(missing.max(READ_BUFFER_BYTES / 4));
        match incoming.read_buf(buffer).await {
            Ok(0) => return Err("closed by the broker".to_owned()),
            Ok(_) => {}
            Err(cause) => return Err(cause.to_string()),
        }
    }
}
