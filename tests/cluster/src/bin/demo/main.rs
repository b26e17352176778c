//! Shows sharebridge at work: two real Kafka clusters, two workers, a steady load, a worker killed in the middle,
//! and in the end a comparison of all records. `scripts/demo` builds and runs it.

mod crew;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::{self, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use cluster::load::{Load, Payload, Produced, produce};
use cluster::read::{Isolation, end_offsets};
use cluster::{Pair, Spec, Verification};

use crew::Crew;
use summary::{Summary, grouped};

/// The topics, each with the compression of its load.
const TOPICS: [(&str, &str); 2] = [("demo-lz4", "lz4"), ("demo-none", "none")];

/// Partitions of each topic.
const PARTITIONS: i32 = 4;

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(3);

/// Time between two looks at something that is waited for.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How long copying may take after the load has ended.
const COPY_DEADLINE: Duration = Duration::from_secs(60);

/// How long the transaction of the killed worker may stay open: its timeout, the coordinator's 10 s, and some more.
const DECIDED_DEADLINE: Duration = Duration::from_secs(40);

/// How old the backlog that a worker shows may be; a zero counts only when this long has passed since the load.
const BACKLOG_AGE_MAX: Duration = Duration::from_secs(5);

/// Shows sharebridge at work between two real Kafka clusters.
#[derive(Debug, Parser)]
struct Options {
    /// Length of the load in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(10..=3600))]
    seconds: u32,
    /// Records per second and topic
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Leave all running at the end, to be looked at
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let demo = Demo { options: Options::parse(), begin: Instant::now() };
    match demo.play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

struct Demo {
    options: Options,
    begin: Instant,
}

impl Demo {
    fn play(&self) -> anyhow::Result<()> {
        let binary = sharebridge()?;
        let pair = self.start_clusters()?;
        let mut crew = self.start_workers(&binary, &pair)?;
        self.copy_under_load(&pair, &mut crew)?;
        self.wait_copied(&crew)?;
        self.wait_decided(&pair)?;
        self.say("comparing all records on both clusters: sharebridge verify");
        let verification = Verification::run(&binary, &crew.config())?;
        println!("\n{}\n", verification.report);
        let summary = Summary { crew: crew.costs()?, verification, wall: self.begin.elapsed() };
        println!("{}", summary.table(&pair)?);
        if self.options.keep {
            keep(&pair, &crew);
        }
        self.say("asking the workers to drain and end");
        crew.end()?;
        self.say("all steps worked; removing the clusters");
        Ok(())
    }

    fn say(&self, text: &str) {
        println!("[{:3} s] {text}", self.begin.elapsed().as_secs());
    }

    fn start_clusters(&self) -> anyhow::Result<Pair> {
        self.say("starting two Kafka clusters");
        let pair = Pair::start(Spec::named("demo-source"), Spec::named("demo-target"))?;
        self.say(&format!("source at {}, target at {}", pair.source.bootstrap(), pair.target.bootstrap()));
        for (topic, _) in TOPICS {
            pair.source.create_topic(topic, PARTITIONS, &[])?;
        }
        self.say(&format!(
            "topics on the source: {}, {PARTITIONS} partitions each",
            TOPICS.map(|(name, _)| name).join(", ")
        ));
        Ok(pair)
    }

    fn start_workers<'a>(&self, binary: &'a Path, pair: &'a Pair) -> anyhow::Result<Crew<'a>> {
        self.say("starting workers A and B, two members of one share group");
        let crew = Crew::start(binary, pair, &TOPICS.map(|(name, _)| name))?;
        self.say(&format!("both are ready; their configuration: {}", crew.config().display()));
        Ok(crew)
    }

    /// Loads both topics, kills a worker in the middle, and tells how it goes.
    fn copy_under_load(&self, pair: &Pair, crew: &mut Crew<'_>) -> anyhow::Result<()> {
        let Options { seconds, rate, .. } = self.options;
        self.say(&format!("loading {} records/s into each topic for {seconds} s", grouped(rate.into())));
        let bootstrap = pair.source.bootstrap();
        thread::scope(|scope| {
            let loads = TOPICS.map(|(topic, compression)| {
                let load = self.load(compression);
                scope.spawn(move || produce(bootstrap, topic, &load))
            });
            self.watch(crew, &loads)?;
            for load in loads {
                load.join().expect("a load reports errors and does not panic")?;
            }
            anyhow::Ok(())
        })?;
        self.say("the load has ended");
        Ok(())
    }

    fn load(&self, compression: &str) -> Load {
        let Options { seconds, rate, .. } = self.options;
        Load {
            payload: Payload::Orders,
            compression: compression.to_owned(),
            rate: Some(rate),
            ..Load::of(u64::from(rate) * u64::from(seconds))
        }
    }

    /// Until the loads end; half-way a worker is killed and another one takes its place.
    fn watch(
        &self,
        crew: &mut Crew<'_>,
        loads: &[ScopedJoinHandle<'_, anyhow::Result<Produced>>],
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        let half = Duration::from_secs(self.options.seconds.into()) / 2;
        let mut told = begin;
        let mut is_replaced = false;
        while !loads.iter().all(ScopedJoinHandle::is_finished) {
            if !is_replaced && begin.elapsed() >= half {
                self.say("killing worker B (SIGKILL), as a crash would, and starting worker C");
                crew.replace()?;
                is_replaced = true;
            }
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                self.say(&crew.progress()?);
            }
            sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Until the share group has nothing left.
    fn wait_copied(&self, crew: &Crew<'_>) -> anyhow::Result<()> {
        self.say("waiting until the share group has nothing left to do");
        let begin = Instant::now();
        loop {
            let is_done = crew.backlog()? == Some(0) && crew.is_idle()?;
            if is_done && begin.elapsed() >= BACKLOG_AGE_MAX {
                self.say(&crew.progress()?);
                return Ok(());
            }
            if begin.elapsed() >= COPY_DEADLINE {
                bail!("not all is copied {COPY_DEADLINE:?} after the load: {}", crew.progress()?);
            }
            sleep(LOOK_INTERVAL);
        }
    }

    /// Until the target has ended the transaction that the killed worker left open. Its records are no committed ones and are
    /// never read, but consumers wait before them.
    fn wait_decided(&self, pair: &Pair) -> anyhow::Result<()> {
        self.say(
            "waiting until the target has aborted what the killed worker left open (its timeout, and up to 10 s more)",
        );
        let begin = Instant::now();
        let bootstrap = pair.target.bootstrap();
        for (topic, _) in TOPICS {
            while end_offsets(bootstrap, topic, Isolation::Committed)?
                != end_offsets(bootstrap, topic, Isolation::Uncommitted)?
            {
                if begin.elapsed() >= DECIDED_DEADLINE {
                    bail!("{topic}: a transaction is still open on the target after {DECIDED_DEADLINE:?}");
                }
                sleep(LOOK_INTERVAL);
            }
        }
        Ok(())
    }
}

/// The program under show, built beside this one.
fn sharebridge() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("sharebridge");
    let found = binary.is_file().then_some(binary.clone());
    found.with_context(|| format!("{} is missing: run cargo build --release --workspace", binary.display()))
}

/// Returns when Enter is pressed. Ctrl-C ends the process; the guards of the folders then clean up.
fn keep(pair: &Pair, crew: &Crew<'_>) {
    println!("\nAll is left running.\nsource {}, target {}", pair.source.bootstrap(), pair.target.bootstrap());
    println!("configuration {}", crew.config().display());
    for (name, address) in crew.addresses() {
        println!("worker {name}: curl http://{address}/ready; curl http://{address}/metrics");
    }
    println!("Press Enter or Ctrl-C to end and remove everything.");
    // Without a terminal there is nobody to press Enter: only a signal ends it.
    while matches!(std::io::stdin().read_line(&mut String::new()), Ok(0) | Err(_)) {
        thread::park();
    }
}
