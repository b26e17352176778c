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

macro_rules! flow_metrics {
    ($($field:ident: $type:ty, $name:literal, $help:literal;)*) => {
        /// The metrics of one flow, label `flow`. A clone counts on the same counters.
        #[derive(Debug, Clone, Default)]
        pub struct FlowMetrics {
            $(#[doc = $help] pub $field: $type,)*
        }

        impl FlowMetrics {
            /// Registers the metrics of a flow.
            pub fn register(registry: &mut Registry, flow: &str) -> Self {
                let metrics = Self::default();
                let registry = registry.sub_registry_with_label(("flow".into(), flow.to_owned().into()));
                $(registry.register($name, $help, metrics.$field.clone());)*
                metrics
            }
        }
    };
}

flow_metrics! {
    acquired: Counter, "sink_record_acquire", "Records acquired from the source";
    redelivered: Counter, "sink_record_redelivery", "Records acquired that had been delivered before";
    sent: Counter, "sink_record_send", "Records committed on the target";
    looped: Counter, "sink_record_loop_drop", "Records that have been on the target before, and were not written again";
    acknowledged: Counter, "sink_record_acknowledge", "Offsets acknowledged as done at the source";
    released: Counter, "sink_record_release", "Offsets released at shutdown";
    lost: Counter, "acknowledge_lost", "Offsets written whose acknowledgement was not stored: they are delivered again";
    bytes_sent: Counter, "sink_byte_send", "Bytes of record batches committed on the target";
    carved: Family<CarveLabels, Counter>, "batch_carve", "Record batches that could not be forwarded as they were, and were taken apart";
    commits: Counter, "transaction_commit", "Transactions committed on the target";
    aborts: Counter, "transaction_abort", "Transactions aborted on the target";
    fenced: Counter, "transaction_fence", "Transactions of this process that somebody else has ended";
    decided: Counter, "transaction_decide", "Transactions of dead workers that were aborted for them";
    renewals: Counter, "lock_renewal", "Offsets whose acquisition lock was renewed";
    held: Gauge<i64, AtomicI64>, "held_records", "Records held for a topic partition in trouble";
    held_bytes: Gauge<i64, AtomicI64>, "memory_bytes", "Bytes of record batches in memory";
    rewritten: Gauge<i64, AtomicI64>, "rewritten_offsets", "Offsets rewritten by an unclean leader election of the source that are still to be copied";
    recopied: Counter, "rewritten_record_copy", "Records copied from the source's log, since its share group does not deliver them";
    backlog: Gauge<i64, AtomicI64>, "share_group_backlog", "Sum of the lags of all topic partitions; -1 while it is unknown";
    lag: Family<PartitionLabels, Gauge<i64, AtomicI64>>, "share_group_lag", "Records that the share group still has to do, as the broker says";
}

/// An empty registry with our prefix.
pub fn registry() -> Registry {
    Registry::with_prefix("sharebridge")
}
