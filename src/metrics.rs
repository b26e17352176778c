//! The metrics: a closed list of names. The first ones are those of KIP-1302 with our prefix.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of a metric about a topic partition of the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PartitionLabels {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
}

/// Label of a metric about batches that were taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CarveLabels {
    /// Why a batch could not be forwarded as it was.
    pub reason: String,
}

/// Label of a metric about records that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefuseLabels {
    /// What was done with them: stop, skip or dead_letter.
    pub outcome: String,
}

/// Label of a metric about records that were acquired and are ours no longer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LossLabels {
    /// Why: expired, refused or connection.
    pub cause: String,
}

/// Label of a metric about topics that a pattern matches and that are not copied.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SkipLabels {
    /// Why: excluded, internal or too_many.
    pub reason: String,
}

macro_rules! metrics_of {
    ($name:ident, $label:literal, $what:literal; $($field:ident: $type:ty, $metric:literal, $help:literal;)*) => {
        #[doc = concat!("The metrics of one ", $what, ", label `", $label, "`. A clone counts on the same counters.")]
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $(#[doc = $help] pub $field: $type,)*
        }

        impl $name {
            #[doc = concat!("Registers the metrics of a ", $what, ".")]
            pub fn register(registry: &mut Registry, name: &str) -> Self {
                let metrics = Self::default();
                let registry = registry.sub_registry_with_label(($label.into(), name.to_owned().into()));
                $(registry.register($metric, $help, metrics.$field.clone());)*
                metrics
            }
        }
    };
}

metrics_of! { FlowMetrics, "flow", "flow";
    acquired: Counter, "sink_record_acquire", "Records acquired from the source";
    redelivered: Counter, "sink_record_redelivery", "Records acquired that had been delivered before";
    sent: Counter, "sink_record_send", "Records committed on the target";
    looped: Counter, "sink_record_loop_drop", "Records that have been on the target before, and were not written again";
    acknowledged: Counter, "sink_record_acknowledge", "Offsets acknowledged as done at the source";
    released: Counter, "sink_record_release", "Offsets released at shutdown";
    lost: Counter, "acknowledge_lost", "Offsets written whose acknowledgement was not stored: they are delivered again";
    bytes_sent: Counter, "sink_byte_send", "Bytes of record batches committed on the target";
    carved: Family<CarveLabels, Counter>, "batch_carve", "Record batches that could not be forwarded as they were, and were taken apart";
    refused: Family<RefuseLabels, Counter>, "sink_record_error", "Records that could not be delivered, by what was done with them";
    commits: Counter, "transaction_commit", "Transactions committed on the target";
    aborts: Counter, "transaction_abort", "Transactions aborted on the target";
    fenced: Counter, "transaction_fence", "Transactions of this process that somebody else has ended";
    decided: Counter, "transaction_decide", "Transactions of dead workers that were aborted for them";
    locks_lost: Family<LossLabels, Counter>, "lock_lost", "Offsets whose acquisition lock ended before they were finished: they are delivered again";
    renewals: Counter, "lock_renewal", "Offsets whose acquisition lock was renewed";
    held: Gauge<i64, AtomicI64>, "held_records", "Records held for a topic partition in trouble";
    held_bytes: Gauge<i64, AtomicI64>, "memory_bytes", "Bytes of record batches in memory";
    rewritten: Gauge<i64, AtomicI64>, "rewritten_offsets", "Offsets rewritten by an unclean leader election of the source that are still to be copied";
    recopied: Counter, "rewritten_record_copy", "Records copied from the source's log, since its share group does not deliver them";
    backlog: Gauge<i64, AtomicI64>, "group_backlog", "Sum of the lags of all topic partitions; -1 while it is unknown";
    delay: Gauge<i64, AtomicI64>, "group_delay_seconds", "Age of the oldest record that the group still has to do, in the worst topic partition; -1 while it is unknown";
    expired: Counter, "offset_expire", "Offsets that retention had removed from the source before they were copied";
    truncated: Counter, "log_truncation", "Times that the log of a topic partition of the source was found cut below what had been read of it";
    topics: Gauge<i64, AtomicI64>, "topics", "Topics that are copied";
    topics_skipped: Family<SkipLabels, Gauge<i64, AtomicI64>>, "topics_skipped", "Topics that a pattern matches and that are not copied";
    config_differences: Gauge<i64, AtomicI64>, "topic_config_differences", "Topic configs that were set on the target by hand and are left alone";
    lag: Family<PartitionLabels, Gauge<i64, AtomicI64>>, "group_lag", "Records that the group still has to do";
}

metrics_of! { ClusterMetrics, "cluster", "cluster";
    opened: Counter, "connection_open", "Connections opened, and authenticated where that is asked for";
    failed: Counter, "connection_failure", "Connections that could not be opened, for whatever reason";
    unauthenticated: Counter, "authentication_failure", "Connections that the broker refused to authenticate";
    reauthenticated: Counter, "reauthentication", "Connections that were authenticated again before their session ended";
    throttled_ms: Counter, "throttle_ms", "Milliseconds of silence that brokers asked for because of a quota";
}

/// An empty registry with our prefix.
pub fn registry() -> Registry {
    Registry::with_prefix("sharebridge")
}
