//! What the reading task and the callers of a connection share: the requests in flight, or the cause of its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::limits::{REQUESTS_IN_FLIGHT_MAX, THROTTLE_MAX};
use crate::metrics::ClusterMetrics;
use crate::wire::cluster::Cluster;
use crate::wire::error::{Place, WireError};

/// What the reading task and the callers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) place: Place,
    state: Mutex<State>,
    ended: Notify,
    /// Told when the last request in flight is answered, or the connection ends.
    idle: Notify,
    is_anonymous: bool,
    metrics: ClusterMetrics,
}

#[derive(Debug)]
struct State {
    /// Requests without a reply, by correlation id; `None` once the connection is poisoned.
    waiting: Option<HashMap<i32, oneshot::Sender<Bytes>>>,
    cause: Arc<str>,
    silent_until: Option<Instant>,
    answered: u64,
}

impl Shared {
    pub(super) fn new(place: Place, cluster: &Cluster) -> Arc<Self> {
        let state = State { waiting: Some(HashMap::new()), cause: "closed".into(), silent_until: None, answered: 0 };
        let (metrics, is_anonymous) = (cluster.metrics.clone(), cluster.sasl.is_none());
        let (ended, idle) = (Notify::new(), Notify::new());
        Arc::new(Self { place, state: Mutex::new(state), ended, idle, is_anonymous, metrics })
    }

    /// Whether requests can still be sent.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().waiting.is_some()
    }

    /// Whether the last reply has asked for silence.
    pub(super) fn is_throttled(&self) -> bool {
        self.lock().silent_until.is_some()
    }

    /// The broker has closed the connection.
    pub(super) fn closed(&self) -> String {
        let is_stranger = self.is_anonymous && self.lock().answered <= 1;
        let hint = if is_stranger {
            " before it answered a request: does this listener ask for SASL (security.protocol)?"
        } else {
            ""
        };
        format!("closed by the broker{hint}")
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.is_alive() {
                return;
            }
            ended.await;
        }
    }

    /// Waits until no request is in flight, or the connection has ended.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.lock().waiting.as_ref().is_none_or(HashMap::is_empty) {
                return;
            }
            idle.await;
        }
    }

    /// Hands a frame, behind its length, to the request that it answers.
    pub(super) fn deliver(&self, mut frame: Bytes) -> Result<(), String> {
        let correlation = frame.get_i32();
        let mut state = self.lock();
        let waiter = state.waiting.as_mut().and_then(|waiting| waiting.remove(&correlation));
        let is_idle = state.waiting.as_ref().is_some_and(HashMap::is_empty);
        state.answered += 1;
        drop(state);
        if is_idle {
            self.idle.notify_waiters();
        }
        // A waiter that has gone away is no fault of the broker.
        let waiter = waiter.ok_or_else(|| format!("a reply to a request that was never sent ({correlation})"))?;
        let _ = waiter.send(frame);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }

    pub(super) fn lost(&self) -> WireError {
        WireError::Lost { place: self.place.clone(), cause: self.lock().cause.clone() }
    }

    /// Ends the connection for everybody; the first cause stays.
    pub(super) fn poison(&self, cause: &str) -> WireError {
        let mut state = self.lock();
        if state.waiting.take().is_some() {
            state.cause = cause.into();
        }
        drop(state);
        self.ended.notify_waiters();
        self.idle.notify_waiters();
        self.lost()
    }

    pub(super) fn register(&self, correlation: i32) -> Result<oneshot::Receiver<Bytes>, WireError> {
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

    pub(super) fn silence(&self, throttle_ms: u32) {
        self.metrics.throttled_ms.inc_by(throttle_ms.into());
        let pause = Duration::from_millis(throttle_ms.into()).min(THROTTLE_MAX);
        self.lock().silent_until = (throttle_ms > 0).then(|| Instant::now() + pause);
    }

    /// Source: KIP-219, a throttled client waits before its next request.
    pub(super) async fn keep_silent(&self) {
        let until = self.lock().silent_until;
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}
