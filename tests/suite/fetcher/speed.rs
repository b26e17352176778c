//! How fast a fetcher reads, alone. Run by hand: `scripts/test --test suite fetcher::speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use cluster::load::{Load, Payload, produce};
use cluster::{pair, unique};

use super::stage::{Stage, reach};

const RECORDS: u64 = 5_000_000;

/// A clock tick of the kernel's accounts.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of this process, in user and kernel mode.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split_whitespace().collect();
    TICK * fields[11..13].iter().map(|ticks| ticks.parse::<u32>().unwrap()).sum::<u32>()
}

#[tokio::test]
#[ignore = "takes a minute, for its figures"]
async fn five_million_small_lz4_records() {
    let (source, topic) = (&pair().source, unique("speed"));
    source.create_topic(&topic, 6, &[]).unwrap();
    let load = Load { value_bytes: 70, payload: Payload::Orders, batch_bytes: 64 << 10, ..Load::of(RECORDS) };
    produce(source.bootstrap(), &topic, &load).unwrap();
    for _ in 0..3 {
        let mut stage = Stage::of(reach(source.bootstrap(), None), &topic, 64 << 20).await.begin_all(&[0; 6]);
        stage.checks = false;
        let (begun, spent) = (Instant::now(), cpu());
        stage.follow().await;
        let mut bytes = 0;
        while stage.places.values().map(|place| place.position).sum::<i64>() < RECORDS as i64 {
            bytes += stage.take().await.iter().map(|fetched| fetched.records.len()).sum::<usize>();
        }
        let (wall, cpu) = (begun.elapsed(), cpu() - spent);
        println!(
            "{:.0} MB in {wall:.2?}, {:.0} MB/s, {cpu:.2?} of a processor",
            bytes as f64 / 1e6,
            bytes as f64 / 1e6 / wall.as_secs_f64()
        );
        stage.close().await;
    }
}
