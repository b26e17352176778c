//! The topic of a flow's dead letters: it stands before anything is acquired.

use crate::bridge::check::{Finding, Verdict, refusal, target};
use crate::config::{DeadLetterConfig, ErrorsConfig};
use crate::flow::Flow;
use crate::health::Health;
use crate::limits::DEAD_LETTER_BYTES_MAX;
use crate::wire::admin::Mode;
use crate::wire::backoff::Backoff;
use crate::wire::probe::{Operation, allowed};
use crate::wire::topics::{NewTopic, create_topics};
use crate::wire::{Client, Code, WireError};

pub mod post;

/// What is looked at, as findings and troubles name it.
const SUBJECT: &str = "dead letters";

/// Waits until the topic is there, and creates it where it is missing.
pub async fn prepare(flow: &Flow, health: &Health) {
    let ErrorsConfig::DeadLetter(letters) = &flow.errors else { return };
    let mut client = Client::new(flow.for_dead_letters(letters).sink);
    let mut backoff = Backoff::default();
    while let Err(error) = try_prepare(&mut client, letters).await {
        health.trouble(SUBJECT, error);
        tokio::time::sleep(backoff.pause()).await;
    }
    health.well(SUBJECT);
}

async fn try_prepare(client: &mut Client, letters: &DeadLetterConfig) -> Result<(), WireError> {
    if exists(client, &letters.topic).await? {
        return Ok(());
    }
    match create(client, letters, Mode::Apply).await {
        // Another worker was faster.
        Err(error) if error.code() == Some(Code::TopicAlreadyExists) => Ok(()),
        outcome => outcome,
    }
}

async fn exists(client: &mut Client, topic: &str) -> Result<bool, WireError> {
    match client.topics(&[topic.to_owned()]).await?.pop() {
        Some((_, Ok(_))) => Ok(true),
        Some((_, Err(error))) if error.code() != Some(Code::UnknownTopicOrPartition) => Err(error),
        _ => Ok(false),
    }
}

/// One partition, as Kafka Connect does it. A record may be here because it is too large for its own topic, so this one takes whatever
/// fits into a request. Letters are not removed by age: somebody has to look at them.
async fn create(client: &mut Client, letters: &DeadLetterConfig, mode: Mode) -> Result<(), WireError> {
    let configs = [("max.message.bytes", DEAD_LETTER_BYTES_MAX.to_string()), ("retention.ms", "-1".to_owned())];
    let topic = NewTopic {
        name: letters.topic.clone(),
        partitions: 1,
        replication: letters.replication,
        configs: configs.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    create_topics(client, &[topic], mode).await.pop().unwrap_or(Ok(()))
}

/// Whether dead letters can be written, for `check`.
pub async fn look(flow: &Flow) -> Result<Vec<Finding>, WireError> {
    let says = match &flow.errors {
        ErrorsConfig::Stop => "a record that cannot be delivered is held, with its partition (errors.tolerance = none)",
        ErrorsConfig::Skip => {
            "a record that cannot be delivered is passed over and stands nowhere: set errors.deadletterqueue.topic.name to keep it"
        }
        ErrorsConfig::DeadLetter(letters) => return look_at(flow, letters).await,
    };
    let verdict = if flow.errors == ErrorsConfig::Skip { Verdict::Warning } else { Verdict::Note };
    Ok(vec![Finding::new("errors", verdict, says)])
}

async fn look_at(flow: &Flow, letters: &DeadLetterConfig) -> Result<Vec<Finding>, WireError> {
    let flow = flow.for_dead_letters(letters);
    let mut client = Client::new(flow.sink.clone());
    let place = format!("topic {} on cluster {}", letters.topic, client.cluster());
    if !exists(&mut client, &letters.topic).await? {
        let refused = refusal(SUBJECT, create(&mut client, letters, Mode::Validate).await)?;
        let note = Finding::new(SUBJECT, Verdict::Note, format!("run creates the {place}"));
        return Ok(vec![refused.unwrap_or(note)]);
    }
    let rights = allowed(&mut client, std::slice::from_ref(&letters.topic)).await?;
    let mut findings = vec![];
    if rights.iter().any(|(_, allowed)| !allowed.has(Operation::Write)) {
        findings.push(Finding::new(SUBJECT, Verdict::NotPermitted, format!("grant WRITE on the {place}")));
    }
    if letters.is_on_source {
        findings.push(target::transactions(&mut client, &flow).await?);
    }
    if findings.is_empty() {
        findings.push(Finding::new(SUBJECT, Verdict::Fine, place));
    }
    Ok(findings)
}
