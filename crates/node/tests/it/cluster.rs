//! One coordinator, one object store, one folder for a node.

use std::{fs, path::PathBuf};

use pointsman_ids::catalog::Checksum;
use pointsman_node::Pace;
use pointsman_proto::node::v1 as pb;
use pointsman_settings::NodeSettings;
use tempfile::TempDir;

use crate::{
    coordinator::Coordinator,
    node::{self, Node},
};

/// Everything that a test needs beside the node.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) coordinator: Coordinator,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        let coordinator = Coordinator::start(objects.to_str().unwrap());
        Self { folder, coordinator }
    }

    pub(crate) fn settings(&self) -> NodeSettings {
        node::settings(&self.data_dir(), &[self.coordinator.url()])
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("n1")
    }

    /// Starts the node with the usual settings.
    pub(crate) fn node(&self) -> Node {
        Node::start(self.settings(), node::pace())
    }

    pub(crate) fn node_with(&self, pace: Pace) -> Node {
        Node::start(self.settings(), pace)
    }

    /// Where an object lies.
    pub(crate) fn object(&self, id: u64) -> PathBuf {
        self.folder.path().join("objects").join(object(id))
    }

    /// Puts an object and names it as a segment.
    pub(crate) fn push(&self, id: u64, content: &[u8]) -> pb::DesiredSegment {
        fs::create_dir_all(self.object(id).parent().unwrap()).unwrap();
        fs::write(self.object(id), content).unwrap();
        segment(id, content)
    }
}

fn object(id: u64) -> String {
    format!("orders/part-{id}.parquet")
}

/// A segment of this content, whether there is an object or not.
pub(crate) fn segment(id: u64, content: &[u8]) -> pb::DesiredSegment {
    pb::DesiredSegment {
        segment_id: id,
        collection: "orders".into(),
        name: format!("part-{id}"),
        object: object(id),
        bytes: content.len() as u64,
        checksum: checksum(content),
        rows: 1,
        indexes: Vec::new(),
    }
}

pub(crate) fn checksum(content: &[u8]) -> String {
    Checksum(*blake3::hash(content).as_bytes()).to_string()
}

/// Content that differs from segment to segment and is longer than any buffer.
pub(crate) fn content(id: u64) -> Vec<u8> {
    (0..3_000_000_u64).map(|at| (at.wrapping_mul(id + 1) >> 3) as u8).collect()
}
