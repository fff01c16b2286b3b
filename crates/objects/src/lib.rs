//! Opens the object store that holds segments, by folder or URL.
//!
//! The root of a store is a folder (`data/objects`, `file:///srv/objects`) or `s3://bucket/prefix`, S3 and what speaks
//! its protocol. Everything that is not part of the root (credentials, region, endpoint) comes as `AWS_*` pairs, which
//! `pointsman_settings::object_store_environment` hands over; this crate reads no environment. Opening does no I/O: a
//! store that cannot be reached shows itself at the first use, which may be retried.
//!
//! ```
//! use object_store::{ObjectStoreExt, path::Path};
//!
//! # async fn example(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let root = pointsman_objects::Root::parse(&folder.display().to_string())?;
//! let store = root.open([("AWS_REGION", "eu-central-1")])?;
//! store.put(&Path::from("orders/a.parquet"), "PAR1".into()).await?;
//! # Ok(())
//! # }
//! ```

use std::{fmt, path::PathBuf, sync::Arc};

use object_store::{ObjectStore, ObjectStoreScheme, parse_url_opts, prefix::PrefixStore};
use url::Url;

/// Why a root was refused.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The root is neither a folder nor a URL that is understood.
    #[error("'{root}' is no root of an object store: {why}; write a folder or s3://BUCKET/PREFIX")]
    Root {
        /// The root, without secrets.
        root: String,
        /// What is wrong with it.
        why: String,
    },
    /// The settings that came with the root do not make a store.
    #[error("the object store '{root}' cannot be opened; check the AWS_* variables")]
    Options {
        /// The root, without secrets.
        root: String,
        /// What the store's client says.
        #[source]
        source: object_store::Error,
    },
}

/// The root of an object store. `Display` and `Debug` show it without secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Root(Url);

impl Root {
    /// Reads a folder, absolute or relative to the working directory, or a URL. The folder need not exist yet.
    ///
    /// # Errors
    /// [`OpenError::Root`] when it is empty or a URL of a kind that is not supported.
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let refuse = |why: String| OpenError::Root { root: without_secrets(text), why };
        if text.is_empty() {
            return Err(refuse("it is empty".into()));
        }
        if !text.contains("://") {
            let folder =
                std::path::absolute(PathBuf::from(text)).map_err(|error| refuse(error.to_string()))?;
            let url = Url::from_directory_path(folder);
            return url.map(Self).map_err(|()| refuse("it is no folder".into()));
        }
        let url = Url::parse(text).map_err(|error| refuse(error.to_string()))?;
        match url.scheme() {
            "file" | "s3" | "s3a" => {}
            scheme => return Err(refuse(format!("'{scheme}' is not supported"))),
        }
        if url.scheme() != "file" && url.host_str().is_none_or(str::is_empty) {
            return Err(refuse("it names no bucket".into()));
        }
        Ok(Self(url))
    }

    /// The root as URL, as other processes on any machine may parse it again. It may hold secrets.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// The store, with paths relative to the root. `options` are `AWS_*` pairs; unknown ones are ignored. No I/O.
    ///
    /// # Errors
    /// [`OpenError::Options`] when the pairs contradict each other or the root.
    pub fn open(
        &self,
        options: impl IntoIterator<Item = (impl AsRef<str>, impl Into<String>)>,
    ) -> Result<Arc<dyn ObjectStore>, OpenError> {
        let refuse = |source: object_store::Error| OpenError::Options { root: self.to_string(), source };
        let (_, prefix) = ObjectStoreScheme::parse(&self.0).map_err(|error| refuse(error.into()))?;
        let (store, _) = parse_url_opts(&self.0, options).map_err(refuse)?;
        Ok(Arc::new(PrefixStore::new(store, prefix)))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(self.0.as_str()))
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Opens the store of a root in one step.
///
/// # Errors
/// As [`Root::parse`] and [`Root::open`].
pub fn open(
    root: &str,
    options: impl IntoIterator<Item = (impl AsRef<str>, impl Into<String>)>,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    Root::parse(root)?.open(options)
}

/// The text without what may be a secret: user and password, and everything from `?` on.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use object_store::{ObjectStoreExt, PutMode, PutOptions, path::Path};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const NONE: [(&str, &str); 0] = [];

    #[tokio::test]
    async fn a_folder_is_written_and_read_under_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("with space/not there yet");
        let path = Path::from("orders/a.parquet");
        let plain = open(root.to_str().unwrap(), NONE).unwrap();
        let create = PutOptions { mode: PutMode::Create, ..Default::default() };
        plain.put_opts(&path, "one".into(), create.clone()).await.unwrap();
        assert_eq!(std::fs::read(root.join("orders/a.parquet")).unwrap(), b"one");
        let again = plain.put_opts(&path, "two".into(), create).await.unwrap_err();
        assert!(matches!(again, object_store::Error::AlreadyExists { .. }), "{again}");

        let parsed = Root::parse(root.to_str().unwrap()).unwrap();
        let by_url = open(parsed.url().as_str(), NONE).unwrap();
        assert_eq!(by_url.get(&path).await.unwrap().bytes().await.unwrap(), "one");
    }

    #[test]
    fn a_relative_folder_becomes_an_absolute_url() {
        let url = Root::parse("data/objects").unwrap().url().to_string();
        let here = std::env::current_dir().unwrap();
        assert_eq!(url, Url::from_directory_path(here.join("data/objects")).unwrap().to_string());
    }

    #[tokio::test]
    async fn a_bucket_is_asked_where_the_pairs_say_under_its_prefix() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let pairs =
            [("AWS_ENDPOINT", endpoint.as_str()), ("AWS_ALLOW_HTTP", "true"), ("AWS_SKIP_SIGNATURE", "true")];
        let store = open("s3://bucket/some/prefix", pairs).unwrap();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        };
        let path = Path::from("orders/a.parquet");
        let (request, got) = tokio::join!(answer, store.get(&path));
        assert!(request.starts_with("GET /bucket/some/prefix/orders/a.parquet "), "{request}");
        assert!(matches!(got, Err(object_store::Error::NotFound { .. })), "{got:?}");
    }

    #[test]
    fn wrong_options_are_refused_naming_the_root() {
        let error = open("s3://bucket", [("AWS_ALLOW_HTTP", "perhaps")]).unwrap_err();
        assert!(error.to_string().contains("s3://bucket") && error.to_string().contains("AWS_"), "{error}");
        assert!(error.source().unwrap().to_string().contains("perhaps"), "{error:?}");
    }

    #[test]
    fn a_root_of_another_kind_is_refused_naming_it_and_the_remedy() {
        for (root, why) in
            [("", "empty"), ("ftp://host/x", "'ftp'"), ("s3:///x", "bucket"), ("memory:///", "'memory'")]
        {
            let error = Root::parse(root).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("s3://BUCKET/PREFIX"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let root = Root::parse("s3://key:s3cret@bucket/p?token=s3cret").unwrap();
        assert_eq!(format!("{root} {root:?}"), "s3://bucket/p s3://bucket/p");
        let error = Root::parse("ftp://me:s3cret@host/x?password=s3cret").unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
}
