//! Carries changes out on the target.

use super::change::Change;
use crate::wire::admin::Mode;
use crate::wire::topics::{alter_topics, create_topics, grow_topics};
use crate::wire::{Client, Code, WireError};

/// Carries out each change, or has it judged, as many at once as fit in a request; how it went for each, in their order. What another
/// worker has done meanwhile went well.
pub async fn apply(client: &mut Client, changes: &[Change], mode: Mode) -> Vec<Result<(), WireError>> {
    let (mut create, mut grow, mut alter) = (vec![], vec![], vec![]);
    for change in changes {
        match change {
            Change::Create(topic) => create.push(topic.clone()),
            Change::Grow { topic, to, .. } => grow.push((topic.as_str(), *to)),
            Change::Alter { topic, configs } => alter.push((topic.as_str(), configs)),
        }
    }
    let mut created = create_topics(client, &create, mode).await.into_iter();
    let mut grown = grow_topics(client, &grow, mode).await.into_iter();
    let mut altered = alter_topics(client, &alter, mode).await.into_iter();
    let outcome = |change: &Change| {
        let outcome = match change {
            Change::Create(_) => created.next(),
            Change::Grow { .. } => grown.next(),
            Change::Alter { .. } => altered.next(),
        };
        let outcome = outcome.expect("every change has an outcome").or_else(is_done_already);
        if outcome.is_ok() && mode == Mode::Apply {
            tracing::info!(%change, "changed on the target");
        }
        outcome
    };
    changes.iter().map(outcome).collect()
}

/// Of two workers that create or grow a topic, the second one is told so.
fn is_done_already(error: WireError) -> Result<(), WireError> {
    match error.code() {
        Some(Code::TopicAlreadyExists | Code::InvalidPartitions) => Ok(()),
        _ => Err(error),
    }
}
