//! `sharebridge dead-letters`: lists, shows and replays what a flow could not deliver.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Subcommand;
use serde_json::{Value, json};

use super::{ConfigFile, fail, runtime};
use crate::bridge::dead_letters::post::{Place, Post, PostError, Replay};
use crate::bridge::identity::Identities;
use crate::dead_letter::{Letter, PREFIX};
use crate::error::Exit;
use crate::flow::Flow;
use crate::limits::REPLAYED_LETTERS_MAX;

/// Arguments of `dead-letters`.
#[derive(Debug, clap::Args)]
pub struct DeadLettersArgs {
    /// What to do with them
    #[command(subcommand)]
    pub action: Action,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Say of each letter where its record was, when and why it could not be delivered, and whether it was replayed
    List {
        /// The flow
        flow: String,
        /// Only this many, the oldest first
        #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
        limit: usize,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// Which file
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Show one letter with its headers, key and value
    Show {
        /// The flow
        flow: String,
        /// Which one, as list names it
        #[arg(value_name = "PARTITION:OFFSET", value_parser = place)]
        letter: Place,
        /// Which file
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Deliver letters as the records that they were: those that were not replayed before, or the ones that are named
    Replay {
        /// The flow
        flow: String,
        /// This one, as list names it, whether it was replayed or not; may be given several times
        #[arg(long = "letter", value_name = "PARTITION:OFFSET", value_parser = place)]
        letters: Vec<Place>,
        /// Only say what would be delivered
        #[arg(long)]
        dry_run: bool,
        /// Which file
        #[command(flatten)]
        config: ConfigFile,
    },
}

impl DeadLettersArgs {
    /// Does what was asked for.
    pub fn run(&self) -> Exit {
        self.act().unwrap_or_else(|exit| exit)
    }

    fn act(&self) -> Result<Exit, Exit> {
        let (Action::List { flow, config, .. }
        | Action::Show { flow, config, .. }
        | Action::Replay { flow, config, .. }) = &self.action;
        let (path, flows, identities) = config.flows()?;
        let Some(flow) = flows.iter().find(|known| known.name == *flow) else {
            eprintln!("error: {} has no flow {flow}", path.display());
            return Err(Exit::Usage);
        };
        let answer = runtime()?.block_on(async {
            match &self.action {
                Action::List { limit, json, .. } => list(flow, *limit, *json).await,
                Action::Show { letter, .. } => show(flow, *letter).await,
                Action::Replay { letters, dry_run, .. } => replay((flow, &identities), letters, *dry_run).await,
            }
        });
        answer.map(|()| Exit::Ok).map_err(|error| exit(&flow.name, &error))
    }
}

fn exit(flow: &str, error: &PostError) -> Exit {
    let exit = fail(format_args!("flow {flow}: {error}"));
    match error {
        PostError::NoTopic => Exit::Config,
        PostError::NoLetter(_) => Exit::Usage,
        PostError::Leaderless(_) => Exit::TryAgain,
        PostError::Cluster(error) if error.code().is_some_and(|code| !code.is_retriable()) => Exit::NotPermitted,
        PostError::Cluster(_) => Exit::Unavailable,
        _ => exit,
    }
}

fn place(text: &str) -> Result<Place, String> {
    let parsed =
        text.split_once(':').and_then(|(partition, offset)| Some((partition.parse().ok()?, offset.parse().ok()?)));
    parsed
        .filter(|(partition, offset)| *partition >= 0 && *offset >= 0)
        .ok_or_else(|| "not a partition and an offset such as 0:17".to_owned())
}

async fn list(flow: &Flow, limit: usize, as_json: bool) -> Result<(), PostError> {
    let mut post = Post::of(flow).await?;
    let replayed = post.replayed().await?;
    let mut left = limit;
    post.read(&BTreeMap::new(), |at, letter| {
        let is_replayed = replayed.get(&at.0).is_some_and(|behind| at.1 < *behind);
        if left > 0 {
            println!(
                "{}",
                if as_json { document(at, &letter, is_replayed).to_string() } else { line(at, &letter, is_replayed) }
            );
        }
        left = left.saturating_sub(1);
        left > 0
    })
    .await
}

/// A letter in a line.
fn line((partition, offset): Place, letter: &Letter, is_replayed: bool) -> String {
    let said = |name: &str| letter.says(name).unwrap_or_else(|| "?".to_owned());
    format!(
        "{partition}:{offset}\t{}\t{}-{}:{}\t{}\t{}\t{}",
        if is_replayed { "replayed" } else { "waits" },
        said("topic"),
        said("partition"),
        said("offset"),
        said("timestamp"),
        said("exception.class.name"),
        said("exception.message"),
    )
}

fn document((partition, offset): Place, letter: &Letter, is_replayed: bool) -> Value {
    let said: serde_json::Map<String, Value> = letter
        .headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.strip_prefix(PREFIX)?;
            Some((name.to_owned(), json!(value.as_deref().map(String::from_utf8_lossy))))
        })
        .collect();
    json!({ "letter": format!("{partition}:{offset}"), "replayed": is_replayed, "errors": said })
}

async fn show(flow: &Flow, at: Place) -> Result<(), PostError> {
    let letter = Post::of(flow).await?.letter(at).await?;
    println!("timestamp: {}", letter.timestamp);
    for (name, value) in &letter.headers {
        println!("header {name}: {}", shown(value.as_deref()));
    }
    println!("key: {}", shown(letter.key.as_deref()));
    println!("value: {}", shown(letter.value.as_deref()));
    Ok(())
}

/// Bytes as text where they are some, with control characters escaped, and in base64 elsewhere.
fn shown(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "null".to_owned() };
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("base64 {}", BASE64_STANDARD.encode(bytes)),
    }
}

async fn replay((flow, identities): (&Flow, &Identities), named: &[Place], dry_run: bool) -> Result<(), PostError> {
    let mut post = Post::of(flow).await?;
    let mut letters = vec![];
    if named.is_empty() {
        let from = post.replayed().await?;
        post.read(&from, |at, letter| {
            letters.push((at, letter));
            letters.len() < REPLAYED_LETTERS_MAX
        })
        .await?;
    } else {
        for at in named {
            letters.push((*at, post.letter(*at).await?));
        }
    }
    let hop = if flow.hop_header && !dry_run { Some(identities.learn(flow).await?) } else { None };
    let mut replay = Replay::into(flow, hop);
    let (mut behind, mut count, mut failed) = (BTreeMap::new(), 0, None);
    for (at, letter) in &letters {
        match if dry_run { Ok(letter.is_record()) } else { replay.deliver(*at, letter).await } {
            Ok(is_record) => {
                let what = if is_record { "" } else { "no record, passed over: " };
                println!("{what}{}", line(*at, letter, false));
                count += usize::from(is_record);
                behind.insert(at.0, at.1 + 1);
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if dry_run {
        println!("{count} letters would be replayed (dry run: nothing was changed)");
        return Ok(());
    }
    if named.is_empty() && !behind.is_empty() {
        post.remember(&behind).await?;
    }
    println!("{count} letters replayed");
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_named_by_partition_and_offset() {
        assert_eq!(place("0:17"), Ok((0, 17)));
        for text in ["", "17", "0:", ":1", "-1:0", "0:-1", "a:b", "0:1:2"] {
            assert!(place(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_shown_so_that_a_terminal_takes_no_harm() {
        assert_eq!(shown(None), "null");
        assert_eq!(shown(Some(b"a\x1b[2J")), "\"a\\u{1b}[2J\"");
        assert_eq!(shown(Some(b"\xff\x00")), "base64 /wA=");
    }
}
