//! Compacted topics: read in order, unless the flow says otherwise.
//!
//! A share group knows no order between deliveries, so an older value of a key may arrive after a newer one, and compaction on the
//! target would keep the older one for ever. So compacted topics of a flow are read through its consumer group. A topic that becomes
//! compacted while the share group reads it is not acquired from any more, while the others flow.

use crate::limits::NAMED_TOPICS_MAX;
use crate::wire::topics::Settings;

/// Kafka's topic config that says whether a topic is compacted.
pub const POLICY: &str = "cleanup.policy";

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
    use crate::wire::topics::Setting;

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
    fn many_names_are_counted() {
        let names: Vec<String> = (0..NAMED_TOPICS_MAX + 2).map(|number| format!("t{number}")).collect();
        assert!(some(&names).starts_with("t0, t1, ") && some(&names).ends_with(" and 2 more"));
        assert_eq!(some(&names[..1]), "t0");
    }
}
