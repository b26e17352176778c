//! What keeps a comparison from ending; differences between the sides are no errors.

use rdkafka::error::RDKafkaErrorCode;

/// Why topics could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Nothing was asked for.
    #[error("no topic to compare: name topics, or let the flow's patterns match some")]
    NoTopics,
    /// librdkafka does not accept the settings of an endpoint.
    #[error("cluster \"{cluster}\": librdkafka refuses the settings: {cause}; correct the properties of this cluster")]
    Settings {
        /// Name of the cluster.
        cluster: String,
        /// What librdkafka says.
        cause: String,
    },
    /// No broker of a cluster answers.
    #[error(
        "cluster \"{cluster}\" at {bootstrap}: no answer: {cause}; check that its brokers run and that bootstrap.servers and the security settings are right"
    )]
    Unreachable {
        /// Name of the cluster.
        cluster: String,
        /// Its bootstrap servers.
        bootstrap: String,
        /// The last failure that librdkafka met.
        cause: String,
    },
    /// A cluster refuses to describe a topic.
    #[error(
        "cluster \"{cluster}\", topic {topic}: cannot be described: {cause}; allow the user DESCRIBE, DESCRIBE_CONFIGS and READ on it"
    )]
    Describe {
        /// Name of the cluster.
        cluster: String,
        /// The topic.
        topic: String,
        /// What the broker says.
        cause: RDKafkaErrorCode,
    },
    /// The offsets of a partition could not be found out.
    #[error(
        "cluster \"{cluster}\", topic {topic}, partition {partition}: its offsets are not available: {cause}; check that the partition has a leader"
    )]
    Offsets {
        /// Name of the cluster.
        cluster: String,
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// What librdkafka says.
        cause: String,
    },
    /// Too much of a partition differs, or too many keys are compared, to do so in memory.
    #[error(
        "topic {topic}, partition {partition}: more differs than can be compared; compare fewer topics at once, or copy this one afresh"
    )]
    TooLarge {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// Reading failed for good, for instance because of a checksum or a missing permission.
    #[error("cluster \"{cluster}\", topic {topic}: reading failed: {cause}; repair it and run verify again")]
    Read {
        /// Name of the cluster.
        cluster: String,
        /// The topic.
        topic: String,
        /// What librdkafka says.
        cause: String,
    },
    /// A partition stopped delivering before its end.
    #[error(
        "cluster \"{cluster}\", topic {topic}, partition {partition}: no progress for {waited_s} s at offset {position} of {end} ({cause}); check its leader and run verify again"
    )]
    Stalled {
        /// Name of the cluster.
        cluster: String,
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// Next offset to read.
        position: i64,
        /// Offset to read up to.
        end: i64,
        /// Seconds without a record.
        waited_s: u64,
        /// The last failure that librdkafka met.
        cause: String,
    },
    /// A header key is not UTF-8; Kafka defines it as a string and rdkafka does not hand out other bytes.
    #[error(
        "cluster \"{cluster}\", topic {topic}, partition {partition}, offset {offset}: a header key is not UTF-8, which librdkafka's binding cannot read; leave the topic out"
    )]
    HeaderKey {
        /// Name of the cluster.
        cluster: String,
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The record's offset.
        offset: i64,
    },
}
