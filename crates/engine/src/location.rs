//! Where a segment lies in the engine's private store: `seg://local/<segment id>/<collection>/<segment name>`.
//!
//! The id decides; collection and name are there for people who read a plan or an error.

use std::fmt;

use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use pointsman_ids::{Error, ErrorCode, Result, SegmentId};
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
}

impl SegmentPath {
    /// Reads a path inside the store back; `None` when it does not name a segment.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/').filter(|part| !part.is_empty());
        let id = SegmentId(parts.next()?.parse().ok()?);
        let (collection, segment) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        parts.next().is_none().then_some(Self { id, collection, segment })
    }

    /// The path inside the store.
    pub(crate) fn object(&self) -> Path {
        Path::from_iter([self.id.to_string().as_str(), self.collection.as_str(), self.segment.as_str()])
    }
}

impl fmt::Display for SegmentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.id, self.collection, self.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back() {
        let path =
            SegmentPath { id: SegmentId(7), collection: "orders".into(), segment: "part-0.a_b".into() };
        assert_eq!(SegmentPath::read(path.object().as_ref()), Some(path.clone()));
        assert_eq!(SegmentPath::read(&path.to_string()), Some(path));
        for text in ["", "7", "7/orders", "x/orders/s", "7/orders/s/more", "-1/orders/s"] {
            assert_eq!(SegmentPath::read(text), None, "{text}");
        }
    }

    #[test]
    fn only_one_store_holds_segments() {
        let is = |text: &str| is_segments(&Url::parse(text).expect("a URL"));
        assert!(is("seg://local/") && is("seg://local/7/a/b"));
        assert!(
            !is("seg://other/")
                && !is("file:///etc/passwd")
                && !is("http://local/")
                && !is("seg://local:80/")
        );
    }
}
