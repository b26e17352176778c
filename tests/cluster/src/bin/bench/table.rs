//! The table, in Markdown.

use crate::copy::Copy;
use crate::work::Work;

/// Its first two lines.
pub(crate) const HEAD: &str = "\
| work | records, M | records/s | MB/s | wall, s (min-max) | CPU, s | CPU with start, s | peak, MB | verify, s |
|---|---|---|---|---|---|---|---|---|";

/// The line of a work: the median of each figure over its runs, of which there is at least one.
pub(crate) fn row(work: &Work, copies: &[Copy]) -> String {
    let figures = |figure: fn(&Copy) -> f64| sorted(copies.iter().map(figure).collect());
    let walls = figures(|copy| copy.wall.as_secs_f64());
    let wall = median(&walls);
    let megabytes = work.load.records as f64 * work.load.value_bytes as f64 / 1e6;
    format!(
        "| {} | {} | {:.0} | {:.0} | {wall:.2} ({:.2}-{:.2}) | {:.2} | {:.2} | {:.0} | {:.1} |",
        work.name,
        work.load.records as f64 / 1e6,
        work.load.records as f64 / wall,
        megabytes / wall,
        walls[0],
        walls[walls.len() - 1],
        median(&figures(|copy| copy.cpu_seconds)),
        median(&figures(|copy| copy.cpu_seconds_whole)),
        median(&figures(|copy| copy.peak_bytes as f64 / 1e6)),
        median(&figures(|copy| copy.verify.as_secs_f64())),
    )
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_by(f64::total_cmp);
    figures
}

/// The middle one, the larger of two.
fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_median_counts_and_the_extremes_are_shown() {
        let copy = |wall: u64| Copy {
            wall: Duration::from_secs(wall),
            cpu_seconds: 1.0,
            cpu_seconds_whole: 2.0,
            peak_bytes: 3_000_000,
            verify: Duration::from_secs(4),
        };
        let [work, ..] = Work::all(0.1);
        let row = row(&work, &[copy(10), copy(1), copy(2)]);
        assert_eq!(row, "| 70 B, lz4 | 0.5 | 250000 | 18 | 2.00 (1.00-10.00) | 1.00 | 2.00 | 3 | 4.0 |");
        assert_eq!(row.matches('|').count(), HEAD.lines().next().map_or(0, |head| head.matches('|').count()));
    }
}
