//! What is wrong right now, and why. `/ready` shows it; the log tells when it begins and ends.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

/// A board of troubles, shared by everything in the process. Each handle writes under its own scope, such as `orders/lane-0`.
///
/// Subjects are lanes, brokers, topics and topic partitions, so the board is bounded by the configuration.
#[derive(Debug, Clone)]
pub struct Health {
    troubles: Arc<Mutex<BTreeMap<String, Trouble>>>,
    scope: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    reason: String,
    /// Whether the log tells of it.
    is_logged: bool,
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

    /// `subject` is not ready yet, as is usual at the start: nothing that a log should tell.
    pub fn pending(&self, subject: impl Display, reason: impl Display) {
        let trouble = Trouble { reason: reason.to_string(), is_logged: false };
        self.lock().insert(self.subject(subject), trouble);
    }

    /// Something is wrong with `subject`. Said again with the same reason, it is not logged again.
    pub fn trouble(&self, subject: impl Display, reason: impl Display) {
        let subject = self.subject(subject);
        let trouble = Trouble { reason: reason.to_string(), is_logged: true };
        let before = self.lock().insert(subject.clone(), trouble.clone());
        if before.as_ref() != Some(&trouble) {
            tracing::warn!(%subject, reason = trouble.reason, "trouble");
        }
    }

    /// Nothing is wrong with `subject` any more.
    pub fn well(&self, subject: impl Display) {
        let subject = self.subject(subject);
        if self.lock().remove(&subject).is_some_and(|trouble| trouble.is_logged) {
            tracing::info!(%subject, "well again");
        }
    }

    /// All troubles: subject and reason. Empty means ready.
    pub fn troubles(&self) -> Vec<(String, String)> {
        self.lock().iter().map(|(subject, trouble)| (subject.clone(), trouble.reason.clone())).collect()
    }

    fn subject(&self, part: impl Display) -> String {
        if self.scope.is_empty() { part.to_string() } else { format!("{}/{part}", self.scope) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Trouble>> {
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
