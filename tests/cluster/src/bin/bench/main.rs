//! Measures how fast and at what cost sharebridge copies, between two real Kafka clusters on one machine.
//! `scripts/bench` builds and runs it. The table goes to standard output, all else to standard error.

mod copy;
mod table;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use cluster::load::produce;
use cluster::{Pair, Spec};

use copy::{Bench, Copy};
use table::{HEAD, row};
use work::Work;

/// Partitions of each topic.
const PARTITIONS: i32 = 4;

/// Heap of each broker, in MiB.
const BROKER_HEAP_MB: u32 = 1024;

/// How often the warm-up is copied: a fresh JVM serves at a third of the speed of a warm one.
const WARM_UP_RUNS: u32 = 3;

/// Measures sharebridge between two real Kafka clusters on this machine.
#[derive(Debug, Parser)]
struct Options {
    /// Runs of each work; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Fraction of the records of each work, for a quick look
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    records_factor: f64,
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
    let binary = sharebridge()?;
    eprintln!("bench: starting two Kafka clusters");
    let spec = |name| Spec { heap_mb: BROKER_HEAP_MB, ..Spec::named(name) };
    let pair = Pair::start(spec("bench-source"), spec("bench-target"))?;
    let bench = Bench { binary: &binary, pair: &pair };
    runs(&bench, &Work::warm_up(), WARM_UP_RUNS)?;
    println!("{HEAD}");
    for work in Work::all(options.records_factor) {
        let copies = runs(&bench, &work, options.runs)?;
        println!("{}", row(&work, &copies));
    }
    Ok(())
}

/// Loads the topic of `work` once and copies it `count` times.
fn runs(bench: &Bench<'_>, work: &Work, count: u32) -> anyhow::Result<Vec<Copy>> {
    let source = &bench.pair.source;
    source.create_topic(work.topic, PARTITIONS, &[])?;
    let produced = produce(source.bootstrap(), work.topic, &work.load)?;
    eprintln!("bench: {}: loaded in {:.1} s", work.name, produced.elapsed.as_secs_f64());
    let copies = (1..=count).map(|number| {
        let copy = bench.copy(work).with_context(|| format!("{}, run {number}", work.name))?;
        eprintln!("bench: {}: run {number} of {count} took {:.2} s", work.name, copy.wall.as_secs_f64());
        Ok(copy)
    });
    let copies = copies.collect::<anyhow::Result<Vec<Copy>>>()?;
    source.delete_topic(work.topic)?;
    Ok(copies)
}

/// The program under test, built beside this one.
fn sharebridge() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("sharebridge");
    let found = Path::is_file(&binary).then_some(binary.clone());
    found.with_context(|| format!("{} is missing: run cargo build --release --workspace", binary.display()))
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 10.0 => Ok(factor),
        _ => Err("not a number above 0 and up to 10".to_owned()),
    }
}
