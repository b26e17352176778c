//! SASL: who we are. One conversation authenticates a connection, and another one does so again before its session ends (KIP-368).

mod endpoint;
pub mod kerberos;
mod scram;
pub mod token;

use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use zeroize::Zeroizing;

use crate::config::secret::SecretError;
use crate::config::security::{KerberosConfig, Login, SaslConfig};
use crate::wire::connection::Writer;
use crate::wire::error::{Code, WireError, code_of};
use kerberos::{Helper, KerberosError};
use scram::Scram;
use token::TokenCache;

/// How long the broker takes us for authenticated, in ms; 0 is for ever.
pub type SessionMs = i64;

/// What one conversation needs.
#[derive(Debug)]
pub struct Sasl {
    config: SaslConfig,
    tokens: TokenCache,
    kerberos: Helper,
}

/// Why a conversation failed on our side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Our own secrets.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// There is no token.
    #[error("{0}")]
    Token(#[from] token::TokenError),
    /// There are no tickets, or the broker is not who it should be.
    #[error("{0}")]
    Kerberos(#[from] KerberosError),
    /// The broker does not follow the mechanism, or does not know the password either.
    #[error("{0}")]
    Broker(&'static str),
}

impl Sasl {
    /// Nobody has been asked yet.
    pub fn new(config: SaslConfig) -> Self {
        Self { config, tokens: TokenCache::default(), kerberos: Helper::default() }
    }

    /// Whether the secrets can be looked up.
    pub fn check(&self) -> Result<(), Refusal> {
        self.config.user()?;
        match &self.config {
            SaslConfig::Plain(login) | SaslConfig::Scram(_, login) => login.password.reveal().map(drop)?,
            SaslConfig::OauthBearer(_) => {}
            SaslConfig::Gssapi(config) => kerberos::check(config)?,
        }
        Ok(())
    }

    /// Authenticates a connection on which nothing else is on its way.
    pub async fn converse(&self, writer: &mut Writer) -> Result<SessionMs, WireError> {
        let mechanism = StrBytes::from_static_str(self.config.mechanism());
        let reply = writer.exchange(&SaslHandshakeRequest::default().with_mechanism(mechanism)).await?;
        if let Some(code) = code_of(reply.error_code) {
            let offered: Vec<&str> = reply.mechanisms.iter().map(|mechanism| &**mechanism).collect();
            let cause = format!("{code}: the listener offers {}", offered.join(", "));
            return Err(self.refused(writer, cause, "set sasl.mechanism to one of these"));
        }
        let conversed = match &self.config {
            SaslConfig::Plain(login) => self.plain(login, writer).await,
            SaslConfig::Scram(hash, login) => self.scram(Scram::new(*hash), login, writer).await,
            SaslConfig::OauthBearer(source) => {
                let token = self.tokens.token(source).await;
                self.bearer(token.map_err(|cause| self.cannot(writer, &cause.into()))?, writer).await
            }
            SaslConfig::Gssapi(config) => self.tickets(config, writer).await,
        };
        if matches!(&conversed, Err(WireError::Unauthenticated { .. })) {
            self.tokens.forget().await;
        }
        match conversed {
            Ok(reply) => Ok(reply.session_lifetime_ms),
            // Brokers end the conversation without a word about some malformed tokens.
            Err(WireError::Lost { place, cause }) => {
                let (mechanism, user) = (self.config.mechanism(), self.user());
                let during =
                    format!("{cause}, while authenticating by {mechanism} as {user}; the broker's log may say why");
                Err(WireError::Lost { place, cause: during.into() })
            }
            Err(error) => Err(error),
        }
    }

    fn user(&self) -> String {
        self.config.user().map_or_else(|_| "unknown".to_owned(), |user| user.to_string())
    }

    async fn plain(&self, login: &Login, writer: &mut Writer) -> Result<SaslAuthenticateResponse, WireError> {
        let (user, password) = self.reveal(login, writer)?;
        let message = Zeroizing::new(format!("\0{}\0{}", *user, *password));
        self.say(message.as_bytes(), writer).await
    }

    async fn scram(
        &self,
        scram: Scram,
        login: &Login,
        writer: &mut Writer,
    ) -> Result<SaslAuthenticateResponse, WireError> {
        let (user, password) = self.reveal(login, writer)?;
        let (first, waiting) = scram.begin(&user);
        let reply = self.say(first.as_bytes(), writer).await?;
        // Thousands of hashes.
        let answering = tokio::task::spawn_blocking(move || waiting.answer(&reply.auth_bytes, password.as_bytes()));
        let answered = answering.await.unwrap_or(Err(Refusal::Broker("the process is ending")));
        let (proof, last) = answered.map_err(|cause| self.cannot(writer, &cause))?;
        let reply = self.say(proof.as_bytes(), writer).await?;
        last.check(&reply.auth_bytes).map_err(|cause| self.cannot(writer, &cause))?;
        Ok(reply)
    }

    async fn bearer(
        &self,
        token: Zeroizing<String>,
        writer: &mut Writer,
    ) -> Result<SaslAuthenticateResponse, WireError> {
        let message = Zeroizing::new(format!("n,,\x01auth=Bearer {}\x01\x01", *token));
        let reply = self.say(message.as_bytes(), writer).await?;
        if reply.auth_bytes.is_empty() {
            return Ok(reply);
        }
        // A refusal comes as a message that has to be answered, before the broker says why. Source: RFC 7628, section 3.2.3.
        self.say(b"\x01", writer).await
    }

    async fn tickets(
        &self,
        config: &KerberosConfig,
        writer: &mut Writer,
    ) -> Result<SaslAuthenticateResponse, WireError> {
        let host = writer.place().host().to_owned();
        let begun = self.kerberos.begin(config, &host).await;
        let (conversation, mut said) = begun.map_err(|cause| self.cannot(writer, &cause.into()))?;
        loop {
            let reply = self.say(&said.token, writer).await.inspect_err(|_| self.kerberos.forget())?;
            if said.is_last {
                return Ok(reply);
            }
            let answered = conversation.answer(&reply.auth_bytes).await;
            said = answered.map_err(|cause| self.cannot(writer, &cause.into()))?;
        }
    }

    async fn say(&self, message: &[u8], writer: &mut Writer) -> Result<SaslAuthenticateResponse, WireError> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::copy_from_slice(message));
        let reply = writer.exchange(&request).await?;
        match code_of(reply.error_code) {
            None => Ok(reply),
            Some(code) => {
                let words = reply.error_message.as_ref().filter(|words| !words.is_empty());
                let cause = words.map_or_else(|| code.to_string(), |words| format!("{code}: {words}"));
                let remedy = match (&self.config, code) {
                    (SaslConfig::OauthBearer(_), Code::SaslAuthenticationFailed) => {
                        "check that the broker accepts tokens of this issuer, audience and scope"
                    }
                    (SaslConfig::Gssapi(_), Code::SaslAuthenticationFailed) => {
                        "check the broker's keytab, and the clocks of both; the broker's log may say why"
                    }
                    (_, Code::SaslAuthenticationFailed) => {
                        "check sasl.username and sasl.password, and that the broker has this user for this mechanism"
                    }
                    _ => "check security.protocol and sasl.mechanism against the listener",
                };
                Err(self.refused(writer, cause, remedy))
            }
        }
    }

    fn reveal(&self, login: &Login, writer: &Writer) -> Result<(Zeroizing<String>, Zeroizing<String>), WireError> {
        let both = || Ok((login.username.reveal()?, login.password.reveal()?));
        both().map_err(|cause: SecretError| self.cannot(writer, &cause.into()))
    }

    /// Our own side cannot go on.
    fn cannot(&self, writer: &Writer, cause: &Refusal) -> WireError {
        let remedy = match cause {
            Refusal::Secret(_) => "correct the configuration or what it refers to",
            Refusal::Token(_) => {
                "check sasl.oauthbearer.token.endpoint.url, client id and secret, and https.ca.location"
            }
            Refusal::Kerberos(_) => "docs/OPERATIONS.md says under Kerberos what to look at",
            Refusal::Broker(_) => "check that this is the broker that is meant, and that the password is right",
        };
        self.refused(writer, cause.to_string(), remedy)
    }

    fn refused(&self, writer: &Writer, cause: String, remedy: &'static str) -> WireError {
        WireError::Unauthenticated {
            place: writer.place().clone(),
            mechanism: self.config.mechanism(),
            user: self.user(),
            cause: crate::wire::error::tame(cause),
            remedy,
        }
    }
}
