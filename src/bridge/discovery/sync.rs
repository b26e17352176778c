//! Keeps topic configs on the target in step with the source, and hands off what somebody has set there. Pure.
//!
//! The base of a config is the value that the source was last seen to want. A target that has the base is ours to change; any other
//! value is somebody's. Who sees a topic for the first time knows no base: it only fills what is not set.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::Copied;
use crate::wire::topics::{Alterations, Settings};

/// The value that the source wants of each config; `None` where the target's default shall be in force.
pub type Wanted = BTreeMap<&'static str, Option<String>>;

/// What is to be done about the configs of a topic.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What is changed on the target.
    pub alter: Alterations,
    /// What is left alone, since somebody has set it there.
    pub left: Vec<Difference>,
}

/// A config that differs and stays so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub config: &'static str,
    /// What the source wants.
    pub source: Option<String>,
    /// What was set on the target.
    pub target: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        write!(f, "{} is {}, at the source {}", self.config, shown(&self.target), shown(&self.source))
    }
}

/// What the source wants of the target, of the configs that its cluster has.
pub fn wanted(copied: impl Iterator<Item = (&'static str, Copied)>, source: &Settings) -> Wanted {
    let value = |(name, when): (&'static str, Copied)| {
        let setting = source.get(name)?;
        let counts = when == Copied::Always || setting.is_own;
        Some((name, counts.then(|| setting.value.clone())))
    };
    copied.filter_map(value).collect()
}

/// Compares what is wanted with what the target has, config by config.
pub fn compare(wanted: &Wanted, target: &Settings, base: &Wanted) -> Comparison {
    let mut comparison = Comparison::default();
    for (config, source) in wanted {
        // A cluster that lacks the config can't be given it.
        let Some(setting) = target.get(config) else { continue };
        let own = setting.is_own.then(|| setting.value.clone());
        let in_force = Some(&setting.value);
        if own == *source || (own.is_none() && source.as_ref() == in_force) {
            continue;
        }
        let is_ours = match base.get(config) {
            None => own.is_none(),
            Some(base) => base != source && (own == *base || (own.is_none() && base.as_ref() == in_force)),
        };
        if is_ours {
            comparison.alter.insert(config, source.clone());
        } else {
            comparison.left.push(Difference { config, source: source.clone(), target: own });
        }
    }
    comparison
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::COPIED_CONFIGS;
    use crate::wire::topics::Setting;

    fn settings(pairs: &[(&'static str, &str, bool)]) -> Settings {
        pairs
            .iter()
            .map(|(name, value, is_own)| (*name, Setting { value: value.to_string(), is_own: *is_own }))
            .collect()
    }

    /// `own` of the target, `None` being a default of 7.
    fn verdict(source: Option<&str>, own: Option<&str>, base: Option<Option<&str>>) -> &'static str {
        let name = "retention.ms";
        let wanted = Wanted::from([(name, source.map(str::to_owned))]);
        let target = settings(&[(name, own.unwrap_or("7"), own.is_some())]);
        let base = base.map(|base| (name, base.map(str::to_owned))).into_iter().collect();
        let Comparison { alter, left } = compare(&wanted, &target, &base);
        match (alter.get(name), left.len()) {
            (None, 0) => "keep",
            (None, 1) => "leave",
            (Some(Some(value)), 0) => {
                assert_eq!(Some(value.as_str()), source);
                "set"
            }
            (Some(None), 0) => {
                assert_eq!(source, None);
                "remove"
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn at_first_sight_only_what_is_not_set_is_filled() {
        for (source, own, expected) in [
            (Some("1"), None, "set"),
            (Some("7"), None, "keep"),
            (Some("1"), Some("1"), "keep"),
            (Some("1"), Some("2"), "leave"),
            (None, Some("2"), "leave"),
            (None, None, "keep"),
        ] {
            assert_eq!(verdict(source, own, None), expected, "{source:?} {own:?}");
        }
    }

    #[test]
    fn what_still_has_the_base_follows_and_nothing_else() {
        for (base, source, own, expected) in [
            (Some("1"), Some("2"), Some("1"), "set"),
            (Some("1"), None, Some("1"), "remove"),
            (None, Some("2"), None, "set"),
            (Some("7"), Some("2"), None, "set"),
            (Some("1"), Some("2"), Some("2"), "keep"),
            (Some("1"), Some("2"), Some("3"), "leave"),
            (Some("1"), Some("1"), Some("3"), "leave"),
            (Some("1"), Some("1"), None, "leave"),
            (Some("1"), None, None, "keep"),
            (None, Some("2"), Some("3"), "leave"),
        ] {
            assert_eq!(verdict(source, own, Some(base)), expected, "base {base:?}, source {source:?}, target {own:?}");
        }
    }

    #[test]
    fn defaults_of_the_source_count_only_where_they_protect_records() {
        let copied = COPIED_CONFIGS.iter().map(|(name, when, _)| (*name, *when));
        let source =
            settings(&[("retention.ms", "5", false), ("segment.ms", "6", false), ("segment.bytes", "8", true)]);
        let expected = [("retention.ms", Some("5")), ("segment.ms", None), ("segment.bytes", Some("8"))];
        let expected: Wanted = expected.map(|(name, value)| (name, value.map(str::to_owned))).into();
        assert_eq!(wanted(copied, &source), expected);
    }

    #[test]
    fn a_config_that_the_target_s_cluster_lacks_is_passed_over() {
        let wanted = Wanted::from([("segment.ms", Some("1".to_owned()))]);
        assert_eq!(compare(&wanted, &Settings::new(), &Wanted::new()), Comparison::default());
    }
}
