//! Both clusters ask for Kerberos tickets, each for those of another principal.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cluster::load::{Load, produce};
use cluster::{Kdc, Pair, Spec, free_port, unique};

use crate::bridge::{Flow, await_all, eventually};

/// Who may do everything on the source, and nothing on the target.
const READER: &str = "reader";
/// The other way round.
const WRITER: &str = "writer";
/// Who is known to the KDC, but has another key by now than its keytab says.
const REKEYED: &str = "rekeyed";
/// How long tickets last: several are needed in a test.
const TICKET_SECONDS: u32 = 6;
/// How long the brokers take a connection for authenticated.
const SESSION_MS: u32 = 2_000;

struct Realm {
    kdc: Kdc,
    pair: Pair,
    /// Ports of source and target.
    ports: [u16; 2],
}

fn realm() -> &'static Realm {
    static REALM: OnceLock<Realm> = OnceLock::new();
    REALM.get_or_init(|| {
        let kdc = Kdc::start(&[READER, WRITER, REKEYED], TICKET_SECONDS).unwrap();
        kdc.change_key(REKEYED).unwrap();
        let ports = [free_port().unwrap(), free_port().unwrap()];
        let spec = |name, port, user| Spec::named(name).kerberized(&kdc, port, (user, SESSION_MS));
        let (source, target) = (spec("kerberos-source", ports[0], READER), spec("kerberos-target", ports[1], WRITER));
        let pair = Pair::start(source, target).unwrap();
        Realm { kdc, pair, ports }
    })
}

impl Realm {
    /// A flow whose ends are both reached with tickets.
    fn flow(&self, topic: &str) -> Flow {
        let keytab = |name: &str| self.kdc.path(&format!("{name}.keytab"));
        let module = format!(
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"{}\" principal=\"{WRITER}\" \
             serviceName=\"kafka\";",
            keytab(WRITER).display()
        );
        Flow::new(&self.pair, &[topic])
            .with(&format!("clusters.primary.bootstrap.servers = \"127.0.0.1:{}\"", self.ports[0]))
            .with("clusters.primary.security.protocol = \"SASL_PLAINTEXT\"")
            .with("clusters.primary.sasl.mechanism = \"GSSAPI\"")
            .with(&format!("clusters.primary.sasl.kerberos.principal = \"{READER}\""))
            .with(&format!("clusters.primary.sasl.kerberos.keytab = {:?}", keytab(READER)))
            .with(&format!("clusters.dr.bootstrap.servers = \"127.0.0.1:{}\"", self.ports[1]))
            .with("clusters.dr.security.protocol = \"SASL_PLAINTEXT\"")
            .with("clusters.dr.sasl.mechanism = \"GSSAPI\"")
            .with(&format!("clusters.dr.sasl.jaas.config = '{module}'"))
            .with_variable("KRB5_CONFIG", self.kdc.krb5_conf())
    }

    /// The realm as somebody sees it whose KDC is at another port.
    fn elsewhere(&self, name: &str, port: u16) -> PathBuf {
        let text = std::fs::read_to_string(self.kdc.krb5_conf()).unwrap();
        let moved = |line: &str| match line.trim_start().starts_with("kdc = 127.") {
            true => format!("kdc = 127.0.0.1:{port}\n"),
            false => format!("{line}\n"),
        };
        let path = self.kdc.path(name);
        std::fs::write(&path, text.lines().map(moved).collect::<String>()).unwrap();
        path
    }
}

fn topic(realm: &Realm, name: &str) -> String {
    let topic = unique(name);
    realm.pair.source.create_topic(&topic, 2, &[]).unwrap();
    produce(realm.pair.source.bootstrap(), &topic, &Load::of(2_000)).unwrap();
    topic
}

#[test]
fn flows_of_both_kinds_run_on_fresh_tickets_of_two_principals() {
    let realm = realm();
    let topics = [topic(realm, "shared"), topic(realm, "ordered")];
    let flows = [realm.flow(&topics[0]), realm.flow(&topics[1]).with("flows.f.group.protocol = \"consumer\"")];
    let workers = flows.map(|flow| flow.start());
    for (topic, worker) in topics.iter().zip(&workers) {
        await_all(&realm.pair.target, topic, 2_000);
        worker.await_ready();
    }
    // Connections stay while their sessions are renewed, and the tickets end.
    let had = [READER, WRITER].map(|principal| realm.kdc.logins(principal));
    for (principal, had) in [READER, WRITER].into_iter().zip(had) {
        assert!(had >= 1, "{principal} never asked");
        let all = had + workers.len();
        eventually(&format!("{principal} has got new tickets"), || (realm.kdc.logins(principal) >= all).then_some(()));
    }
    for (topic, worker) in topics.iter().zip(&workers) {
        worker.await_metric("reauthentication_total", 4);
        assert_eq!(worker.metric("authentication_failure_total"), 0);
        // Its helpers may be killed at any time, as by an administrator or for want of memory.
        assert_eq!(kill_helpers(worker.process.pid()), 2, "one for each cluster");
        worker.await_metric("reauthentication_total", 2 + worker.metric("reauthentication_total"));
        let again = Load { start: 2_000, ..Load::of(2_000) };
        produce(realm.pair.source.bootstrap(), topic, &again).unwrap();
        await_all(&realm.pair.target, topic, 4_000);
    }
}

/// Kills all processes that a process has started; returns how many.
fn kill_helpers(pid: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> =
        children.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let killed = Command::new("kill").arg("-KILL").args(&children).status().unwrap();
    assert!(killed.success(), "{children:?}");
    children.len()
}

/// Exit code and words of a verb, with these variables in its environment.
fn verb(verb: &str, flow: &Flow, variables: &[(&str, &Path)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sharebridge.toml");
    std::fs::write(&file, flow.text()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sharebridge"));
    let output = command.arg(verb).arg("--config").arg(&file).envs(variables.iter().copied()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{verb}: {:?}\n{said}", output.status.code());
    (output.status.code(), said)
}

#[test]
fn what_is_wrong_with_tickets_is_said() {
    let realm = realm();
    let topic = topic(realm, "refused");
    let (good, here) = (realm.flow(&topic), realm.kdc.krb5_conf());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = realm.elsewhere("silent.conf", nobody.local_addr().unwrap().port());
    let closed = realm.elsewhere("closed.conf", free_port().unwrap());
    let cache = realm.kdc.path("cache");
    let of = |principal: &str| {
        let keytab = realm.kdc.path(&format!("{principal}.keytab"));
        good.clone()
            .with(&format!("clusters.primary.sasl.kerberos.principal = \"{principal}\""))
            .with(&format!("clusters.primary.sasl.kerberos.keytab = {keytab:?}"))
    };
    let by_cache = good
        .clone()
        .without("clusters.primary.sasl.kerberos.keytab")
        .without("clusters.primary.sasl.kerberos.principal");
    let misnamed = good.clone().with("clusters.primary.sasl.kerberos.service.name = \"kafkaesque\"");
    let stranger = good.clone().with("clusters.primary.sasl.kerberos.principal = \"stranger\"");
    let cases: [(&str, Flow, &Path, &str); 7] = [
        ("another key", of(REKEYED), &here, "as rekeyed: "),
        ("no key", stranger, &here, "as stranger: "),
        ("no such service", misnamed, &here, "kafkaesque/127.0.0.1@"),
        ("no tickets", by_cache.clone(), &here, "as the owner of the default credential cache: "),
        ("no KDC", good.clone(), &closed, "Cannot contact any KDC"),
        ("a KDC that does not answer", good.clone(), &silent, "has not answered within 10 s"),
        ("no rights", of(WRITER), &here, "grant "),
    ];
    std::thread::scope(|scope| {
        for (what, flow, conf, words) in &cases {
            let cache = &cache;
            scope.spawn(move || {
                let (code, said) = verb("check", flow, &[("KRB5_CONFIG", conf), ("KRB5CCNAME", cache)]);
                assert_ne!(code, Some(0), "{what}");
                assert!(said.contains(words), "{what}: no {words:?} in {said}");
            });
        }
    });
    realm.kdc.kinit(READER, &cache).unwrap();
    let (code, said) = verb("check", &by_cache, &[("KRB5_CONFIG", &here), ("KRB5CCNAME", &cache)]);
    assert_eq!(code, Some(0), "{said}");
    let missing = good.clone().with("clusters.primary.sasl.kerberos.keytab = \"/no/keytab\"");
    let (code, said) = verb("validate", &missing, &[]);
    assert!(code == Some(78) && said.contains("cannot read the keytab /no/keytab"), "{said}");
    let (_, said) = verb("verify", &good, &[("KRB5_CONFIG", &here)]);
    assert!(said.contains("is built without Kerberos"), "{said}");
}
