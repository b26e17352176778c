//! What is looked at on the source for a flow that reads through a consumer group.

use super::{Finding, Verdict, refusal};
use crate::config::Engine;
use crate::flow::Flow;
use crate::wire::probe::{fetch_version, group_type, may_commit_offsets, may_describe_group};
use crate::wire::{Client, WireError};

/// Looks at the broker's Fetch, and at the flow's group.
pub(super) async fn look(client: &mut Client, flow: &Flow) -> Result<Vec<Finding>, WireError> {
    let subject = "source consumer group";
    let id = &flow.consumer.id;
    let mut findings = vec![engine(client, flow).await?];
    if group_type(client, id).await?.is_some_and(|kind| kind == "share") {
        let says = format!(
            "cluster {} has a share group {id}: choose another group.id, or delete that group if nobody needs it",
            client.cluster()
        );
        findings.push(Finding::new(subject, Verdict::Misconfigured, says));
        return Ok(findings);
    }
    // To commit takes the same right as to join.
    let refused = refusal(subject, may_commit_offsets(client, id).await)?;
    let refused = match refused {
        None => refusal(subject, may_describe_group(client, id).await)?,
        refused => refused,
    };
    findings.push(refused.unwrap_or_else(|| Finding::new(subject, Verdict::Fine, format!("{id} may be joined"))));
    Ok(findings)
}

async fn engine(client: &mut Client, flow: &Flow) -> Result<Finding, WireError> {
    let subject = "source engine";
    if flow.consumer.engine == Engine::Librdkafka {
        let says = "librdkafka: records are decoded, and compressed anew (consumer.engine)";
        return Ok(Finding::new(subject, Verdict::Fine, says));
    }
    let broker = client.anybody().await?;
    Ok(match fetch_version(&broker) {
        Ok(version) => Finding::new(subject, Verdict::Fine, format!("native, Fetch v{version}")),
        Err(error) => Finding::new(subject, Verdict::NotPermitted, error.to_string()),
    })
}
