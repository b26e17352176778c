//! The bridge as users run it: a configuration file, a process, and what it says of itself over HTTP.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cluster::read::{Isolation, scan};
use cluster::{Cluster, Metrics, Pair, Spec, free_port, http_get, load, process, unique};
use rdkafka::Message;

/// How long anything may take that has to happen. Long enough for a loaded machine; nobody waits for it on a good day.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// Looks until there is something to see.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A flow of its own share group from source to target. Its workers share the file, except for their status address.
#[derive(Clone)]
pub(crate) struct Flow {
    /// The share group.
    pub(crate) group: String,
    lines: Vec<String>,
    variables: Vec<(String, PathBuf)>,
}

impl Flow {
    /// Short timeouts, so that tests see soon what users see later.
    pub(crate) fn new(pair: &Pair, topics: &[&str]) -> Self {
        Self::between((&pair.source, &pair.target), topics)
    }

    /// The same for clusters that are not a pair.
    pub(crate) fn between((source, target): (&Cluster, &Cluster), topics: &[&str]) -> Self {
        let group = unique("group");
        let lines = vec![
            format!("clusters.primary.bootstrap.servers = \"{}\"", source.bootstrap()),
            "clusters.primary.request.timeout.ms = 5000".to_owned(),
            format!("clusters.dr.bootstrap.servers = \"{}\"", target.bootstrap()),
            "clusters.dr.request.timeout.ms = 5000".to_owned(),
            "flows.f.source.cluster = \"primary\"".to_owned(),
            "flows.f.sink.cluster = \"dr\"".to_owned(),
            format!("flows.f.share.group.id = \"{group}\""),
            format!("flows.f.group.id = \"{group}-ordered\""),
            format!("flows.f.topics.names = {topics:?}"),
            "flows.f.topics.refresh.interval.ms = 2000".to_owned(),
            "flows.f.transaction.timeout.ms = 1000".to_owned(),
            "flows.f.share.acquisition.lock.timeout.ms = 11001".to_owned(),
        ];
        Self { group, lines, variables: vec![] }
    }

    /// The same under another name, by which transactions of dead workers are found: all other flows of the suite are `f`.
    #[must_use]
    pub(crate) fn named(mut self, name: &str) -> Self {
        for line in &mut self.lines {
            *line = line.replacen("flows.f.", &format!("flows.{name}."), 1);
        }
        self
    }

    /// A line of the file, with the whole path of its key, in the place of what the key had before.
    #[must_use]
    pub(crate) fn with(mut self, line: &str) -> Self {
        let key = |line: &str| line.split(" = ").next().map(str::to_owned);
        self.lines.retain(|before| key(before) != key(line));
        self.lines.push(line.to_owned());
        self
    }

    /// A variable in the environment of its workers.
    #[must_use]
    pub(crate) fn with_variable(mut self, name: &str, path: PathBuf) -> Self {
        self.variables.push((name.to_owned(), path));
        self
    }

    /// Several lines, as above.
    #[must_use]
    pub(crate) fn with_all(self, lines: &[String]) -> Self {
        lines.iter().fold(self, |flow, line| flow.with(line))
    }

    /// The same without the line of this key.
    #[must_use]
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.lines.retain(|line| line.split(" = ").next() != Some(key));
        self
    }

    /// The consumer group, for what is copied in order.
    pub(crate) fn consumer_group(&self) -> String {
        format!("{}-ordered", self.group)
    }

    /// The same in another share group.
    #[must_use]
    pub(crate) fn in_group(mut self, group: &str) -> Self {
        for line in self.lines.iter_mut().filter(|line| line.contains("group.id = ")) {
            *line = line.replace(&self.group, group);
        }
        group.clone_into(&mut self.group);
        self
    }

    /// The timeouts that users have if they give none: for brokers with replicas, on a machine that does other work as well.
    #[must_use]
    pub(crate) fn patient(self) -> Self {
        self.with("flows.f.transaction.timeout.ms = 3000").with("flows.f.share.acquisition.lock.timeout.ms = 13001")
    }

    /// The file without a status address.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", self.lines.join("\n"))
    }

    /// Starts one more worker.
    pub(crate) fn start(&self) -> Worker {
        self.start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap())))
    }

    /// The same with a status address that was chosen before.
    pub(crate) fn start_at(&self, address: SocketAddr) -> Worker {
        let file = format!("bridge.status.address = \"{address}\"\n{}", self.text());
        let binary = Path::new(env!("CARGO_BIN_EXE_sharebridge"));
        let process = process::Bridge::start_in(binary, &file, &self.variables).unwrap();
        Worker { process, address }
    }
}

/// A running `sharebridge run`. It shows its log if the test fails.
pub(crate) struct Worker {
    pub(crate) process: process::Bridge,
    address: SocketAddr,
}

impl Worker {
    /// Status and body of `/ready`; `None` while nobody answers.
    pub(crate) fn ready(&self) -> Option<(u16, String)> {
        http_get(self.address, "/ready").ok()
    }

    /// Where its status server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it says that all is well.
    pub(crate) fn await_ready(&self) {
        eventually("/ready is 200", || self.ready().filter(|(status, _)| *status == 200));
    }

    /// Waits until it says that it is not ready, with a line that holds all of `words`; returns that line.
    pub(crate) fn await_trouble(&self, words: &[&str]) -> String {
        eventually(&format!("/ready names {words:?}"), || {
            let (status, body) = self.ready()?;
            let line = body.lines().find(|line| words.iter().all(|word| line.contains(word)))?;
            assert_eq!(status, 503);
            Some(line.to_owned())
        })
    }

    /// The body of `/metrics`; empty while nobody answers.
    pub(crate) fn metrics(&self) -> String {
        http_get(self.address, "/metrics").map_or_else(|_| String::new(), |(_, body)| body)
    }

    /// A metric without its prefix, summed over its labels; 0 while nobody answers.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        Metrics::of(self.address).ok().and_then(|metrics| metrics.sum(name)).unwrap_or(0)
    }

    /// Waits until a metric has reached a value; returns the one that it has then.
    pub(crate) fn await_metric(&self, name: &str, least: i64) -> i64 {
        eventually(&format!("{name} is {least} or more"), || Some(self.metric(name)).filter(|now| *now >= least))
    }

    /// Waits until its log holds these words.
    pub(crate) fn await_log(&self, words: &str) {
        eventually(&format!("the log says {words:?}"), || self.process.log().contains(words).then_some(()));
    }

    /// Asks it to end (SIGTERM) and waits for that.
    pub(crate) fn shut_down(&mut self) -> ExitStatus {
        self.process.terminate().unwrap();
        self.process.wait_exit(DEADLINE).unwrap()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        http_get(self.address, "/live").is_ok_and(|(status, _)| status == 200)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("ready: {:?}\n{}", self.ready(), self.process.log());
        }
    }
}

/// What has arrived of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    /// Different sequence numbers.
    pub(crate) distinct: u64,
    /// Copies beyond the first of each.
    pub(crate) duplicates: u64,
}

/// Counts what committed transactions have brought, by librdkafka; `None` while there is no such topic.
pub(crate) fn arrived(cluster: &Cluster, topic: &str) -> Option<Arrived> {
    let (mut seen, mut copies) = (HashSet::new(), 0);
    scan(cluster.bootstrap(), topic, Isolation::Committed, |message| {
        seen.insert(load::sequence(message.payload().unwrap()).unwrap());
        copies += 1;
        Ok(())
    })
    .ok()?;
    let distinct = seen.len() as u64;
    Some(Arrived { distinct, duplicates: copies - distinct })
}

/// Waits until `records` different records have arrived.
pub(crate) fn await_all(cluster: &Cluster, topic: &str, records: u64) -> Arrived {
    let mut last = None;
    let arrived = eventually(&format!("{records} records of {topic} have arrived"), || {
        let now = arrived(cluster, topic)?;
        if last.replace(now.distinct) != Some(now.distinct) {
            eprintln!("{topic}: {now:?} of {records}");
        }
        Some(now).filter(|now| now.distinct >= records)
    });
    assert_eq!(arrived.distinct, records, "{topic} holds records that nobody wrote");
    arrived
}

/// A pair for tests that stop brokers: one test at a time, all brokers running at its start.
pub(crate) fn mortal_pair() -> MutexGuard<'static, Pair> {
    static PAIR: OnceLock<Mutex<Pair>> = OnceLock::new();
    let start = || Mutex::new(Pair::start(Spec::named("mortal-source"), Spec::named("mortal-target")).unwrap());
    let pair = PAIR.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner);
    // A test that failed may have left them in any state.
    [&pair.source, &pair.target].into_iter().for_each(|cluster| cluster.recover().unwrap());
    pair
}

/// The lag of a share group in all, as Kafka's own tool shows it; `None` while it is unknown.
pub(crate) fn lag(cluster: &Cluster, group: &str) -> Option<u64> {
    let arguments = ["--describe", "--group", group, "--offsets"];
    let table = cluster.tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand", &arguments).unwrap();
    let mut lines = table.lines().filter(|line| !line.is_empty()).map(str::split_whitespace);
    let column = lines.next()?.position(|name| name == "LAG")?;
    lines.map(|mut fields| fields.nth(column)?.parse::<u64>().ok()).sum()
}

/// Sets a config of a topic with Kafka's own tool.
pub(crate) fn alter_topic(cluster: &Cluster, topic: &str, config: &str) {
    let arguments = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", config];
    cluster.tool("org.apache.kafka.tools.ConfigCommand", &arguments).unwrap();
}

/// Runs a command that the bridge has printed, with Kafka's own tool behind it.
pub(crate) fn obey(cluster: &Cluster, command: &str) {
    println!("{command}");
    let mut words = command.split_whitespace();
    let main_class = match words.next() {
        Some("kafka-configs.sh") => "org.apache.kafka.tools.ConfigCommand",
        Some("kafka-features.sh") => "org.apache.kafka.tools.FeatureCommand",
        Some("kafka-share-groups.sh") => "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        Some("kafka-topics.sh") => "org.apache.kafka.tools.TopicCommand",
        other => panic!("no tool: {other:?}"),
    };
    let words: Vec<&str> = words.collect();
    let (server, arguments) = words.split_at(2);
    assert_eq!(server, ["--bootstrap-server", cluster.bootstrap()]);
    println!("{}", cluster.tool(main_class, arguments).unwrap());
}

/// The commands in a text that begin with the name of one of Kafka's scripts, each to the end of its line.
pub(crate) fn commands(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.find("kafka-").map(|at| &line[at..])).filter(|c| c.contains(".sh ")).collect()
}
