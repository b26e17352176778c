//! What people get wrong, and all that is said about it, in one file to read: `bad/said.snap`.
//!
//! After a change that is meant, write it again with `INSTA_UPDATE=always cargo test --release --lib config::tests::bad`.

use std::fmt::Write;

use super::*;

/// Lines that are put behind a good flow, at line 9.
const LINES: &[&str] = &[
    "topic.names = ['t']",
    "share.group = 'g'",
    "client.id = 'x'",
    "acks = 'all'",
    "lanes.count = two",
    "lanes.count =",
    "lanes.count = 0",
    "lanes.count = -1",
    "lanes.count = 1.5",
    "lanes.count = [2]",
    "lanes.count = 2\nlanes.count = 3",
    "memory.max.bytes = '64MB'",
    "memory.max.bytes = 1048577",
    "transaction.timeout.ms = '5s'",
    "transaction.timeout.ms = 900001",
    "transaction.timeout.ms = 20000",
    "share.group.id = ''",
    "group.id = 'sharebridge-f'",
    "group.protocol = 'classic'",
    "consumer.engine = 'java'",
    "auto.offset.reset = 'none'",
    "share.group.id = 5 apples",
    "share.acquisition.lock.timeout.ms = 999",
    "share.acquisition.lock.timeout.ms = 11000",
    "share.max.delivery.count = 1",
    "share.partition.max.record.locks = 20000",
    "share.auto.offset.reset = 'none'",
    "share.auto.offset.reset = 'by_duration:1h'",
    "allow.unordered.compacted = 'maybe'",
    "sink.cluster = 'c'",
    "[flows.f.g]\nlanes.count = 1",
    "[flows.'a b']\nlanes.count = 1",
    "[flow.g]\nlanes.count = 1",
    "[bridge]\nstatus.address = 'localhost:9470'",
    "[bridge]\nstatus.address = '9470'",
    "[bridge]\nlog.level = 'inof'",
    "[bridge]\nlog.format = 'xml'",
    "[bridge]\ndrain.timeout.ms = 3600001",
    "[defaults]\ntopics.names = ['t']",
    "[clusters.c]",
    "[clusters.c]\nbootstrap.servers = 'c1'",
    "[clusters.c]\nbootstrap.servers = 'http://c1:9092'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092 c2:9092'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nrequest.timeout.ms = 99",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nreconnect.backoff.ms = 2000",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nclient.id = \"a\\nb\"",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'a'\ntopics.names = ['u']",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t']",
    "[flows.g]\nsource.cluster = 'b'\nsink.cluster = 'a'\ntopics.names = ['t']",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['u']\nshare.group.id = 'sharebridge-f'",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = []",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = 'u'",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['u', 'u']",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['a/b']",
    "[flows.g]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['__consumer_offsets']",
    "topics.regex = ['a(']",
    "topics.regex = 'a.*'",
    "topics.exclude = ['t']",
    "topics.refresh.interval.ms = 1",
    "sink.topic.name = 'copy'",
    "sink.topic.name = '${1}-copy'",
    "sink.topic.name = '${cluster}.${topic}'",
    "topics.regex = ['u-.*']\nsink.topic.name = '${1}'",
    "sink.partition.mapping = 'hash'",
    "sink.topic.create.replication.factor = 0",
    "sink.topic.config.exclude = ['compression.type']",
    "compression.type = 'brotli'",
    "sink.cluster = 'a'\nsink.hop.header.enable = true",
    "start.position = 'yesterday'",
    "start.position = 'group:sharebridge-f'",
    "start.position = 'latest'\nshare.auto.offset.reset = 'latest'",
    "limit.bytes.per.second = '1MB'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'TLS'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'u'\nsasl.password = 'p'\nsasl.kerberos.ticket.renew.jitter = '0.05'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsasl.username = 'u'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'u'\nsasl.password = 'p'\nsasl.kerberos.keytab = '/k'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'u'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.jaas.config = 'nonsense'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'SSL'\nssl.truststore.type = 'JKS'\nssl.truststore.location = '/a.jks'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nsecurity.protocol = 'SSL'\nssl.keystore.certificate.chain = 'x'",
    "[clusters.c]\nbootstrap.servers = 'c1:9092'\nclient.id = '${env:SHAREBRIDGE_NOT_SET}'",
];

/// Whole files.
const FILES: &[&str] = &[
    "",
    "bootstrap.servers = 'a:1'",
    "[flows.f\nlanes.count = 1",
    "[[flows]]\nname = 'f'",
    "[flows.f]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t'\n",
    "[flows.f]\nsource.cluster = 'a'\nsink.cluster = 'b'\ntopics.names = ['t']",
];

#[test]
fn all_that_is_said() {
    let mut said = String::new();
    let flows = LINES.iter().map(|lines| (*lines, with_flow(lines)));
    for (shown, text) in flows.chain(FILES.iter().map(|file| (*file, (*file).to_owned()))) {
        let errors = parse(&text).expect_err(shown);
        assert!(errors.lines().all(is_useful), "no place or no remedy: {errors}");
        let _ = writeln!(said, "{}\n", shown.trim_end());
        errors.lines().for_each(|line| said += &format!("    {line}\n"));
        said += "\n";
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("bad");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("said", said));
}

/// Whether a message begins with a place, and asks for something to be done.
fn is_useful(line: &str) -> bool {
    const REMEDIES: [&str; 17] = [
        "give",
        "remove",
        "did you mean",
        "put",
        "write",
        "name",
        "raise",
        "lower",
        "move",
        "correct",
        "add",
        "use",
        "save",
        "choose",
        "quotes",
        "make",
        "leave",
    ];
    line.starts_with("f.toml:") && REMEDIES.iter().any(|word| line.contains(word))
}
