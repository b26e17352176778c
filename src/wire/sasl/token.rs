//! Bearer tokens: read from a file, or fetched from an endpoint and kept while they last.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::endpoint;
use crate::config::secret::SecretError;
use crate::config::security::TokenSource;
use crate::limits::{SECRET_BYTES_MAX, TOKEN_LEFT_DIVISOR};

/// Why there is no token. No variant holds a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file is not readable.
    #[error("cannot read the token file {file}: {cause}")]
    File {
        /// Its path.
        file: String,
        /// What the system says.
        cause: String,
    },
    /// Client id or secret cannot be had.
    #[error("client id or secret {0}")]
    Secret(#[from] SecretError),
    /// The endpoint is out of reach or answers otherwise than it should.
    #[error("token endpoint {url}: {cause}")]
    Endpoint {
        /// Its address.
        url: String,
        /// What happened.
        cause: String,
    },
    /// It is no token that can be sent.
    #[error("what was found is no token: it is empty, or has characters that no token has")]
    Malformed,
}

/// A token with the time for which it is used.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) text: Zeroizing<String>,
    /// `expires_in` of the endpoint.
    pub(super) lifetime: Duration,
}

/// The token of a cluster, shared by its connections: one of them fetches, the others wait for it.
#[derive(Default)]
pub struct TokenCache {
    kept: Mutex<Option<(Token, Instant)>>,
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenCache")
    }
}

impl TokenCache {
    /// A token that is good for a while.
    pub async fn token(&self, source: &TokenSource) -> Result<Zeroizing<String>, TokenError> {
        let endpoint = match source {
            TokenSource::File(path) => return read(path),
            TokenSource::Endpoint(endpoint) => endpoint,
        };
        let mut kept = self.kept.lock().await;
        if let Some((token, _)) = kept.as_ref().filter(|(_, until)| Instant::now() < *until) {
            return Ok(token.text.clone());
        }
        let asked_at = Instant::now();
        let token = endpoint::fetch(endpoint).await?;
        let until = asked_at + token.lifetime - token.lifetime / TOKEN_LEFT_DIVISOR;
        let text = token.text.clone();
        *kept = Some((token, until));
        Ok(text)
    }

    /// A broker did not accept it: the next one is asked for.
    pub async fn forget(&self) {
        *self.kept.lock().await = None;
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>, TokenError> {
    let read = || {
        let mut text = Zeroizing::new(String::new());
        File::open(path)?.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    let fault = |cause: io::Error| TokenError::File { file: path.display().to_string(), cause: cause.to_string() };
    sound(read().map_err(fault)?.trim())
}

/// A token as RFC 6750 allows it: anything else could break out of the message that carries it.
pub(super) fn sound(text: &str) -> Result<Zeroizing<String>, TokenError> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    if text.is_empty() || !text.chars().all(is_legal) {
        return Err(TokenError::Malformed);
    }
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let source = TokenSource::File(path.clone());
        let cache = TokenCache::default();
        let missing = cache.token(&source).await.unwrap_err().to_string();
        assert!(missing.contains(&*path.to_string_lossy()), "{missing}");
        for token in ["a.b-c_d", "e/f+g="] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(cache.token(&source).await.unwrap().as_str(), token);
        }
        for wrong in ["", " ", "a\x01b", "a b"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(cache.token(&source).await, Err(TokenError::Malformed)), "{wrong:?}");
        }
    }
}
