//! The object store: where segments lie, and whether they do.

use std::sync::Arc;

use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use pointsman_ids::{Error, ErrorCode};
use pointsman_objects::{OpenError, Root};

/// The object store of a cluster, seen from its root.
#[derive(Clone, Debug)]
pub struct Objects {
    root: Root,
    store: Arc<dyn ObjectStore>,
}

impl Objects {
    /// Opens the store at `root`: a folder or a URL `file:///...` or `s3://bucket/prefix`. `options` are `AWS_*` pairs.
    /// No I/O.
    ///
    /// # Errors
    /// As [`Root::parse`] and [`Root::open`].
    pub fn open(
        root: &str,
        options: impl IntoIterator<Item = (impl AsRef<str>, impl Into<String>)>,
    ) -> Result<Self, OpenError> {
        let root = Root::parse(root)?;
        let store = root.open(options)?;
        Ok(Self { root, store })
    }

    /// The root as URL, without secrets.
    pub fn root(&self) -> String {
        self.root.to_string()
    }

    /// Checks that `object` is there and `bytes` long.
    ///
    /// # Errors
    /// `parameter_invalid` when it is not, naming both lengths; `service_unavailable` when the store does not answer.
    pub(crate) async fn check(&self, object: &str, bytes: u64) -> Result<(), Error> {
        let meta = match self.store.head(&path(object)?).await {
            Ok(meta) => meta,
            Err(object_store::Error::NotFound { .. }) => {
                let text =
                    format!("object '{object}' is not in the object store {}; upload it first", self.root);
                return Err(Error::new(ErrorCode::ParameterInvalid, text));
            }
            Err(error) => return Err(away(object, &error)),
        };
        if meta.size == bytes {
            return Ok(());
        }
        let text = format!("object '{object}' has {} bytes, the push says {bytes}", meta.size);
        Err(Error::new(ErrorCode::ParameterInvalid, text))
    }

    /// Deletes an object. One that is not there is deleted.
    ///
    /// # Errors
    /// `service_unavailable` when the store does not do it.
    pub(crate) async fn delete(&self, object: &str) -> Result<(), Error> {
        match self.store.delete(&path(object)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(away(object, &error)),
        }
    }
}

fn away(object: &str, error: &object_store::Error) -> Error {
    let text = format!("object '{object}': {}", pointsman_telemetry::chain(error));
    Error::new(ErrorCode::ServiceUnavailable, text)
}

/// The path of an object, which may not leave the root.
fn path(object: &str) -> Result<Path, Error> {
    let refuse = |why: String| Error::new(ErrorCode::ParameterInvalid, format!("object '{object}': {why}"));
    let path = Path::parse(object).map_err(|error| refuse(error.to_string()))?;
    if path.as_ref() == object {
        return Ok(path);
    }
    Err(refuse(format!("is not the plain form of a path; write '{path}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [(&str, &str); 0] = [];

    fn code(result: Result<(), Error>) -> Option<ErrorCode> {
        result.err().map(|error| error.code())
    }

    #[tokio::test]
    async fn an_object_is_there_only_with_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::open(folder.path().join("new").to_str().unwrap(), NONE).unwrap();
        assert!(objects.root().starts_with("file:///"), "{}", objects.root());
        std::fs::create_dir_all(folder.path().join("new/c")).unwrap();
        std::fs::write(folder.path().join("new/c/a.parquet"), b"abc").unwrap();
        assert_eq!(code(objects.check("c/a.parquet", 3).await), None);
        assert_eq!(code(objects.check("c/a.parquet", 4).await), Some(ErrorCode::ParameterInvalid));
        assert_eq!(code(objects.check("c/b.parquet", 3).await), Some(ErrorCode::ParameterInvalid));
        for outside in ["../a", "/c/a.parquet", "c//a", "c/./a", ""] {
            assert_eq!(code(objects.check(outside, 3).await), Some(ErrorCode::ParameterInvalid), "{outside}");
        }
        objects.delete("c/a.parquet").await.unwrap();
        objects.delete("c/a.parquet").await.unwrap();
        assert!(!folder.path().join("new/c/a.parquet").exists());
    }
}
