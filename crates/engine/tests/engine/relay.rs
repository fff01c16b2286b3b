//! A way to a worker that breaks after so many bytes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use url::Url;

/// A relay in front of a worker. Once it has let through as many bytes of answers as it may, it cuts every connection
/// and takes no other.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) url: Url,
    passed: Arc<AtomicU64>,
    /// Whether connections that are at the limit are cut, or kept waiting.
    cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Relay {
    /// In front of `worker`, for so many bytes.
    pub(crate) async fn start(worker: &Url, limit: u64) -> Self {
        let relay = Self::holding(worker, limit).await;
        relay.cut();
        relay
    }

    /// As [`start`](Self::start), but what is at the limit waits until [`cut`](Self::cut) is called.
    pub(crate) async fn holding(worker: &Url, limit: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let worker = worker.socket_addrs(|| None).expect("an address")[0];
        let passed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&passed);
        let (cut, cutting) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (counted, mut cutting) = (Arc::clone(&counted), cutting.clone());
                if counted.load(Ordering::SeqCst) >= limit {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(worker).await else { return };
                    relay(client, server, &counted, limit, &mut cutting).await;
                });
            }
        });
        Self { url: Url::parse(&format!("http://{address}")).expect("a URL"), passed, cut, accepting }
    }

    /// Breaks off what is at the limit, now and later.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Bytes of answers so far.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }
}

async fn relay(
    client: TcpStream,
    server: TcpStream,
    passed: &AtomicU64,
    limit: u64,
    cutting: &mut watch::Receiver<bool>,
) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("an option");
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let answers = async {
        let mut bytes = vec![0; 4096];
        loop {
            let count = from_server.read(&mut bytes).await?;
            let before = passed.fetch_add(count as u64, Ordering::SeqCst);
            let left = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
            to_client.write_all(&bytes[..count.min(left)]).await?;
            if count == 0 || left <= count {
                // Fails once the relay is dropped, which cuts as well.
                let _ = cutting.wait_for(|cut| *cut).await;
                return std::io::Result::Ok(());
            }
        }
    };
    // Whoever ends first takes the other along.
    let _ = tokio::select! { ended = requests => ended, ended = answers => ended };
}
