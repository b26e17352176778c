//! The topic configs that a target topic takes from its source.

/// When the source's value of a config is wanted on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Also where it is a default of the source's brokers: the target's default may differ, and that would cost records.
    Always,
    /// Where it was set on the topic itself.
    WhenSet,
}

/// Every copied config, with why it is.
///
/// Source: Kafka's topic configs, 4.4. What is not here belongs to the cluster that a topic lies in, or would refuse or change records:
/// docs/CONFIGURATION.md says so for each.
pub const COPIED_CONFIGS: [(&str, Copied, &str); 10] = [
    ("cleanup.policy", Copied::Always, "otherwise compaction would be lost, or would begin"),
    ("retention.ms", Copied::Always, "otherwise old records could be deleted on arrival"),
    ("retention.bytes", Copied::Always, "otherwise records could be deleted that the source still has"),
    ("max.message.bytes", Copied::Always, "otherwise large record batches could be refused"),
    ("segment.ms", Copied::WhenSet, "decides with retention.ms when records go"),
    ("segment.bytes", Copied::WhenSet, "decides with retention.bytes when records go"),
    ("delete.retention.ms", Copied::WhenSet, "how long readers of a compacted topic see a tombstone"),
    ("min.compaction.lag.ms", Copied::WhenSet, "how long readers of a compacted topic see every record"),
    ("max.compaction.lag.ms", Copied::WhenSet, "when a superseded record is gone for sure"),
    ("min.cleanable.dirty.ratio", Copied::WhenSet, "how much of a compacted topic may be superseded"),
];

/// Whether a config is copied at all.
pub(super) fn is_copied(config: &str) -> bool {
    COPIED_CONFIGS.iter().any(|(name, ..)| *name == config)
}
