//! A node's worker: the engine's real service on a runtime of its own, so that it can die and hang like a process.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use pointsman_channels::{ChannelSettings, Channels};
use pointsman_engine::{SegmentFile, SegmentStore, WorkerSettings, worker_routes};
use pointsman_ids::SegmentId;
use pointsman_testkit::free_address;
use tokio::runtime::Runtime;
use tonic::transport::{Server, server::TcpIncoming};

/// A running worker.
pub(crate) struct Worker {
    pub(crate) url: String,
    pub(crate) store: Arc<Store>,
    runtime: Option<Runtime>,
    hung: Mutex<Option<mpsc::Sender<()>>>,
}

/// Files by segment.
#[derive(Debug, Default)]
pub(crate) struct Store {
    files: Mutex<BTreeMap<SegmentId, PathBuf>>,
    /// Cloned by every query that uses a file.
    used: Arc<()>,
}

impl Store {
    pub(crate) fn add(&self, segment: SegmentId, path: PathBuf) {
        self.files.lock().unwrap().insert(segment, path);
    }

    pub(crate) fn remove(&self, segment: SegmentId) {
        self.files.lock().unwrap().remove(&segment);
    }

    /// Whether a query uses a file.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.used) > 1
    }
}

impl SegmentStore for Store {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        let path = self.files.lock().unwrap().get(&segment)?.clone();
        let bytes = path.metadata().ok()?.len();
        Some(SegmentFile { path, bytes, hold: Some(self.used.clone()) })
    }
}

impl Worker {
    pub(crate) fn start() -> Self {
        // Few threads, so that a test can hang them all.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = Arc::new(Store::default());
        let settings = ChannelSettings::default();
        let routes = {
            let _inside = runtime.enter();
            let channels = Channels::tcp(settings);
            worker_routes(store.clone(), channels, WorkerSettings::default()).unwrap()
        };
        let incoming = {
            let _inside = runtime.enter();
            TcpIncoming::bind(free_address().unwrap()).unwrap().with_nodelay(Some(true))
        };
        let url = format!("http://{}", incoming.local_addr().unwrap());
        runtime.spawn(Server::builder().add_routes(routes).serve_with_incoming(incoming));
        Self { url, store, runtime: Some(runtime), hung: Mutex::new(None) }
    }

    /// Ends it at once, with all its connections.
    pub(crate) fn kill(&mut self) {
        self.wake();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Stops it, with its connections open, until it wakes. When this returns, it answers nothing any more.
    pub(crate) fn hang(&self) {
        let (wake, wait) = mpsc::channel();
        *self.hung.lock().unwrap() = Some(wake);
        if let Some(runtime) = &self.runtime {
            let (hangs, hung) = mpsc::channel();
            runtime.spawn(async move { hangs.send(()).is_ok() && wait.recv().is_ok() });
            hung.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }

    /// For how long its thread has worked.
    pub(crate) fn busy(&self) -> Duration {
        self.runtime
            .as_ref()
            .map_or(Duration::ZERO, |runtime| runtime.metrics().worker_total_busy_duration(0))
    }

    pub(crate) fn wake(&self) {
        self.hung.lock().unwrap().take();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
