//! What a flow keeps of the order of records, and why not more (pure).

use std::fmt;

use crate::config::{FlowConfig, Protocol};
use crate::route::Mapping;

/// See the module. It reads like a sentence: `order kept: ...` or `order not kept: ...`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order<'a> {
    /// A share group delivers in any order.
    Shared {
        /// The consumer group through which compacted topics are copied in order; `None` where they are copied like the others.
        compacted: Option<&'a str>,
    },
    /// Each partition of the source is copied in order, into these of the target.
    Kept(Mapping),
}

impl<'a> Order<'a> {
    /// What a flow keeps.
    pub fn of(flow: &'a FlowConfig) -> Self {
        match flow.protocol {
            Protocol::Share if flow.allow_unordered_compacted => Self::Shared { compacted: None },
            Protocol::Share => Self::Shared { compacted: Some(&flow.consumer.id) },
            Protocol::Consumer => Self::Kept(flow.mapping),
        }
    }
}

impl fmt::Display for Order<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { compacted } => {
                f.write_str("order not kept: a share group hands the records of a partition to many at once, and again in any order")?;
                match compacted {
                    Some(group) => write!(f, "; kept for compacted topics alone, which are read through the consumer group {group}"),
                    None => f.write_str("; compacted topics are no exception (allow.unordered.compacted)"),
                }
            }
            Self::Kept(Mapping::Same) => f.write_str("order kept: each partition is copied in order, into the same partition"),
            Self::Kept(Mapping::Modulo) => f.write_str(
                "order kept: each partition of the source is copied in order, into one partition of the target; where several share one \
                 there, their records mix, and the order is lost where the target's count of partitions changes (sink.partition.mapping \
                 = modulo)",
            ),
            Self::Kept(Mapping::Key) => f.write_str(
                "order kept for each key of a partition, and for what has no key: records are spread by key \
                 (sink.partition.mapping = key); not between keys, nor where the target's count of partitions changes",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn said(more: &str) -> String {
        let text = format!(
            "[clusters.a]\nbootstrap.servers = 'a:1'\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\nsource.cluster = 'a'\n\
             sink.cluster = 'b'\ntopics.names = ['t']\n{more}"
        );
        let config = Config::parse(std::path::Path::new("f.toml"), &text).expect("the file is good");
        Order::of(&config.flows[0]).to_string()
    }

    #[test]
    fn the_protocol_decides_and_the_mapping_says_of_what() {
        let share = said("");
        assert!(
            share.starts_with("order not kept: ") && share.contains("consumer group sharebridge-f-ordered"),
            "{share}"
        );
        let all = said("allow.unordered.compacted = true");
        assert!(all.starts_with("order not kept: ") && all.contains("no exception"), "{all}");
        let consumer = "group.protocol = 'consumer'\n";
        for (mapping, words) in [("same", "into the same partition"), ("modulo", "mix"), ("key", "for each key")] {
            let said = said(&format!("{consumer}sink.partition.mapping = '{mapping}'"));
            assert!(said.starts_with("order kept") && said.contains(words), "{mapping}: {said}");
        }
    }
}
