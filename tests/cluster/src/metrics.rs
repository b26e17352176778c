use std::net::SocketAddr;

use anyhow::bail;

use crate::http::http_get;

/// What a status server said of its metrics at one moment.
#[derive(Debug, Clone)]
pub struct Metrics(String);

impl Metrics {
    /// Asks the status server at `address`.
    pub fn of(address: SocketAddr) -> anyhow::Result<Self> {
        match http_get(address, "/metrics")? {
            (200, text) => Ok(Self(text)),
            (code, text) => bail!("{address}/metrics answered {code}: {text}"),
        }
    }

    /// The sum of all samples of the metric `name`, over all labels; none if there is no sample.
    ///
    /// `name` is without our prefix; the name of a counter ends in `_total`. `name{label=value}` adds up only those with this label.
    pub fn sum(&self, name: &str) -> Option<i64> {
        let (name, label) = name.strip_suffix('}').and_then(|name| name.split_once('{')).unwrap_or((name, ""));
        let label = label.split_once('=').map(|(label, value)| format!("{label}=\"{value}\""));
        let value = |line: &str| {
            let (labels, value) = line.strip_prefix("sharebridge_")?.strip_prefix(name)?.rsplit_once(' ')?;
            let is_whole_name = labels.is_empty() || labels.starts_with('{');
            let has_label = label.as_ref().is_none_or(|label| labels.contains(label));
            (is_whole_name && has_label).then(|| value.parse::<i64>().ok())?
        };
        self.0.lines().filter_map(value).reduce(|sum, value| sum + value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_are_added_up() {
        let text = "# HELP sharebridge_send Records.\nsharebridge_send_total{flow=\"a\"} 5\nsharebridge_send_total{flow=\"b c\"} 7\n\
            sharebridge_send_total_more 100\nsharebridge_backlog -1\n# EOF\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.sum("send_total"), Some(12));
        assert_eq!(metrics.sum("send_total{flow=b c}"), Some(7));
        assert_eq!(metrics.sum("backlog"), Some(-1));
        assert_eq!(metrics.sum("send"), None);
    }
}
