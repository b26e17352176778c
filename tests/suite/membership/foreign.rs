//! Members of other make, in a classic group with ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use sharebridge::source::Key;
use sharebridge::source::catalog::Watched as Catalog;

use super::group::Group;
use super::ledger::Ledger;

/// A consumer of librdkafka that writes into the ledger what it reads.
pub(crate) struct Librdkafka {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Book {
    name: String,
    ledger: Ledger,
    catalog: Catalog,
}

impl Book {
    fn each(&self, rebalance: &Rebalance<'_>, entry: impl Fn(Key)) {
        let (Rebalance::Assign(list) | Rebalance::Revoke(list)) = rebalance else { panic!("{rebalance:?}") };
        let catalog = self.catalog.borrow();
        for element in list.elements() {
            let topic = catalog.topics.values().find(|topic| topic.name == element.topic()).unwrap();
            entry((topic.id, element.partition()));
        }
    }
}

impl ClientContext for Book {}

impl ConsumerContext for Book {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(_) => self.each(rebalance, |key| self.ledger.take(key, &self.name)),
            _ => self.each(rebalance, |key| self.ledger.give_up(key, &self.name)),
        }
    }
}

impl Librdkafka {
    /// Joins by the cooperative assignor that ours offer, too.
    pub(crate) fn join(group: &Group, name: &str) -> Self {
        let book = Book { name: name.to_owned(), ledger: group.ledger.clone(), catalog: group.catalog.subscribe() };
        let consumer: BaseConsumer<Book> = ClientConfig::new()
            .set("bootstrap.servers", group.cluster.bootstrap())
            .set("group.id", &group.flow.consumer.id)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", "6000")
            .set("heartbeat.interval.ms", "300")
            .set("topic.metadata.refresh.interval.ms", "300")
            .create_with_context(book)
            .unwrap();
        let topics: Vec<&str> = group.topics.keys().map(String::as_str).collect();
        consumer.subscribe(&topics).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                consumer.poll(Duration::from_millis(50));
            }
            consumer.unsubscribe();
            // What is revoked by leaving is told by polling.
            consumer.poll(Duration::from_millis(500));
        });
        Self { ends, thread }
    }

    /// Leaves.
    pub(crate) fn leave(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}
