//! The engine that reads through librdkafka: the second implementation, for brokers that our own client does not get on with.
//!
//! A lane is one consumer of the flow's group, in a thread of its own, since librdkafka's calls block. Records come decoded; they go
//! on in record batches that are made of them, uncompressed, with the offsets that they have at the source.

use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::sync::{mpsc, oneshot};

use crate::batch::OffsetRange;
use crate::config::librdkafka::Untold;
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::LEAVE_MAX;
use crate::metrics::LaneMetrics;
use crate::source::catalog::Watched;
use crate::source::{Hold, Parcel, Settlement, Shipment, Source, TopicPartition};

mod committer;
mod context;
mod package;
mod part;
mod position;
mod reader;
mod rebalance;
mod settings;

use committer::Committer;
use reader::Reader;

/// See the module.
#[derive(Debug)]
pub struct LibrdkafkaSource {
    /// Never full: at most one fetch is asked for, and settled is only what was handed out.
    commands: blocking::Sender<Command>,
    arrivals: mpsc::Receiver<Vec<Parcel>>,
    /// Whether a fetch has not been answered yet.
    asked: bool,
}

/// Why librdkafka cannot read for a flow. Starting again would not help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It cannot be told what the file says.
    #[error(transparent)]
    Untold(#[from] Untold),
    /// It does not take its properties.
    #[error("[clusters.{cluster}]: librdkafka refuses what was set: {cause}")]
    Settings {
        /// Name of the cluster.
        cluster: String,
        /// Its words.
        cause: String,
    },
    /// The system gives no thread.
    #[error("no thread for librdkafka: {0}")]
    Thread(#[from] std::io::Error),
}

/// What the lane wants of the thread.
#[derive(Debug)]
enum Command {
    /// Bring about this many bytes as soon as there is something.
    Fetch(usize),
    /// Answer the fetch now, with what there is.
    Cancel,
    /// These are finished.
    Settle(Vec<(TopicPartition, Arc<Hold>, OffsetRange)>),
    /// Bring nothing of a topic partition.
    Pause(TopicPartition),
    /// The end of a pause.
    Resume(TopicPartition),
    /// librdkafka has something.
    Wake,
    /// How a commit went.
    Committed(Result<(), String>),
    /// Leave the group, and say how many offsets are left unfinished.
    Close(oneshot::Sender<u64>),
}

impl LibrdkafkaSource {
    /// Joins the consumer group of a flow as the member of one of its lanes, which may read about so many bytes ahead.
    pub fn join(
        flow: &Flow,
        (lane, bytes): (u32, usize),
        catalog: Watched,
        (health, metrics): (&Health, &LaneMetrics),
    ) -> Result<Self, EngineError> {
        let (commands, queue) = blocking::channel();
        let (sender, arrivals) = mpsc::channel(1);
        let consumer = settings::consumer(flow, (lane, bytes), commands.clone())?;
        let committer = Committer::start(consumer.clone(), lane, commands.clone())?;
        let watched = (health.clone(), metrics.clone());
        let reader = Reader::new(flow, (consumer, committer), (catalog, queue, sender), watched);
        let name = format!("librdkafka-{lane}");
        thread::Builder::new().name(name).spawn(move || reader.run())?;
        Ok(Self { commands, arrivals, asked: false })
    }

    /// The thread ends only when it is told to close.
    fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    async fn receive(&mut self) -> Shipment {
        let parcels = self.arrivals.recv().await.unwrap_or_default();
        self.asked = false;
        Shipment { parcels }
    }
}

impl Source for LibrdkafkaSource {
    async fn poll(&mut self, bytes_max: usize, patience: Duration) -> Shipment {
        if bytes_max > 0 && !self.asked {
            self.tell(Command::Fetch(bytes_max));
            self.asked = true;
        }
        if !self.asked {
            tokio::time::sleep(patience).await;
            return Shipment::default();
        }
        tokio::time::timeout(patience, self.receive()).await.unwrap_or_default()
    }

    async fn gather(&mut self) -> Shipment {
        if !self.asked {
            return Shipment::default();
        }
        self.tell(Command::Cancel);
        self.receive().await
    }

    async fn settle(&mut self, settlements: Vec<Settlement>) {
        let parcels = settlements.into_iter().map(|settlement| settlement.parcel);
        self.tell(Command::Settle(parcels.map(|parcel| (parcel.at, parcel.hold, parcel.span)).collect()));
    }

    fn pause(&mut self, at: &TopicPartition) {
        self.tell(Command::Pause(at.clone()));
    }

    fn resume(&mut self, at: &TopicPartition) {
        self.tell(Command::Resume(at.clone()));
    }

    fn keeps_order(&self) -> bool {
        true
    }

    async fn close(self) -> u64 {
        let (done, answer) = oneshot::channel();
        self.tell(Command::Close(done));
        // A broker that is out of reach sees the session end by itself.
        tokio::time::timeout(LEAVE_MAX, answer).await.ok().and_then(Result::ok).unwrap_or(0)
    }
}

impl Drop for LibrdkafkaSource {
    /// A lane that was given up leaves the group, too; one that has left hears no more.
    fn drop(&mut self) {
        self.tell(Command::Close(oneshot::channel().0));
    }
}

/// An error in librdkafka's words, without the value that a property was to have: it may be a secret.
fn words(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, words, key, _) => format!("{key}: {words}"),
        error => error.to_string(),
    }
}
