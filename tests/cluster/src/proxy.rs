use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::{ports, proc};

/// The largest message that is passed on; brokers refuse larger ones, too.
const MESSAGE_BYTES_MAX: usize = 128 << 20;

/// Bytes that a slow link takes at once.
const PIECE_BYTES: usize = 4 << 10;

/// Messages on their way over a long link, each way of each connection.
const ON_THE_WAY_MAX: usize = 1024;

/// Which way messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Requests.
    ToBroker,
    /// Replies.
    FromBroker,
}

/// A network between clients and one broker, which fails on demand. Dropped, it closes all connections.
///
/// It passes whole messages of Kafka's protocol. The broker advertises it on a listener of its own, see
/// [`Spec::behind`](crate::Spec::behind); who asks the broker directly does not feel it.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    broker_port: u16,
    link: Arc<Link>,
    acceptor: Option<JoinHandle<()>>,
}

/// What the threads of a proxy share.
#[derive(Debug, Default)]
struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    is_cut: bool,
    stalled: HashSet<Way>,
    /// Delay of each message, and bytes per second.
    slow: Option<(Duration, u32)>,
    /// How long each message is on its way.
    distance: Duration,
    /// Requests with this api key are to lose their next answer.
    doomed: Option<i16>,
    /// Answers that were lost so.
    lost: u32,
    sockets: Vec<TcpStream>,
}

impl Proxy {
    /// Listens on a free port and passes everything on to another one, on which a broker may listen later.
    pub fn start() -> anyhow::Result<Self> {
        let free = ports::free(2)?;
        let (port, broker_port) = (free[0], free[1]);
        let link = Arc::new(Link::default());
        let listener = listen(port).context("listening as a proxy")?;
        let acceptor = spawn({
            let link = link.clone();
            move || accept(listener, (port, broker_port), &link)
        });
        Ok(Self { port, broker_port, link, acceptor: Some(acceptor) })
    }

    /// `host:port` for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where the proxy listens, and where the broker should.
    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.port, self.broker_port)
    }

    /// Lets each message arrive so much later, each way. Those behind it are on their way meanwhile, as on a long link.
    pub fn be_far(&self, distance: Duration) {
        self.change(|state| state.distance = distance);
    }

    /// Passes everything again. Connections that were only stalled go on where they stopped.
    pub fn mend(&self) {
        self.change(|state| (state.is_cut, state.slow, state.distance) = (false, None, Duration::ZERO));
        self.change(|state| state.stalled.clear());
    }

    /// Ends all connections and refuses new ones.
    pub fn cut(&self) {
        self.change(|state| {
            state.is_cut = true;
            state.hang_up();
        });
    }

    /// Passes nothing on in these ways, with all connections open.
    pub fn stall(&self, ways: &[Way]) {
        self.change(|state| state.stalled.extend(ways));
    }

    /// Delays each message, and passes at most so many bytes per second each way of each connection.
    pub fn slow_down(&self, delay: Duration, bytes_per_second: u32) {
        self.change(|state| state.slow = Some((delay, bytes_per_second)));
    }

    /// Ends the connection of the next request with this api key after the broker has answered it, and before the client hears of it.
    pub fn lose_answer_to(&self, api_key: i16) {
        self.change(|state| state.doomed = Some(api_key));
    }

    /// Answers that were lost on demand so far.
    pub fn lost_answers(&self) -> u32 {
        self.link.lock().lost
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.link.lock());
        self.link.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.change(|state| {
            state.is_over = true;
            state.hang_up();
        });
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("the acceptor does not panic");
        }
    }
}

impl State {
    fn hang_up(&mut self) {
        for socket in self.sockets.drain(..) {
            // It may have ended by itself.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while holding the state")
    }

    /// Waits until a message may pass; returns how slowly, and how long it is on its way.
    fn wait_open(&self, way: Way) -> (Option<(Duration, u32)>, Duration) {
        let is_closed = |state: &mut State| state.stalled.contains(&way) && !state.is_cut && !state.is_over;
        let state = self.changed.wait_while(self.lock(), is_closed).expect("nothing panics while holding the state");
        (state.slow, state.distance)
    }
}

fn listen(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Takes connections until the proxy is over. While the link is cut, nobody listens.
fn accept(listener: TcpListener, (port, broker_port): (u16, u16), link: &Arc<Link>) {
    let mut listener = Some(listener);
    loop {
        let (is_over, is_cut) = {
            let state = link.lock();
            (state.is_over, state.is_cut)
        };
        if is_over {
            return;
        }
        if is_cut {
            listener = None;
        } else if listener.is_none() {
            listener = listen(port).ok();
        }
        match listener.as_ref().map(TcpListener::accept) {
            // A broker that is down refuses: so does its proxy.
            Some(Ok((client, _))) => drop(connect(client, broker_port, link)),
            Some(Err(error)) if error.kind() != ErrorKind::WouldBlock => eprintln!("proxy: {error}"),
            _ => sleep(proc::POLL),
        }
    }
}

fn connect(client: TcpStream, broker_port: u16, link: &Arc<Link>) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    let broker = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, broker_port)))?;
    for socket in [&client, &broker] {
        socket.set_nodelay(true)?;
        link.lock().sockets.push(socket.try_clone()?);
    }
    // The correlation id whose answer is to be lost.
    let doomed = Arc::new(Mutex::new(None));
    let ends = [(Way::ToBroker, client.try_clone()?, broker.try_clone()?), (Way::FromBroker, broker, client)];
    for (way, from, to) in ends {
        let (link, doomed) = (link.clone(), doomed.clone());
        let (sender, on_the_way) = sync_channel(ON_THE_WAY_MAX);
        let (far_from, far_to) = (from.try_clone()?, to.try_clone()?);
        spawn(move || {
            // Whatever ends one way ends the other, too.
            let _ = deliver(&far_to, &on_the_way);
            let _ = (far_from.shutdown(Shutdown::Both), far_to.shutdown(Shutdown::Both));
        });
        // It is delivered to the end: what the answer that is lost came behind is not lost with it.
        spawn(move || pass(way, &from, (&link, &doomed), &sender));
    }
    Ok(())
}

/// A message that is on its way: when it arrives, and how slowly.
struct Passing {
    message: Vec<u8>,
    due: Instant,
    slow: Option<(Duration, u32)>,
}

/// Delivers messages in their order until nothing more comes, or the socket ends.
fn deliver(to: &TcpStream, on_the_way: &Receiver<Passing>) -> anyhow::Result<()> {
    for Passing { message, due, slow } in on_the_way {
        sleep(due.saturating_duration_since(Instant::now()));
        write(to, &message, slow)?;
    }
    Ok(())
}

/// Passes messages one way until a socket ends, or the answer that is to be lost has come.
fn pass(
    way: Way,
    from: &TcpStream,
    (link, doomed): (&Link, &Mutex<Option<i32>>),
    on_the_way: &SyncSender<Passing>,
) -> anyhow::Result<()> {
    loop {
        let message = read(from)?;
        let (slow, distance) = link.wait_open(way);
        let mut doomed = doomed.lock().expect("nothing panics while holding it");
        match way {
            Way::ToBroker => {
                let mut state = link.lock();
                if state.doomed.is_some() && state.doomed == api_key(&message) {
                    state.doomed = None;
                    *doomed = int(&message, 8);
                }
            }
            Way::FromBroker if doomed.is_some() && *doomed == int(&message, 4) => {
                link.lock().lost += 1;
                return Ok(());
            }
            Way::FromBroker => {}
        }
        drop(doomed);
        on_the_way.send(Passing { message, due: Instant::now() + distance, slow })?;
    }
}

/// One message with its length prefix.
fn read(mut from: &TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix)?;
    let length = u32::from_be_bytes(prefix) as usize;
    if length > MESSAGE_BYTES_MAX {
        bail!("a message of {length} bytes");
    }
    let mut message = vec![0; 4 + length];
    message[..4].copy_from_slice(&prefix);
    from.read_exact(&mut message[4..])?;
    Ok(message)
}

fn write(mut to: &TcpStream, message: &[u8], slow: Option<(Duration, u32)>) -> anyhow::Result<()> {
    let Some((delay, bytes_per_second)) = slow else {
        return Ok(to.write_all(message)?);
    };
    sleep(delay);
    for piece in message.chunks(PIECE_BYTES) {
        to.write_all(piece)?;
        sleep(Duration::from_secs_f64(piece.len() as f64 / f64::from(bytes_per_second)));
    }
    Ok(())
}

/// Of a request, behind its length.
fn api_key(message: &[u8]) -> Option<i16> {
    message.get(4..6)?.try_into().ok().map(i16::from_be_bytes)
}

fn int(message: &[u8], at: usize) -> Option<i32> {
    message.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends every message back, one connection after another.
    fn echo(port: u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                spawn(move || while read(&socket).and_then(|message| write(&socket, &message, None)).is_ok() {});
            }
        });
    }

    fn call(socket: &TcpStream, api_key: i16) -> anyhow::Result<Vec<u8>> {
        // Length, then key and version of a request; to the echo's reader the same bytes are a correlation id.
        let message = [&6u32.to_be_bytes()[..], &api_key.to_be_bytes(), &[0, 0, 0, 0]].concat();
        write(socket, &message, None)?;
        read(socket)
    }

    fn client(proxy: &Proxy) -> std::io::Result<TcpStream> {
        let socket = TcpStream::connect(proxy.address())?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        Ok(socket)
    }

    #[test]
    fn a_link_passes_stalls_and_breaks() {
        let proxy = Proxy::start().unwrap();
        echo(proxy.broker_port);
        let socket = client(&proxy).unwrap();
        assert_eq!(call(&socket, 3).unwrap().len(), 10);
        for ways in [&[Way::ToBroker][..], &[Way::FromBroker], &[Way::ToBroker, Way::FromBroker]] {
            proxy.stall(ways);
            assert!(call(&socket, 3).is_err(), "{ways:?} passed");
            proxy.mend();
            assert_eq!(read(&socket).unwrap().len(), 10, "what was stalled arrives");
        }
        proxy.cut();
        assert!(call(&socket, 3).is_err());
        while client(&proxy).is_ok() {
            sleep(proc::POLL);
        }
        proxy.mend();
        let again = loop {
            match client(&proxy) {
                Ok(socket) => break socket,
                Err(_) => sleep(proc::POLL),
            }
        };
        assert_eq!(call(&again, 3).unwrap().len(), 10);
        assert_eq!(proxy.lost_answers(), 0);
    }

    #[test]
    fn a_long_way_takes_its_time_and_keeps_the_order() {
        const DISTANCE: Duration = Duration::from_millis(50);
        let proxy = Proxy::start().unwrap();
        echo(proxy.broker_port);
        proxy.be_far(DISTANCE);
        let socket = TcpStream::connect(proxy.address()).unwrap();
        let begun = Instant::now();
        let messages = [1u32, 2, 3].map(|number| [&4u32.to_be_bytes()[..], &number.to_be_bytes()].concat());
        messages.iter().for_each(|message| write(&socket, message, None).unwrap());
        messages.iter().for_each(|message| assert_eq!(read(&socket).unwrap(), *message));
        assert!(begun.elapsed() >= 2 * DISTANCE);
    }

    #[test]
    fn one_answer_is_lost_with_its_connection() {
        let proxy = Proxy::start().unwrap();
        // Answers with the correlation id of the request alone.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, proxy.broker_port)).unwrap();
        spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                while let Ok(message) = read(&socket) {
                    let answer = [&4u32.to_be_bytes()[..], &message[8..12]].concat();
                    write(&socket, &answer, None).unwrap();
                }
            }
        });
        let ask = |socket: &TcpStream, api_key: i16| {
            let request = [&8u32.to_be_bytes()[..], &api_key.to_be_bytes(), &[0, 0], &7i32.to_be_bytes()].concat();
            write(socket, &request, None)?;
            read(socket)
        };
        proxy.lose_answer_to(26);
        let socket = client(&proxy).unwrap();
        assert!(ask(&socket, 3).is_ok());
        assert!(ask(&socket, 26).is_err());
        assert_eq!(proxy.lost_answers(), 1);
        let socket = client(&proxy).unwrap();
        assert!(ask(&socket, 26).is_ok());
    }
}
