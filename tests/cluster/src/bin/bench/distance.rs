//! What a long way to the source costs, beside what `check` has predicted.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use cluster::load::{Load, produce};
use cluster::{Flow, Pair, Proxy, Settings, Spec, unique};

use crate::BROKER;
use crate::copy::copy_flow;

/// Copies of each kind before the distance: brokers that serve their first records are slow.
const WARM_UP_RUNS: u32 = 4;

/// Size of each record, in batches of 16 KB: the window counts records.
const VALUE_BYTES: usize = 100;

/// Records of each partition: some tens of seconds at the ceiling of a share group.
const RECORDS_PER_PARTITION: u64 = 300_000;

/// Topics by the number of their partitions.
const PARTITIONS: [i32; 3] = [1, 4, 16];

/// One way of copying.
struct Way {
    /// As the table shows it.
    name: &'static str,
    /// Keys of the flow.
    settings: &'static [(&'static str, &'static str)],
}

/// All that is measured.
const WAYS: [Way; 3] = [
    Way { name: "share, window 4000", settings: &[] },
    Way { name: "share, window 10000", settings: &[("share.partition.max.record.locks", "10000")] },
    Way { name: "share, window 4000, one lane", settings: &[("lanes.count", "1")] },
];

/// Prints a row for each way and topic: what `check` predicts, and the median of what was measured.
///
/// Errors: a copy took too long, or a cluster does not answer.
pub(crate) fn measure(binary: &Path, runs: u32, round_trip: Duration) -> anyhow::Result<()> {
    let proxy = Proxy::start()?;
    eprintln!("bench: starting two Kafka clusters, the source behind a proxy");
    let spec = |name: &str| Spec { jvm: BROKER, ..Spec::named(name) };
    let source = spec("bench-source").behind(&proxy).with("group.share.max.partition.max.record.locks", "10000");
    let pair = Pair::start(source, spec("bench-target"))?;
    println!("round trip to the source: {} ms", round_trip.as_millis());
    println!("| way | partitions | predicted, records/s | measured, records/s | measured / predicted |");
    println!("|---|---|---|---|---|");
    for partitions in PARTITIONS {
        let topic = format!("bench-far-{partitions}");
        let records = RECORDS_PER_PARTITION * u64::try_from(partitions)?;
        pair.source.create_topic(&topic, partitions, &[])?;
        let load = Load { value_bytes: VALUE_BYTES, batch_bytes: 16 << 10, ..Load::of(records) };
        produce(pair.source.bootstrap(), &topic, &load)?;
        proxy.mend();
        for _ in 0..WARM_UP_RUNS {
            copy_flow((binary, &pair), &WAYS[0].flow(&topic, (&pair, &proxy)), records, |_| Ok(()))?;
        }
        proxy.be_far(round_trip / 2);
        for way in &WAYS {
            let flow = way.flow(&topic, (&pair, &proxy));
            let predicted = f64::from(partitions) * predicted(&flow.ask(binary, &pair, "check")?)?;
            let mut rates = vec![];
            for run in 1..=runs {
                let flow = way.flow(&topic, (&pair, &proxy));
                let (cost, ()) = copy_flow((binary, &pair), &flow, records, |_| Ok(()))?;
                rates.push(records as f64 / cost.wall.as_secs_f64());
                eprintln!("bench: {}, {partitions} partitions, run {run}: {:.2} s", way.name, cost.wall.as_secs_f64());
            }
            rates.sort_by(f64::total_cmp);
            let measured = rates[rates.len() / 2];
            println!("| {} | {partitions} | {predicted:.0} | {measured:.0} | {:.2} |", way.name, measured / predicted);
        }
        pair.source.delete_topic(&topic)?;
    }
    Ok(())
}

impl Way {
    /// A flow of a group of its own, which reaches the source through the proxy.
    fn flow(&self, topic: &str, (pair, proxy): (&Pair, &Proxy)) -> Flow {
        let end = |bootstrap: &str| vec![("bootstrap.servers".to_owned(), format!("{bootstrap:?}"))];
        let settings: Settings =
            self.settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let ends = Some([end(&proxy.address()), end(pair.target.bootstrap())]);
        Flow { topics: vec![topic.to_owned()], group: unique("bench"), settings, ends }
    }
}

/// Records a second of one partition, from what `check` says of the rate.
fn predicted(said: &str) -> anyhow::Result<f64> {
    let (_, rest) = said.split_once(" about ").context("check tells no rate")?;
    let number = rest.split(' ').next().unwrap_or_default();
    number.parse().with_context(|| format!("no rate: {number}"))
}
