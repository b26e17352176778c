//! Whole files and exactly what is said of them.

mod bad;
mod relations;
mod security;
mod values;

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const CLUSTERS: &str = "\
[clusters.a]
bootstrap.servers = 'a1:9092,a2:9092'
[clusters.b]
bootstrap.servers = 'b1:9092'
";

/// Two clusters on lines 1 to 4, then a flow from line 5 with `more` on lines 9 and after.
fn with_flow(more: &str) -> String {
    format!("{CLUSTERS}[flows.f]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t']\n{more}")
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("f.toml"), text).map_err(|errors| errors.to_string())
}

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    let said = parse(text).expect_err("the file is wrong");
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

/// A flow with one more line is refused with one error on that line, the ninth.
#[track_caller]
fn line_says(line: &str, expected: &str) {
    says(&with_flow(line), &[&format!("f.toml:9: {expected}")]);
}

#[test]
fn defaults_fill_what_the_file_leaves_out() {
    let config = parse(&with_flow("")).expect("the file is good");
    let cluster = |name: &str, bootstrap: &[&str]| {
        Arc::new(ClusterConfig {
            name: name.to_owned(),
            bootstrap: bootstrap.iter().map(|&server| server.to_owned()).collect(),
            client_id: "sharebridge".to_owned(),
            rack: None,
            request_timeout: Duration::from_secs(30),
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            security: SecurityConfig::default(),
        })
    };
    let expected = Config {
        bridge: BridgeConfig {
            status_address: ([127, 0, 0, 1], 9470).into(),
            drain: Duration::from_secs(25),
            log_level: "info".to_owned(),
            log_format: LogFormat::Auto,
        },
        flows: vec![FlowConfig {
            name: "f".to_owned(),
            source: cluster("a", &["a1:9092", "a2:9092"]),
            sink: cluster("b", &["b1:9092"]),
            topics: Selection { names: ["t".to_owned()].into(), ..Selection::default() },
            topics_refresh: Duration::from_secs(10),
            target_topics: TargetTopicsConfig { create: true, replication: None, sync: true, excluded_configs: vec![] },
            allow_unordered_compacted: false,
            group: GroupConfig {
                id: "sharebridge-f".to_owned(),
                lock: Duration::from_secs(30),
                delivery_count_max: 10,
                record_locks_max: 4000,
                offset_reset: "earliest".to_owned(),
                start: StartPosition::Auto,
            },
            protocol: Protocol::Share,
            consumer: ConsumerConfig {
                id: "sharebridge-f-ordered".to_owned(),
                instance: None,
                engine: Engine::Auto,
                session: Duration::from_secs(45),
                offset_reset: OffsetReset::Earliest,
                start: StartPosition::Auto,
            },
            lanes: 2,
            memory_bytes: 64 << 20,
            transaction_timeout: Duration::from_secs(3),
            errors: ErrorsConfig::Stop,
            limits: RateLimits::default(),
            topic_name: NamePattern::parse("${topic}").unwrap(),
            mapping: Mapping::Same,
            codec: None,
            hop_header: false,
        }],
    };
    assert_eq!(config, expected);
}

const EVERY_KEY: &str = "\
[bridge]
status.address = '[::1]:1'
drain.timeout.ms = '5'
log.level = 'warn,sharebridge::lane=trace'
log.format = 'json'
[clusters.a]
bootstrap.servers = ' [::1]:9092 , a_2.example:1 '
client.id = 'me'
request.timeout.ms = 1_000
reconnect.backoff.ms = 0x10
reconnect.backoff.max.ms = 16
[clusters.b]
bootstrap.servers = 'b1:9092'
[flows.'eu.orders']
source.cluster = 'a'
sink.cluster = 'b'
topics.names = ['t', 7, 'u.v_w-x']
topics.regex = ['x.*', 'y']
topics.exclude = ['xx']
topics.refresh.interval.ms = 500
sink.topic.create.enable = false
sink.topic.create.replication.factor = 3
sink.topic.config.sync.enable = false
sink.topic.config.exclude = ['retention.ms']
share.group.id = 'g'
share.acquisition.lock.timeout.ms = 60000
share.max.delivery.count = 25
share.partition.max.record.locks = 100
share.auto.offset.reset = 'earliest'
start.position = 'group:other'
limit.bytes.per.second = 1_000_000
limit.records.per.second = 1
allow.unordered.compacted = true
lanes.count = 64
memory.max.bytes = 67108864
transaction.timeout.ms = 49999
sink.topic.name = '${source}.${topic}.${flow}'
sink.partition.mapping = 'key'
compression.type = 'zstd'
sink.hop.header.enable = true
";

#[test]
fn every_key_of_the_bridge_and_of_clusters_is_heard() {
    let config = parse(EVERY_KEY).expect("the file is good");
    assert_eq!(
        config.bridge,
        BridgeConfig {
            status_address: "[::1]:1".parse().unwrap(),
            drain: Duration::from_millis(5),
            log_level: "warn,sharebridge::lane=trace".to_owned(),
            log_format: LogFormat::Json,
        }
    );
    let source = &config.flows[0].source;
    assert_eq!(source.bootstrap, ["[::1]:9092", "a_2.example:1"]);
    assert_eq!(source.client_id, "me");
    assert_eq!(source.request_timeout, Duration::from_secs(1));
    assert_eq!(source.reconnect_backoff, Duration::from_millis(16));
    assert_eq!(source.reconnect_backoff_max, Duration::from_millis(16));
}

#[test]
fn every_key_of_a_flow_is_heard() {
    let config = parse(EVERY_KEY).expect("the file is good");
    let flow = &config.flows[0];
    assert_eq!(flow.name, "eu.orders");
    assert_eq!(flow.topics.to_string(), "7, t, u.v_w-x, /x.*/, /y/ without /xx/");
    assert_eq!(flow.topics_refresh, Duration::from_millis(500));
    assert_eq!(
        flow.target_topics,
        TargetTopicsConfig {
            create: false,
            replication: Some(3),
            sync: false,
            excluded_configs: vec!["retention.ms".to_owned()],
        }
    );
    assert!(flow.target_topics.copied().all(|(name, _)| name != "retention.ms"));
    assert!(flow.allow_unordered_compacted);
    assert_eq!(
        flow.group,
        GroupConfig {
            id: "g".to_owned(),
            lock: Duration::from_secs(60),
            delivery_count_max: 25,
            record_locks_max: 100,
            offset_reset: "earliest".to_owned(),
            start: StartPosition::Group("other".to_owned()),
        }
    );
    assert_eq!((flow.lanes, flow.memory_bytes), (64, 64 << 20));
    assert_eq!(flow.transaction_timeout, Duration::from_millis(49_999));
    assert_eq!(flow.limits, RateLimits { bytes: NonZeroU64::new(1_000_000), records: NonZeroU64::new(1) });
    assert_eq!(flow.target("t").as_deref(), Ok("a.t.eu.orders"));
    assert_eq!((flow.mapping, flow.codec, flow.hop_header), (Mapping::Key, Some(Codec::Zstd), true));
}

#[test]
fn flows_override_defaults_and_keep_their_order() {
    let text = format!(
        "[defaults]\nsource.cluster = 'a'\nsink.cluster = 'b'\nlanes.count = 5\n{CLUSTERS}\
         [flows.z]\ntopics.names = ['z']\n[flows.a]\ntopics.names = ['a']\nlanes.count = 6\n"
    );
    let config = parse(&text).expect("the file is good");
    let flows = config.flows.iter();
    let lanes: Vec<_> = flows.map(|flow| (flow.name.as_str(), flow.lanes)).collect();
    assert_eq!(lanes, [("z", 5), ("a", 6)]);
    assert!(Arc::ptr_eq(&config.flows[0].source, &config.flows[1].source));
}

#[test]
fn inline_and_nested_tables_are_the_same_keys() {
    let text = "clusters = { a = { bootstrap.servers = 'a:1' }, b.bootstrap = { servers = 'b:1' } }\n\
                [flows.f.source]\ncluster = 'a'\n[flows.f.sink]\ncluster = 'b'\n[flows.f.topics]\nnames = ['t']\n";
    let config = parse(text).expect("the file is good");
    assert_eq!(config.flows[0].sink.bootstrap, ["b:1"]);
}

#[test]
fn all_errors_come_at_once_in_the_order_of_lines() {
    says(
        "[bridge]\nlog.format = xml\n[clusters.a]\n[flows.f]\nsource.cluster = 'A'\nlane.count = 1\n[bridges]\n",
        &[
            "f.toml:2: the value is a bare word, put the value in quotes: \"xml\"",
            "f.toml:3: [clusters.a] bootstrap.servers: is missing (First brokers to ask for the others), \
             give host:port, several with commas between, IPv6 in brackets",
            "f.toml:4: [flows.f] sink.cluster: is missing (Name of the cluster that is written; the source only where every topic gets another name), \
             give the name of a table [clusters.<name>]",
            "f.toml:4: [flows.f] topics.names: is empty, and so is topics.regex: nothing would be copied, give a name or a pattern",
            "f.toml:5: [flows.f] source.cluster: there is no cluster \"A\", name one of a",
            "f.toml:6: [flows.f] lane.count: is not a key of this table, did you mean lanes.count?",
            "f.toml:7: bridges: is not a table of this file, did you mean bridge?",
        ],
    );
}

#[test]
fn bare_words_are_told_to_take_quotes() {
    for word in ["earliest", "info,sharebridge=debug", "127.0.0.1:9092", "5s", "no", "a b"] {
        let expected = format!("the value is a bare word, put the value in quotes: \"{word}\"");
        line_says(&format!("share.group.id = {word} # why"), &expected);
    }
    line_says("share.group.id =", "there is no value, write one after the =");
}

#[test]
fn a_file_with_a_broken_structure_is_judged_no_further() {
    says(
        "[flows.f\nlanes.count = 0\n[bridge]\nlog.format = xml",
        &[
            "f.toml:1: not TOML: unclosed table, expected `]`, correct the line",
            "f.toml:4: the value is a bare word, put the value in quotes: \"xml\"",
        ],
    );
    says(
        "[flows.f]\ntopics.names = ['a', 'b'\nlanes.count = 2\n",
        &["f.toml:3: not TOML: missing comma between array elements, expected `,`, correct the line"],
    );
    says(
        "[bridge]\nlog.level = 'info'\nlog.level = 'warn'\n",
        &["f.toml:3: not TOML: duplicate key, correct the line"],
    );
}

#[test]
fn tables_must_be_known_and_tables() {
    let tables = "use [bridge], [defaults], [clusters.<name>] or [flows.<name>]";
    says(
        &format!("topics = 1\nbridge = 2\n[[flow]]\n{}[clusters]\nc = 3\n", with_flow("")),
        &[
            &format!("f.toml:1: topics: is not a table of this file, {tables}"),
            "f.toml:2: [bridge]: must be a table, write [bridge]",
            "f.toml:3: flow: is not a table of this file, did you mean flows?",
            "f.toml:13: [clusters.c]: must be a table, write [clusters.<name>]",
        ],
    );
    says(
        "[[flows]]\nlanes.count = 1",
        &[
            "f.toml: there is no flow, add a table [flows.<name>]",
            "f.toml:1: flows: must be a table, write [flows.<name>]",
        ],
    );
}

#[test]
fn names_must_be_legal() {
    let text = with_flow("").replace("[flows.f]", "[flows.'a b']");
    let rule = "the name is not legal, give 1 to 100 characters of A-Z a-z 0-9 . _ - in quotes if there are dots";
    says(&text, &[&format!("f.toml:5: [flows.\"a b\"]: {rule}")]);
    let long = "x".repeat(101);
    let text = with_flow("").replace("[flows.f]", &format!("[flows.{long}]"));
    let shown = "x".repeat(80);
    says(&text, &[&format!("f.toml:5: [flows.{shown}...]: {rule}")]);
}

#[test]
fn keys_must_be_known_and_in_their_table() {
    line_says("share.group = 'g'", "[flows.f] share.group: is not a key of this table, did you mean share.group.id?");
    line_says("acks = 1", "[flows.f] acks: is not a key of this table, remove it or see docs/CONFIGURATION.md");
    line_says(
        "\"\\u001b[31m\" = {}",
        "[flows.f] \\u{1b}[31m: is not a key of this table, remove it or see docs/CONFIGURATION.md",
    );
    line_says("client.id = 'x'", "[flows.f] client.id: is a key of [clusters.<name>], move it there");
    says(
        &with_flow("[defaults]\ntopics.names = ['t']"),
        &["f.toml:10: [defaults] topics.names: is a key of [flows.<name>], move it there"],
    );
}

#[test]
fn a_key_is_given_once_however_it_is_quoted() {
    says(
        &with_flow("'lanes.count' = 1\nlanes.count = 2"),
        &["f.toml:10: [flows.f] lanes.count: is given again, remove this line or line 9"],
    );
}

#[test]
fn names_with_dots_need_quotes() {
    let text = with_flow("[flows.f.g]\nlanes.count = 1");
    says(
        &text,
        &[
            "f.toml:10: [flows.f] g.lanes.count: is not a key of this table, a name with dots needs quotes: [flows.\"f.g\"]",
        ],
    );
}

#[test]
fn a_wrong_default_is_reported_once() {
    let text = with_flow(
        "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['u']\n[defaults]\nlanes.count = 0",
    );
    says(&text, &["f.toml:14: [defaults] lanes.count: cannot be \"0\", give a whole number of lanes from 1 to 64"]);
}

#[test]
fn a_file_must_be_there_and_be_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    let said = || Config::load(&file).map_err(|errors| errors.to_string());
    let expect = |problem: &str| Err(format!("{}: {problem}", file.display()));
    assert_eq!(
        said(),
        expect("cannot be read (No such file or directory (os error 2)), check the path and who may read it")
    );
    fs::write(&file, [0xff]).unwrap();
    assert_eq!(said(), expect("is not UTF-8, save it as UTF-8"));
    fs::write(&file, vec![b'\n'; CONFIG_BYTES_MAX as usize + 1]).unwrap();
    assert_eq!(said(), expect("is larger than 1048576 bytes, give a configuration file"));
    fs::write(&file, with_flow("")).unwrap();
    assert!(said().is_ok());
}

/// Lines that are good, nearly good, or pieces of either.
fn hostile_line() -> impl Strategy<Value = String> {
    let names = key::KEYS.iter().map(|key| key.name).collect::<Vec<_>>();
    let value = prop_oneof![
        "[-0-9a-z:.,\\[\\]{}'\"= #]{0,12}",
        any::<i64>().prop_map(|n| n.to_string()),
        "'\\PC{0,20}'",
        Just("['t', 'u']".to_owned()),
    ];
    prop_oneof![
        (proptest::sample::select(names), value).prop_map(|(key, value)| format!("{key} = {value}")),
        "\\[(bridge|defaults|clusters|flows)(\\.[a-c]|\\.\"\\PC{0,5}\")?\\]",
        "\\PC{0,30}",
    ]
}

proptest! {
    #[test]
    fn hostile_text_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn hostile_lines_never_panic_and_each_error_is_one_line(lines in prop::collection::vec(hostile_line(), 0..30)) {
        if let Err(said) = parse(&lines.join("\n")) {
            for line in said.lines() {
                prop_assert!(line.starts_with("f.toml:"), "{line}");
                prop_assert!(!line.contains(char::is_control), "{line}");
            }
        }
    }
}
