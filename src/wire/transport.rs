//! The byte stream below a connection: TCP, with TLS over it where the cluster asks for it.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::limits::CONNECT_MAX;
use crate::wire::error::{Place, WireError};
use crate::wire::tls::explain::explain;
use crate::wire::tls::{Tls, TlsFault};

/// The half that replies come in on.
pub type Incoming = Box<dyn AsyncRead + Send + Unpin>;
/// The half that requests leave on. What was written has left once it is flushed.
pub type Departing = Box<dyn AsyncWrite + Send + Unpin>;

/// Connects to the `host:port` of a place.
///
/// Errors: what the system says, `TimedOut` after [`CONNECT_MAX`], or why there is no TLS.
pub async fn connect(place: &Place, tls: Option<&Arc<Tls>>) -> Result<(Incoming, Departing), WireError> {
    let failed = |cause| WireError::Connect { place: place.clone(), cause: Arc::new(cause) };
    let stream = in_time(TcpStream::connect(&*place.address)).await.map_err(failed)?.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let Some(tls) = tls else {
        let (incoming, departing) = stream.into_split();
        return Ok((Box::new(incoming), Box::new(departing)));
    };
    let shaken = in_time(tls.connect(place.host(), stream)).await.map_err(failed)?;
    let (incoming, departing) = tokio::io::split(shaken.map_err(|fault| refused(place, &fault))?);
    Ok((Box::new(incoming), Box::new(departing)))
}

async fn in_time<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer to the connection attempt");
    tokio::time::timeout(CONNECT_MAX, work).await.map_err(timed_out)
}

fn refused(place: &Place, fault: &TlsFault) -> WireError {
    let place = place.clone();
    match fault {
        TlsFault::Shake(cause) => {
            let (why, remedy) = explain(cause);
            WireError::Tls { place, why, remedy }
        }
        TlsFault::Host(_) => WireError::Tls { place, why: fault.to_string(), remedy: "correct bootstrap.servers" },
        TlsFault::Material(fault) => WireError::Security { place, why: fault.to_string() },
    }
}
