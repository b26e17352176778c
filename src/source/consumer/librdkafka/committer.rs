//! A thread that commits, and waits for it: librdkafka's binding never tells how a commit went that nobody waits for (tried with rdkafka
//! 0.39: its callback is not called).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{CommitMode, Consumer as _};

use super::Command;
use super::settings::Consumer;

/// See the module. There is at most one commit at a time.
pub(super) struct Committer {
    lists: Sender<TopicPartitionList>,
    thread: JoinHandle<()>,
}

impl Committer {
    /// Commits what it is given, and tells by [`Command::Committed`].
    pub(super) fn start(consumer: Arc<Consumer>, lane: u32, told: Sender<Command>) -> std::io::Result<Self> {
        let (lists, given) = channel();
        let name = format!("librdkafka-{lane}-commit");
        let thread = thread::Builder::new().name(name).spawn(move || run(&consumer, &given, &told))?;
        Ok(Self { lists, thread })
    }

    /// Commits these offsets.
    pub(super) fn commit(&self, list: TopicPartitionList) {
        // The thread lives as long as we do.
        let _ = self.lists.send(list);
    }

    /// Ends when what is on its way is answered.
    pub(super) fn end(self) {
        drop(self.lists);
        let _ = self.thread.join();
    }
}

fn run(consumer: &Consumer, given: &Receiver<TopicPartitionList>, told: &Sender<Command>) {
    while let Ok(list) = given.recv() {
        let committed = consumer.commit(&list, CommitMode::Sync).map_err(|error| error.to_string());
        let _ = told.send(Command::Committed(committed));
    }
}
