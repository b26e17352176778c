//! The oracle of order: what stands in each partition of the target, against the same partition of the source. librdkafka reads both.

use std::collections::{BTreeMap, HashMap};

use cluster::Cluster;
use cluster::load::sequence;
use cluster::read::{Isolation, scan};
use rdkafka::Message;

use crate::bridge::eventually;

/// The sequence numbers of each partition in the order of its log.
pub(crate) type Logs = BTreeMap<i32, Vec<u64>>;

/// What committed transactions have left in each partition; `None` while there is no such topic.
pub(crate) fn logs(cluster: &Cluster, topic: &str) -> Option<Logs> {
    let mut logs = Logs::new();
    scan(cluster.bootstrap(), topic, Isolation::Committed, |message| {
        logs.entry(message.partition()).or_default().push(sequence(message.payload().unwrap()).unwrap());
        Ok(())
    })
    .ok()?;
    Some(logs)
}

/// How a copy compares with its original.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Records of the original that the copy has, all in its order.
    pub(crate) copied: usize,
    /// How often the copy goes back to a record that it has, and goes on from there.
    pub(crate) repeats: usize,
    /// Records that the copy has more than once.
    pub(crate) duplicates: usize,
}

/// Compares one partition. A copy may go back, as a worker does that begins where its group stands; it may leave nothing out.
///
/// Panics where it does, or where it has what the original has not.
pub(crate) fn compare(original: &[u64], copy: &[u64]) -> Order {
    let places: HashMap<u64, usize> = original.iter().enumerate().map(|(place, sequence)| (*sequence, place)).collect();
    let mut order = Order::default();
    let mut next = 0;
    for sequence in copy {
        let place = places[sequence];
        assert!(place <= next, "{sequence} comes before {}", original[next]);
        order.repeats += usize::from(place < next);
        order.duplicates += usize::from(place < order.copied);
        next = place + 1;
        order.copied = order.copied.max(next);
    }
    order
}

/// Waits until the target has all of so many records, each partition in the order of the source. Returns how often it goes back.
pub(crate) fn await_in_order((source, target): (&Cluster, &Cluster), topic: &str, records: u64) -> Order {
    let originals = logs(source, topic).unwrap();
    assert_eq!(
        originals.values().map(Vec::len).sum::<usize>() as u64,
        records,
        "the source has others than were written"
    );
    let mut last = None;
    eventually(&format!("{records} records of {topic} have arrived in order"), || {
        let copies = logs(target, topic)?;
        let mut sum = Order::default();
        for (partition, original) in &originals {
            let order = compare(original, copies.get(partition).map_or(&[], Vec::as_slice));
            sum.copied += order.copied;
            sum.repeats += order.repeats;
            sum.duplicates += order.duplicates;
        }
        if last.replace(sum) != Some(sum) {
            eprintln!("{topic}: {sum:?} of {records}");
        }
        (sum.copied as u64 == records).then_some(sum)
    })
}

#[test]
fn a_copy_may_go_back_and_leaves_nothing_out() {
    let original = [1, 3, 5, 7];
    assert_eq!(compare(&original, &[1, 3, 5, 7]), Order { copied: 4, repeats: 0, duplicates: 0 });
    assert_eq!(compare(&original, &[1, 3, 5, 3, 5, 7]), Order { copied: 4, repeats: 1, duplicates: 2 });
    for wrong in [&[1, 5][..], &[3, 1], &[1, 3, 1, 5], &[1, 2]] {
        assert!(std::panic::catch_unwind(|| compare(&original, wrong)).is_err(), "{wrong:?}");
    }
}
