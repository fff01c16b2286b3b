//! A relay between a client and a server that can be cut like a network.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::Context;
use parking_lot::{Condvar, Mutex};

use crate::requests::RequestCounter;

/// What the network between the two does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Everything passes.
    Up,
    /// Nothing passes and nothing is said: sockets stay open, as when packets are dropped. What was sent meanwhile
    /// arrives when the network is up again, as TCP would have it.
    Silent,
    /// Connections are reset and new ones end at once.
    Refused,
    /// The relay is gone.
    Gone,
}

/// Relays connections to one server. Dropping it resets them.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    network: Mutex<Network>,
    changed: Condvar,
    opened: AtomicUsize,
    requests: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Starts a relay to the server at `target` on a port of its own.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(target: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port for a relay")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            network: Mutex::new(Network::Up),
            changed: Condvar::new(),
            opened: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            streams: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections that clients have opened so far; one that is refused does not count.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// Requests over HTTP/2 that have passed to the server so far, gRPC calls among them. Pings are none.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Changes what the network does, for open connections as well.
    pub fn set(&self, network: Network) {
        *self.shared.network.lock() = network;
        self.shared.changed.notify_all();
        if matches!(network, Network::Refused | Network::Gone) {
            self.shared.streams.lock().drain(..).for_each(|stream| close(&stream));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Network::Gone);
        // Wakes the thread that accepts, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    /// Waits until bytes may pass; false: the connection is over.
    fn passes(&self) -> bool {
        let mut network = self.network.lock();
        while *network == Network::Silent {
            self.changed.wait(&mut network);
        }
        *network == Network::Up
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let network = *shared.network.lock();
        let Ok(client) = client else { continue };
        match network {
            Network::Gone => return,
            Network::Refused => close(&client),
            Network::Up | Network::Silent => {
                shared.opened.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(shared);
                thread::spawn(move || relay(client, &shared));
            }
        }
    }
}

/// Both ways of one connection.
fn relay(client: TcpStream, shared: &Arc<Shared>) {
    if !shared.passes() {
        return close(&client);
    }
    let target = *shared.target.lock();
    let Ok(server) = TcpStream::connect(target) else { return close(&client) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let clones = (client.try_clone(), server.try_clone());
    let (Ok(client_back), Ok(server_back)) = clones else { return };
    shared.streams.lock().extend([client.try_clone(), server.try_clone()].into_iter().flatten());
    let back = Arc::clone(shared);
    thread::spawn(move || pass(server_back, client_back, &back, |_| {}));
    let mut counter = RequestCounter::new();
    pass(client, server, shared, |bytes| {
        shared.requests.fetch_add(counter.count(bytes), Ordering::SeqCst);
    });
}

/// One way, until either side ends it. `seen` gets what passes.
fn pass(mut from: TcpStream, mut to: TcpStream, shared: &Shared, mut seen: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
        && shared.passes()
    {
        seen(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    close(&from);
    close(&to);
}

fn close(stream: &TcpStream) {
    // It may be closed already; that is what was wanted.
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_silent_network_holds_what_was_sent_and_a_refusing_one_ends_connections() {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = Relay::start(server.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(relay.address()).unwrap();
        let (mut peer, _) = server.accept().unwrap();
        let mut byte = [0];

        client.write_all(b"a").unwrap();
        peer.read_exact(&mut byte).unwrap();
        assert_eq!((&byte, relay.opened()), (b"a", 1));

        relay.set(Network::Silent);
        client.write_all(b"b").unwrap();
        peer.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(peer.read_exact(&mut byte).is_err(), "nothing passes");
        relay.set(Network::Up);
        peer.set_read_timeout(None).unwrap();
        peer.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"b");

        relay.set(Network::Refused);
        assert_eq!(client.read(&mut byte).unwrap_or(0), 0, "the connection has ended");
    }
}
