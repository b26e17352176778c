//! The table of keys: the only place that says what may stand in the file.

use super::value::Kind;

/// Tables that a key may stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// `[bridge]`
    Bridge,
    /// `[clusters.<name>]`
    Cluster,
    /// `[flows.<name>]` and `[defaults]`
    Flow,
    /// `[flows.<name>]` only
    FlowOnly,
}

impl Scope {
    /// The tables as people write them.
    pub(super) fn tables(self) -> &'static str {
        match self {
            Scope::Bridge => "[bridge]",
            Scope::Cluster => "[clusters.<name>]",
            Scope::Flow => "[flows.<name>] or [defaults]",
            Scope::FlowOnly => "[flows.<name>]",
        }
    }
}

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

/// Every key, by table and in reading order.
///
/// No name may be the beginning of another: TOML would refuse a file with both.
pub(super) const KEYS: [Key; 25] = [
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
    Key { name: "topics.names", scope: Scope::FlowOnly, kind: Kind::Topics, default: None, doc: "Topics to copy" },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_the_beginning_of_another() {
        for short in &KEYS {
            for long in &KEYS {
                assert!(!long.name.starts_with(&format!("{}.", short.name)));
            }
        }
    }

    #[test]
    fn names_are_unique() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..index].iter().all(|other| other.name != key.name));
        }
    }

    #[test]
    fn numbers_end_in_their_unit() {
        for key in &KEYS {
            if let Kind::Integer { unit: unit @ ("ms" | "bytes"), .. } = key.kind {
                assert!(key.name.ends_with(&format!(".{unit}")), "{}", key.name);
            }
        }
    }

    #[test]
    fn defaults_are_good_values() {
        for key in &KEYS {
            if let Some(default) = key.default {
                assert!(key.kind.check_text(default).is_ok(), "{}", key.name);
            }
        }
    }
}
