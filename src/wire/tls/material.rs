//! Certificates and keys, as bytes and then as objects.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use p12_keystore::{KeyStore, Pkcs12Archive, Pkcs12ImportPolicy};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::config::Secret;
use crate::config::security::{Identity, Material, Origin, Store, TlsConfig, Trust};
use crate::limits::SECRET_BYTES_MAX;

/// The first bytes of a Java keystore.
const JKS_MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];

/// Certificates or keys that cannot be used, with the key of the configuration that gives them. It never holds their bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {cause}; {remedy}")]
pub struct Fault {
    key: &'static str,
    cause: String,
    remedy: String,
}

impl Fault {
    pub(super) fn new(key: &'static str, cause: &dyn Display, remedy: impl Into<String>) -> Self {
        Self { key, cause: cause.to_string(), remedy: remedy.into() }
    }
}

/// Tells whether materials are the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// Of what cannot be read.
    pub(super) const NOTHING: Self = Self([0; 32]);
}

/// The bytes of all that a configuration names.
pub(super) struct Materials<'a> {
    trust: Option<(&'static str, Bytes, Form)>,
    identity: Option<Held<'a>>,
}

type Bytes = Zeroizing<Vec<u8>>;

enum Form {
    Pem,
    Pkcs12(Option<Zeroizing<String>>),
}

struct Held<'a> {
    chain: (&'static str, Bytes),
    private_key: (&'static str, Bytes),
    form: Form,
    password: Option<&'a Secret>,
}

impl<'a> Materials<'a> {
    /// Reads all files and secrets.
    pub(super) fn read(config: &'a TlsConfig) -> Result<Self, Fault> {
        let trust = match &config.trust {
            Trust::System => None,
            Trust::Pem(material) => Some((material.key, pem(material)?, Form::Pem)),
            Trust::Pkcs12(store) => Some((store.key, file(store.key, &store.file)?, pkcs12(store)?)),
        };
        let identity = match &config.identity {
            None => None,
            Some(Identity::Pem { chain, private_key, password }) => Some(Held {
                chain: (chain.key, pem(chain)?),
                private_key: (private_key.key, pem(private_key)?),
                form: Form::Pem,
                password: password.as_ref(),
            }),
            Some(Identity::Pkcs12(store)) => {
                let bytes = file(store.key, &store.file)?;
                let chain = (store.key, Bytes::default());
                Some(Held { chain, private_key: (store.key, bytes), form: pkcs12(store)?, password: None })
            }
        };
        Ok(Self { trust, identity })
    }

    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let identity = self.identity.iter().flat_map(|held| [&held.chain.1, &held.private_key.1]);
        for bytes in self.trust.iter().map(|(_, bytes, _)| bytes).chain(identity) {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes.as_slice());
        }
        Digest(hash.finalize().into())
    }

    /// The certificate authorities.
    pub(super) fn roots(&self) -> Result<RootCertStore, Fault> {
        let mut roots = RootCertStore::empty();
        let Some((key, bytes, form)) = &self.trust else {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let remedy = "install ca-certificates, or give the authorities in ssl.truststore.location";
                return Err(Fault::new(
                    "ssl.truststore.location",
                    &"the system has no certificate authorities",
                    remedy,
                ));
            }
            return Ok(roots);
        };
        let certificates = match form {
            Form::Pem => certificates(key, bytes)?,
            Form::Pkcs12(password) => {
                // All of them: only keytool marks those that are trusted.
                let archive =
                    Pkcs12Archive::from_pkcs12(bytes, password.as_ref().map_or("", |password| password.as_str()));
                let archive = archive.map_err(|cause| unopened(key, &cause))?;
                archive.certs.iter().map(|held| CertificateDer::from(held.cert.as_der().to_vec())).collect()
            }
        };
        for certificate in certificates {
            roots.add(certificate).map_err(|cause| Fault::new(key, &cause, "give certificates of authorities"))?;
        }
        if roots.is_empty() {
            return Err(Fault::new(
                key,
                &"holds no certificate",
                "give one that begins with -----BEGIN CERTIFICATE-----",
            ));
        }
        Ok(roots)
    }

    /// The key of the configuration that gives our private key.
    pub(super) fn identity_key(&self) -> &'static str {
        self.identity.as_ref().map_or("ssl.keystore.location", |held| held.private_key.0)
    }

    /// Our certificate with those of its issuers, and its private key.
    pub(super) fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, Fault> {
        let Some(held) = &self.identity else { return Ok(None) };
        let (key, bytes) = &held.private_key;
        if let Form::Pkcs12(password) = &held.form {
            let store = open(key, bytes, password.as_ref())?;
            let remedy = "put the certificate and its private key into it";
            let (_, chain) =
                store.private_key_chain().ok_or_else(|| Fault::new(key, &"holds no private key", remedy))?;
            let certificates =
                chain.certs().iter().map(|certificate| CertificateDer::from(certificate.as_der().to_vec())).collect();
            let private_key = PrivateKeyDer::try_from(chain.key().as_der().to_vec());
            return Ok(Some((certificates, private_key.map_err(|cause| Fault::new(key, &cause, remedy))?)));
        }
        let chain = certificates(held.chain.0, &held.chain.1)?;
        if chain.is_empty() {
            let remedy = "give one that begins with -----BEGIN CERTIFICATE-----";
            return Err(Fault::new(held.chain.0, &"holds no certificate", remedy));
        }
        Ok(Some((chain, private_key(key, bytes, held.password)?)))
    }
}

fn pem(material: &Material) -> Result<Bytes, Fault> {
    match &material.origin {
        Origin::File(path) => file(material.key, path),
        Origin::Inline(secret) => {
            let text = secret.reveal().map_err(|cause| Fault::new(material.key, &cause, "give the text in PEM"))?;
            Ok(Zeroizing::new(text.as_bytes().to_vec()))
        }
    }
}

fn file(key: &'static str, path: &Path) -> Result<Bytes, Fault> {
    let read = || {
        let mut bytes = Bytes::default();
        File::open(path)?.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > SECRET_BYTES_MAX {
            return Err(io::Error::other(format!("larger than {SECRET_BYTES_MAX} bytes")));
        }
        Ok(bytes)
    };
    let remedy = "put the file there and let this user read it";
    let bytes = read().map_err(|cause| Fault::new(key, &format_args!("{}: {cause}", path.display()), remedy))?;
    if bytes.starts_with(&JKS_MAGIC) {
        let file = path.display();
        let remedy = format!(
            "convert it with: keytool -importkeystore -srckeystore {file} -destkeystore {file}.p12 -deststoretype PKCS12"
        );
        return Err(Fault::new(key, &format_args!("{file} is a JKS store, which only Java reads"), remedy));
    }
    Ok(bytes)
}

fn pkcs12(store: &Store) -> Result<Form, Fault> {
    let reveal = |secret: &Secret| {
        secret
            .reveal()
            .map_err(|cause| Fault::new(store.key, &format_args!("its password {cause}"), "give the password"))
    };
    Ok(Form::Pkcs12(store.password.as_ref().map(reveal).transpose()?))
}

fn open(key: &'static str, bytes: &[u8], password: Option<&Zeroizing<String>>) -> Result<KeyStore, Fault> {
    let password = password.map_or("", |password| password.as_str());
    KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed).map_err(|cause| unopened(key, &cause))
}

fn unopened(key: &'static str, cause: &dyn Display) -> Fault {
    let remedy = "give the password that it was written with, and write it anew if its encryption is of an older kind: openssl pkcs12 -in \
                  FILE -legacy -nodes | openssl pkcs12 -export -out NEW";
    Fault::new(key, &format_args!("no PKCS12 store that can be opened: {cause}"), remedy)
}

fn certificates(key: &'static str, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    all.map_err(|_| Fault::new(key, &"not PEM", "give text that begins with -----BEGIN CERTIFICATE-----"))
}

fn private_key(key: &'static str, bytes: &[u8], password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, Fault> {
    const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let Some(at) = text.find(ENCRYPTED) else {
        let remedy = "give text that begins with -----BEGIN PRIVATE KEY-----";
        return PrivateKeyDer::from_pem_slice(bytes).map_err(|_| Fault::new(key, &"no private key in PEM", remedy));
    };
    let remedy = "give the password of the private key in ssl.key.password";
    let password = password.ok_or_else(|| Fault::new(key, &"the private key is encrypted", remedy))?;
    let password = password.reveal().map_err(|cause| Fault::new("ssl.key.password", &cause, remedy))?;
    let end = text[at..].find("-----END ENCRYPTED PRIVATE KEY-----").map_or(text.len(), |end| {
        let behind = at + end + "-----END ENCRYPTED PRIVATE KEY-----".len();
        behind.min(text.len())
    });
    let remedy = "give the right ssl.key.password, and encrypt the key anew if its encryption is of an older kind: openssl pkcs8 -topk8 -v2 \
                  aes-256-cbc -in OLD -out NEW";
    let fault = |cause: &dyn Display| Fault::new(key, &format_args!("cannot decrypt the private key: {cause}"), remedy);
    let (_, document) = pkcs8::SecretDocument::from_pem(&text[at..end]).map_err(|cause| fault(&cause))?;
    let info = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|cause| fault(&cause))?;
    let decrypted = info.decrypt(password.as_bytes()).map_err(|cause| fault(&cause))?;
    PrivateKeyDer::try_from(decrypted.as_bytes().to_vec()).map_err(|cause| fault(&cause))
}
