//! A stretch of network between a client and PostgreSQL that can fall silent, as a broken router does: no connection is
//! refused, none is closed, and nothing comes through.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What comes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Traffic {
    /// Everything.
    All,
    /// Everything until a client commits; from then on nothing, and not the commit either.
    UntilCommit,
    /// Everything up to and with a commit; not its answer, and nothing afterwards.
    UpToCommit,
    /// Nothing.
    None,
}

#[derive(Clone, Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    traffic: Arc<AtomicU8>,
}

impl Relay {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Self { address: listener.local_addr().unwrap(), traffic: Arc::default() };
        let accepting = relay.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(&server).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = upstream.into_split();
                tokio::spawn(accepting.clone().carry(from_client, to_server, true));
                tokio::spawn(accepting.clone().carry(from_server, to_client, false));
            }
        });
        relay
    }

    pub(crate) fn set(&self, traffic: Traffic) {
        self.traffic.store(traffic as u8, SeqCst);
    }

    fn is(&self, traffic: Traffic) -> bool {
        self.traffic.load(SeqCst) == traffic as u8
    }

    async fn carry(
        self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        from_client: bool,
    ) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let part = &buffer[..length];
            let commits = from_client && part.windows(6).any(|word| word == b"COMMIT");
            if commits && self.is(Traffic::UntilCommit) {
                self.set(Traffic::None);
            }
            if self.is(Traffic::None) {
                continue;
            }
            if commits && self.is(Traffic::UpToCommit) {
                self.set(Traffic::None);
            }
            if to.write_all(part).await.is_err() {
                break;
            }
        }
    }
}
