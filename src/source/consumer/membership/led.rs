//! The protocol that the coordinator leads: one heartbeat tells everything. Source: KIP-848, ConsumerGroupHeartbeat v0, v1.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::standing::{End, Standing};
use crate::limits::{CONSUMER_SESSION, HEARTBEAT_MIN, HEARTBEATS_PER_CONSUMER_SESSION, LEAVE_MAX, REBALANCE_MAX};
use crate::source::Key;
use crate::wire::admin::{Resource, describe_configs};
use crate::wire::client::CoordinatorKind;
use crate::wire::group::{JOIN, LEAVE, LEAVE_FOR_NOW, News, heartbeat};
use crate::wire::{Code, WireError};

/// A member by this protocol.
#[derive(Debug)]
pub(super) struct Led<'a> {
    standing: &'a mut Standing,
    /// Kept for the life of the member, through all its sessions.
    member: String,
    epoch: i32,
    /// Silence after which we count as dead; `None` where we may not ask for it.
    session: Option<Duration>,
    /// What the coordinator has heard from us last; `None` where that is not sure.
    told: Option<Told>,
}

#[derive(Debug, PartialEq, Eq)]
struct Told {
    subscribed: Arc<[String]>,
    claimed: BTreeSet<Key>,
}

/// What an error means.
enum Verdict {
    /// The same again, later.
    Again,
    /// We are no member any more.
    Lost,
    /// This group, or this coordinator, wants the classic protocol.
    Refused,
}

impl<'a> Led<'a> {
    pub(super) fn new(standing: &'a mut Standing) -> Self {
        let member = Uuid::new_v4().to_string();
        Self { standing, member, epoch: JOIN, session: None, told: None }
    }

    pub(super) async fn run(mut self, leave: &mut oneshot::Receiver<()>) -> End {
        loop {
            if self.epoch == JOIN {
                tokio::select! {
                    () = self.join() => {}
                    _ = &mut *leave => return End::Left,
                }
            }
            let pause = tokio::select! {
                beaten = self.beat() => match beaten {
                    Ok(interval) => {
                        self.standing.well();
                        interval
                    }
                    Err(error) => match self.on_error(error) {
                        Ok(pause) => pause,
                        Err(refusal) => return End::Refused(refusal),
                    },
                },
                _ = &mut *leave => break,
            };
            tokio::select! {
                () = self.rest(pause) => {}
                _ = &mut *leave => break,
            }
        }
        self.leave().await;
        End::Left
    }

    /// What comes before the first heartbeat of a session.
    async fn join(&mut self) {
        self.standing.ready().await;
        let configs = describe_configs(&mut self.standing.client, Resource::Group, &self.standing.group).await;
        let session = configs.ok().and_then(|mut configs| configs.remove("consumer.session.timeout.ms")?.parse().ok());
        self.session = session.map(Duration::from_millis);
    }

    fn news(&mut self) -> Told {
        Told { subscribed: self.standing.subscribed(), claimed: self.standing.claimed() }
    }

    /// One heartbeat; returns the pause until the next.
    async fn beat(&mut self) -> Result<Duration, WireError> {
        let now = self.news();
        // After a doubt all is told: the coordinator takes the epoch before for ours only from a member that says what it owns.
        let told = self.told.take();
        let is_first = told.is_none();
        let news = News {
            rebalance: is_first.then_some(REBALANCE_MAX),
            rack: self.standing.rack.as_deref().filter(|_| is_first),
            subscribed: told
                .as_ref()
                .is_none_or(|told| told.subscribed != now.subscribed)
                .then_some(&now.subscribed[..]),
            owned: told.as_ref().is_none_or(|told| told.claimed != now.claimed).then_some(&now.claimed),
        };
        let connection = self.standing.client.coordinator(CoordinatorKind::Group, &self.standing.group).await?;
        let sent_at = Instant::now();
        let reply = heartbeat(&connection, &self.standing.member(&self.member, self.epoch), &news).await?;
        self.told = Some(now);
        if let Some(id) = reply.id.filter(|id| !id.is_empty()) {
            self.member = id;
        }
        self.epoch = reply.epoch;
        let assumed = CONSUMER_SESSION.min(reply.interval * HEARTBEATS_PER_CONSUMER_SESSION);
        let until = sent_at + self.session.unwrap_or(assumed);
        match reply.assigned {
            Some(assigned) => self.standing.tell(&self.member, (self.epoch, assigned), until),
            None => self.standing.extend(self.epoch, until),
        }
        Ok(reply.interval.max(HEARTBEAT_MIN))
    }

    /// Waits until the next heartbeat is due, or there is something to tell.
    async fn rest(&mut self, pause: Duration) {
        let due = Instant::now() + pause;
        loop {
            let now = self.news();
            if self.told.as_ref().is_some_and(|told| *told != now) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => return,
                () = self.standing.heard() => {}
            }
        }
    }

    /// Returns the pause before the next heartbeat.
    ///
    /// Errors: the refusal itself.
    fn on_error(&mut self, error: WireError) -> Result<Duration, WireError> {
        self.standing.client.forget_coordinators();
        match judge(&error, self.epoch) {
            Verdict::Again => {}
            Verdict::Lost => {
                self.epoch = JOIN;
                self.standing.lose(format_args!("{error}: we are no member any more; joining again"));
                return Ok(self.standing.backoff.pause());
            }
            Verdict::Refused => {
                if self.standing.is_member() {
                    self.standing.lose(&error);
                }
                return Err(error);
            }
        }
        Ok(match error.code() {
            Some(Code::UnreleasedInstanceId) => self.standing.failed(format_args!(
                "{error}: a static member of this name is in the group; it waits until that one leaves, or its session ends"
            )),
            _ => self.standing.failed(error),
        })
    }

    /// Also where the answer to joining is still out: the coordinator may know us already.
    async fn leave(self) {
        let epoch = if self.standing.instance.is_some() { LEAVE_FOR_NOW } else { LEAVE };
        let farewell = async {
            let connection = self.standing.client.coordinator(CoordinatorKind::Group, &self.standing.group).await?;
            heartbeat(&connection, &self.standing.member(&self.member, epoch), &News::default()).await
        };
        if !matches!(tokio::time::timeout(LEAVE_MAX, farewell).await, Ok(Ok(_))) {
            tracing::warn!(
                group = self.standing.group,
                "left without saying so: the coordinator finds out when the session ends"
            );
        }
    }
}

fn judge(error: &WireError, epoch: i32) -> Verdict {
    match error.code() {
        Some(Code::UnknownMemberId | Code::FencedMemberEpoch | Code::FencedInstanceId) => Verdict::Lost,
        // A member of a group that is no more, or has become a classic one.
        Some(Code::GroupIdNotFound) if epoch != JOIN => Verdict::Lost,
        Some(Code::GroupIdNotFound | Code::InconsistentGroupProtocol | Code::UnsupportedVersion) => Verdict::Refused,
        None if matches!(error, WireError::Unsupported { .. }) => Verdict::Refused,
        Some(_) | None => Verdict::Again,
    }
}
