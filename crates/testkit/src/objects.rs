//! An object store of one's own, over S3's protocol, whose objects can be held back or damaged.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use axum::{
    Router,
    extract::{Path as UrlPath, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{
    runtime::Runtime,
    sync::watch::{Receiver, Sender, channel},
};

const BUCKET: &str = "objects";

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// It is told as it lies in the folder.
    Served,
    /// Nothing of it is told until this changes.
    Held,
    /// Its length is right and a byte of it is not.
    Corrupt,
    /// There is none.
    Missing,
}

/// Serves the objects of a folder to nodes that are started with [`ObjectServer::variables`]. Dropping it ends that.
#[derive(Debug)]
pub struct ObjectServer {
    address: SocketAddr,
    objects: Sender<BTreeMap<String, Object>>,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Served {
    folder: Arc<Path>,
    objects: Receiver<BTreeMap<String, Object>>,
}

impl ObjectServer {
    /// Starts to serve what lies under `folder`, now and later.
    ///
    /// # Errors
    /// There is no free port, or no thread.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port for an object store")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (objects, receiver) = channel(BTreeMap::new());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let served = Served { folder: folder.into(), objects: receiver };
        let router = Router::new().route(&format!("/{BUCKET}/{{*name}}"), get(tell)).with_state(served);
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, objects, _runtime: runtime })
    }

    /// Settings of a node that fetches its segments here.
    pub fn variables(&self) -> Vec<(String, String)> {
        [
            ("POINTSMAN_NODE__OBJECTS", format!("s3://{BUCKET}")),
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_SKIP_SIGNATURE", "true".into()),
            ("AWS_REGION", "local".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Says what becomes of these objects, named by their paths in the folder; of those whose answer is held, too.
    pub fn set<'a>(&self, names: impl IntoIterator<Item = &'a str>, object: Object) {
        self.objects.send_modify(|objects| {
            objects.extend(names.into_iter().map(|name| (name.to_owned(), object)));
        });
    }
}

async fn tell(State(mut served): State<Served>, UrlPath(name): UrlPath<String>) -> Response {
    let object = |objects: &BTreeMap<String, Object>| objects.get(&name).copied().unwrap_or(Object::Served);
    let Ok(object) =
        served.objects.wait_for(|objects| object(objects) != Object::Held).await.map(|o| object(&o))
    else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response(); // The server is being dropped.
    };
    let path: PathBuf = served.folder.join(&name);
    let Some(mut bytes) = std::fs::read(path).ok().filter(|_| object != Object::Missing) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if object == Object::Corrupt
        && let Some(byte) = bytes.get_mut(8)
    {
        *byte = !*byte;
    }
    ([(header::ETAG, "\"1\""), (header::LAST_MODIFIED, "Mon, 01 Jan 2024 00:00:00 GMT")], bytes)
        .into_response()
}
