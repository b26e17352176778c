//! Compacted topics: copied only where the flow allows it.
//!
//! A share group knows no order between deliveries, so an older value of a key may arrive after a newer one, and compaction on the
//! target would keep the older one for ever. A flow that names a compacted topic is refused at its start; a topic that becomes one
//! later is not acquired from any more, while the others flow. One that only a pattern matches is passed over.

use crate::config::FlowConfig;
use crate::limits::NAMED_TOPICS_MAX;
use crate::wire::topics::Settings;

/// Kafka's topic config that says whether a topic is compacted.
pub const POLICY: &str = "cleanup.policy";

/// A flow whose topics are compacted, which it does not allow.
#[derive(Debug, thiserror::Error)]
#[error(
    "flow {flow}: compacted on cluster {cluster} ({POLICY} has compact): {topics}. A share group keeps no order, so that an older value \
     of a key may arrive after a newer one, and compaction would keep the older one. Set allow.unordered.compacted = true in \
     [flows.{flow}] to accept that, or take the topic out of topics.names and leave it to a tool that keeps the order of a partition"
)]
pub struct Compacted {
    flow: String,
    cluster: String,
    topics: String,
}

impl Compacted {
    /// The refusal of a flow that names these topics.
    pub fn new(flow: &FlowConfig, compacted: &[String]) -> Self {
        let topics = match compacted {
            [topic] => format!("topic {topic}"),
            topics => format!("topics {}", some(topics)),
        };
        Self { flow: flow.name.clone(), cluster: flow.source.name.clone(), topics }
    }
}

/// Whether a topic is known not to be compacted.
pub fn is_uncompacted(settings: &Settings) -> bool {
    settings.get(POLICY).is_some_and(|policy| !policy.value.split(',').any(|word| word.trim() == "compact"))
}

/// Names of topics for a message, the first ones of many.
pub fn some(topics: &[impl AsRef<str>]) -> String {
    let named = topics.iter().take(NAMED_TOPICS_MAX).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match topics.len().saturating_sub(NAMED_TOPICS_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::wire::topics::Setting;

    fn flow() -> FlowConfig {
        let text = "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\n\
                    source.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t0']\n";
        Config::parse(std::path::Path::new("f.toml"), text).expect("the file is good").flows.remove(0)
    }

    #[test]
    fn a_policy_with_compact_is_compacted_and_so_is_an_unknown_one() {
        let is_fine = |policy: &str| {
            let setting = Setting { value: policy.to_owned(), is_own: false };
            is_uncompacted(&[(POLICY, setting)].into())
        };
        assert_eq!(["delete", "", "compact", "delete, compact"].map(is_fine), [true, true, false, false]);
        assert!(!is_uncompacted(&Settings::new()));
    }

    #[test]
    fn a_refusal_names_the_topics_and_both_ways_out() {
        let many: Vec<String> = (0..NAMED_TOPICS_MAX + 2).map(|number| format!("t{number}")).collect();
        let words = Compacted::new(&flow(), &many).to_string();
        for word in ["flow f", "cluster a", "t0, t1", "and 2 more", "allow.unordered.compacted = true", "topics.names"]
        {
            assert!(words.contains(word), "{word} is not in: {words}");
        }
        assert!(Compacted::new(&flow(), &many[..1]).to_string().contains("topic t0."));
    }
}
