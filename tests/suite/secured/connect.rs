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

/// Lines of a table `[clusters.a]`; `DIR` in them is the folder with the files, `URL` the token endpoint.
fn lines(secured: &Secured, (port, protocol): (u16, &str), more: &str) -> Vec<String> {
    let folder = secured.folder().display().to_string();
    let url = format!("http://127.0.0.1:{}/token", secured.tokens.port);
    let more = more.replace("DIR", &folder).replace("URL", &url);
    let to =
        format!("bootstrap.servers = 'localhost:{port}'\nsecurity.protocol = '{protocol}'\nrequest.timeout.ms = 5000");
    [to.as_str(), &more].iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

fn login(mechanism: &str, user: &str, password: &str) -> String {
    format!("sasl.mechanism = '{mechanism}'\nsasl.username = '{user}'\nsasl.password = '{password}'")
}

/// The authority that signed the brokers' certificates.
const CA: &str = "ssl.ca.location = 'DIR/ca.pem'\n";

const BEARER: &str = "ssl.ca.location = 'DIR/ca.pem'\nsasl.mechanism = 'OAUTHBEARER'\n";

fn sasl_ways(secured: &Secured) -> Vec<(&'static str, Vec<String>)> {
    secured.write("password", &format!("{PASSWORD}\n"));
    secured.write("token", &token());
    let over_tls = |more: String| lines(secured, (secured.source.sasl_ssl, "SASL_SSL"), &format!("{CA}{more}"));
    let in_the_clear = |more: String| lines(secured, (secured.source.sasl, "SASL_PLAINTEXT"), &more);
    let bearer = |more: String| {
        over_tls(format!("sasl.mechanism = 'OAUTHBEARER'\nsasl.oauthbearer.token.endpoint.url = {more}"))
    };
    vec![
        ("PLAIN", over_tls(login("PLAIN", USER, PASSWORD))),
        ("SCRAM-SHA-256", over_tls(login("SCRAM-SHA-256", USER, PASSWORD))),
        ("SCRAM-SHA-512, password in a file", over_tls(login("SCRAM-SHA-512", USER, "${file:DIR/password}"))),
        ("PLAIN without TLS", in_the_clear(login("PLAIN", USER, PASSWORD))),
        ("SCRAM without TLS", in_the_clear(login("SCRAM-SHA-512", USER, PASSWORD))),
        (
            "JAAS",
            over_tls(format!(
                "sasl.mechanism = 'SCRAM-SHA-256'\nsasl.jaas.config = 'org.apache.kafka.common.security.scram.ScramLoginModule \
                 required username=\"{USER}\" password=\"${{file:DIR/password}}\";'"
            )),
        ),
        ("token file", bearer("'file:DIR/token'".to_owned())),
        (
            "token endpoint",
            bearer(format!(
                "'URL'\nsasl.oauthbearer.client.credentials.client.id = '{USER}'\n\
                 sasl.oauthbearer.client.credentials.client.secret = '{CLIENT_SECRET}'\nsasl.oauthbearer.scope = 'a b'"
            )),
        ),
        (
            "token endpoint by JAAS",
            bearer(format!(
                "'URL'\nsasl.jaas.config = 'x.OAuthBearerLoginModule required clientId=\"{USER}\" clientSecret=\"{CLIENT_SECRET}\" \
                 scope=\"a b\";'"
            )),
        ),
    ]
}

fn tls_ways(secured: &Secured) -> Vec<(&'static str, Vec<String>)> {
    let text = |name: &str| std::fs::read_to_string(secured.path(name)).unwrap();
    let mutual = |more: &str| lines(secured, (secured.source.ssl, "SSL"), &format!("{CA}{more}"));
    let misnamed = |more: &str| {
        let any_host = "ssl.endpoint.identification.algorithm = ''\nssl.truststore.type = 'PKCS12'\n\
                        ssl.truststore.password = 'store-secret'\n";
        lines(secured, (secured.source.misnamed, "SSL"), &format!("{any_host}{more}"))
    };
    let (chain, key) = (text("cert.pem"), text("key.pem"));
    vec![
        ("one file", mutual("ssl.keystore.location = 'DIR/both.pem'")),
        (
            "two files, the key encrypted",
            mutual(
                "ssl.certificate.location = 'DIR/cert.pem'\nssl.key.location = 'DIR/locked.pem'\nssl.key.password = 'store-secret'",
            ),
        ),
        (
            "inline",
            mutual(&format!("ssl.keystore.certificate.chain = '''\n{chain}'''\nssl.keystore.key = '''\n{key}'''")),
        ),
        (
            "PKCS12 of openssl",
            mutual(
                "ssl.keystore.type = 'PKCS12'\nssl.keystore.location = 'DIR/both.p12'\nssl.keystore.password = 'store-secret'",
            ),
        ),
        ("truststore of keytool", misnamed("ssl.truststore.location = 'DIR/ca.p12'")),
        ("truststore of openssl", misnamed("ssl.truststore.location = 'DIR/ca-openssl.p12'")),
    ]
}

#[test]
fn every_way_in_is_open() {
    let secured = secured();
    for (name, lines) in sasl_ways(&secured).into_iter().chain(tls_ways(&secured)) {
        if let Err(error) = ask(&lines) {
            panic!("{name}: {error}");
        }
    }
}

/// Name, lines, and what the error must say beside the cluster and the address.
type Closed = (&'static str, Vec<String>, &'static [&'static str]);

fn assert_closed(cases: Vec<Closed>) {
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

#[test]
fn wrong_credentials_are_named() {
    let secured = secured();
    secured.write("bad-token", "e30.e30.e30");
    let sasl = |more: String| lines(&secured, (secured.source.sasl_ssl, "SASL_SSL"), &format!("{CA}{more}"));
    let bearer = |more: &str| lines(&secured, (secured.source.sasl_ssl, "SASL_SSL"), &format!("{BEARER}{more}"));
    let wrong_secret = "sasl.oauthbearer.token.endpoint.url = 'URL'\nsasl.oauthbearer.scope = 'a b'\n\
                        sasl.oauthbearer.client.id = 'bridge'\nsasl.oauthbearer.client.secret = 'wrong-horse'";
    assert_closed(vec![
        ("password", sasl(login("SCRAM-SHA-512", USER, "wrong-horse")), &["SCRAM-SHA-512", USER, "sasl.password"]),
        ("user", sasl(login("SCRAM-SHA-256", "nobody", PASSWORD)), &["SCRAM-SHA-256", "nobody", "sasl.username"]),
        ("PLAIN", sasl(login("PLAIN", USER, "wrong-horse")), &["PLAIN", USER, "Invalid username or password"]),
        (
            "token",
            bearer("sasl.oauthbearer.token.endpoint.url = 'file:DIR/bad-token'"),
            &["OAUTHBEARER", "the broker's log"],
        ),
        ("client secret", bearer(wrong_secret), &["OAUTHBEARER", "401", "invalid_client who are you", "endpoint.url"]),
    ]);
}

#[test]
fn every_closed_door_says_why() {
    let secured = secured();
    let doors = secured.source;
    let other = cluster::Authority::new("other").unwrap();
    let stranger = other.issue(USER, &[]).unwrap();
    secured.write("other-ca.pem", &other.pem());
    secured.write("stranger.pem", &format!("{}{}", stranger.chain, stranger.private_key));
    let ssl = |port: u16, more: &str| lines(&secured, (port, "SSL"), more);
    let plain = |port: u16| lines(&secured, (port, "PLAINTEXT"), "");
    let plain_port = secured.pair.source.bootstrap().rsplit_once(':').unwrap().1.parse().unwrap();
    let stranger = format!("{CA}ssl.keystore.location = 'DIR/stranger.pem'");
    assert_closed(vec![
        (
            "another authority",
            ssl(doors.ssl, "ssl.truststore.location = 'DIR/other-ca.pem'"),
            &["signed by nobody", "ssl.truststore.location"],
        ),
        ("another host", ssl(doors.misnamed, CA), &["broker.example", "ssl.endpoint.identification.algorithm"]),
        ("expired", ssl(doors.expired, CA), &["has expired", "renew"]),
        ("no client certificate", ssl(doors.ssl, CA), &["refuses the connection", "ssl.keystore.location"]),
        ("a stranger's", ssl(doors.ssl, &stranger), &["refuses the connection", "ssl.keystore.location"]),
        ("TLS at a plain listener", ssl(plain_port, CA), &["listener without TLS", "security.protocol"]),
        ("plain at a TLS listener", plain(doors.ssl), &["set security.protocol to SSL"]),
        ("plain at a SASL listener", plain(doors.sasl), &["ask for SASL"]),
        ("TLS alone at a SASL_SSL listener", ssl(doors.sasl_ssl, CA), &["ask for SASL"]),
        ("a Java store", ssl(doors.ssl, "ssl.truststore.location = 'DIR/ca.jks'"), &["JKS", "keytool -importkeystore"]),
    ]);
}
