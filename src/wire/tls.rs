//! TLS to brokers and token endpoints, by rustls with aws-lc-rs.

pub mod explain;
mod material;

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::security::TlsConfig;
use material::{Digest, Fault, Materials};

pub use material::Fault as MaterialFault;

/// The client side of TLS for one cluster or endpoint. Certificates and keys are looked up again for each connection; while what is
/// found is unusable, the last good ones go on being used.
#[derive(Debug)]
pub struct Tls {
    config: TlsConfig,
    loaded: Mutex<Option<Loaded>>,
}

/// What connections are made with.
#[derive(Debug, Clone)]
struct Loaded {
    /// Of the material that `client` was made of.
    made_of: Digest,
    /// Of material that turned out to be unusable: it is complained about once.
    refused: Option<Digest>,
    client: Arc<ClientConfig>,
}

impl Tls {
    /// Nothing is read yet.
    pub fn new(config: TlsConfig) -> Arc<Self> {
        Arc::new(Self { config, loaded: Mutex::new(None) })
    }

    /// Whether certificates and keys can be used as they are.
    pub fn check(&self) -> Result<(), Fault> {
        self.client().map(drop)
    }

    /// Shakes hands over a connection. The handshake names `host` where that is a name (SNI).
    pub async fn connect(self: &Arc<Self>, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsFault> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsFault::Host(host.to_owned()))?;
        let loader = self.clone();
        // Files, and a key that may have to be decrypted.
        let loading = tokio::task::spawn_blocking(move || loader.client());
        let client = loading.await.map_err(|cause| TlsFault::Shake(std::io::Error::other(cause)))??;
        TlsConnector::from(client).connect(name, stream).await.map_err(TlsFault::Shake)
    }

    fn client(&self) -> Result<Arc<ClientConfig>, Fault> {
        let read = Materials::read(&self.config);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(loaded), Ok(materials)) = (&*loaded, &read)
            && loaded.made_of == materials.digest()
        {
            return Ok(loaded.client.clone());
        }
        let digest = read.as_ref().map_or(Digest::NOTHING, Materials::digest);
        match (read.and_then(|materials| client(&self.config, &materials)), &mut *loaded) {
            (Ok(client), slot) => {
                if slot.is_some() {
                    tracing::info!("certificates have changed: new connections use the new ones");
                }
                let client = Arc::new(client);
                *slot = Some(Loaded { made_of: digest, refused: None, client: client.clone() });
                Ok(client)
            }
            (Err(fault), None) => Err(fault),
            (Err(fault), Some(loaded)) => {
                if loaded.refused.replace(digest) != Some(digest) {
                    tracing::warn!(%fault, "certificates have changed, but the new ones are unusable: the old ones stay in use");
                }
                Ok(loaded.client.clone())
            }
        }
    }
}

/// Why there is no TLS connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// Our own certificates or keys.
    #[error(transparent)]
    Material(#[from] Fault),
    /// An address that is neither a host name nor an IP address.
    #[error("{0} is no host name")]
    Host(String),
    /// The handshake.
    #[error(transparent)]
    Shake(std::io::Error),
}

fn client(config: &TlsConfig, materials: &Materials) -> Result<ClientConfig, Fault> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = Arc::new(materials.roots()?);
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has cipher suites for TLS 1.2 and 1.3");
    let builder = if config.verifies_host {
        builder.with_root_certificates(roots)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyHost::new(roots, provider)?))
    };
    match materials.identity()? {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, private_key)) => builder.with_client_auth_cert(chain, private_key).map_err(|cause| {
            Fault::new(materials.identity_key(), &cause, "give the key that belongs to the certificate")
        }),
    }
}

/// Asks of a certificate all but that it names the host.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl AnyHost {
    fn new(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Self, Fault> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        verifier
            .map(Self)
            .map_err(|cause| Fault::new("ssl.truststore.location", &cause, "give a certificate authority"))
    }
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        // rustls looks at the name last, so a certificate that only fails there is trusted.
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
