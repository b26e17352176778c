//! The reset policies that a share group takes as `share.auto.offset.reset` (KIP-932), and a consumer group as `auto.offset.reset`.

use std::time::Duration;

/// Most digits in one number of a duration; Java's own limits lie beyond.
const DIGITS_MAX: usize = 9;

/// Where a group begins in a partition for which nothing is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record that is there.
    Earliest,
    /// Behind the last record that is there.
    Latest,
    /// At the first record that is not older than this.
    Within(Duration),
}

impl OffsetReset {
    /// Reads a policy in Kafka's words: `earliest`, `latest` or `by_duration:<ISO-8601>`.
    pub fn parse(policy: &str) -> Option<Self> {
        match policy {
            "earliest" => Some(Self::Earliest),
            "latest" => Some(Self::Latest),
            _ => is_valid(policy).then(|| Self::Within(duration(policy.trim_start_matches("by_duration:")))),
        }
    }
}

/// What `PnDTnHnMn.nS` means, where it is known to be one.
fn duration(text: &str) -> Duration {
    let (mut seconds, mut number) = (0.0, String::new());
    for c in text.to_ascii_uppercase().chars() {
        let unit = match c {
            'D' => 86_400.0,
            'H' => 3_600.0,
            'M' => 60.0,
            'S' => 1.0,
            '0'..='9' | '.' | ',' => {
                number.push(if c == ',' { '.' } else { c });
                continue;
            }
            _ => continue,
        };
        seconds += unit * std::mem::take(&mut number).parse::<f64>().unwrap_or(0.0);
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Whether the broker would take this policy.
pub(super) fn is_valid(policy: &str) -> bool {
    match policy.strip_prefix("by_duration:") {
        Some(duration) => is_duration(duration),
        None => matches!(policy, "earliest" | "latest"),
    }
}

/// Recognises what Java's `Duration.parse` takes, without signs: `PnDTnHnMn.nS`, at least one part.
fn is_duration(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let Some(text) = text.strip_prefix('P') else {
        return false;
    };
    let (days, time) = match text.split_once('T') {
        Some((days, time)) => (days, Some(time)),
        None => (text, None),
    };
    let days_are_good = days.is_empty() || days.strip_suffix('D').is_some_and(is_number);
    days_are_good && time.map_or(!days.is_empty(), is_time)
}

/// Recognises `nHnMn.nS` with at least one part.
fn is_time(text: &str) -> bool {
    let mut rest = text;
    for unit in ['H', 'M'] {
        if let Some((number, behind)) = rest.split_once(unit) {
            if !is_number(number) {
                return false;
            }
            rest = behind;
        }
    }
    !text.is_empty() && (rest.is_empty() || rest.strip_suffix('S').is_some_and(is_seconds))
}

fn is_seconds(text: &str) -> bool {
    match text.split_once(['.', ',']) {
        Some((whole, fraction)) => is_number(whole) && (fraction.is_empty() || is_number(fraction)),
        None => is_number(text),
    }
}

fn is_number(text: &str) -> bool {
    (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_java_takes() {
        for good in [
            "earliest",
            "latest",
            "by_duration:P1D",
            "by_duration:PT1H",
            "by_duration:pt15m",
            "by_duration:P2DT3H4M5.678S",
            "by_duration:PT0S",
            "by_duration:PT1.S",
        ] {
            assert!(is_valid(good), "{good}");
        }
        for bad in [
            "",
            "none",
            "Earliest",
            "by_duration",
            "by_duration:",
            "by_duration:P",
            "by_duration:PT",
            "by_duration:P1DT",
            "by_duration:1H",
            "by_duration:P1H",
            "by_duration:PT1M1H",
            "by_duration:PT-1H",
            "by_duration:PT1",
            "by_duration:PTS",
            "by_duration:PT1234567890S",
            "by_duration:PT1H ",
            "by_duration:P1Y",
        ] {
            assert!(!is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn durations_are_what_java_takes_them_for() {
        let seconds = |text: &str| match OffsetReset::parse(&format!("by_duration:{text}")) {
            Some(OffsetReset::Within(duration)) => duration.as_millis(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(
            ["P1D", "PT1H", "pt2m", "PT1.5S", "P1DT1H1M1S"].map(seconds),
            [86_400_000, 3_600_000, 120_000, 1_500, 90_061_000]
        );
        assert_eq!(OffsetReset::parse("latest"), Some(OffsetReset::Latest));
        assert_eq!(OffsetReset::parse("by_duration:1H"), None);
    }
}
