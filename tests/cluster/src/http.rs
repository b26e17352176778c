use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;

/// How long connecting and each read may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The largest answer that is taken.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Asks `address` for `path` and returns the status code and the body.
///
/// It speaks HTTP/1.0, where the body ends with the connection: no chunks to put together.
pub fn http_get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream =
        TcpStream::connect_timeout(&address, DEADLINE).with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    // In one piece: a server that answers before it has read the rest would reset the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).with_context(|| format!("reading {address}{path}"))?;
    parse(&answer).with_context(|| format!("no HTTP answer from {address}{path}: {answer:?}"))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some((code.parse().ok()?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn status_and_body_come_apart() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                let mut piece = [0; 256];
                let length = stream.read(&mut piece).unwrap();
                request.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
            stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nnot yet").unwrap();
            request
        });
        assert_eq!(http_get(address, "/ready").unwrap(), (503, "not yet".to_owned()));
        assert!(server.join().unwrap().starts_with("GET /ready HTTP/1.0\r\n"));
    }

    #[test]
    fn anything_else_is_no_answer() {
        assert_eq!(parse("HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse("SSH-2.0\r\n\r\n"), None);
    }
}
