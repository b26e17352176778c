//! A pair of clusters with secured listeners, and the rights of those who come.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cluster::{Authority, Certificate, Cluster, Doors, Guest, Pair, Spec, unique};

use super::least::{RIGHTS, Side};
use super::tokens::Tokens;
use crate::bridge::Flow;

/// The user of all tests but those about rights.
pub(super) const USER: &str = "bridge";
/// The user of `verify` on the target.
pub(super) const AUDITOR: &str = "auditor";
/// The password of every user, for PLAIN and SCRAM.
pub(super) const PASSWORD: &str = "correct-horse";
/// What all topics, groups and flows of these tests begin with: rights are granted for it.
pub(super) const PREFIX: &str = "safe";
/// Sessions of SCRAM-SHA-512 on the source last this long.
const SESSION_MS: &str = "1500";

pub(super) struct Secured {
    pub(super) pair: Pair,
    pub(super) source: Doors,
    pub(super) target: Doors,
    pub(super) authority: Authority,
    pub(super) tokens: Tokens,
}

/// The user that lacks the right with this number.
pub(super) fn without(number: usize) -> String {
    format!("without-{number}")
}

impl Secured {
    fn start() -> Self {
        let authority = Authority::new("suite").unwrap();
        let (source, target) = (Doors::choose().unwrap(), Doors::choose().unwrap());
        let users = std::iter::once(USER.to_owned()).chain((0..RIGHTS.len()).map(without));
        let guests: Vec<Guest> = users.map(|user| Guest { user, password: PASSWORD.to_owned() }).collect();
        let spec = |name: &str, doors: &Doors| Spec::named(name).secured(doors, &authority, &guests).unwrap();
        let source_spec = spec("secured-source", &source)
            .with("listener.name.saslssl.scram-sha-512.connections.max.reauth.ms", SESSION_MS);
        let pair = Pair::start(source_spec, spec("secured-target", &target)).unwrap();
        grant_all(&pair);
        grant_auditor(&pair.target);
        let secured = Self { pair, source, target, authority, tokens: Tokens::start() };
        secured.write("ca.pem", &secured.authority.pem());
        secured.identity(&secured.authority.issue(USER, &[]).unwrap());
        stores(&secured);
        secured
    }

    /// Where the files of clients are; it ends with the clusters.
    pub(super) fn folder(&self) -> &Path {
        self.pair.source.folder()
    }

    /// Writes a file that clients may name.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a certificate as `cert.pem`, `key.pem` and both together as `both.pem`.
    pub(super) fn identity(&self, certificate: &Certificate) {
        self.write("cert.pem", &certificate.chain);
        self.write("key.pem", &certificate.private_key);
        self.write("both.pem", &format!("{}{}", certificate.chain, certificate.private_key));
    }

    /// A flow from the source over SASL_SSL with SCRAM to the target over SSL with a client certificate.
    pub(super) fn flow(&self, topic: &str) -> Flow {
        let flow = Flow::new(&self.pair, &[topic]).named(PREFIX).in_group(&unique(PREFIX));
        self.scram(flow, "primary", USER).with_all(&self.mutual("dr"))
    }

    /// A cluster of the flow over SASL_SSL with SCRAM-SHA-512.
    pub(super) fn scram(&self, flow: Flow, cluster: &str, user: &str) -> Flow {
        let doors = if cluster == "primary" { self.source } else { self.target };
        flow.with_all(&[
            format!("clusters.{cluster}.bootstrap.servers = \"localhost:{}\"", doors.sasl_ssl),
            format!("clusters.{cluster}.security.protocol = \"SASL_SSL\""),
            format!("clusters.{cluster}.sasl.mechanism = \"SCRAM-SHA-512\""),
            format!("clusters.{cluster}.sasl.username = \"{user}\""),
            format!("clusters.{cluster}.sasl.password = \"{PASSWORD}\""),
            format!("clusters.{cluster}.ssl.truststore.location = {:?}", self.path("ca.pem")),
        ])
    }

    /// A cluster over SSL with the client certificate in `both.pem`.
    pub(super) fn mutual(&self, cluster: &str) -> [String; 4] {
        [
            format!("clusters.{cluster}.bootstrap.servers = \"localhost:{}\"", self.target.ssl),
            format!("clusters.{cluster}.security.protocol = \"SSL\""),
            format!("clusters.{cluster}.ssl.truststore.location = {:?}", self.path("ca.pem")),
            format!("clusters.{cluster}.ssl.keystore.location = {:?}", self.path("both.pem")),
        ]
    }
}

/// The clusters, for one test at a time: some stop brokers.
pub(super) fn secured() -> MutexGuard<'static, Secured> {
    static SECURED: OnceLock<Mutex<Secured>> = OnceLock::new();
    let secured = SECURED.get_or_init(|| Mutex::new(Secured::start()));
    secured.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A topic on the source that may be copied.
pub(super) fn topic(secured: &Secured, name: &str) -> String {
    let topic = unique(&format!("{PREFIX}-{name}"));
    secured.pair.source.create_topic(&topic, 2, &[]).unwrap();
    topic
}

/// Grants each right to everybody but the one who is to lack it.
fn grant_all(pair: &Pair) {
    std::thread::scope(|scope| {
        for side in [Side::Source, Side::Target] {
            scope.spawn(move || {
                let cluster = if side == Side::Source { &pair.source } else { &pair.target };
                let rights = RIGHTS.iter().enumerate().filter(|(_, right)| right.side == side);
                rights.for_each(|(number, right)| {
                    let others = (0..RIGHTS.len()).filter(|other| *other != number).map(without);
                    let users: Vec<String> =
                        others.chain([USER.to_owned()]).map(|user| format!("User:{user}")).collect();
                    grant(cluster, &users, &right.arguments(PREFIX));
                });
            });
        }
    });
}

/// What `verify` needs.
fn grant_auditor(target: &Cluster) {
    let topics = ["--topic", PREFIX, "--resource-pattern-type", "prefixed"];
    let right = [&topics[..], &["--operation", "Read", "--operation", "DescribeConfigs"]].concat();
    grant(target, &[format!("User:{AUDITOR}")], &right);
}

fn grant(cluster: &Cluster, users: &[String], right: &[&str]) {
    let users = users.iter().flat_map(|user| ["--allow-principal", user]);
    let arguments: Vec<&str> = std::iter::once("--add").chain(users).chain(right.iter().copied()).collect();
    cluster.tool("org.apache.kafka.tools.AclCommand", &arguments).unwrap();
}

/// Stores as other programs write them.
fn stores(secured: &Secured) {
    let folder = secured.folder();
    let pass = "pass:store-secret";
    let export = ["pkcs12", "-export", "-in", "both.pem", "-out", "both.p12", "-passout", pass];
    run("openssl", folder, &export);
    run(
        "openssl",
        folder,
        &["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", "key.pem", "-out", "locked.pem", "-passout", pass],
    );
    let import = [
        "-J-XX:-UsePerfData",
        "-importcert",
        "-noprompt",
        "-alias",
        "ca",
        "-file",
        "ca.pem",
        "-storepass",
        "store-secret",
    ];
    run("keytool", folder, &[&import[..], &["-keystore", "ca.p12", "-storetype", "PKCS12"]].concat());
    run("keytool", folder, &[&import[..], &["-keystore", "ca.jks", "-storetype", "JKS"]].concat());
    run(
        "openssl",
        folder,
        &["pkcs12", "-export", "-nokeys", "-in", "ca.pem", "-out", "ca-openssl.p12", "-passout", pass],
    );
}

/// Runs a program that must succeed.
fn run(program: &str, folder: &Path, arguments: &[&str]) {
    let output = Command::new(program).current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
