//! Who gets what, where one of us leads a classic group. Pure.
//!
//! Sticky: what a member owns stays with it unless balance demands otherwise. Cooperative (KIP-429): what one member owns is given to another
//! only in a later round, after its owner has given it up.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::wire::subscription::{Partitions, Subscription};

/// Shares out the partitions of topics among members.
///
/// `members`: subscriptions by member id. `counts`: partitions of each topic; topics that are not in it are given to nobody.
/// Returns what each member gets, by its id.
pub(super) fn assign(
    members: &BTreeMap<String, Subscription>,
    counts: &BTreeMap<String, i32>,
) -> BTreeMap<String, Partitions> {
    let mut round = Round::new(members, counts);
    round.keep();
    round.hand_out();
    round.balance();
    members.keys().cloned().zip(round.end()).collect()
}

/// A partition: its topic by position, and its number.
type Spot = (usize, i32);

/// Who owns a partition: members by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    One(usize),
    /// Two members say so of the same generation. Until one of them has given it up, nobody gets it.
    Disputed,
}

/// One assignment in the making. All that is counted and moved here is what members are to have in the end, not what they get now.
struct Round<'a> {
    topics: Vec<(&'a String, i32)>,
    /// Who wants each topic: members by position, ascending.
    wanted_by: Vec<Vec<usize>>,
    owners: HashMap<Spot, Owner>,
    /// What each member is to have, by topic.
    shares: Vec<BTreeMap<usize, BTreeSet<i32>>>,
    /// How much that is.
    sizes: Vec<usize>,
}

impl<'a> Round<'a> {
    fn new(members: &'a BTreeMap<String, Subscription>, counts: &'a BTreeMap<String, i32>) -> Self {
        let topics: Vec<(&String, i32)> = counts.iter().map(|(topic, count)| (topic, *count)).collect();
        let wants = |topic: &String| {
            let wanting = members.values().enumerate().filter(|(_, member)| member.topics.contains(topic));
            wanting.map(|(position, _)| position).collect()
        };
        let wanted_by = topics.iter().map(|(topic, _)| wants(topic)).collect();
        let owners = owners(members, &topics);
        let (shares, sizes) = (vec![BTreeMap::new(); members.len()], vec![0; members.len()]);
        Self { topics, wanted_by, owners, shares, sizes }
    }

    /// Whether a member wants partitions of a topic.
    fn wants(&self, member: usize, topic: usize) -> bool {
        self.wanted_by[topic].binary_search(&member).is_ok()
    }

    /// The owner of a partition, if it may keep it.
    fn keeper(&self, spot: Spot) -> Option<usize> {
        match self.owners.get(&spot)? {
            Owner::One(member) => Some(*member).filter(|member| self.wants(*member, spot.0)),
            Owner::Disputed => None,
        }
    }

    fn give(&mut self, member: usize, (topic, partition): Spot) {
        self.shares[member].entry(topic).or_default().insert(partition);
        self.sizes[member] += 1;
    }

    fn take(&mut self, member: usize, (topic, partition): Spot) {
        if self.shares[member].get_mut(&topic).is_some_and(|share| share.remove(&partition)) {
            self.sizes[member] -= 1;
        }
    }

    fn spots(&self, topic: usize) -> impl Iterator<Item = Spot> + use<> {
        (0..self.topics[topic].1).map(move |partition| (topic, partition))
    }

    /// What is owned stays where it is.
    fn keep(&mut self) {
        for topic in 0..self.topics.len() {
            for spot in self.spots(topic) {
                if let Some(member) = self.keeper(spot) {
                    self.give(member, spot);
                }
            }
        }
    }

    /// The rest goes to those who have least.
    fn hand_out(&mut self) {
        // Topics that few want come first: who wants more than those finds enough behind them.
        let mut order: Vec<usize> = (0..self.topics.len()).collect();
        order.sort_by_key(|topic| self.wanted_by[*topic].len());
        for topic in order {
            for spot in self.spots(topic) {
                let poorest = self.wanted_by[topic].iter().copied().min_by_key(|member| self.sizes[*member]);
                if let Some(member) = poorest.filter(|_| self.keeper(spot).is_none()) {
                    self.give(member, spot);
                }
            }
        }
    }

    /// Moves one partition at a time from those who have most to those who have least. Each step makes the sizes more alike, so it ends.
    fn balance(&mut self) {
        while let Some((from, to, spot)) = self.next_move() {
            self.take(from, spot);
            self.give(to, spot);
        }
    }

    fn next_move(&self) -> Option<(usize, usize, Spot)> {
        let mut poor_first: Vec<usize> = (0..self.sizes.len()).collect();
        poor_first.sort_by_key(|member| self.sizes[*member]);
        poor_first.iter().rev().find_map(|from| {
            let poorer = poor_first.iter().take_while(|to| self.sizes[**to] + 1 < self.sizes[*from]);
            poorer.into_iter().find_map(|to| Some((*from, *to, self.movable(*from, *to)?)))
        })
    }

    /// What may go from one member to another: rather what it does not own yet, else something of the topic that it has most of.
    fn movable(&self, from: usize, to: usize) -> Option<Spot> {
        let topics = || self.shares[from].iter().filter(|(topic, share)| !share.is_empty() && self.wants(to, **topic));
        let (most, share) = topics().max_by_key(|(_, share)| share.len())?;
        let mut spots = topics().flat_map(|(topic, share)| share.iter().map(|partition| (*topic, *partition)));
        let last = share.last().map(|partition| (*most, *partition));
        spots.find(|spot| self.keeper(*spot) != Some(from)).or(last)
    }

    /// What each member gets now: what somebody else owns waits for a later round.
    fn end(self) -> Vec<Partitions> {
        let name = |topic: usize| self.topics[topic].0.clone();
        let given = |(member, share): (usize, &BTreeMap<usize, BTreeSet<i32>>)| {
            let is_free = |spot: Spot| self.owners.get(&spot).is_none_or(|owner| *owner == Owner::One(member));
            let free = share.iter().map(|(topic, all)| {
                (name(*topic), all.iter().copied().filter(|partition| is_free((*topic, *partition))).collect())
            });
            free.filter(|(_, partitions): &(String, BTreeSet<i32>)| !partitions.is_empty()).collect()
        };
        self.shares.iter().enumerate().map(given).collect()
    }
}

/// A member of a later generation knows better than one of an earlier.
fn owners(members: &BTreeMap<String, Subscription>, topics: &[(&String, i32)]) -> HashMap<Spot, Owner> {
    let positions: HashMap<&String, Spot> =
        topics.iter().enumerate().map(|(position, (topic, count))| (*topic, (position, *count))).collect();
    let mut claims: HashMap<Spot, (i32, Owner)> = HashMap::new();
    for (member, subscription) in members.values().enumerate() {
        for (topic, partitions) in &subscription.owned {
            let Some((topic, count)) = positions.get(topic) else { continue };
            for partition in partitions.iter().filter(|partition| (0..*count).contains(*partition)) {
                let ours = (subscription.generation, Owner::One(member));
                claims
                    .entry((*topic, *partition))
                    .and_modify(|claim| match ours.0.cmp(&claim.0) {
                        Ordering::Less => {}
                        Ordering::Equal => claim.1 = Owner::Disputed,
                        Ordering::Greater => *claim = ours,
                    })
                    .or_insert(ours);
            }
        }
    }
    claims.into_iter().map(|(spot, (_, owner))| (spot, owner)).collect()
}

#[cfg(test)]
mod tests;
