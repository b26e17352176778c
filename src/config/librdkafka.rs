//! A cluster in librdkafka's properties: plain strings, for the engine that reads through it and for the independent reader of verify.

use zeroize::Zeroizing;

use super::ClusterConfig;
use super::secret::SecretError;
use super::security::{Identity, Material, Origin, SaslConfig, TlsConfig, Trust};

/// What librdkafka cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Untold {
    /// A secret that cannot be had.
    #[error("[clusters.{cluster}]: {cause}")]
    Secret {
        /// Name of the cluster.
        cluster: String,
        /// Why.
        cause: SecretError,
    },
    /// Tokens, for the cluster of this name.
    #[error(
        "[clusters.{0}]: librdkafka, which verify and consumer.engine = \"librdkafka\" use, gets no tokens for OAUTHBEARER yet; read natively \
         (consumer.engine = \"native\"), and give the cluster another mechanism in a configuration of its own for verify"
    )]
    Bearer(String),
    /// Kerberos, for the cluster of this name.
    #[error(
        "[clusters.{0}]: librdkafka, which verify and consumer.engine = \"librdkafka\" use, is built without Kerberos: it has one credential cache \
         for all clusters of a process; read natively (consumer.engine = \"native\"), and give the cluster a listener with another mechanism in a \
         configuration of its own for verify"
    )]
    Kerberos(String),
    /// A truststore of the wrong kind, for the cluster of this name.
    #[error(
        "[clusters.{0}]: librdkafka, which verify and consumer.engine = \"librdkafka\" use, cannot read a PKCS12 truststore; write it as PEM \
         (openssl pkcs12 -in FILE -nokeys -out NEW.pem) and give that one in ssl.truststore.location"
    )]
    Truststore(String),
}

/// How connections to a cluster are protected: property names with their values, secrets among them.
pub fn properties(cluster: &ClusterConfig) -> Result<Vec<(String, String)>, Untold> {
    let mut properties = Properties { cluster, list: vec![] };
    let security = &cluster.security;
    properties.set("security.protocol", security.protocol());
    if let Some(tls) = &security.tls {
        properties.tls(tls)?;
    }
    if let Some(sasl) = &security.sasl {
        properties.set("sasl.mechanism", sasl.mechanism());
        match sasl {
            SaslConfig::Plain(login) | SaslConfig::Scram(_, login) => {
                properties.reveal("sasl.username", login.username.reveal())?;
                properties.reveal("sasl.password", login.password.reveal())?;
            }
            SaslConfig::OauthBearer(_) => return Err(Untold::Bearer(cluster.name.clone())),
            SaslConfig::Gssapi(_) => return Err(Untold::Kerberos(cluster.name.clone())),
        }
    }
    Ok(properties.list)
}

struct Properties<'a> {
    cluster: &'a ClusterConfig,
    list: Vec<(String, String)>,
}

impl Properties<'_> {
    fn set(&mut self, name: &str, value: &str) {
        self.list.push((name.to_owned(), value.to_owned()));
    }

    fn reveal(&mut self, name: &str, secret: Result<Zeroizing<String>, SecretError>) -> Result<(), Untold> {
        let secret = secret.map_err(|cause| Untold::Secret { cluster: self.cluster.name.clone(), cause })?;
        self.set(name, &secret);
        Ok(())
    }

    /// PEM by file or by text: librdkafka has a name for each.
    fn pem(&mut self, material: &Material, (location, text): (&str, &str)) -> Result<(), Untold> {
        match &material.origin {
            Origin::File(path) => {
                self.set(location, &path.to_string_lossy());
                Ok(())
            }
            Origin::Inline(secret) => self.reveal(text, secret.reveal()),
        }
    }

    fn tls(&mut self, tls: &TlsConfig) -> Result<(), Untold> {
        match &tls.trust {
            Trust::System => self.set("ssl.ca.location", "probe"),
            Trust::Pem(material) => self.pem(material, ("ssl.ca.location", "ssl.ca.pem"))?,
            Trust::Pkcs12(_) => return Err(Untold::Truststore(self.cluster.name.clone())),
        }
        self.set("ssl.endpoint.identification.algorithm", if tls.verifies_host { "https" } else { "none" });
        match &tls.identity {
            None => {}
            Some(Identity::Pem { chain, private_key, password }) => {
                self.pem(chain, ("ssl.certificate.location", "ssl.certificate.pem"))?;
                self.pem(private_key, ("ssl.key.location", "ssl.key.pem"))?;
                if let Some(password) = password {
                    self.reveal("ssl.key.password", password.reveal())?;
                }
            }
            Some(Identity::Pkcs12(store)) => {
                self.set("ssl.keystore.location", &store.file.to_string_lossy());
                if let Some(password) = &store.password {
                    self.reveal("ssl.keystore.password", password.reveal())?;
                }
            }
        }
        Ok(())
    }
}
