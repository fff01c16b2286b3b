//! Where a segment lies in the engine's private store: `seg://local/<segment id>/<collection>/<segment name>`.
//!
//! On a node the id decides; collection and name are there for people who read a plan or an error. Clusters number their
//! segments each on their own, so one of a collection that spans clusters has its position behind that, and in a query a
//! segment is told apart by its whole path.

use std::fmt;

use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use percent_encoding::percent_decode_str;
use pointsman_ids::{Error, ErrorCode, Result, SegmentId, feed::CollectionEntry};
use url::Url;

/// The only store that a plan may read.
pub(crate) const STORE: &str = "seg://local";

/// The store as DataFusion names it.
pub(crate) fn store_url() -> Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(STORE)
        .map_err(|error| Error::new(ErrorCode::ServiceInternal, format!("{STORE}: {error}")))
}

/// Whether this is the address of the segments' store.
pub(crate) fn is_segments(url: &Url) -> bool {
    url.scheme() == "seg" && url.host_str() == Some("local") && url.port().is_none()
}

/// A segment as plans and errors name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentPath {
    /// Its number.
    pub id: SegmentId,
    /// The name of its collection.
    pub collection: String,
    /// Its name.
    pub segment: String,
    /// Its position in a collection that spans clusters; `None` in others.
    pub position: Option<u32>,
}

impl SegmentPath {
    /// The path of the segment at a position of a collection.
    pub(crate) fn of(entry: &CollectionEntry, position: u32) -> Option<Self> {
        let segment = entry.segments.get(position as usize)?;
        Some(Self {
            id: segment.id,
            collection: entry.name.to_string(),
            segment: segment.name.to_string(),
            position: (!entry.clusters.is_empty()).then_some(position),
        })
    }

    /// Reads a path inside the store back; `None` when it does not name a segment.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/').filter(|part| !part.is_empty());
        let id = SegmentId(parts.next()?.parse().ok()?);
        let (collection, segment) = (decoded(parts.next()?), decoded(parts.next()?));
        let position = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { id, collection, segment, position })
    }

    /// The path inside the store.
    pub(crate) fn object(&self) -> Path {
        Path::from(self.to_string())
    }
}

/// A name as people wrote it: paths of stores spell what is not ASCII with `%`, which names do not have.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

impl fmt::Display for SegmentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.id, self.collection, self.segment)?;
        self.position.map_or(Ok(()), |position| write!(f, "/{position}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back() {
        for position in [None, Some(0), Some(12)] {
            let (collection, segment) = ("größe".into(), "part-0.a_b".into());
            let path = SegmentPath { id: SegmentId(7), collection, segment, position };
            assert_eq!(SegmentPath::read(path.object().as_ref()), Some(path.clone()));
            assert_eq!(SegmentPath::read(&path.to_string()), Some(path));
        }
        for text in ["", "7", "7/orders", "x/orders/s", "7/orders/s/more", "7/orders/s/1/2", "-1/orders/s"] {
            assert_eq!(SegmentPath::read(text), None, "{text}");
        }
    }

    #[test]
    fn only_one_store_holds_segments() {
        let is = |text: &str| is_segments(&Url::parse(text).expect("a URL"));
        assert!(is("seg://local/") && is("seg://local/7/a/b/0"));
        assert!(
            !is("seg://other/")
                && !is("file:///etc/passwd")
                && !is("http://local/")
                && !is("seg://local:80/")
        );
    }
}
