//! How the connections to a cluster are protected.

pub(super) mod build;
pub(super) mod jaas;

use std::path::PathBuf;

use zeroize::Zeroizing;

use super::secret::{Secret, SecretError};

/// `security.protocol` with all that belongs to it: TLS, SASL, both or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityConfig {
    /// Encryption, and who the brokers are.
    pub tls: Option<TlsConfig>,
    /// Who we are, unless a client certificate says so.
    pub sasl: Option<SaslConfig>,
}

impl SecurityConfig {
    /// The value of `security.protocol`.
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "SSL",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }
}

/// TLS to the brokers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Whose signature a broker's certificate needs.
    pub trust: Trust,
    /// Our own certificate, for brokers that ask for one.
    pub identity: Option<Identity>,
    /// Whether the certificate must name the broker's host: `ssl.endpoint.identification.algorithm`.
    pub verifies_host: bool,
}

/// Certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those of the system.
    System,
    /// Certificates in PEM.
    Pem(Material),
    /// A PKCS12 store.
    Pkcs12(Store),
}

/// A certificate with its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// In PEM.
    Pem {
        /// The certificate, and those of its issuers behind it.
        chain: Material,
        /// The private key.
        private_key: Material,
        /// What an encrypted key is encrypted with.
        password: Option<Secret>,
    },
    /// A PKCS12 store.
    Pkcs12(Store),
}

/// Text in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// The key of the configuration that gives it, for messages.
    pub key: &'static str,
    /// Where it stands.
    pub origin: Origin,
}

/// Where PEM text stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file of its own.
    File(PathBuf),
    /// In the configuration.
    Inline(Secret),
}

/// A PKCS12 file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The key of the configuration that names it, for messages.
    pub key: &'static str,
    /// The file.
    pub file: PathBuf,
    /// What it is encrypted with.
    pub password: Option<Secret>,
}

/// `sasl.mechanism` with what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslConfig {
    /// User and password in the clear (RFC 4616).
    Plain(Login),
    /// Proof of a password (RFC 5802).
    Scram(ScramHash, Login),
    /// A bearer token (RFC 7628).
    OauthBearer(TokenSource),
    /// Kerberos tickets (RFC 4752).
    Gssapi(KerberosConfig),
}

impl SaslConfig {
    /// The value of `sasl.mechanism`.
    pub fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain(_) => "PLAIN",
            Self::Scram(ScramHash::Sha256, _) => "SCRAM-SHA-256",
            Self::Scram(ScramHash::Sha512, _) => "SCRAM-SHA-512",
            Self::OauthBearer(_) => "OAUTHBEARER",
            Self::Gssapi(_) => "GSSAPI",
        }
    }
}

impl SaslConfig {
    /// Who we say that we are, for messages.
    pub fn user(&self) -> Result<Zeroizing<String>, SecretError> {
        match self {
            Self::Plain(login) | Self::Scram(_, login) => login.username.reveal(),
            Self::OauthBearer(TokenSource::Endpoint(endpoint)) => endpoint.client_id.reveal(),
            Self::OauthBearer(TokenSource::File(path)) => Ok(Zeroizing::new(path.display().to_string())),
            Self::Gssapi(kerberos) => Ok(Zeroizing::new(kerberos.client())),
        }
    }
}

/// The hash function of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramHash {
    /// SHA-256 (RFC 7677).
    Sha256,
    /// SHA-512.
    Sha512,
}

/// User and password. The name may stand in a file as well, since some vaults change both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Who. Messages show it.
    pub username: Secret,
    /// The password.
    pub password: Secret,
}

/// Where bearer tokens come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// A file that somebody else renews.
    File(PathBuf),
    /// An OIDC token endpoint.
    Endpoint(TokenEndpoint),
}

/// An OIDC token endpoint, asked with client credentials (RFC 6749, section 4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEndpoint {
    /// `https://host[:port]/path`, or `http://` on this machine.
    pub url: String,
    /// Who asks. Messages show it.
    pub client_id: Secret,
    /// The proof.
    pub client_secret: Secret,
    /// What is asked for.
    pub scope: Option<String>,
    /// Whose signature the endpoint's certificate needs.
    pub trust: Trust,
}

/// What Kerberos needs besides the system's own configuration of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosConfig {
    /// First part of the brokers' principals: `kafka` in `kafka/host@REALM`.
    pub service: String,
    /// Who we are; `None` is the first principal of the keytab, or the one whose tickets are in the credential cache.
    pub principal: Option<String>,
    /// Where our key is; `None` takes tickets from the default credential cache, which somebody else fills.
    pub keytab: Option<PathBuf>,
}

impl KerberosConfig {
    /// Who we say that we are, as far as the configuration tells.
    fn client(&self) -> String {
        match (&self.principal, &self.keytab) {
            (Some(principal), _) => principal.clone(),
            (None, Some(keytab)) => format!("the first principal of {}", keytab.display()),
            (None, None) => "the owner of the default credential cache".to_owned(),
        }
    }
}
