//! One POST to an OIDC token endpoint (RFC 6749, section 4.4). Redirects are not followed: they would carry the secret elsewhere.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::token::{Token, TokenError, sound};
use crate::config::security::{TlsConfig, TokenEndpoint};
use crate::limits::{BROKER_WORDS_CHARS_MAX, TOKEN_BYTES_MAX, TOKEN_WAIT_MAX};
use crate::wire::tls::Tls;
use crate::wire::tls::explain::explain;

/// How long a token is kept whose endpoint does not say how long it lasts.
const LIFETIME_UNSAID: Duration = Duration::from_secs(60);

/// Asks for a token.
pub(super) async fn fetch(endpoint: &TokenEndpoint) -> Result<Token, TokenError> {
    let request = request(endpoint)?;
    let fault = |cause: String| TokenError::Endpoint { url: endpoint.url.clone(), cause };
    let asking = tokio::time::timeout(TOKEN_WAIT_MAX, ask(endpoint, request));
    let (status, body) =
        asking.await.map_err(|_| fault(format!("no answer within {} s", TOKEN_WAIT_MAX.as_secs())))?.map_err(fault)?;
    interpret(status, &body).map_err(fault)?.map_err(|()| TokenError::Malformed)
}

fn request(endpoint: &TokenEndpoint) -> Result<Request<Full<Bytes>>, TokenError> {
    let fault =
        |cause: &dyn std::fmt::Display| TokenError::Endpoint { url: endpoint.url.clone(), cause: cause.to_string() };
    let uri: Uri = endpoint.url.parse().map_err(|cause: hyper::http::uri::InvalidUri| fault(&cause))?;
    let both = Zeroizing::new(format!("{}:{}", *endpoint.client_id.reveal()?, *endpoint.client_secret.reveal()?));
    let basic = Zeroizing::new(format!("Basic {}", STANDARD.encode(both.as_bytes())));
    let mut authorization = HeaderValue::from_str(&basic).map_err(|cause| fault(&cause))?;
    authorization.set_sensitive(true);
    let scope = endpoint.scope.as_ref().map(|scope| format!("&scope={}", encoded(scope))).unwrap_or_default();
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    Request::builder()
        .method(Method::POST)
        .uri(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, authority)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(AUTHORIZATION, authorization)
        .body(Full::from(format!("grant_type=client_credentials{scope}")))
        .map_err(|cause| fault(&cause))
}

/// Percent-encodes all but letters, digits and what never needs it.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

async fn ask(endpoint: &TokenEndpoint, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
    let uri: Uri = endpoint.url.parse().map_err(|cause: hyper::http::uri::InvalidUri| cause.to_string())?;
    let host = uri.host().unwrap_or_default().to_owned();
    let is_encrypted = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, port)).await.map_err(|cause| format!("cannot connect: {cause}"))?;
    if !is_encrypted {
        return post(stream, request).await;
    }
    let tls = Tls::new(TlsConfig { trust: endpoint.trust.clone(), identity: None, verifies_host: true });
    let stream = tls.connect(&host, stream).await.map_err(|fault| match fault {
        crate::wire::tls::TlsFault::Shake(cause) => explain(&cause).0.replace("broker", "endpoint"),
        fault => fault.to_string(),
    })?;
    post(stream, request).await
}

async fn post(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String> {
    let text = |cause: hyper::Error| cause.to_string();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let asking = async {
        let reply = sender.send_request(request).await.map_err(text)?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), TOKEN_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|cause| cause.to_string())?.to_bytes()))
    };
    tokio::pin!(connection);
    tokio::select! {
        answer = asking => answer,
        // The answer may have come with the last bytes of the connection.
        Err(cause) = &mut connection => Err(text(cause)),
    }
}

/// The inner error is a token that cannot be one.
fn interpret(status: StatusCode, body: &[u8]) -> Result<Result<Token, ()>, String> {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if !status.is_success() {
        // Both are words of the endpoint about our request, not values of it. Source: RFC 6749, section 5.2.
        let words = ["error", "error_description"].map(|name| json[name].as_str().unwrap_or_default());
        let words: String = words.join(" ").chars().filter(|c| !c.is_control()).take(BROKER_WORDS_CHARS_MAX).collect();
        return Err(format!("it answers {status} {}", words.trim()).trim_end().to_owned());
    }
    let token = json["access_token"].as_str().ok_or("its answer has no access_token")?;
    let lifetime =
        json["expires_in"].as_u64().map_or(LIFETIME_UNSAID, |seconds| Duration::from_secs(seconds.min(86_400)));
    Ok(sound(token).map(|text| Token { text, lifetime }).map_err(drop))
}
