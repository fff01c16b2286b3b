//! A node on a runtime of its own, so that it can be killed.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use pointsman_node::{Deps, Pace, RunError, run};
use pointsman_settings::{Bytes, NodeSettings};
use tokio::{runtime::Runtime, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::coordinator::DEADLINE;

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) grpc: String,
    pub(crate) http: String,
    data_dir: PathBuf,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
    runtime: Option<Runtime>,
}

/// A node that hurries.
pub(crate) fn pace() -> Pace {
    Pace {
        reconnect: Duration::from_millis(20),
        reconnect_max: Duration::from_millis(200),
        refused: Duration::from_millis(500),
        coalesce: Duration::from_millis(20),
        fetch_retry: Duration::from_millis(50),
        fetch_retry_max: Duration::from_millis(200),
        drop_after: Duration::from_millis(100),
        presence_check: Duration::from_millis(100),
        scrub: Duration::from_secs(3600),
        settle: Duration::from_millis(100),
    }
}

pub(crate) fn settings(data_dir: &Path, coordinators: &[String]) -> NodeSettings {
    NodeSettings {
        name: "n1".into(),
        coordinators: coordinators.to_vec(),
        data_dir: data_dir.to_owned(),
        cache_limit: Bytes::mib(64),
        grace: Duration::from_secs(5),
        ..NodeSettings::default()
    }
}

impl Node {
    pub(crate) fn start(settings: NodeSettings, pace: Pace) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let bound = || {
            let listener = TcpListener::bind(pointsman_testkit::free_address().unwrap()).unwrap();
            listener.set_nonblocking(true).unwrap();
            (format!("http://{}", listener.local_addr().unwrap()), listener)
        };
        let ((grpc, grpc_listener), (http, http_listener)) = (bound(), bound());
        let shutdown = CancellationToken::new();
        let data_dir = settings.data_dir.clone();
        let token = shutdown.clone();
        let task = runtime.spawn(async move {
            let deps = Deps {
                grpc: Some(tokio::net::TcpListener::from_std(grpc_listener).unwrap()),
                http: Some(tokio::net::TcpListener::from_std(http_listener).unwrap()),
                pace,
                object_store_options: vec![],
                seed: 7,
                ..Deps::without_metrics()
            };
            run(settings, deps, token).await
        });
        Self { grpc, http, data_dir, shutdown, task, runtime: Some(runtime) }
    }

    /// Where a segment's file lies.
    pub(crate) fn file(&self, id: u64) -> PathBuf {
        self.data_dir.join("segments").join(format!("{id}.parquet"))
    }

    /// Waits until a segment has no file.
    pub(crate) async fn until_gone(&self, id: u64) {
        let waiting = async {
            while self.file(id).exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, waiting).await.expect("the file is still there");
    }

    /// Waits until a segment's file has this content, as long as it takes to notice and to fetch.
    pub(crate) async fn until_file(&self, id: u64, content: &[u8]) {
        let waiting = async {
            while fs::read(self.file(id)).ok().as_deref() != Some(content) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, waiting).await.expect("the file has not come back");
    }

    /// Tells it to stop.
    pub(crate) fn stop(&self) {
        self.shutdown.cancel();
    }

    /// Whether it has ended.
    pub(crate) fn ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Result<(), RunError> {
        timeout(DEADLINE, &mut self.task).await.expect("the node has not ended").unwrap()
    }

    /// Ends it without a word, as SIGKILL would.
    pub(crate) async fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            tokio::task::spawn_blocking(|| runtime.shutdown_timeout(DEADLINE)).await.unwrap();
        }
    }

    /// A page of its HTTP port: status and JSON.
    pub(crate) async fn page(&self, path: &str) -> (u16, serde_json::Value) {
        let answer = reqwest::get(format!("{}{path}", self.http)).await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Waits until a page says something.
    pub(crate) async fn until_page(
        &self,
        path: &str,
        condition: impl Fn(u16, &serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let waiting = async {
            loop {
                let (status, page) = self.page(path).await;
                if condition(status, &page) {
                    return page;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match timeout(DEADLINE, waiting).await {
            Ok(page) => page,
            Err(_) => panic!("{path}: {:?}", self.page(path).await),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
