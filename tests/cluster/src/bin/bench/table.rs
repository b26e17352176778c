//! The table, in Markdown: the median of each figure over the runs of a work.

use crate::Run;
use crate::copy::Cost;
use crate::work::Work;

const HEAD: &str =
    "| work | records, M | records/s | MB/s | wall, s (min-max) | CPU, s | CPU with start, s | peak, MB | verify, s |";

/// What stands behind it if MirrorMaker was measured too.
const MIRROR_HEAD: &str = " MirrorMaker wall, s (min-max) | CPU, s | CPU with start, s | peak, MB | wall, times ours | CPU, times ours | memory, times ours |";

/// Its first two lines.
pub(crate) fn head(has_mirror: bool) -> String {
    let head = if has_mirror { format!("{HEAD}{MIRROR_HEAD}") } else { HEAD.to_owned() };
    let rule = "---|".repeat(head.matches('|').count() - 1);
    format!("{head}\n|{rule}")
}

/// The line of a work. `runs` has at least one; with MirrorMaker in all of them or in none.
pub(crate) fn row(work: &Work, runs: &[Run]) -> String {
    let copies: Vec<Cost> = runs.iter().map(|run| run.copy).collect();
    let mirrors: Vec<Cost> = runs.iter().filter_map(|run| run.mirror).collect();
    let ours = Medians::of(&copies);
    let records = work.load.records as f64;
    let row = format!(
        "| {} | {} | {:.0} | {:.0} {} {:.1} |",
        work.name,
        records / 1e6,
        records / ours.wall,
        records * work.load.value_bytes as f64 / 1e6 / ours.wall,
        ours.cells(&copies),
        median(runs.iter().map(|run| run.verify.as_secs_f64())),
    );
    if mirrors.is_empty() {
        return row;
    }
    let theirs = Medians::of(&mirrors);
    let ratios = [theirs.wall / ours.wall, theirs.cpu / ours.cpu, theirs.peak / ours.peak];
    format!("{row}{} {:.1} | {:.0} | {:.0} |", &theirs.cells(&mirrors)[1..], ratios[0], ratios[1], ratios[2])
}

/// Seconds, and MB.
struct Medians {
    wall: f64,
    cpu: f64,
    cpu_whole: f64,
    peak: f64,
}

impl Medians {
    fn of(costs: &[Cost]) -> Self {
        let median = |figure: fn(&Cost) -> f64| median(costs.iter().map(figure));
        Self {
            wall: median(|cost| cost.wall.as_secs_f64()),
            cpu: median(|cost| cost.cpu_seconds),
            cpu_whole: median(|cost| cost.cpu_seconds_whole),
            peak: median(|cost| cost.peak_bytes as f64 / 1e6),
        }
    }

    /// Four cells, with the extremes of the wall time.
    fn cells(&self, costs: &[Cost]) -> String {
        let walls = costs.iter().map(|cost| cost.wall.as_secs_f64());
        let (min, max) = (walls.clone().fold(f64::INFINITY, f64::min), walls.fold(0.0, f64::max));
        let Self { wall, cpu, cpu_whole, peak } = self;
        format!("| {wall:.2} ({min:.2}-{max:.2}) | {cpu:.2} | {cpu_whole:.2} | {peak:.0} |")
    }
}

/// The middle one, the larger of two.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cost(seconds: u64) -> Cost {
        Cost { wall: Duration::from_secs(seconds), cpu_seconds: 1.0, cpu_seconds_whole: 2.0, peak_bytes: 3_000_000 }
    }

    fn run(copy: Cost, mirror: Option<Cost>) -> Run {
        Run { copy, verify: Duration::from_secs(4), mirror }
    }

    fn columns(line: &str) -> usize {
        line.matches('|').count()
    }

    #[test]
    fn the_median_counts_and_the_extremes_are_shown() {
        let [work, ..] = Work::all(0.1);
        let row = row(&work, &[10, 1, 2].map(|seconds| run(cost(seconds), None)));
        assert_eq!(row, "| 70 B, lz4 | 0.5 | 250000 | 18 | 2.00 (1.00-10.00) | 1.00 | 2.00 | 3 | 4.0 |");
        assert!(head(false).lines().all(|line| columns(line) == columns(&row)));
    }

    #[test]
    fn ratios_are_times_ours() {
        let [work, ..] = Work::all(0.1);
        let mirror = Cost { cpu_seconds: 20.0, peak_bytes: 900_000_000, ..cost(5) };
        let row = row(&work, &[run(cost(2), Some(mirror))]);
        assert!(row.ends_with("| 4.0 | 5.00 (5.00-5.00) | 20.00 | 2.00 | 900 | 2.5 | 20 | 300 |"), "{row}");
        assert!(head(true).lines().all(|line| columns(line) == columns(&row)));
    }
}
