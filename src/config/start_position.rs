//! Where a new share group starts: Kafka's words, an RFC 3339 time, or what another group has committed.

use std::str::FromStr;

use toml::value::{Date, Datetime, Offset, Time};

use crate::limits::TEXT_CHARS_MAX;

/// What stands before the id of another group.
const GROUP_PREFIX: &str = "group:";

/// Where a new share group starts in the partitions that exist by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPosition {
    /// Nothing is set: in each partition where `share.auto.offset.reset` says.
    Auto,
    /// At the first record that is there.
    Earliest,
    /// Behind the last record that is there.
    Latest,
    /// At the first record that is not older: milliseconds since 1970.
    Timestamp(i64),
    /// Where this group stands: what a consumer group has committed, or where a share group has come to.
    Group(String),
}

impl StartPosition {
    /// Reads what stands in the file; `None` where it is none of these.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "earliest" => Some(Self::Earliest),
            "latest" => Some(Self::Latest),
            _ => match text.strip_prefix(GROUP_PREFIX) {
                Some(group) => is_group(group).then(|| Self::Group(group.to_owned())),
                None => timestamp_ms(text).map(Self::Timestamp),
            },
        }
    }
}

fn is_group(text: &str) -> bool {
    (1..=TEXT_CHARS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// A time with date and offset, not before 1970: Kafka has other meanings for negative timestamps.
fn timestamp_ms(text: &str) -> Option<i64> {
    let Datetime { date: Some(date), time: Some(time), offset: Some(offset) } = Datetime::from_str(text).ok()? else {
        return None;
    };
    let offset_minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let Time { hour, minute, second, nanosecond } = time;
    let minutes = i64::from(hour) * 60 + i64::from(minute) - offset_minutes;
    let seconds = (days_since_1970(date) * 24 * 60 + minutes) * 60 + i64::from(second.unwrap_or(0));
    Some(seconds * 1_000 + i64::from(nanosecond.unwrap_or(0) / 1_000_000)).filter(|ms| *ms >= 0)
}

/// Days of the Gregorian calendar: years are counted from March, so that the leap day is the last of its year.
fn days_since_1970(Date { year, month, day }: Date) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    let year = i64::from(year) - i64::from(month <= 2);
    let days_before_month = (153 * ((month + 9) % 12) + 2) / 5;
    // 719,468 days lie between March 1 of the year 0 and January 1 of 1970.
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + days_before_month + day
        - 1
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds_since_1970() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01 00:00:00.0019Z", 1),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2000-03-01T00:00:00Z", 951_868_800_000),
            ("2026-01-31T12:34:56.789-05:30", 1_769_882_696_789),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(StartPosition::parse(text), Some(StartPosition::Timestamp(ms)), "{text}");
        }
    }

    #[test]
    fn only_what_is_meant_is_taken() {
        assert_eq!(StartPosition::parse("latest"), Some(StartPosition::Latest));
        assert_eq!(StartPosition::parse("group:a:b"), Some(StartPosition::Group("a:b".into())));
        for bad in [
            "",
            "Latest",
            "group",
            "group:",
            "group:a\nb",
            "2026-01-31",
            "12:00:00",
            "2026-01-31T12:00:00",
            "2026-02-30T12:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "1769882696789",
        ] {
            assert_eq!(StartPosition::parse(bad), None, "{bad}");
        }
    }
}
