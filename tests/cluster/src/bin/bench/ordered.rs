//! What order costs: the same copies through a share group, through a consumer group, and by a mirror on franz-go, in turn.

use std::path::Path;

use cluster::load::produce;
use cluster::{Flow, Pair, Peer, Settings, Spec, unique};

use crate::BROKER;
use crate::copy::{Cost, copy_flow};
use crate::mirror::mirror;
use crate::table::median;
use crate::work::Work;

/// Copies of each kind before the first that counts.
const WARM_UP_RUNS: u32 = 8;

/// Ways of copying.
const WAYS: [&str; 3] = ["share", "consumer", "franz-go"];

/// Prints a row for each work: medians of all ways, and ratios to the copy through the consumer group.
///
/// Errors: a copy took too long, or a cluster does not answer.
pub(crate) fn measure(binary: &Path, runs: u32, factor: f64) -> anyhow::Result<()> {
    let franz = binary.with_file_name("franz-mirror");
    eprintln!("bench: starting two Kafka clusters");
    let spec = |name: &str| Spec { jvm: BROKER, ..Spec::named(name) };
    let pair = Pair::start(spec("bench-source"), spec("bench-target"))?;
    println!(
        "| work | consumer group: wall, s | CPU, s | peak, MB | share group: wall, s | CPU, s | franz-go: wall, s | CPU, s | peak, MB | \
         wall, times share | wall, times franz-go | CPU, franz-go times ours |"
    );
    println!("|{}", "---|".repeat(12));
    for work in Work::all(factor) {
        pair.source.create_topic(work.topic, work.partitions, &[])?;
        produce(pair.source.bootstrap(), work.topic, &work.load)?;
        let mut costs = [vec![], vec![], vec![]];
        for run in 1..=WARM_UP_RUNS + runs {
            for (way, costs) in WAYS.iter().zip(&mut costs) {
                let cost = match *way {
                    "franz-go" => mirror(&pair, &work, || start(&franz, &pair, &work))?,
                    protocol => copy_flow((binary, &pair), &flow(protocol, &work), work.load.records, |_| Ok(()))?.0,
                };
                eprintln!("bench: {}, run {run}, {way}: {:.2} s", work.name, cost.wall.as_secs_f64());
                costs.extend((run > WARM_UP_RUNS).then_some(cost));
            }
        }
        pair.source.delete_topic(work.topic)?;
        println!("{}", row(&work, &costs));
    }
    Ok(())
}

fn start(franz: &Path, pair: &Pair, work: &Work) -> anyhow::Result<Peer> {
    let ends = (pair.source.bootstrap(), pair.target.bootstrap());
    Peer::franz(franz, ends, work.topic, &work.load.compression)
}

fn flow(protocol: &str, work: &Work) -> Flow {
    let group = unique("bench");
    let settings: Settings = vec![
        ("group.protocol".to_owned(), format!("{protocol:?}")),
        ("group.id".to_owned(), format!("\"{group}-ordered\"")),
    ];
    Flow { topics: vec![work.topic.to_owned()], group, settings, ends: None }
}

fn row(work: &Work, costs: &[Vec<Cost>; 3]) -> String {
    let [share, consumer, franz] = costs;
    let wall = |costs: &[Cost]| median(costs.iter().map(|cost| cost.wall.as_secs_f64()));
    let cpu = |costs: &[Cost]| median(costs.iter().map(|cost| cost.cpu_seconds));
    let peak = |costs: &[Cost]| median(costs.iter().map(|cost| cost.peak_bytes as f64 / 1e6));
    format!(
        "| {} | {:.2} | {:.2} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.2} | {:.2} | {:.1} |",
        work.name,
        wall(consumer),
        cpu(consumer),
        peak(consumer),
        wall(share),
        cpu(share),
        wall(franz),
        cpu(franz),
        peak(franz),
        wall(consumer) / wall(share),
        wall(consumer) / wall(franz),
        cpu(franz) / cpu(consumer),
    )
}
