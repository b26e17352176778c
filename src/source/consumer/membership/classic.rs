//! The classic protocol: members join, one of them assigns, and each change begins with joining again, everything owned kept meanwhile.
//!
//! Source: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; KIP-429 (cooperative assignment), KIP-345 (static members), KIP-394.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::assign::assign;
use super::standing::{SUBJECT, Standing};
use crate::limits::{
    CLASSIC_HEARTBEAT_MAX, HEARTBEATS_PER_SESSION, LEAVE_MAX, METADATA_AGE_MAX, REBALANCE_MAX, RETRY_MIN,
};
use crate::source::Key;
use crate::source::catalog::Catalog;
use crate::wire::client::CoordinatorKind;
use crate::wire::group::{Generation, Joined, Making, Offer, classic_heartbeat, join, leave, sync};
use crate::wire::subscription::{Partitions, Subscription};
use crate::wire::{Client, Code, WireError};

/// Kafka's name for what `assign` does: members of other programs that offer it may be in the group, too.
const ASSIGNOR: &str = "cooperative-sticky";

/// A member by this protocol.
#[derive(Debug)]
pub(super) struct Classic<'a> {
    standing: &'a mut Standing,
    /// Joining waits at the coordinator, and a broker reads nothing behind it from the same connection: heartbeats have their own.
    joins: Client,
    beats: Client,
    /// Empty until the coordinator gives us one.
    member: String,
    generation: i32,
    /// Topics that were told in joining.
    subscribed: BTreeSet<String>,
    /// What we were given.
    given: Partitions,
    /// The generation of that.
    given_in: i32,
    /// What we claimed in joining and were not given: when it is given up, we join again, and others get it.
    revoked: BTreeSet<Key>,
    /// Names of topics that we have seen.
    names: HashMap<Uuid, String>,
    /// Where we lead: the topics of the group, with the partitions that we have counted.
    led: Option<BTreeMap<String, Option<i32>>>,
}

/// What an error means.
enum Verdict {
    /// The same again, later.
    Again,
    /// Join, with all that is owned.
    Join,
    /// We are no member any more.
    Lost,
    /// The same, and our member id is worth nothing.
    Unknown,
}

impl<'a> Classic<'a> {
    pub(super) fn new(standing: &'a mut Standing) -> Self {
        let (joins, beats) = (standing.another_client(), standing.another_client());
        Self {
            standing,
            joins,
            beats,
            member: String::new(),
            generation: -1,
            subscribed: BTreeSet::new(),
            given: Partitions::new(),
            given_in: -1,
            revoked: BTreeSet::new(),
            names: HashMap::new(),
            led: None,
        }
    }

    pub(super) async fn run(mut self, leave: &mut oneshot::Receiver<()>) {
        loop {
            let ended = tokio::select! {
                ended = self.live() => ended,
                _ = &mut *leave => break,
            };
            let pause = ended.map_or_else(|error| self.on_error(&error), |()| Duration::ZERO);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = &mut *leave => break,
            }
        }
        self.leave().await;
    }

    /// A generation from joining to the reason to join again.
    async fn live(&mut self) -> Result<(), WireError> {
        if !self.standing.is_member() {
            self.standing.ready().await;
            (self.generation, self.given_in, self.given) = (-1, -1, Partitions::new());
        }
        self.rebalance().await?;
        self.standing.well();
        self.stay().await
    }

    async fn rebalance(&mut self) -> Result<(), WireError> {
        let claimed = self.standing.claimed();
        let offer = self.offer(&claimed);
        self.subscribed = offer.subscription.topics.clone();
        let Generation { id, member, led } = self.join(&offer).await?;
        (self.generation, self.member) = (id, member);
        // Commits of what is ours name the new generation from here on.
        self.standing.extend(id, Instant::now());
        let assignments = match led {
            Some((members, making)) => self.lead(members, making).await?,
            None => {
                self.led = None;
                BTreeMap::new()
            }
        };
        let sent_at = Instant::now();
        self.given = self.sync(&offer, assignments).await?;
        self.given_in = id;
        self.tell(sent_at + self.standing.session);
        let ours = self.standing.assigned();
        self.revoked = claimed.difference(&ours).copied().collect();
        Ok(())
    }

    fn offer(&mut self, claimed: &BTreeSet<Key>) -> Offer {
        let topics = self.standing.subscribed().iter().cloned().collect();
        let mut owned = Partitions::new();
        self.learn();
        for (topic, partition) in claimed {
            if let Some(name) = self.names.get(topic) {
                owned.entry(name.clone()).or_default().insert(*partition);
            }
        }
        let rack = self.standing.rack.clone();
        Offer {
            assignor: ASSIGNOR,
            subscription: Subscription { topics, owned, generation: self.given_in, rack },
            session: self.standing.session,
            rebalance: REBALANCE_MAX,
        }
    }

    async fn join(&mut self, offer: &Offer) -> Result<Generation, WireError> {
        loop {
            let Self { standing, joins, beats, member, generation, .. } = self;
            let standing = &**standing;
            let joining = async {
                let connection = joins.coordinator(CoordinatorKind::Group, &standing.group).await?;
                join(&connection, &standing.member(member, *generation), offer).await
            };
            let joined = tokio::select! {
                joined = joining => joined?,
                never = keep_alive(standing, beats, (member, *generation)) => match never {},
            };
            match joined {
                Joined::Named(id) => *member = id,
                Joined::Formed(generation) => return Ok(generation),
            }
        }
    }

    async fn sync(
        &mut self,
        offer: &Offer,
        assignments: BTreeMap<String, Partitions>,
    ) -> Result<Partitions, WireError> {
        let Self { standing, joins, beats, member, generation, .. } = self;
        let standing = &**standing;
        let syncing = async {
            let connection = joins.coordinator(CoordinatorKind::Group, &standing.group).await?;
            sync(&connection, &standing.member(member, *generation), (offer, assignments)).await
        };
        tokio::select! {
            synced = syncing => synced,
            never = keep_alive(standing, beats, (member, *generation)) => match never {},
        }
    }

    /// Assigns what all members want.
    async fn lead(
        &mut self,
        members: BTreeMap<String, Subscription>,
        making: Making,
    ) -> Result<BTreeMap<String, Partitions>, WireError> {
        let topics: BTreeSet<String> = members.values().flat_map(|member| member.topics.iter().cloned()).collect();
        let counted = self.count(topics.into_iter()).await?;
        let counts = counted.iter().filter_map(|(topic, count)| Some((topic.clone(), (*count)?))).collect();
        self.led = Some(counted);
        Ok(match making {
            Making::Anew => assign(&members, &counts),
            Making::Kept => BTreeMap::new(),
        })
    }

    /// Partitions of topics: as the catalog has them, or as the cluster says of those that only other members want.
    async fn count(
        &mut self,
        topics: impl Iterator<Item = String>,
    ) -> Result<BTreeMap<String, Option<i32>>, WireError> {
        let known = counts(&self.standing.catalog.borrow());
        let (ours, others): (Vec<String>, Vec<String>) = topics.partition(|topic| known.contains_key(topic));
        let mut counted: BTreeMap<_, _> = ours.into_iter().map(|topic| (topic.clone(), Some(known[&topic]))).collect();
        if !others.is_empty() {
            let told = self.standing.client.topics(&others).await?;
            counted
                .extend(told.into_iter().map(|(name, topic)| (name, topic.ok().map(|topic| topic.partition_count()))));
        }
        Ok(counted)
    }

    /// Tells what we were given, as far as the catalog knows it.
    fn tell(&mut self, until: Instant) {
        self.learn();
        let partitions = self.keys();
        self.standing.tell(&self.member, (self.generation, partitions), until);
    }

    fn keys(&self) -> BTreeSet<Key> {
        let catalog = self.standing.catalog.borrow();
        let given = catalog.topics.values().filter_map(|topic| Some((topic.id, self.given.get(&topic.name)?)));
        given.flat_map(|(id, partitions)| partitions.iter().map(move |partition| (id, *partition))).collect()
    }

    fn learn(&mut self) {
        let catalog = self.standing.catalog.borrow_and_update();
        self.names.extend(catalog.topics.values().map(|topic| (topic.id, topic.name.clone())));
    }

    /// Sends heartbeats until there is a reason to join again.
    async fn stay(&mut self) -> Result<(), WireError> {
        let mut beat_at = Instant::now() + interval(self.standing.session);
        let mut count_at = Instant::now() + METADATA_AGE_MAX;
        loop {
            if self.must_join() {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep_until(beat_at) => beat_at = Instant::now() + self.beat().await?,
                () = tokio::time::sleep_until(count_at), if self.led.is_some() => {
                    count_at = Instant::now() + METADATA_AGE_MAX;
                    if self.has_grown().await {
                        return Ok(());
                    }
                }
                () = self.standing.heard() => self.look(),
            }
        }
    }

    fn must_join(&mut self) -> bool {
        let is_given_up = !self.revoked.is_empty() && self.standing.owned.borrow().is_disjoint(&self.revoked);
        let catalog = self.standing.catalog.borrow();
        let wants_others = !catalog.subscribed.iter().eq(&self.subscribed);
        let known = counts(&catalog);
        let has_changed =
            |(topic, count): (&String, &Option<i32>)| known.get(topic).is_some_and(|now| Some(*now) != *count);
        is_given_up || wants_others || self.led.iter().flatten().any(has_changed)
    }

    /// Whether a topic that only others want has other partitions now.
    async fn has_grown(&mut self) -> bool {
        let Some(before) = self.led.clone() else { return false };
        let now = self.count(before.keys().cloned().collect::<Vec<_>>().into_iter()).await;
        now.is_ok_and(|now| now != before)
    }

    /// A topic that we were given partitions of may have come into the catalog, or under another id.
    fn look(&mut self) {
        self.learn();
        if self.keys() != self.standing.assigned() {
            self.tell(Instant::now());
        }
    }

    /// One heartbeat; returns the pause until the next.
    ///
    /// Errors: those after which we are to join again.
    async fn beat(&mut self) -> Result<Duration, WireError> {
        let sent_at = Instant::now();
        let answer = match self.beats.coordinator(CoordinatorKind::Group, &self.standing.group).await {
            Ok(connection) => {
                classic_heartbeat(&connection, &self.standing.member(&self.member, self.generation)).await
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(()) => {
                self.standing.extend(self.generation, sent_at + self.standing.session);
                self.standing.well();
                Ok(interval(self.standing.session))
            }
            Err(error) => match judge(&error) {
                Verdict::Again => {
                    self.beats.forget_coordinators();
                    Ok(self.standing.failed(error))
                }
                Verdict::Join => {
                    self.standing.extend(self.generation, sent_at + self.standing.session);
                    Err(error)
                }
                Verdict::Lost | Verdict::Unknown => Err(error),
            },
        }
    }

    /// Returns the pause before joining again.
    fn on_error(&mut self, error: &WireError) -> Duration {
        [&mut self.joins, &mut self.beats].into_iter().for_each(Client::forget_coordinators);
        let lost = "we are no member any more; joining again";
        match judge(error) {
            // The others wait for us.
            Verdict::Join => return RETRY_MIN,
            Verdict::Again => match error.code() {
                Some(Code::InconsistentGroupProtocol) => self.standing.health.trouble(SUBJECT, format_args!(
                    "{error}: the group is of another type, or has members that don't offer the assignor {ASSIGNOR}; choose another group.id"
                )),
                Some(Code::InvalidSessionTimeout) => self.standing.health.trouble(SUBJECT, format_args!(
                    "{error}: session.timeout.ms is outside of what the broker takes (group.min.session.timeout.ms, group.max.session.timeout.ms)"
                )),
                _ => self.standing.health.trouble(SUBJECT, error),
            },
            Verdict::Lost if error.code() == Some(Code::FencedInstanceId) => self.standing.lose(format_args!(
                "{error}: another process has joined under the same group.instance.id; it waits until that one is gone"
            )),
            Verdict::Lost => self.standing.lose(format_args!("{error}: {lost}")),
            Verdict::Unknown => {
                self.member.clear();
                self.standing.lose(format_args!("{error}: {lost}"));
            }
        }
        self.standing.backoff.pause()
    }

    /// A static member does not say that it leaves: its partitions wait for it as long as its session.
    async fn leave(mut self) {
        if self.standing.instance.is_some() || self.member.is_empty() {
            return;
        }
        let farewell = async {
            let connection = self.beats.coordinator(CoordinatorKind::Group, &self.standing.group).await?;
            leave(&connection, &self.standing.member(&self.member, self.generation)).await
        };
        if !matches!(tokio::time::timeout(LEAVE_MAX, farewell).await, Ok(Ok(()))) {
            tracing::warn!(
                group = self.standing.group,
                "left without saying so: the coordinator finds out when the session ends"
            );
        }
    }
}

/// Heartbeats while we wait for others: without them the coordinator could take us for dead. What they are refused for, joining is told, too.
async fn keep_alive(standing: &Standing, beats: &mut Client, (member, generation): (&str, i32)) -> Infallible {
    loop {
        tokio::time::sleep(interval(standing.session)).await;
        if member.is_empty() || generation < 0 {
            continue;
        }
        let Ok(connection) = beats.coordinator(CoordinatorKind::Group, &standing.group).await else { continue };
        let sent_at = Instant::now();
        match classic_heartbeat(&connection, &standing.member(member, generation)).await {
            Err(error) if !matches!(judge(&error), Verdict::Join) => beats.forget_coordinators(),
            Ok(()) | Err(_) => standing.extend(generation, sent_at + standing.session),
        }
    }
}

fn judge(error: &WireError) -> Verdict {
    match error.code() {
        Some(Code::RebalanceInProgress) => Verdict::Join,
        Some(Code::UnknownMemberId) => Verdict::Unknown,
        // A fenced member keeps its id: with another one it would fence the member that has its name now.
        Some(Code::IllegalGeneration | Code::FencedInstanceId) => Verdict::Lost,
        Some(_) | None => Verdict::Again,
    }
}

fn interval(session: Duration) -> Duration {
    (session / HEARTBEATS_PER_SESSION).min(CLASSIC_HEARTBEAT_MAX)
}

fn counts(catalog: &Catalog) -> HashMap<String, i32> {
    catalog.topics.values().map(|topic| (topic.name.clone(), topic.partition_count())).collect()
}
