//! The peer on an error: a context that survives every hop.

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use url::Url;

/// Tag of an error that a connection made: the peer could not be reached, or broke off.
pub(crate) const UNREACHABLE: &str = "unreachable=";
/// Tag of an error of one call on a connection that stands.
pub(crate) const INTERRUPTED: &str = "interrupted=";
/// Tag of the answer of a peer that has no place for more work.
pub(crate) const BUSY: &str = "busy=";
/// Tag of the answer of a peer that is starting or draining.
pub(crate) const NOT_SERVING: &str = "not_serving=";
/// Tag of an error that the peer answered with.
pub(crate) const AT: &str = "at=";

/// Whether a tag is on the error already.
pub(crate) fn is_tagged(error: &DataFusionError) -> bool {
    Tag::default().follow(error).0.url.is_some()
}

/// What a tag says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Kind {
    #[default]
    None,
    Unreachable,
    Interrupted,
    Busy,
    NotServing,
    At,
}

/// The innermost tag on an error.
#[derive(Debug, Default)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    pub(super) url: Option<Url>,
}

impl Tag {
    /// Goes down to the root; what is further in wins.
    pub(super) fn follow(mut self, error: &DataFusionError) -> (Self, &DataFusionError) {
        match error {
            DataFusionError::Context(text, inner) => {
                self.read(text);
                self.follow(inner)
            }
            DataFusionError::Diagnostic(_, inner) => self.follow(inner),
            DataFusionError::Shared(inner) => self.follow(inner),
            DataFusionError::ArrowError(arrow, _) => match &**arrow {
                ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
                    Some(inner) => self.follow(inner),
                    None => (self, error),
                },
                _ => (self, error),
            },
            DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => self.follow(inner),
                None => (self, error),
            },
            _ => (self, error),
        }
    }

    fn read(&mut self, text: &str) {
        let kinds = [
            (UNREACHABLE, Kind::Unreachable),
            (INTERRUPTED, Kind::Interrupted),
            (BUSY, Kind::Busy),
            (NOT_SERVING, Kind::NotServing),
            (AT, Kind::At),
        ];
        for (word, kind) in kinds {
            if let Some(url) = text.strip_prefix(word).and_then(|url| Url::parse(url).ok()) {
                (self.kind, self.url) = (kind, Some(url));
            }
        }
    }
}
