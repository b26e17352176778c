//! What TLS costs: the same copies over plain and over encrypted connections in turn, with client certificates on both sides.

use std::path::Path;
use std::time::Duration;

use cluster::load::produce;
use cluster::{Authority, Certificate, Doors, Pair, Settings, Spec};

use crate::BROKER;
use crate::copy::{Cost, copy};
use crate::work::Work;

/// Copies of each kind before the first that counts.
const WARM_UP_RUNS: u32 = 4;

/// The user of the client certificate.
const USER: &str = "bench";

/// Prints a row for each work: medians of both kinds, and their ratios.
///
/// Errors: a copy took too long, or a cluster does not answer.
pub(crate) fn measure(binary: &Path, runs: u32, factor: f64) -> anyhow::Result<()> {
    let authority = Authority::new("bench")?;
    let (source, target) = (Doors::choose()?, Doors::choose()?);
    let spec = |name: &str, doors: &Doors| {
        let spec = Spec { jvm: BROKER, ..Spec::named(name) }.secured(doors, &authority, &[])?;
        Ok::<_, anyhow::Error>(spec.with("super.users", &format!("User:ANONYMOUS;User:{USER}")))
    };
    eprintln!("bench: starting two Kafka clusters with secured listeners");
    let pair = Pair::start(spec("bench-source", &source)?, spec("bench-target", &target)?)?;
    let client = authority.issue(USER, &[])?;
    let ends = || [&source, &target].map(|doors| end(doors, &authority, &client));
    println!("| work | plain: wall, s | CPU, s | TLS: wall, s | CPU, s | wall, times plain | CPU, times plain |");
    println!("|---|---|---|---|---|---|---|");
    for work in Work::all(factor) {
        pair.source.create_topic(work.topic, work.partitions, &[])?;
        produce(pair.source.bootstrap(), work.topic, &work.load)?;
        let mut costs = [vec![], vec![]];
        for run in 1..=WARM_UP_RUNS + runs {
            for (kind, costs) in costs.iter_mut().enumerate() {
                let ends = (kind == 1).then(ends);
                let (cost, ()) = copy((binary, &pair, ends), &work, |_| Ok(()))?;
                eprintln!(
                    "bench: {}, run {run}, {}: {:.2} s",
                    work.name,
                    ["plain", "TLS"][kind],
                    cost.wall.as_secs_f64()
                );
                if run > WARM_UP_RUNS {
                    costs.push(cost);
                }
            }
        }
        pair.source.delete_topic(work.topic)?;
        let [plain, tls] = costs.map(median);
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            work.name,
            plain.0.as_secs_f64(),
            plain.1,
            tls.0.as_secs_f64(),
            tls.1,
            tls.0.as_secs_f64() / plain.0.as_secs_f64(),
            tls.1 / plain.1,
        );
    }
    Ok(())
}

/// Medians of wall and processor time, each by itself.
fn median(costs: Vec<Cost>) -> (Duration, f64) {
    let mut walls: Vec<Duration> = costs.iter().map(|cost| cost.wall).collect();
    let mut cpus: Vec<f64> = costs.iter().map(|cost| cost.cpu_seconds).collect();
    walls.sort();
    cpus.sort_by(f64::total_cmp);
    (walls[walls.len() / 2], cpus[cpus.len() / 2])
}

/// The keys of a cluster behind its door for client certificates.
fn end(doors: &Doors, authority: &Authority, client: &Certificate) -> Settings {
    let inline = |pem: &str| format!("'''\n{pem}'''");
    [
        ("bootstrap.servers", format!("\"127.0.0.1:{}\"", doors.ssl)),
        ("security.protocol", "\"SSL\"".to_owned()),
        ("ssl.truststore.certificates", inline(&authority.pem())),
        ("ssl.keystore.certificate.chain", inline(&client.chain)),
        ("ssl.keystore.key", inline(&client.private_key)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}
