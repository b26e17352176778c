//! Listeners that ask who comes: TLS with certificates of an authority of our own, and SASL.

use std::collections::HashMap;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use crate::{Spec, ports};

/// A certificate authority that ends with the test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its private key, both in PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub chain: String,
    /// Its private key (PKCS 8).
    pub private_key: String,
}

impl Authority {
    /// A fresh one.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its own certificate in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a common name, and for hosts where it is a server's.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> anyhow::Result<Certificate> {
        self.sign(name, hosts, false)
    }

    /// The same, but it has expired long ago.
    pub fn issue_expired(&self, name: &str, hosts: &[&str]) -> anyhow::Result<Certificate> {
        self.sign(name, hosts, true)
    }

    fn sign(&self, name: &str, hosts: &[&str], is_expired: bool) -> anyhow::Result<Certificate> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        for host in hosts {
            params.subject_alt_names.push(match host.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*host).try_into()?),
            });
        }
        if is_expired {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate()?;
        Ok(Certificate { chain: params.signed_by(&key, &self.0)?.pem(), private_key: key.serialize_pem() })
    }
}

/// Ports of the listeners of [`Spec::secured`], all on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub struct Doors {
    /// SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
    pub sasl_ssl: u16,
    /// SSL with client certificates, whose common name is the user.
    pub ssl: u16,
    /// SASL_PLAINTEXT with the same mechanisms.
    pub sasl: u16,
    /// SSL with a certificate that names another host.
    pub misnamed: u16,
    /// SSL with a certificate that has expired.
    pub expired: u16,
}

impl Doors {
    /// Ports that are free now.
    pub fn choose() -> anyhow::Result<Self> {
        let free = ports::free(5)?;
        let [sasl_ssl, ssl, sasl, misnamed, expired] = free.try_into().ok().context("as many ports as asked for")?;
        Ok(Self { sasl_ssl, ssl, sasl, misnamed, expired })
    }
}

/// Who may come in by SASL.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The user.
    pub user: String,
    /// The password for PLAIN and SCRAM.
    pub password: String,
}

impl Spec {
    /// Gives the only broker secured listeners beside the plain one, whose users are `User:ANONYMOUS` and may do everything. Others
    /// may do what they are granted. A token for OAUTHBEARER is an unsecured JWT.
    pub fn secured(mut self, doors: &Doors, authority: &Authority, guests: &[Guest]) -> anyhow::Result<Self> {
        let names = ["SASLSSL", "SSL", "SASL", "MISNAMED", "EXPIRED"];
        let ports = [doors.sasl_ssl, doors.ssl, doors.sasl, doors.misnamed, doors.expired];
        let protocols = ["SASL_SSL", "SSL", "SASL_PLAINTEXT", "SSL", "SSL"];
        let address = |(name, port): (&str, u16)| format!(",{name}://127.0.0.1:{port}");
        let extra: String = names.into_iter().zip(ports).map(address).collect();
        let map: String = names.iter().zip(protocols).map(|(name, protocol)| format!(",{name}:{protocol}")).collect();
        self = self
            .with(
                "listeners",
                &format!("PLAINTEXT://127.0.0.1:{{broker}},CONTROLLER://127.0.0.1:{{controller}}{extra}"),
            )
            .with("advertised.listeners", &format!("PLAINTEXT://127.0.0.1:{{broker}}{extra}"))
            .with("listener.security.protocol.map", &format!("CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{map}"))
            .with("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
            .with("super.users", "User:ANONYMOUS")
            .with("ssl.principal.mapping.rules", "RULE:^.*CN=([^,]*).*$/$1/")
            .with("listener.name.ssl.ssl.client.auth", "required");
        let good = authority.issue("broker", &["127.0.0.1", "localhost"])?;
        let misnamed = authority.issue("broker", &["broker.example"])?;
        let expired = authority.issue_expired("broker", &["127.0.0.1"])?;
        let certificates =
            HashMap::from([("saslssl", &good), ("ssl", &good), ("misnamed", &misnamed), ("expired", &expired)]);
        for (listener, certificate) in certificates {
            let name = |key: &str| format!("listener.name.{listener}.ssl.{key}");
            self = self
                .with(&name("keystore.type"), "PEM")
                .with(&name("keystore.certificate.chain"), &on_one_line(&certificate.chain))
                .with(&name("keystore.key"), &on_one_line(&certificate.private_key))
                .with(&name("truststore.type"), "PEM")
                .with(&name("truststore.certificates"), &on_one_line(&authority.pem()));
        }
        let users: String =
            guests.iter().map(|Guest { user, password }| format!(" user_{user}=\"{password}\"")).collect();
        let module = "org.apache.kafka.common.security";
        for listener in ["saslssl", "sasl"] {
            let name = |key: &str| format!("listener.name.{listener}.{key}");
            self = self
                .with(&name("sasl.enabled.mechanisms"), "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER")
                .with(&name("plain.sasl.jaas.config"), &format!("{module}.plain.PlainLoginModule required{users};"))
                .with(&name("scram-sha-256.sasl.jaas.config"), &format!("{module}.scram.ScramLoginModule required;"))
                .with(&name("scram-sha-512.sasl.jaas.config"), &format!("{module}.scram.ScramLoginModule required;"))
                .with(
                    &name("oauthbearer.sasl.jaas.config"),
                    &format!(
                        "{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";"
                    ),
                );
        }
        for Guest { user, password } in guests {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                self.credentials.push(format!("{mechanism}=[name={user},password={password}]"));
            }
        }
        Ok(self)
    }
}

/// A properties file takes one line.
fn on_one_line(pem: &str) -> String {
    pem.replace("\r\n", "\n").replace('\n', "\\n")
}
