//! librdkafka clients of one cluster.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::error::VerifyError;
use crate::limits::{BROKER_FETCH_BYTES, PARTITION_FETCH_BYTES, PREFETCH_KBYTES, PREFETCH_RECORDS};

/// How to reach one side of a comparison.
///
/// Deliberately without `Debug`: the properties may hold secrets.
#[derive(Clone)]
pub struct Endpoint {
    /// Name of the cluster, for messages.
    pub cluster: String,
    /// `bootstrap.servers`: host:port, separated by commas.
    pub bootstrap: String,
    /// Further properties of the connection by librdkafka's names, such as `sasl.username`.
    pub properties: Vec<(String, String)>,
}

impl Endpoint {
    /// A client that looks at everything up to the last stable offset.
    pub(super) fn committed(&self) -> Result<Client, VerifyError> {
        self.create(&self.config("read_committed"))
    }

    /// A client that also sees what open transactions have written.
    pub(super) fn uncommitted(&self) -> Result<Client, VerifyError> {
        self.create(&self.config("read_uncommitted"))
    }

    /// A client that reads records: committed ones, with their checksums verified and the ends of partitions announced.
    pub(super) fn reader(&self) -> Result<Client, VerifyError> {
        let mut config = self.config("read_committed");
        config
            // librdkafka wants a group for `assign`; nothing joins it, nothing is committed to it.
            .set("group.id", "sharebridge-verify")
            .set("enable.auto.commit", "false")
            // What retention removes while we read is passed over.
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true")
            .set("queued.max.messages.kbytes", PREFETCH_KBYTES.to_string())
            .set("queued.min.messages", PREFETCH_RECORDS.to_string())
            // The default of one second idles a reader whenever it has caught up with its prefetch.
            .set("fetch.queue.backoff.ms", "2")
            .set("fetch.message.max.bytes", PARTITION_FETCH_BYTES.to_string())
            .set("fetch.max.bytes", BROKER_FETCH_BYTES.to_string());
        self.create(&config)
    }

    /// Settings of the connection alone.
    pub(super) fn config(&self, isolation: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.extend(self.properties.iter().cloned());
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("client.id", "sharebridge-verify")
            .set("isolation.level", isolation);
        config
    }

    fn create(&self, config: &ClientConfig) -> Result<Client, VerifyError> {
        let created = config.create_with_context(Failures::default());
        created.map_err(|cause| self.settings_error(cause))
    }

    pub(super) fn settings_error(&self, cause: KafkaError) -> VerifyError {
        // The whole error would repeat the value, which may be a secret.
        let cause = match cause {
            KafkaError::ClientConfig(_, words, key, _) => format!("{key}: {words}"),
            cause => cause.to_string(),
        };
        VerifyError::Settings { cluster: self.cluster.clone(), cause }
    }

    pub(super) fn unreachable(&self, cause: String) -> VerifyError {
        VerifyError::Unreachable { cluster: self.cluster.clone(), bootstrap: self.bootstrap.clone(), cause }
    }
}

/// A consumer that remembers why its connections failed.
pub(super) type Client = BaseConsumer<Failures>;

/// Keeps the last failure that librdkafka reported, which says more than the error of a call.
#[derive(Default)]
pub(super) struct Failures {
    last: Mutex<Option<String>>,
}

impl Failures {
    /// The last failure, or `otherwise` if none was reported.
    pub(super) fn last_or(&self, otherwise: &str) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().unwrap_or_else(|| otherwise.to_owned())
    }
}

impl ClientContext for Failures {
    fn error(&self, error: KafkaError, reason: &str) {
        use RDKafkaErrorCode::{AllBrokersDown, PartitionEOF};
        // The end of a partition is no failure, and that all brokers are down says less than the failures before it.
        if !matches!(error.rdkafka_error_code(), Some(PartitionEOF | AllBrokersDown)) {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Failures {}
