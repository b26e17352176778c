//! Measures how fast and at what cost sharebridge copies, between two real Kafka clusters on one machine.
//! `scripts/bench` builds and runs it. The table goes to standard output, all else to standard error.

mod copy;
mod mirror;
mod table;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use cluster::load::produce;
use cluster::{Pair, Spec, built_beside};

use copy::{Cost, copy};
use mirror::mirror;
use work::Work;

/// Partitions of each topic.
const PARTITIONS: i32 = 4;

/// Heap of each broker, in MiB.
const BROKER_HEAP_MB: u32 = 1024;

/// How often the warm-up is copied: a fresh JVM serves at a third of the speed of a warm one.
const WARM_UP_RUNS: u32 = 10;

/// Measures sharebridge between two real Kafka clusters on this machine.
#[derive(Debug, Parser)]
struct Options {
    /// Runs of each work; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Fraction of the records of each work, for a quick look
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    records_factor: f64,
    /// Let MirrorMaker 2 copy the same topics, for a ratio (fetch it with scripts/setup mirrormaker)
    #[arg(long)]
    mirrormaker: bool,
}

/// A work, copied once by each program.
#[derive(Debug)]
struct Run {
    copy: Cost,
    /// How long verify took to compare both sides.
    verify: Duration,
    mirror: Option<Cost>,
}

/// Where copies are made, and by what.
struct Bench {
    binary: PathBuf,
    pair: Pair,
    has_mirror: bool,
}

fn main() -> ExitCode {
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> anyhow::Result<()> {
    let binary = built_beside()?;
    eprintln!("bench: starting two Kafka clusters");
    let spec = |name| Spec { heap_mb: BROKER_HEAP_MB, ..Spec::named(name) };
    let pair = Pair::start(spec("bench-source"), spec("bench-target"))?;
    let bench = Bench { binary, pair, has_mirror: options.mirrormaker };
    bench.runs(&Work::warm_up(), WARM_UP_RUNS)?;
    println!("{}", table::head(options.mirrormaker));
    for work in Work::all(options.records_factor) {
        let runs = bench.runs(&work, options.runs)?;
        println!("{}", table::row(&work, &runs));
    }
    Ok(())
}

impl Bench {
    /// Loads the topic of `work` once and copies it `count` times.
    fn runs(&self, work: &Work, count: u32) -> anyhow::Result<Vec<Run>> {
        let source = &self.pair.source;
        source.create_topic(work.topic, PARTITIONS, &[])?;
        let produced = produce(source.bootstrap(), work.topic, &work.load)?;
        eprintln!("bench: {}: loaded in {:.1} s", work.name, produced.elapsed.as_secs_f64());
        let run = |number| {
            eprintln!("bench: {}: run {number} of {count}", work.name);
            self.run(work).with_context(|| format!("{}, run {number}", work.name))
        };
        let runs = (1..=count).map(run).collect::<anyhow::Result<Vec<Run>>>()?;
        source.delete_topic(work.topic)?;
        Ok(runs)
    }

    fn run(&self, work: &Work) -> anyhow::Result<Run> {
        let (copy, verify) = copy(&self.binary, &self.pair, work)?;
        eprintln!("bench: {}: {:.2} s", work.name, copy.wall.as_secs_f64());
        let mirror = self.has_mirror.then(|| mirror(&self.pair, work)).transpose()?;
        if let Some(mirror) = &mirror {
            eprintln!("bench: {}: {:.2} s by MirrorMaker", work.name, mirror.wall.as_secs_f64());
        }
        Ok(Run { copy, verify, mirror })
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 10.0 => Ok(factor),
        _ => Err("not a number above 0 and up to 10".to_owned()),
    }
}
