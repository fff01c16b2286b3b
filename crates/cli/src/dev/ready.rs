//! The ready file: where everything is, written when queries can be answered.

use std::{io::Write, path::Path};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

/// Where the components of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyFile {
    /// The broker.
    pub broker: Component,
    /// The coordinator.
    pub coordinator: Component,
    /// The nodes, by name.
    pub nodes: Vec<NodeComponent>,
    /// Kind and place of the metastore, without secrets.
    pub metastore: String,
    /// Root of the object store.
    pub objects: String,
}

/// A process with an HTTP and a gRPC surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// HTTP address, as URL.
    pub http: String,
    /// gRPC address, as URL.
    pub grpc: String,
    /// Number of the process.
    pub pid: u32,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeComponent {
    /// Its name.
    pub name: String,
    /// The resource group that it is a member of.
    pub resource_group: String,
    /// Address of its worker, as URL.
    pub grpc: String,
    /// Number of the process.
    pub pid: u32,
}

impl ReadyFile {
    /// Name of the file in the data directory.
    pub const NAME: &'static str = "ready.json";

    /// Reads the file's text.
    ///
    /// # Errors
    /// When it is not what `pointsman dev` writes.
    pub fn parse(text: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(text).context("is not a ready file of `pointsman dev`")
    }

    /// Writes the file whole: a reader finds all of it or none.
    ///
    /// # Errors
    /// Those of the file system, naming the path.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || {
            let mut file = NamedTempFile::new_in(dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.persist(path)?;
            anyhow::Ok(())
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let component = |port: u16, pid| Component {
            http: format!("http://127.0.0.1:{port}"),
            grpc: format!("http://127.0.0.1:{}", port + 1),
            pid,
        };
        let node = NodeComponent {
            name: "n1".into(),
            resource_group: "east".into(),
            grpc: "http://127.0.0.1:5".into(),
            pid: 3,
        };
        Self {
            broker: component(1, 1),
            coordinator: component(3, 2),
            nodes: vec![node],
            metastore: "sqlite:/data/meta.db".into(),
            objects: "/data/objects".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_holds_exactly_what_is_promised() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ready.json");
        ReadyFile::example().write(&path).unwrap();
        let text = std::fs::read(&path).unwrap();
        let expected = json!({
            "broker": {"http": "http://127.0.0.1:1", "grpc": "http://127.0.0.1:2", "pid": 1},
            "coordinator": {"http": "http://127.0.0.1:3", "grpc": "http://127.0.0.1:4", "pid": 2},
            "nodes": [{"name": "n1", "resource_group": "east", "grpc": "http://127.0.0.1:5", "pid": 3}],
            "metastore": "sqlite:/data/meta.db",
            "objects": "/data/objects",
        });
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).unwrap(), expected);
        assert_eq!(ReadyFile::parse(&text).unwrap(), ReadyFile::example());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }
}
