//! A token endpoint: it gives unsecured JWTs to the one client that it knows.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::clusters::USER;

pub(super) const CLIENT_SECRET: &str = "client-secret:+/";

/// The endpoint; it ends with the process.
pub(super) struct Tokens {
    pub(super) port: u16,
}

impl Tokens {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Self { port }
    }
}

/// A token for the user, good for a minute.
pub(super) fn token() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_secs();
    let claims = format!(r#"{{"sub":"{USER}","iat":{now},"exp":{}}}"#, now + 60);
    format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(claims))
}

fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(&stream);
    let (mut authorization, mut length) = (String::new(), 0);
    for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut authorization),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    assert_eq!(String::from_utf8_lossy(&body), "grant_type=client_credentials&scope=a%20b");
    let expected = format!("Basic {}", STANDARD.encode(format!("{USER}:{CLIENT_SECRET}")));
    let (status, answer) = if authorization == expected {
        ("200 OK", format!(r#"{{"access_token":"{}","expires_in":60}}"#, token()))
    } else {
        ("401 Unauthorized", r#"{"error":"invalid_client","error_description":"who are you"}"#.to_owned())
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
    (&stream).write_all(format!("{head}{answer}").as_bytes()).unwrap();
}
