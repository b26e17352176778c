//! Measures how fast and at what cost sharebridge copies, between two real Kafka clusters on one machine.
//! `scripts/bench` builds and runs it. The table goes to standard output, all else to standard error.

mod copy;
mod distance;
mod limit;
mod mirror;
mod ordered;
mod table;
mod tls;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use cluster::load::produce;
use cluster::{Jvm, Pair, Peer, Spec, built_beside};

use copy::{Cost, copy, verify};
use mirror::mirror;
use work::Work;

/// Each broker.
const BROKER: Jvm = Jvm { heap_mb: 1024, is_thrifty: false };

/// How often each warm-up is copied. A fresh JVM serves at a third of the speed of a warm one, and compiles for a minute.
const WARM_UP_RUNS: u32 = 15;

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
    /// Only look whether limit.bytes.per.second of so many bytes holds over a minute
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(10_000..=20_000_000))]
    limit: Option<u64>,
    /// Only compare copies through a consumer group with those through a share group, and with a mirror on franz-go
    #[arg(long, conflicts_with_all = ["limit", "mirrormaker", "tls"])]
    ordered: bool,
    /// Only compare copies over TLS, with client certificates on both sides, with plain ones
    #[arg(long, conflicts_with_all = ["limit", "mirrormaker"])]
    tls: bool,
    /// Only copy from a source that is a round trip of so many milliseconds away, beside what check predicts
    #[arg(long, value_name = "MS", num_args = 0..=1, default_missing_value = "80", conflicts_with_all = ["limit", "mirrormaker", "tls"])]
    distance: Option<u32>,
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
    if options.ordered {
        return ordered::measure(&binary, options.runs, options.records_factor);
    }
    if options.tls {
        return tls::measure(&binary, options.runs, options.records_factor);
    }
    if let Some(round_trip_ms) = options.distance {
        return distance::measure(&binary, options.runs, Duration::from_millis(round_trip_ms.into()));
    }
    eprintln!("bench: starting two Kafka clusters");
    let spec = |name| Spec { jvm: BROKER, ..Spec::named(name) };
    let pair = Pair::start(spec("bench-source"), spec("bench-target"))?;
    if let Some(bytes) = options.limit {
        return limit::measure(&binary, &pair, bytes);
    }
    let bench = Bench { binary, pair, has_mirror: options.mirrormaker };
    for work in Work::warm_ups() {
        bench.with_load(&work, WARM_UP_RUNS, || bench.warm_up(&work))?;
    }
    println!("{}", table::head(options.mirrormaker));
    for work in Work::all(options.records_factor) {
        let runs = bench.with_load(&work, options.runs, || bench.run(&work))?;
        println!("{}", table::row(&work, &runs));
    }
    Ok(())
}

impl Bench {
    /// Loads the topic of `work` once, for `count` runs.
    fn with_load<T>(&self, work: &Work, count: u32, run: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<Vec<T>> {
        let source = &self.pair.source;
        source.create_topic(work.topic, work.partitions, &[])?;
        let produced = produce(source.bootstrap(), work.topic, &work.load)?;
        eprintln!("bench: {}: loaded in {:.1} s", work.name, produced.elapsed.as_secs_f64());
        let run = |number| {
            eprintln!("bench: {}: run {number} of {count}", work.name);
            run().with_context(|| format!("{}, run {number}", work.name))
        };
        let runs = (1..=count).map(run).collect::<anyhow::Result<Vec<T>>>()?;
        source.delete_topic(work.topic)?;
        Ok(runs)
    }

    /// A copy whose result nobody looks at: only measured copies are verified.
    fn warm_up(&self, work: &Work) -> anyhow::Result<()> {
        copy((&self.binary, &self.pair, None), work, |_| Ok(()))?;
        Ok(())
    }

    fn mirror(&self, work: &Work) -> anyhow::Result<Cost> {
        let ends = (self.pair.source.bootstrap(), self.pair.target.bootstrap());
        mirror(&self.pair, work, || Peer::mirrormaker(ends, work.topic, &work.load.compression))
    }

    fn run(&self, work: &Work) -> anyhow::Result<Run> {
        let (copy, verify) = copy((&self.binary, &self.pair, None), work, |worker| verify(&self.binary, worker, work))?;
        eprintln!("bench: {}: {:.2} s", work.name, copy.wall.as_secs_f64());
        let mirror = self.has_mirror.then(|| self.mirror(work)).transpose()?;
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
