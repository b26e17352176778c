//! Each way to come in, and what is said at each door that stays closed.

use std::path::Path;

use sharebridge::config::Config;
use sharebridge::flow::Flow;
use sharebridge::metrics::registry;
use sharebridge::wire::{Client, Cluster};

use super::clusters::{PASSWORD, Secured, USER, secured};
use super::tokens::{CLIENT_SECRET, token};

/// The cluster that these lines of a table `[clusters.a]` describe.
fn described(lines: &[String]) -> std::sync::Arc<Cluster> {
    let text = format!(
        "[clusters.a]\n{}\n[clusters.b]\nbootstrap.servers = 'b:1'\n[flows.f]\nsource.cluster = 'a'\nsink.cluster = 'b'\n\
         topics.names = ['t']\n",
        lines.join("\n")
    );
    let config = Config::parse(Path::new("f.toml"), &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    Flow::all(config.flows, &mut registry()).remove(0).source.clone()
}

/// Asks for all brokers, which each user may.
fn ask(lines: &[String]) -> Result<(), String> {
    let cluster = described(lines);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let asked = runtime.block_on(Client::new(cluster.clone()).brokers()).map(|brokers| assert_eq!(brokers, [1]));
    let counted = (cluster.metrics.opened.get(), cluster.metrics.failed.get());
    // The broker is known by its advertised address only after the first answer.
    assert!(if asked.is_ok() { counted == (1, 0) } else { counted.1 >= 1 || counted.0 == 1 }, "{counted:?}");
    asked.map_err(|error| error.to_string())
}

fn lines(port: u16, protocol: &str, more: &[&str]) -> Vec<String> {
    let mut lines = vec![
        format!("bootstrap.servers = 'localhost:{port}'"),
        format!("security.protocol = '{protocol}'"),
        "request.timeout.ms = 5000".to_owned(),
    ];
    lines.extend(more.iter().map(|&line| line.to_owned()));
    lines
}

fn login(mechanism: &str, user: &str, password: &str) -> [String; 3] {
    [
        format!("sasl.mechanism = '{mechanism}'"),
        format!("sasl.username = '{user}'"),
        format!("sasl.password = '{password}'"),
    ]
}

fn with(mut lines: Vec<String>, more: impl IntoIterator<Item = String>) -> Vec<String> {
    lines.extend(more);
    lines
}

/// Everything that must work, with its name.
fn ways_in(secured: &Secured) -> Vec<(&'static str, Vec<String>)> {
    let doors = secured.source;
    let path = |name: &str| secured.path(name).display().to_string();
    let (ca, token_file) = (format!("ssl.ca.location = '{}'", path("ca.pem")), secured.write("token", &token()));
    let sasl_ssl = || with(lines(doors.sasl_ssl, "SASL_SSL", &[&ca]), None);
    let sasl = |more: [String; 3]| with(lines(doors.sasl, "SASL_PLAINTEXT", &[]), more);
    let ssl = |more: &[String]| with(lines(doors.ssl, "SSL", &[&ca]), more.to_vec());
    let bearer = |more: Vec<String>| with(with(sasl_ssl(), ["sasl.mechanism = 'OAUTHBEARER'".to_owned()]), more);
    let url = format!("sasl.oauthbearer.token.endpoint.url = 'http://127.0.0.1:{}/token'", secured.tokens.port);
    let inline = |name: &str| std::fs::read_to_string(secured.path(name)).unwrap();
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule";
    secured.write("password", &format!("{PASSWORD}\n"));
    vec![
        ("PLAIN", with(sasl_ssl(), login("PLAIN", USER, PASSWORD))),
        ("SCRAM 256", with(sasl_ssl(), login("SCRAM-SHA-256", USER, PASSWORD))),
        ("SCRAM 512", with(sasl_ssl(), login("SCRAM-SHA-512", USER, &format!("${{file:{}}}", path("password"))))),
        ("PLAIN without TLS", sasl(login("PLAIN", USER, PASSWORD))),
        ("SCRAM without TLS", sasl(login("SCRAM-SHA-512", USER, PASSWORD))),
        (
            "JAAS",
            with(
                sasl_ssl(),
                [
                    "sasl.mechanism = 'SCRAM-SHA-256'".to_owned(),
                    format!(
                        "sasl.jaas.config = '{module} required username=\"{USER}\" password=\"${{file:{}}}\";'",
                        path("password")
                    ),
                ],
            ),
        ),
        ("token file", bearer(vec![format!("sasl.oauthbearer.token.endpoint.url = 'file:{}'", token_file.display())])),
        (
            "token endpoint",
            bearer(vec![
                url.clone(),
                format!("sasl.oauthbearer.client.credentials.client.id = '{USER}'"),
                format!("sasl.oauthbearer.client.credentials.client.secret = '{CLIENT_SECRET}'"),
                "sasl.oauthbearer.scope = 'a b'".to_owned(),
            ]),
        ),
        (
            "token endpoint by JAAS",
            bearer(vec![
                url,
                format!(
                    "sasl.jaas.config = 'x.OAuthBearerLoginModule required clientId=\"{USER}\" clientSecret=\"{CLIENT_SECRET}\" scope=\"a b\";'"
                ),
            ]),
        ),
        ("mTLS, one file", ssl(&[format!("ssl.keystore.location = '{}'", path("both.pem"))])),
        (
            "mTLS, two files, locked key",
            ssl(&[
                format!("ssl.certificate.location = '{}'", path("cert.pem")),
                format!("ssl.key.location = '{}'", path("locked.pem")),
                "ssl.key.password = 'store-secret'".to_owned(),
            ]),
        ),
        (
            "mTLS, inline",
            ssl(&[
                format!("ssl.keystore.certificate.chain = '''\n{}'''", inline("cert.pem")),
                format!("ssl.keystore.key = '''\n{}'''", inline("key.pem")),
            ]),
        ),
        (
            "mTLS, PKCS12 of openssl",
            ssl(&[
                "ssl.keystore.type = 'PKCS12'".to_owned(),
                format!("ssl.keystore.location = '{}'", path("both.p12")),
                "ssl.keystore.password = 'store-secret'".to_owned(),
            ]),
        ),
        (
            "truststore of keytool",
            with(
                lines(
                    doors.misnamed,
                    "SSL",
                    &[
                        "ssl.truststore.type = 'PKCS12'",
                        "ssl.truststore.password = 'store-secret'",
                        "ssl.endpoint.identification.algorithm = ''",
                    ],
                ),
                [format!("ssl.truststore.location = '{}'", path("ca.p12"))],
            ),
        ),
    ]
}

#[test]
fn every_way_in_is_open() {
    let secured = secured();
    for (name, lines) in ways_in(&secured) {
        if let Err(error) = ask(&lines) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn every_closed_door_says_why() {
    let secured = secured();
    let doors = secured.source;
    let path = |name: &str| secured.path(name).display().to_string();
    let ca = format!("ssl.ca.location = '{}'", path("ca.pem"));
    let other = cluster::Authority::new("other").unwrap();
    let stranger = other.issue(USER, &[]).unwrap();
    secured.write("other-ca.pem", &other.pem());
    secured.write("stranger.pem", &format!("{}{}", stranger.chain, stranger.private_key));
    let ssl = |port: u16, more: &[&str]| lines(port, "SSL", more);
    let sasl = |more: [String; 3]| with(lines(doors.sasl_ssl, "SASL_SSL", &[&ca]), more);
    let plain = secured.pair.source.bootstrap().rsplit_once(':').unwrap().1.parse().unwrap();
    let stranger = format!("ssl.keystore.location = '{}'", path("stranger.pem"));
    let jks = format!("ssl.truststore.location = '{}'", path("ca.jks"));
    let other_ca = format!("ssl.truststore.location = '{}'", path("other-ca.pem"));
    let bearer = |more: &[&str]| {
        with(
            lines(doors.sasl_ssl, "SASL_SSL", &[&ca, "sasl.mechanism = 'OAUTHBEARER'"]),
            more.iter().map(|&line| line.to_owned()),
        )
    };
    let url = format!("sasl.oauthbearer.token.endpoint.url = 'http://127.0.0.1:{}/token'", secured.tokens.port);
    secured.write("bad-token", "e30.e30.e30");
    let bad_token = format!("sasl.oauthbearer.token.endpoint.url = 'file:{}'", path("bad-token"));
    let cases: Vec<(&str, Vec<String>, &[&str])> = vec![
        (
            "wrong password",
            sasl(login("SCRAM-SHA-512", USER, "wrong-horse")),
            &["SCRAM-SHA-512", USER, "sasl.password"],
        ),
        (
            "unknown user",
            sasl(login("SCRAM-SHA-256", "nobody", PASSWORD)),
            &["SCRAM-SHA-256", "nobody", "sasl.username"],
        ),
        (
            "wrong PLAIN password",
            sasl(login("PLAIN", USER, "wrong-horse")),
            &["PLAIN", USER, "Invalid username or password"],
        ),
        ("a bad token", bearer(&[&bad_token]), &["OAUTHBEARER", "the broker's log"]),
        (
            "a wrong client secret",
            bearer(&[
                &url,
                "sasl.oauthbearer.client.id = 'bridge'",
                "sasl.oauthbearer.client.secret = 'wrong-horse'",
                "sasl.oauthbearer.scope = 'a b'",
            ]),
            &["OAUTHBEARER", "401", "invalid_client who are you", "token.endpoint.url"],
        ),
        ("an untrusted authority", ssl(doors.ssl, &[&other_ca]), &["signed by nobody", "ssl.truststore.location"]),
        ("another host", ssl(doors.misnamed, &[&ca]), &["broker.example", "ssl.endpoint.identification.algorithm"]),
        ("an expired certificate", ssl(doors.expired, &[&ca]), &["has expired", "renew"]),
        ("no client certificate", ssl(doors.ssl, &[&ca]), &["refuses the connection", "ssl.keystore.location"]),
        (
            "a stranger's certificate",
            ssl(doors.ssl, &[&ca, &stranger]),
            &["refuses the connection", "ssl.keystore.location"],
        ),
        (
            "TLS at a plain listener",
            ssl(plain, &[&ca]),
            &["no TLS connection", "listener without TLS", "security.protocol"],
        ),
        ("plain at a TLS listener", lines(doors.ssl, "PLAINTEXT", &[]), &["set security.protocol to SSL"]),
        ("plain at a SASL listener", lines(doors.sasl, "PLAINTEXT", &[]), &["ask for SASL"]),
        ("TLS alone at a SASL_SSL listener", ssl(doors.sasl_ssl, &[&ca]), &["ask for SASL"]),
        ("a Java store", ssl(doors.ssl, &[&jks]), &["JKS", "keytool -importkeystore"]),
    ];
    for (name, lines, words) in cases {
        let error = ask(&lines).expect_err(name);
        println!("{name}: {error}");
        for word in words.iter().chain(&["cluster a", "localhost:"]) {
            assert!(error.contains(word), "{name}: {word:?} is not in: {error}");
        }
        for secret in ["wrong-horse", PASSWORD, "store-secret"] {
            assert!(!error.contains(secret), "{name}: {error}");
        }
    }
}
