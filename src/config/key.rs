//! The table of keys: the only place that says what may stand in the file.

#[cfg(test)]
mod tests;

use super::scope::Scope;
use super::value::Kind;

/// One key of the file.
#[derive(Debug)]
pub(super) struct Key {
    /// Its dotted name.
    pub(super) name: &'static str,
    /// Where it may stand.
    pub(super) scope: Scope,
    /// What its value must be.
    pub(super) kind: Kind,
    /// The value of a file that leaves it out, `<flow>` being the flow's name; `None` makes it required.
    pub(super) default: Option<&'static str>,
    /// What it does, in a phrase.
    pub(super) doc: &'static str,
}

/// Finds a key by its dotted name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether a key at the end of a line, however nested, is known to hold no secret.
pub(super) fn is_open(name: &str) -> bool {
    let name: String = name.split_whitespace().collect();
    KEYS.iter().any(|key| {
        let is_end = |long: &str, short: &str| long == short || long.ends_with(&format!(".{short}"));
        key.kind != Kind::Secret && is_end(&name, key.name)
    }) || is_inner(&name)
}

/// Whether this ends open keys only, such as `names` in `[flows.f.topics]`.
fn is_inner(name: &str) -> bool {
    let mut ends = KEYS.iter().filter(|key| key.name.ends_with(&format!(".{name}"))).peekable();
    ends.peek().is_some() && ends.all(|key| key.kind != Kind::Secret)
}

/// Every key, by table and in reading order.
///
/// No name may be the beginning of another: TOML would refuse a file with both.
pub(super) const KEYS: [Key; 75] = [
    Key {
        name: "status.address",
        scope: Scope::Bridge,
        kind: Kind::Address,
        default: Some("127.0.0.1:9470"),
        doc: "Where the status server listens; port 0 takes any free one",
    },
    Key {
        name: "drain.timeout.ms",
        scope: Scope::Bridge,
        kind: Kind::Integer { min: 0, max: 3_600_000, unit: "ms" },
        default: Some("25000"),
        doc: "Longest time for flows to finish what they hold at shutdown",
    },
    Key {
        name: "log.level",
        scope: Scope::Bridge,
        kind: Kind::LogLevel,
        default: Some("info"),
        doc: "Least level that is logged, for all or by module",
    },
    Key {
        name: "log.format",
        scope: Scope::Bridge,
        kind: Kind::Choice(&["auto", "text", "json"]),
        default: Some("auto"),
        doc: "Shape of a log line; auto is text on a terminal and json elsewhere",
    },
    Key {
        name: "bootstrap.servers",
        scope: Scope::Cluster,
        kind: Kind::Servers,
        default: None,
        doc: "First brokers to ask for the others",
    },
    Key {
        name: "client.id",
        scope: Scope::Cluster,
        kind: Kind::Text,
        default: Some("sharebridge"),
        doc: "Name of this client in the broker's logs and quotas",
    },
    Key {
        name: "client.rack",
        scope: Scope::Cluster,
        kind: Kind::Optional,
        default: Some(""),
        doc: "Rack of this client: consumer groups read from a replica there, if the brokers choose replicas by rack",
    },
    Key {
        name: "request.timeout.ms",
        scope: Scope::Cluster,
        kind: Kind::Integer { min: 100, max: 600_000, unit: "ms" },
        default: Some("30000"),
        doc: "Longest wait for the answer to one request",
    },
    Key {
        name: "reconnect.backoff.ms",
        scope: Scope::Cluster,
        kind: Kind::Integer { min: 1, max: 600_000, unit: "ms" },
        default: Some("50"),
        doc: "First wait before connecting again; it doubles with every failure",
    },
    Key {
        name: "reconnect.backoff.max.ms",
        scope: Scope::Cluster,
        kind: Kind::Integer { min: 1, max: 600_000, unit: "ms" },
        default: Some("1000"),
        doc: "Longest wait before connecting again",
    },
    Key {
        name: "security.protocol",
        scope: Scope::Cluster,
        kind: Kind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        default: Some("PLAINTEXT"),
        doc: "Whether connections are encrypted (SSL) and authenticated by SASL; client certificates need SSL alone",
    },
    Key {
        name: "ssl.truststore.type",
        scope: Scope::Cluster,
        kind: Kind::Choice(&["PEM", "PKCS12", "JKS"]),
        default: Some("PEM"),
        doc: "Form of ssl.truststore.location; JKS is refused with the command that converts it",
    },
    Key {
        name: "ssl.truststore.location",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "Certificate authorities that may have signed a broker's certificate; without any, those of the system",
    },
    Key {
        name: "ssl.truststore.password",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Password of a PKCS12 truststore",
    },
    Key {
        name: "ssl.truststore.certificates",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "The same certificate authorities in PEM, in the place of a file",
    },
    Key {
        name: "ssl.ca.location",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "librdkafka's name for a truststore in PEM",
    },
    Key {
        name: "ssl.keystore.type",
        scope: Scope::Cluster,
        kind: Kind::Choice(&["PEM", "PKCS12", "JKS"]),
        default: Some("PEM"),
        doc: "Form of ssl.keystore.location; JKS is refused with the command that converts it",
    },
    Key {
        name: "ssl.keystore.location",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "Our certificate with its private key, for brokers that ask for one",
    },
    Key {
        name: "ssl.keystore.password",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Password of a PKCS12 keystore",
    },
    Key {
        name: "ssl.keystore.certificate.chain",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Our certificate in PEM, and those of its issuers behind it, in the place of a file",
    },
    Key {
        name: "ssl.keystore.key",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Its private key in PEM (PKCS 8)",
    },
    Key {
        name: "ssl.certificate.location",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "librdkafka's name for a file with our certificate in PEM",
    },
    Key {
        name: "ssl.key.location",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "librdkafka's name for a file with its private key in PEM",
    },
    Key {
        name: "ssl.key.password",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Password of an encrypted private key",
    },
    Key {
        name: "ssl.endpoint.identification.algorithm",
        scope: Scope::Cluster,
        kind: Kind::Choice(&["https", ""]),
        default: Some("https"),
        doc: "https: a broker's certificate must name its host; empty: any certificate that is trusted will do",
    },
    Key {
        name: "sasl.mechanism",
        scope: Scope::Cluster,
        kind: Kind::Choice(&["GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]),
        default: Some("GSSAPI"),
        doc: "How SASL proves who we are; GSSAPI is Kerberos",
    },
    Key {
        name: "sasl.username",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "User for PLAIN and SCRAM",
    },
    Key {
        name: "sasl.password",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Password for PLAIN and SCRAM",
    },
    Key {
        name: "sasl.jaas.config",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Kafka's way to say user and password, client id and secret, or keytab and principal: a login module with its options",
    },
    Key {
        name: "sasl.kerberos.service.name",
        scope: Scope::Cluster,
        kind: Kind::Text,
        default: Some("kafka"),
        doc: "First part of the brokers' Kerberos principals, as kafka in kafka/host@REALM",
    },
    Key {
        name: "sasl.kerberos.principal",
        scope: Scope::Cluster,
        kind: Kind::Optional,
        default: Some(""),
        doc: "Our Kerberos principal; without, the first one of the keytab, or the owner of the credential cache",
    },
    Key {
        name: "sasl.kerberos.keytab",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "Keytab with the key of our principal; without, tickets come from the default credential cache",
    },
    Key {
        name: "sasl.oauthbearer.token.endpoint.url",
        scope: Scope::Cluster,
        kind: Kind::TokenUrl,
        default: Some(""),
        doc: "Where OAUTHBEARER gets its tokens: an OIDC token endpoint, or a file that somebody renews",
    },
    Key {
        name: "sasl.oauthbearer.client.credentials.client.id",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Client id at the token endpoint",
    },
    Key {
        name: "sasl.oauthbearer.client.credentials.client.secret",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "Client secret at the token endpoint",
    },
    Key {
        name: "sasl.oauthbearer.client.id",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "librdkafka's name for the client id",
    },
    Key {
        name: "sasl.oauthbearer.client.secret",
        scope: Scope::Cluster,
        kind: Kind::Secret,
        default: Some(""),
        doc: "librdkafka's name for the client secret",
    },
    Key {
        name: "sasl.oauthbearer.scope",
        scope: Scope::Cluster,
        kind: Kind::Optional,
        default: Some(""),
        doc: "Scope that is asked for at the token endpoint",
    },
    Key {
        name: "https.ca.location",
        scope: Scope::Cluster,
        kind: Kind::File,
        default: Some(""),
        doc: "Certificate authorities for the token endpoint, in PEM; without, those of the system",
    },
    Key {
        name: "source.cluster",
        scope: Scope::Flow,
        kind: Kind::Cluster,
        default: None,
        doc: "Name of the cluster that is read",
    },
    Key {
        name: "sink.cluster",
        scope: Scope::Flow,
        kind: Kind::Cluster,
        default: None,
        doc: "Name of the cluster that is written; the source only where every topic gets another name",
    },
    Key {
        name: "topics.names",
        scope: Scope::FlowOnly,
        kind: Kind::Topics,
        default: Some("[]"),
        doc: "Topics to copy",
    },
    Key {
        name: "topics.regex",
        scope: Scope::FlowOnly,
        kind: Kind::Patterns,
        default: Some("[]"),
        doc: "Patterns of topics to copy, except internal ones; a flow needs a name or a pattern",
    },
    Key {
        name: "topics.exclude",
        scope: Scope::Flow,
        kind: Kind::Patterns,
        default: Some("[]"),
        doc: "Patterns of topics that topics.regex leaves out",
    },
    Key {
        name: "topics.refresh.interval.ms",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 500, max: 3_600_000, unit: "ms" },
        default: Some("10000"),
        doc: "Pause between two looks at the topics, partitions and topic configs of both clusters",
    },
    Key {
        name: "sink.topic.create.enable",
        scope: Scope::Flow,
        kind: Kind::Boolean,
        default: Some("true"),
        doc: "Whether topics and partitions that the sink lacks are created",
    },
    Key {
        name: "sink.topic.create.replication.factor",
        scope: Scope::Flow,
        kind: Kind::Replicas,
        default: Some("default"),
        doc: "Replicas of created topics; default is the default.replication.factor of the sink's brokers",
    },
    Key {
        name: "sink.topic.config.sync.enable",
        scope: Scope::Flow,
        kind: Kind::Boolean,
        default: Some("true"),
        doc: "Whether topic configs on the sink follow those of the source, where nobody has set them by hand",
    },
    Key {
        name: "sink.topic.config.exclude",
        scope: Scope::Flow,
        kind: Kind::CopiedConfigs,
        default: Some("[]"),
        doc: "Topic configs that are neither copied at creation nor kept in step",
    },
    Key {
        name: "share.group.id",
        scope: Scope::Flow,
        kind: Kind::Text,
        default: Some("sharebridge-<flow>"),
        doc: "The share group on the source; no other flow may use it there",
    },
    Key {
        name: "share.acquisition.lock.timeout.ms",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 1_000, max: 3_600_000, unit: "ms" },
        default: Some("30000"),
        doc: "How long an acquired record stays ours without renewal",
    },
    Key {
        name: "share.max.delivery.count",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 2, max: 25, unit: "deliveries" },
        default: Some("10"),
        doc: "Deliveries of a record before the broker archives it",
    },
    Key {
        name: "share.partition.max.record.locks",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 100, max: 10_000, unit: "records" },
        default: Some("4000"),
        doc: "Records of one partition that may be in flight",
    },
    Key {
        name: "share.auto.offset.reset",
        scope: Scope::Flow,
        kind: Kind::OffsetReset,
        default: Some("earliest"),
        doc: "Where a new group starts in a partition",
    },
    Key {
        name: "group.protocol",
        scope: Scope::Flow,
        kind: Kind::Choice(&["share", "consumer"]),
        default: Some("share"),
        doc: "How topics are read: share takes any number of workers and keeps no order; consumer keeps the order of each partition",
    },
    Key {
        name: "group.id",
        scope: Scope::Flow,
        kind: Kind::Text,
        default: Some("sharebridge-<flow>-ordered"),
        doc: "The consumer group on the source, for what is copied in order; no other flow may use it there",
    },
    Key {
        name: "group.instance.id",
        scope: Scope::Flow,
        kind: Kind::Optional,
        default: Some(""),
        doc: "Name of this process in the consumer group, which makes its lanes static members; every process needs another one",
    },
    Key {
        name: "consumer.engine",
        scope: Scope::Flow,
        kind: Kind::Choice(&["auto", "native", "librdkafka"]),
        default: Some("auto"),
        doc: "Who reads for a consumer group: native forwards whole record batches, librdkafka decodes them; auto is native",
    },
    Key {
        name: "session.timeout.ms",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 1_000, max: 3_600_000, unit: "ms" },
        default: Some("45000"),
        doc: "Silence after which a member of a consumer group counts as dead, where the group is of the classic protocol",
    },
    Key {
        name: "auto.offset.reset",
        scope: Scope::Flow,
        kind: Kind::OffsetReset,
        default: Some("earliest"),
        doc: "Where a consumer group begins in a partition for which it has committed nothing",
    },
    Key {
        name: "allow.unordered.compacted",
        scope: Scope::Flow,
        kind: Kind::Boolean,
        default: Some("false"),
        doc: "Whether compacted topics are copied although an older value may arrive after a newer one",
    },
    Key {
        name: "lanes.count",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 1, max: 64, unit: "lanes" },
        default: Some("2"),
        doc: "Members of the group that one process runs, each with transactions of its own",
    },
    Key {
        name: "memory.max.bytes",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 1 << 20, max: 1 << 40, unit: "bytes" },
        default: Some("67108864"),
        doc: "Records that the lanes of one flow may hold together",
    },
    Key {
        name: "transaction.timeout.ms",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 1_000, max: 900_000, unit: "ms" },
        default: Some("3000"),
        doc: "Longest time for one transaction on the sink",
    },
    Key {
        name: "errors.tolerance",
        scope: Scope::Flow,
        kind: Kind::Choice(&["none", "all"]),
        default: Some("none"),
        doc: "What becomes of a record that cannot be delivered: none holds its partition until somebody has looked; all passes it over, after a dead letter was written if those have a topic",
    },
    Key {
        name: "errors.deadletterqueue.topic.name",
        scope: Scope::Flow,
        kind: Kind::OptionalTopic,
        default: Some(""),
        doc: "Topic for dead letters: the records that errors.tolerance = all passes over; it is created where it is missing",
    },
    Key {
        name: "errors.deadletterqueue.topic.replication.factor",
        scope: Scope::Flow,
        kind: Kind::Replicas,
        default: Some("default"),
        doc: "Its replicas where it is created; default is the default.replication.factor of the brokers",
    },
    Key {
        name: "errors.deadletterqueue.cluster",
        scope: Scope::Flow,
        kind: Kind::Choice(&["sink", "source"]),
        default: Some("sink"),
        doc: "Which cluster of the flow keeps its dead letters",
    },
    Key {
        name: "start.position",
        scope: Scope::Flow,
        kind: Kind::StartPosition,
        default: Some("auto"),
        doc: "Where a new group starts in the partitions that exist by then; auto leaves that to the reset rule of the group",
    },
    Key {
        name: "limit.bytes.per.second",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 0, max: 1 << 40, unit: "bytes a second" },
        default: Some("0"),
        doc: "Most bytes of record batches that one process copies for a flow; 0 is no limit",
    },
    Key {
        name: "limit.records.per.second",
        scope: Scope::Flow,
        kind: Kind::Integer { min: 0, max: 1 << 40, unit: "records a second" },
        default: Some("0"),
        doc: "Most records that one process copies for a flow; 0 is no limit",
    },
    Key {
        name: "sink.topic.name",
        scope: Scope::Flow,
        kind: Kind::TopicName,
        default: Some("${topic}"),
        doc: "Name of a topic on the sink",
    },
    Key {
        name: "sink.partition.mapping",
        scope: Scope::Flow,
        kind: Kind::Choice(&["same", "modulo", "key"]),
        default: Some("same"),
        doc: "Partition on the sink: the same, the same modulo their count there, or the one that Kafka's producer chooses by the key",
    },
    Key {
        name: "compression.type",
        scope: Scope::Flow,
        kind: Kind::Choice(&["producer", "none", "gzip", "snappy", "lz4", "zstd"]),
        default: Some("producer"),
        doc: "Codec on the sink; producer leaves batches as they are",
    },
    Key {
        name: "sink.hop.header.enable",
        scope: Scope::Flow,
        kind: Kind::Boolean,
        default: Some("false"),
        doc: "Whether each record gets a header with the id of the source cluster, and none goes where it has been",
    },
];
