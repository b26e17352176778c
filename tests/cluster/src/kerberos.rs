//! A Kerberos realm of our own: a KDC on 127.0.0.1, its principals with their keytabs, and brokers that ask for tickets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, bail};

use crate::folder::{Folder, tail};
use crate::{Spec, ports};

/// The realm of all principals.
const REALM: &str = "SUITE.EXAMPLE";

/// The principal of every broker: clients find it by the address that brokers advertise.
const BROKER: &str = "kafka/127.0.0.1";

/// How much of the log goes into an error message.
const LOG_TAIL_BYTES_MAX: usize = 4 * 1024;

/// A running KDC. Dropped, it takes its process and files with it.
#[derive(Debug)]
pub struct Kdc {
    folder: Folder,
    log: PathBuf,
    _process: Child,
}

impl Kdc {
    /// Starts a KDC that knows these principals, whose tickets last for as many seconds, and the brokers.
    ///
    /// Errors: its programs are missing, with what brings them, or one of them failed, with what it said.
    pub fn start(principals: &[&str], ticket_seconds: u32) -> anyhow::Result<Self> {
        let folder = Folder::create("kdc")?;
        let port = ports::free(1)?[0];
        write_configuration(folder.path(), port)?;
        let log = folder.path().join("kdc.log");
        admin(&folder, "kdb5_util", &["create", "-s", "-P", "master"])?;
        let broker = [(BROKER, "broker.keytab".to_owned(), "1 day".to_owned())];
        let clients =
            principals.iter().map(|name| (*name, format!("{name}.keytab"), format!("{ticket_seconds} seconds")));
        for (name, keytab, life) in broker.into_iter().chain(clients) {
            admin(&folder, "kadmin.local", &["addprinc", "-randkey", "-maxlife", &life, name])?;
            admin(&folder, "kadmin.local", &["ktadd", "-k", &keytab, name])?;
        }
        let mut kdc = command(folder.path(), "krb5kdc");
        kdc.arg("-n");
        let process = folder.spawn(kdc, &folder.path().join("kdc.out"))?;
        Ok(Self { folder, log, _process: process })
    }

    /// Where the realm is described, for the variable `KRB5_CONFIG` of clients.
    pub fn krb5_conf(&self) -> PathBuf {
        self.path("krb5.conf")
    }

    /// A file beside its own, which ends with it; the keytab of a principal is NAME.keytab.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many tickets it has given to a principal by its key alone.
    pub fn logins(&self, principal: &str) -> usize {
        let client = format!("{principal}@{REALM} for krbtgt/");
        let is_login = |line: &&str| line.contains("AS_REQ") && line.contains("ISSUE") && line.contains(&client);
        tail(&self.log, usize::MAX).lines().filter(is_login).count()
    }

    /// Gives a principal a new key, which its keytab lacks.
    pub fn change_key(&self, principal: &str) -> anyhow::Result<()> {
        admin(&self.folder, "kadmin.local", &["cpw", "-randkey", principal])
    }

    /// Fills a credential cache with the tickets of a principal, as a user does by hand.
    pub fn kinit(&self, principal: &str, cache: &Path) -> anyhow::Result<()> {
        let (keytab, cache) = (format!("{principal}.keytab"), cache.display().to_string());
        admin(&self.folder, "kinit", &["-k", "-t", &keytab, "-c", &cache, principal])
    }
}

impl Spec {
    /// Gives the only broker a listener on this port that asks for tickets. Those who come by the plain listener may do everything, and so may
    /// the one user; others nothing. Sessions last as long as given.
    #[must_use]
    pub fn kerberized(mut self, kdc: &Kdc, port: u16, (user, session_ms): (&str, u32)) -> Self {
        let listener = format!("KERBEROS://127.0.0.1:{port}");
        let keytab = kdc.path("broker.keytab");
        self.java_options.push(format!("-Djava.security.krb5.conf={}", kdc.krb5_conf().display()));
        self.with("listeners", &format!("PLAINTEXT://127.0.0.1:{{broker}},CONTROLLER://127.0.0.1:{{controller}},{listener}"))
            .with("advertised.listeners", &format!("PLAINTEXT://127.0.0.1:{{broker}},{listener}"))
            .with(
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,KERBEROS:SASL_PLAINTEXT",
            )
            .with("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
            .with("super.users", &format!("User:ANONYMOUS;User:{user}"))
            .with("sasl.kerberos.service.name", "kafka")
            .with("listener.name.kerberos.sasl.enabled.mechanisms", "GSSAPI")
            .with("listener.name.kerberos.gssapi.connections.max.reauth.ms", &session_ms.to_string())
            .with(
                "listener.name.kerberos.gssapi.sasl.jaas.config",
                &format!(
                    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"{}\" principal=\"{BROKER}@{REALM}\";",
                    keytab.display()
                ),
            )
    }
}

/// Names are taken as they are: neither DNS nor a detour by addresses decides which principal a broker has.
fn write_configuration(folder: &Path, port: u16) -> anyhow::Result<()> {
    let path = folder.display();
    let client = format!(
        "[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{REALM} = {{
    kdc = 127.0.0.1:{port}
}}
[logging]
kdc = FILE:{path}/kdc.log
"
    );
    let server = format!(
        "[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{REALM} = {{
    database_name = {path}/principals
    key_stash_file = {path}/stash
    acl_file = {path}/acl
}}
"
    );
    fs::write(folder.join("krb5.conf"), client)?;
    fs::write(folder.join("kdc.conf"), server)?;
    Ok(())
}

/// One of the programs of MIT Kerberos, told of the realm. Some are where only administrators look.
fn command(folder: &Path, program: &str) -> Command {
    let for_administrators = Path::new("/usr/sbin").join(program);
    let mut command = match for_administrators.exists() {
        true => Command::new(for_administrators),
        false => Command::new(program),
    };
    command
        .env("KRB5_CONFIG", folder.join("krb5.conf"))
        .env("KRB5_KDC_PROFILE", folder.join("kdc.conf"))
        // Without, it would be in /tmp.
        .env("KRB5RCACHEDIR", folder);
    command
}

fn admin(folder: &Folder, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let log = folder.path().join("admin.log");
    let mut command = command(folder.path(), program);
    command.args(arguments);
    let mut child = folder.spawn(command, &log).with_context(|| format!("{program}: run scripts/setup"))?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{program} {arguments:?} ended with {status}: {}", tail(&log, LOG_TAIL_BYTES_MAX));
    }
    Ok(())
}
