use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Where members want different topics, what one gives up may let others change places.
const ROUNDS_MAX: i32 = 8;

type Members = BTreeMap<String, Subscription>;
type Counts = BTreeMap<String, i32>;
type Assigned = BTreeMap<String, Partitions>;

fn counts(topics: &[i32]) -> Counts {
    topics.iter().enumerate().map(|(number, count)| (format!("t{number}"), *count)).collect()
}

fn member(topics: impl Iterator<Item = usize>) -> Subscription {
    let topics = topics.map(|number| format!("t{number}")).collect();
    Subscription { topics, owned: Partitions::new(), generation: -1, rack: None }
}

fn size(partitions: &Partitions) -> usize {
    partitions.values().map(BTreeSet::len).sum()
}

/// Partitions one by one.
fn spots(partitions: &Partitions) -> impl Iterator<Item = (&String, i32)> {
    partitions.iter().flat_map(|(topic, numbers)| numbers.iter().map(move |number| (topic, *number)))
}

/// Everybody has given up what was not assigned, and owns what was.
fn obey(members: &mut Members, assigned: &Assigned, generation: i32) {
    for (id, member) in members {
        (member.owned, member.generation) = (assigned[id].clone(), generation);
    }
}

/// Rounds until nothing changes any more, which are few. Nothing changes hands in a single round.
fn settle(members: &mut Members, counts: &Counts, rounds_max: i32) -> Assigned {
    for generation in 1..=rounds_max {
        let assigned = assign(members, counts);
        for (id, given) in &assigned {
            for (topic, number) in spots(given) {
                let is_anothers = |(other, member): (&String, &Subscription)| {
                    other != id && member.owned.get(topic).is_some_and(|owned| owned.contains(&number))
                };
                assert!(!members.iter().any(is_anothers), "{topic}-{number} goes to {id} from under its owner");
            }
        }
        let is_settled = members.iter().all(|(id, member)| member.owned == assigned[id]);
        obey(members, &assigned, generation);
        if is_settled {
            return assigned;
        }
    }
    panic!("not settled: {members:?}");
}

/// Every partition that somebody wants is somebody's, once, and only of those who want it.
fn is_whole(members: &Members, assigned: &Assigned, counts: &Counts) {
    let mut seen = BTreeSet::new();
    for (id, given) in assigned {
        for (topic, number) in spots(given) {
            assert!(members[id].topics.contains(topic), "{id} does not want {topic}");
            assert!((0..counts[topic]).contains(&number), "{topic}-{number} is not there");
            assert!(seen.insert((topic.clone(), number)), "{topic}-{number} twice");
        }
    }
    let wanted = counts.iter().filter(|(topic, _)| members.values().any(|member| member.topics.contains(*topic)));
    assert_eq!(seen.len(), wanted.map(|(_, count)| *count as usize).sum::<usize>());
}

fn is_even(assigned: &Assigned) {
    let sizes: Vec<usize> = assigned.values().map(size).collect();
    assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
}

/// A step in the life of a group.
#[derive(Debug, Clone)]
enum Step {
    Join(u8, BTreeSet<usize>),
    Leave(u8),
    Grow(usize, i32),
}

fn any_step(same: bool) -> impl Strategy<Value = Step> {
    let topics =
        if same { Just((0..3).collect()).boxed() } else { proptest::collection::btree_set(0..3usize, 1..4).boxed() };
    prop_oneof![
        3 => (0..8u8, topics).prop_map(|(id, topics)| Step::Join(id, topics)),
        2 => (0..8u8).prop_map(Step::Leave),
        1 => (0..3usize, 1..20).prop_map(|(topic, count)| Step::Grow(topic, count)),
    ]
}

fn follow(step: Step, members: &mut Members, counts: &mut Counts) {
    match step {
        Step::Join(id, topics) => {
            let joining = member(topics.into_iter());
            members.entry(format!("m{id}")).and_modify(|old| old.topics = joining.topics.clone()).or_insert(joining);
        }
        Step::Leave(id) => {
            members.remove(&format!("m{id}"));
        }
        Step::Grow(topic, count) => {
            let size = counts.entry(format!("t{topic}")).or_default();
            *size = (*size).max(count);
        }
    }
}

proptest! {
    #[test]
    fn members_with_the_same_topics_have_the_same_load(
        topics in proptest::collection::vec(0..20, 3),
        steps in proptest::collection::vec(any_step(true), 1..12),
    ) {
        let (mut members, mut counts) = (Members::new(), counts(&topics));
        for step in steps {
            follow(step, &mut members, &mut counts);
            if members.is_empty() {
                continue;
            }
            let before: BTreeMap<String, Partitions> = members.iter().map(|(id, m)| (id.clone(), m.owned.clone())).collect();
            // One to give up, one to take, one to see that nothing is left to do.
            let assigned = settle(&mut members, &counts, 3);
            is_whole(&members, &assigned, &counts);
            is_even(&assigned);
            is_frugal(&before, &assigned);
        }
    }

    #[test]
    fn members_with_other_topics_get_all_of_them(
        topics in proptest::collection::vec(0..20, 3),
        steps in proptest::collection::vec(any_step(false), 1..12),
    ) {
        let (mut members, mut counts) = (Members::new(), counts(&topics));
        for step in steps {
            follow(step, &mut members, &mut counts);
            if !members.is_empty() {
                let assigned = settle(&mut members, &counts, ROUNDS_MAX);
                is_whole(&members, &assigned, &counts);
            }
        }
    }

    #[test]
    fn whatever_members_claim_nothing_is_given_twice(
        topics in proptest::collection::vec(0..6, 3),
        claims in proptest::collection::vec((0..3i32, proptest::collection::btree_map("t[0-4]", proptest::collection::btree_set(-1..9, 0..4), 0..4)), 1..5),
    ) {
        let counts = counts(&topics);
        let claim = |(number, (generation, owned))| {
            (format!("m{number}"), Subscription { owned, generation, ..member(0..3) })
        };
        let mut members: Members = claims.into_iter().enumerate().map(claim).collect();
        let given = assign(&members, &counts);
        let all: Vec<_> = given.values().flat_map(spots).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        prop_assert_eq!(all.len(), distinct.len());
        obey(&mut members, &given, 3);
        let assigned = settle(&mut members, &counts, ROUNDS_MAX);
        is_whole(&members, &assigned, &counts);
    }
}

/// No more partitions have changed hands than balance demands: either too much is gone from every member that gave, or too little was with
/// every member that took.
fn is_frugal(before: &BTreeMap<String, Partitions>, after: &Assigned) {
    let kept = |id: &String, owned: &Partitions| {
        spots(owned).filter(|(t, n)| after[id].get(*t).is_some_and(|s| s.contains(n))).count()
    };
    let moved: usize = before.iter().map(|(id, owned)| size(owned) - kept(id, owned)).sum();
    let total: usize = after.values().map(size).sum();
    let (floor, ceiling) = (total / after.len(), total.div_ceil(after.len()));
    let unowned = total - before.values().map(size).sum::<usize>();
    let excess: usize = before.values().map(|owned| size(owned).saturating_sub(ceiling)).sum();
    let lack: usize = before.values().map(|owned| floor.saturating_sub(size(owned))).sum();
    assert!(moved <= excess.max(lack.saturating_sub(unowned)), "{moved} moved: {before:?} to {after:?}");
}

#[test]
fn what_a_member_no_longer_wants_is_free_only_after_it_gave_it_up() {
    let counts = counts(&[2, 2]);
    let mut members: Members = [("a".to_owned(), member(0..1)), ("b".to_owned(), member(0..2))].into();
    members.get_mut("a").unwrap().owned = [("t1".to_owned(), [0, 1].into())].into();
    let assigned = assign(&members, &counts);
    assert!(!assigned.values().any(|given| given.contains_key("t1")), "{assigned:?}");
    obey(&mut members, &assigned, 1);
    assert_eq!(assign(&members, &counts)["b"]["t1"], [0, 1].into());
}

#[test]
fn a_disputed_partition_is_nobodys_for_a_round() {
    let counts = counts(&[1]);
    let claim = |generation| Subscription { owned: [("t0".to_owned(), [0].into())].into(), generation, ..member(0..1) };
    let members: Members = [("a".to_owned(), claim(7)), ("b".to_owned(), claim(7))].into();
    assert!(assign(&members, &counts).values().all(Partitions::is_empty));
    let members: Members = [("a".to_owned(), claim(6)), ("b".to_owned(), claim(7))].into();
    assert_eq!(assign(&members, &counts)["b"]["t0"], [0].into());
}
