//! The metrics: a closed list of names. The first ones are those of KIP-1302 with our prefix.

use std::fmt;
use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::config::Protocol;

mod lanes;
mod rate;
mod seconds;

pub use lanes::{LaneMetrics, Lanes, Sensor};
pub use seconds::Seconds;

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
    pub outcome: &'static str,
}

/// Label of a metric about what was lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LossLabels {
    /// Why. Of locks: expired, refused or connection. Of records: retention or delivery_limit.
    pub cause: &'static str,
}

/// Label of a metric about transactions that have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabels {
    /// How: committed, aborted (by us) or fenced (ended by somebody else, or not known to be committed).
    pub outcome: &'static str,
}

/// Label of a metric about topics that a pattern matches and that are not copied.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SkipLabels {
    /// Why: excluded, internal or too_many.
    pub reason: String,
}

macro_rules! sensors_of {
    ($name:ident, $row:ident, $what:literal;
        rated { $($rated:ident: $rated_in:pat, $rated_metric:literal, $rated_help:literal;)* }
        plain { $($plain:ident: $type:ty, $plain_in:pat, $plain_metric:literal, $plain_help:literal;)* }
    ) => {
        #[doc = concat!("What a lane counts ", $what, ". A clone counts on the same counters.")]
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $(#[doc = $rated_help] pub $rated: Sensor,)*
            $(#[doc = $plain_help] pub $plain: $type,)*
        }

        impl $name {
            /// Tells the sensors that lanes have which read as these do.
            fn encode(rows: &[lanes::$row], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
                $(
                    let having = || rows.iter().filter(|row| matches!(row.protocol, $rated_in));
                    let totals: Vec<_> = having().map(|row| (&row.labels, row.sensors.$rated.total.clone())).collect();
                    lanes::tell(encoder, ($rated_metric, concat!($rated_help, ".")), &totals)?;
                    let rates: Vec<_> = having().map(|row| (&row.labels, row.sensors.$rated.per_second())).collect();
                    lanes::tell(encoder, (concat!($rated_metric, "_rate"), concat!($rated_help, ", in a second.")), &rates)?;
                )*
                $(
                    let having = rows.iter().filter(|row| matches!(row.protocol, $plain_in));
                    let samples: Vec<_> = having.map(|row| (&row.labels, row.sensors.$plain.clone())).collect();
                    lanes::tell(encoder, ($plain_metric, concat!($plain_help, ".")), &samples)?;
                )*
                Ok(())
            }
        }
    };
}

sensors_of! { TopicSensors, TopicRow, "of a topic, labels `flow`, `lane` and `topic`";
    rated {
        acquired: Protocol::Share, "sink_record_acquire", "Offsets acquired from the source";
        acknowledged: Protocol::Share, "sink_record_acknowledge", "Offsets acknowledged as done at the source";
        released: Protocol::Share, "sink_record_release", "Offsets released at shutdown";
        rejected: Protocol::Share, "sink_record_reject", "Offsets rejected: the share group delivers them to nobody again";
        read: _, "sink_record_read", "Offsets that a lane was given to write";
        sent: _, "sink_record_send", "Records committed on the target";
    }
    plain {
        redelivered: Counter, Protocol::Share, "sink_record_redelivery", "Offsets acquired that had been delivered before";
        acknowledge_time: Seconds, Protocol::Share, "acknowledge_time_seconds", "Time from the fetch of a parcel to its acknowledgement";
    }
}

sensors_of! { LaneSensors, LaneRow, "by itself, labels `flow` and `lane`";
    rated {
        commits: Protocol::Consumer, "offset_commit_completion", "Commits of offsets that the group has stored";
        commits_skipped: Protocol::Consumer, "offset_commit_completion_skip", "Commits of offsets that came too late: the partitions were somebody else's";
    }
    plain {
        partitions: Gauge<i64, AtomicI64>, Protocol::Consumer, "partition_count", "Topic partitions that are assigned";
        commit_number: Gauge<i64, AtomicI64>, Protocol::Consumer, "offset_seq_number", "Number of the last commit of offsets";
    }
}

macro_rules! metrics_of {
    ($name:ident, $label:literal, $what:literal; $($field:ident: $type:ty, $metric:literal, $help:literal;)* $(=> $more:ident: $collector:ty;)?) => {
        #[doc = concat!("The metrics of one ", $what, ", label `", $label, "`. A clone counts on the same counters.")]
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $(#[doc = $help] pub $field: $type,)*
            $(#[doc = concat!("Its ", stringify!($more), ".")] pub $more: $collector,)?
        }

        impl $name {
            #[doc = concat!("Registers the metrics of a ", $what, ".")]
            pub fn register(registry: &mut Registry, name: &str) -> Self {
                let metrics = Self::default();
                let registry = registry.sub_registry_with_label(($label.into(), name.to_owned().into()));
                $(registry.register($metric, $help, metrics.$field.clone());)*
                $(registry.register_collector(Box::new(metrics.$more.clone()));)?
                metrics
            }
        }
    };
}

metrics_of! { FlowMetrics, "flow", "flow";
    looped: Counter, "sink_record_loop_drop", "Records that have been on the target before, and were not written again";
    lost: Counter, "acknowledge_lost", "Offsets written whose acknowledgement was not stored: they are delivered again";
    bytes_sent: Counter, "sink_byte_send", "Bytes of record batches committed on the target";
    carved: Family<CarveLabels, Counter>, "batch_carve", "Record batches that could not be forwarded as they were, and were taken apart";
    refused: Family<RefuseLabels, Counter>, "sink_record_error", "Records that could not be delivered, by what was done with them";
    replication_latency: Seconds, "replication_latency_seconds", "Time from the timestamp of a parcel's first record batch to its commit on the target";
    pipeline_latency: Seconds, "pipeline_latency_seconds", "Time from the fetch of a parcel to its commit on the target";
    transactions: Family<OutcomeLabels, Counter>, "transaction", "Transactions of this process that have ended";
    decided: Counter, "transaction_decide", "Transactions of dead workers that were aborted for them";
    records_lost: Family<LossLabels, Counter>, "record_lost", "Offsets that the group has passed, and that are on the target only if they were copied before";
    locks_lost: Family<LossLabels, Counter>, "lock_lost", "Offsets whose acquisition lock ended before they were finished: they are delivered again";
    renewals: Counter, "lock_renewal", "Offsets whose acquisition lock was renewed";
    in_flight: Gauge<i64, AtomicI64>, "in_flight_records", "Offsets that the lanes of this process hold";
    window: Gauge<i64, AtomicI64>, "in_flight_window_records", "Offsets that all members of the share group may hold together; -1 where that is unknown, or there is no share group";
    held: Gauge<i64, AtomicI64>, "held_records", "Records held for a topic partition in trouble";
    held_bytes: Gauge<i64, AtomicI64>, "memory_bytes", "Bytes of record batches in memory";
    rewritten: Gauge<i64, AtomicI64>, "rewritten_offsets", "Offsets rewritten by an unclean leader election of the source that are still to be copied";
    recopied: Counter, "rewritten_record_copy", "Records copied from the source's log, since its share group does not deliver them";
    backlog: Gauge<i64, AtomicI64>, "group_backlog", "Sum of the lags of all topic partitions; -1 while it is unknown";
    delay: Gauge<i64, AtomicI64>, "group_delay_seconds", "Age of the oldest record that the group still has to do, in the worst topic partition; -1 while it is unknown";
    truncated: Counter, "log_truncation", "Times that the log of a topic partition of the source was found cut below what had been read of it";
    topics: Gauge<i64, AtomicI64>, "topics", "Topics that are copied";
    topics_skipped: Family<SkipLabels, Gauge<i64, AtomicI64>>, "topics_skipped", "Topics that a pattern matches and that are not copied";
    config_differences: Gauge<i64, AtomicI64>, "topic_config_differences", "Topic configs that were set on the target by hand and are left alone";
    lag: Family<PartitionLabels, Gauge<i64, AtomicI64>>, "group_lag", "Records that the group still has to do";
    => lanes: Lanes;
}

/// Values of [`OutcomeLabels`], of [`RefuseLabels`], of [`LossLabels`] of locks, and of those of records: told from the start.
const OUTCOMES: [&str; 3] = ["committed", "aborted", "fenced"];
const REFUSALS: [&str; 3] = ["stop", "skip", "dead_letter"];
const LOCK_LOSSES: [&str; 3] = ["expired", "refused", "connection"];
const RECORD_LOSSES: [&str; 2] = ["retention", "delivery_limit"];

impl FlowMetrics {
    /// Tells what can be counted and was not yet, since a sample that appears with its first event hides that event from rates.
    fn tell_zeros(&self) {
        OUTCOMES.iter().for_each(|outcome| drop(self.ended(outcome)));
        REFUSALS.iter().for_each(|outcome| self.refuse(outcome, 0));
        LOCK_LOSSES.iter().for_each(|cause| self.unlock(cause, 0));
        RECORD_LOSSES.iter().for_each(|cause| self.lose(cause, 0));
    }

    /// Transactions of this process with this outcome.
    pub fn ended(&self, outcome: &'static str) -> Counter {
        self.transactions.get_or_create_owned(&OutcomeLabels { outcome })
    }

    /// So many records could not be delivered.
    pub fn refuse(&self, outcome: &'static str, records: u64) {
        self.refused.get_or_create_owned(&RefuseLabels { outcome }).inc_by(records);
    }

    /// Records committed on the target, by all lanes.
    pub fn sent(&self) -> u64 {
        self.lanes.sum(|topic| topic.sent.total())
    }

    /// The locks of so many offsets have ended.
    pub fn unlock(&self, cause: &'static str, offsets: u64) {
        self.locks_lost.get_or_create(&LossLabels { cause }).inc_by(offsets);
    }

    /// The group has passed so many offsets for good.
    pub fn lose(&self, cause: &'static str, offsets: u64) {
        self.records_lost.get_or_create(&LossLabels { cause }).inc_by(offsets);
    }
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
