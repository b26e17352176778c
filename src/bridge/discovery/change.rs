//! What is to be changed on the target for a flow's topics: told as a plan, or carried out. Pure.

use std::fmt;

use crate::config::TargetTopicsConfig;
use crate::wire::admin::Configs;
use crate::wire::topics::{Alterations, NewTopic, Settings};

use super::sync::{Wanted, wanted};

/// Under LogAppendTime the target would put its own time over the source's.
const TIMESTAMP_TYPE: (&str, &str) = ("message.timestamp.type", "CreateTime");

/// One change of a topic on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The topic is missing.
    Create(NewTopic),
    /// It has fewer partitions than its source.
    Grow {
        /// Its name.
        topic: String,
        /// Partitions that it has.
        from: i32,
        /// Partitions that it gets.
        to: i32,
    },
    /// Some of its configs are to follow the source.
    Alter {
        /// Its name.
        topic: String,
        /// The configs.
        configs: Alterations,
    },
}

impl Change {
    /// The topic that is created as its source is.
    pub fn create(topic: &str, partitions: i32, source: &Settings, config: &TargetTopicsConfig) -> Self {
        let own: Wanted = wanted(config.copied(), source);
        let set = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let (name, value) = TIMESTAMP_TYPE;
        let configs: Configs = set.chain([(name.to_owned(), value.to_owned())]).collect();
        Self::Create(NewTopic { name: topic.to_owned(), partitions, replication: config.replication, configs })
    }

    /// Whether records cannot be copied without it.
    pub fn is_needed(&self) -> bool {
        !matches!(self, Self::Alter { .. })
    }

    /// The topic that is changed.
    pub fn topic(&self) -> &str {
        match self {
            Self::Create(NewTopic { name, .. }) => name,
            Self::Grow { topic, .. } | Self::Alter { topic, .. } => topic,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(NewTopic { name, partitions, replication, configs }) => {
                let replicas = replication.map_or("the default number of".to_owned(), |count| count.to_string());
                let configs: Vec<String> = configs.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(
                    f,
                    "create topic {name} with partitions: {partitions}, {replicas} replicas, {}",
                    configs.join(", ")
                )
            }
            Self::Grow { topic, from, to } => write!(f, "grow topic {topic} from {from} to {to} partitions"),
            Self::Alter { topic, configs } => {
                let shown = |(name, value): (&&str, &Option<String>)| match value {
                    Some(value) => format!("{name}={value}"),
                    None => format!("remove {name}"),
                };
                let configs: Vec<String> = configs.iter().map(shown).collect();
                write!(f, "alter topic {topic}: {}", configs.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::topics::Setting;

    #[test]
    fn a_created_topic_has_the_source_s_configs_and_keeps_times() {
        let setting = |value: &str, is_own| Setting { value: value.to_owned(), is_own };
        let source = Settings::from([
            ("retention.ms", setting("5", false)),
            ("segment.ms", setting("6", false)),
            ("segment.bytes", setting("8", true)),
        ]);
        let config = |replication, excluded: &[&str]| TargetTopicsConfig {
            create: true,
            replication,
            sync: true,
            excluded_configs: excluded.iter().map(|name| name.to_string()).collect(),
        };
        let shown = |config| Change::create("t", 3, &source, &config).to_string();
        assert_eq!(
            shown(config(None, &[])),
            "create topic t with partitions: 3, the default number of replicas, message.timestamp.type=CreateTime, retention.ms=5, \
             segment.bytes=8"
        );
        assert_eq!(
            shown(config(Some(2), &["retention.ms", "segment.bytes"])),
            "create topic t with partitions: 3, 2 replicas, message.timestamp.type=CreateTime"
        );
    }

    #[test]
    fn changes_are_told_in_a_line() {
        let configs = [("a", Some("1".to_owned())), ("b", None)].into();
        assert_eq!(Change::Alter { topic: "t".to_owned(), configs }.to_string(), "alter topic t: a=1, remove b");
        let grow = Change::Grow { topic: "t".to_owned(), from: 1, to: 4 };
        assert_eq!((grow.to_string().as_str(), grow.topic()), ("grow topic t from 1 to 4 partitions", "t"));
    }
}
