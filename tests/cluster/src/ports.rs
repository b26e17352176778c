use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::bail;

/// Below Linux's default ephemeral ports (32768 and up), so that no outgoing connection takes the port of a broker
/// that is down for a while.
const PORTS: Range<u16> = 15_000..32_000;

/// Draws before we give up: the machine would have to use nearly all of [`PORTS`].
const DRAWS_MAX: usize = 1_000;

/// `count` different ports of 127.0.0.1 that nobody listens on.
///
/// Another process may take one before it is used: callers try again then.
pub(crate) fn free(count: usize) -> anyhow::Result<Vec<u16>> {
    // All are held until the last is found, so that none is drawn twice.
    let mut held = Vec::with_capacity(count);
    for _ in 0..DRAWS_MAX {
        if held.len() == count {
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
        let port = fastrand::u16(PORTS);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
    }
    bail!("no {count} free ports between {} and {}", PORTS.start, PORTS.end)
}

/// One port of 127.0.0.1 that nobody listens on, for a server under test.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(free(1)?[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_listened_on() {
        let ports = free(8).unwrap();
        let listeners: Vec<_> =
            ports.iter().map(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        assert_eq!(listeners.len(), 8);
    }
}
