//! Builds of indexes that run, so that they can be called off.

use std::collections::BTreeMap;

use pointsman_ids::SegmentId;
use tokio_util::sync::CancellationToken;

use super::index::IndexName;

/// Builds that run. Dropped, it calls all of them off.
#[derive(Debug, Default)]
pub(super) struct Builds(BTreeMap<(SegmentId, IndexName), CancellationToken>);

impl Builds {
    /// One begins; gives what calls it off.
    pub(super) fn begin(&mut self, id: SegmentId, name: IndexName) -> CancellationToken {
        self.0.entry((id, name)).or_default().clone()
    }

    /// Calls one off, if it runs.
    pub(super) fn call_off(&self, build: &(SegmentId, IndexName)) {
        self.0.get(build).into_iter().for_each(CancellationToken::cancel);
    }

    /// One has ended.
    pub(super) fn ended(&mut self, id: SegmentId, name: IndexName) {
        self.0.remove(&(id, name));
    }
}

impl Drop for Builds {
    fn drop(&mut self) {
        self.0.values().for_each(CancellationToken::cancel);
    }
}
