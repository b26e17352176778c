//! What is wrong right now, and why. `/ready` shows it; the log tells when it begins and ends.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

/// A board of troubles, shared by everything in the process. Each handle writes under its own scope, such as `orders/lane-0`.
///
/// Subjects are lanes, brokers, topics and topic partitions, so the board is bounded by the configuration.
#[derive(Debug, Clone)]
pub struct Health {
    troubles: Arc<Mutex<BTreeMap<String, String>>>,
    scope: Arc<str>,
}

impl Default for Health {
    fn default() -> Self {
        Self { troubles: Arc::default(), scope: "".into() }
    }
}

impl Health {
    /// A handle for a part of the process.
    pub fn within(&self, part: impl Display) -> Self {
        let scope = self.subject(part).into();
        Self { troubles: self.troubles.clone(), scope }
    }

    /// Something is wrong with `subject`. Said again with the same reason, it is not logged again.
    pub fn trouble(&self, subject: impl Display, reason: impl Display) {
        let (subject, reason) = (self.subject(subject), reason.to_string());
        let before = self.lock().insert(subject.clone(), reason.clone());
        if before.as_ref() != Some(&reason) {
            tracing::warn!(%subject, %reason, "trouble");
        }
    }

    /// Nothing is wrong with `subject` any more.
    pub fn well(&self, subject: impl Display) {
        let subject = self.subject(subject);
        if self.lock().remove(&subject).is_some() {
            tracing::info!(%subject, "well again");
        }
    }

    /// All troubles: subject and reason. Empty means ready.
    pub fn troubles(&self) -> Vec<(String, String)> {
        self.lock().clone().into_iter().collect()
    }

    fn subject(&self, part: impl Display) -> String {
        if self.scope.is_empty() { part.to_string() } else { format!("{}/{part}", self.scope) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.troubles.lock().expect("no code panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_lasts_until_its_subject_is_well() {
        let health = Health::default();
        let lane = health.within("orders").within("lane-0");
        lane.trouble("target", "no answer");
        lane.trouble("orders-3", "not authorized");
        lane.well("target");
        assert_eq!(health.troubles(), [("orders/lane-0/orders-3".to_owned(), "not authorized".to_owned())]);
    }
}
