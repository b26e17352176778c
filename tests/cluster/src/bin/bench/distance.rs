//! What a long way to the source costs, beside what `check` has predicted.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use cluster::load::produce;
use cluster::{Flow, Pair, Peer, Proxy, Settings, Spec, unique};

use crate::BROKER;
use crate::copy::copy_flow;
use crate::mirror::mirror;
use crate::table::median;
use crate::work::Work;

/// Copies before the distance: brokers that serve their first records are slow.
const WARM_UP_RUNS: u32 = 4;

/// Records of each partition through a share group: some tens of seconds at its ceiling.
const RECORDS_PER_PARTITION: u64 = 300_000;

/// Records of a topic through a consumer group, which has no such ceiling, and by MirrorMaker.
const RECORDS_IN_ORDER: u64 = 4_800_000;

/// Topics by the number of their partitions, for share groups and for consumer groups.
const TOPICS: [(i32, [&str; 2]); 3] =
    [(1, ["bench-far-1", "bench-row-1"]), (4, ["bench-far-4", "bench-row-4"]), (16, ["bench-far-16", "bench-row-16"])];

/// One way of copying.
struct Way {
    /// As the table shows it.
    name: &'static str,
    /// Keys of the flow.
    settings: &'static [(&'static str, &'static str)],
}

/// What the window decides.
const SHARED: [Way; 3] = [
    Way { name: "share, window 4000", settings: &[] },
    Way { name: "share, window 10000", settings: &[("share.partition.max.record.locks", "10000")] },
    Way { name: "share, window 4000, one lane", settings: &[("lanes.count", "1")] },
];

/// What memory and the link decide.
const ORDERED: Way = Way { name: "consumer", settings: &[("group.protocol", "\"consumer\"")] };

/// A source that is far away, and a target that is not.
struct Far {
    proxy: Proxy,
    pair: Pair,
    round_trip: Duration,
}

/// Prints a row for each way and topic: what `check` predicts and the median of what was measured, then consumer groups beside MirrorMaker.
///
/// Errors: a copy took too long, or a cluster does not answer.
pub(crate) fn measure(binary: &Path, runs: u32, round_trip: Duration) -> anyhow::Result<()> {
    let proxy = Proxy::start()?;
    eprintln!("bench: starting two Kafka clusters, the source behind a proxy");
    let spec = |name: &str| Spec { jvm: BROKER, ..Spec::named(name) };
    let source = spec("bench-source").behind(&proxy).with("group.share.max.partition.max.record.locks", "10000");
    let far = Far { pair: Pair::start(source, spec("bench-target"))?, proxy, round_trip };
    println!("round trip to the source: {} ms", round_trip.as_millis());
    println!("| way | partitions | predicted, records/s | measured, records/s | measured / predicted |");
    println!("|---|---|---|---|---|");
    for (partitions, [topic, _]) in TOPICS {
        let records = RECORDS_PER_PARTITION * u64::try_from(partitions)?;
        far.with(binary, &Work::far(topic, partitions, records), |work| {
            SHARED.iter().try_for_each(|way| far.predict_and_measure(binary, runs, (way, work)))
        })?;
    }
    println!();
    println!(
        "| partitions | consumer: predicted, MB/s | measured, MB/s | records/s | MirrorMaker: records/s | rate, times MirrorMaker |"
    );
    println!("|---|---|---|---|---|---|");
    for (partitions, [_, topic]) in TOPICS {
        far.with(binary, &Work::far(topic, partitions, RECORDS_IN_ORDER), |work| far.compare(binary, runs, work))?;
    }
    Ok(())
}

impl Far {
    /// Loads the topic of a work and warms the brokers up from nearby, for what `measure` does from afar.
    fn with(
        &self,
        binary: &Path,
        work: &Work,
        measure: impl FnOnce(&Work) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (pair, records) = (&self.pair, work.load.records);
        pair.source.create_topic(work.topic, work.partitions, &[])?;
        produce(pair.source.bootstrap(), work.topic, &work.load)?;
        self.proxy.mend();
        let nearby = Way { name: "nearby", settings: &[] };
        for _ in 0..WARM_UP_RUNS {
            self.rate(binary, (&nearby, work))?;
        }
        eprintln!("bench: {records} records in {} partitions, {:?} away", work.partitions, self.round_trip);
        self.proxy.be_far(self.round_trip / 2);
        measure(work)?;
        pair.source.delete_topic(work.topic)
    }

    /// One row of the first table.
    fn predict_and_measure(&self, binary: &Path, runs: u32, (way, work): (&Way, &Work)) -> anyhow::Result<()> {
        let said = self.flow(way, work).ask(binary, &self.pair, "check")?;
        let predicted = f64::from(work.partitions) * number(&said, ("share", " about "))?;
        let rates = (0..runs).map(|_| self.rate(binary, (way, work))).collect::<anyhow::Result<Vec<_>>>()?;
        let measured = median(rates.into_iter());
        println!(
            "| {} | {} | {predicted:.0} | {measured:.0} | {:.2} |",
            way.name,
            work.partitions,
            measured / predicted
        );
        Ok(())
    }

    /// One row of the second table, both in turn.
    fn compare(&self, binary: &Path, runs: u32, work: &Work) -> anyhow::Result<()> {
        let said = self.flow(&ORDERED, work).ask(binary, &self.pair, "check")?;
        let predicted = number(&said, ("consumer", " at most "))?;
        let (mut ours, mut theirs) = (vec![], vec![]);
        for run in 1..=runs {
            ours.push(self.rate(binary, (&ORDERED, work))?);
            let address = self.proxy.address();
            let ends = (address.as_str(), self.pair.target.bootstrap());
            let cost = mirror(&self.pair, work, || Peer::mirrormaker(ends, work.topic, &work.load.compression))?;
            theirs.push(work.load.records as f64 / cost.wall.as_secs_f64());
            eprintln!("bench: run {run}: {:.0} and {:.0} records/s", ours[ours.len() - 1], theirs[theirs.len() - 1]);
        }
        let [ours, theirs] = [ours, theirs].map(|rates| median(rates.into_iter()));
        let megabytes = ours * work.load.value_bytes as f64 / 1e6;
        println!(
            "| {} | {predicted:.0} | {megabytes:.0} | {ours:.0} | {theirs:.0} | {:.1} |",
            work.partitions,
            ours / theirs
        );
        Ok(())
    }

    /// Copies once; records a second.
    fn rate(&self, binary: &Path, (way, work): (&Way, &Work)) -> anyhow::Result<f64> {
        let (cost, ()) = copy_flow((binary, &self.pair), &self.flow(way, work), work.load.records, |_| Ok(()))?;
        eprintln!("bench: {}, {} partitions: {:.2} s", way.name, work.partitions, cost.wall.as_secs_f64());
        Ok(work.load.records as f64 / cost.wall.as_secs_f64())
    }

    /// A flow of groups of its own, which reaches the source through the proxy.
    fn flow(&self, way: &Way, work: &Work) -> Flow {
        let group = unique("bench");
        let end = |bootstrap: &str| vec![("bootstrap.servers".to_owned(), format!("{bootstrap:?}"))];
        let mut settings: Settings =
            way.settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        settings.push(("group.id".to_owned(), format!("\"{group}-ordered\"")));
        let ends = Some([end(&self.proxy.address()), end(self.pair.target.bootstrap())]);
        Flow { topics: vec![work.topic.to_owned()], group, settings, ends }
    }
}

/// The number behind these words in what `check` says of the rate through a group of this type.
fn number(said: &str, (protocol, before): (&str, &str)) -> anyhow::Result<f64> {
    let rate = said.lines().find(|line| line.contains(&format!("rate of {protocol}")));
    let (_, rest) = rate.and_then(|line| line.split_once(before)).context("check tells no rate")?;
    let number = rest.split(' ').next().unwrap_or_default();
    number.parse().with_context(|| format!("no rate: {number}"))
}
