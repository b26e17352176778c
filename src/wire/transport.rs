//! The byte stream below a connection. TLS and SASL will be layers of this file; today it is plain TCP.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::limits::CONNECT_MAX;

/// The half that replies come in on.
pub type Incoming = Box<dyn AsyncRead + Send + Unpin>;
/// The half that requests leave on.
pub type Departing = Box<dyn AsyncWrite + Send + Unpin>;

/// Connects to `host:port`.
///
/// Errors: what the system says, or `TimedOut` after [`CONNECT_MAX`].
pub async fn connect(address: &str) -> io::Result<(Incoming, Departing)> {
    let stream = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer to the connection attempt"))??;
    stream.set_nodelay(true)?;
    let (incoming, departing) = stream.into_split();
    Ok((Box::new(incoming), Box::new(departing)))
}
