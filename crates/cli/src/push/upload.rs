//! Objects: written once under a name that holds their checksum, so that writing again changes nothing, unless what is
//! there has been damaged since.

use std::path::Path as FilePath;

use anyhow::bail;
use futures::TryStreamExt;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart, path::Path,
};
use pointsman_ids::catalog::Checksum;
use tokio::io::AsyncReadExt;

use crate::output;

/// Up to this length an object is written with one request, which makes sure that it is new.
const ONE_REQUEST: u64 = 64 << 20;
/// Parts of a longer one that are on their way at once.
const PARTS: usize = 4;

/// What became of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uploaded {
    /// The object was not there.
    New,
    /// It was there already, whole.
    Unchanged,
    /// It was there, but damaged, and has been replaced.
    Repaired,
}

/// A file and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    /// Where it is.
    pub(super) file: &'a FilePath,
    /// Its length.
    pub(super) bytes: u64,
    /// Its checksum.
    pub(super) checksum: Checksum,
}

/// Uploads a file. An object that is there already is read back, and replaced when it is damaged: pushing anew is the
/// way to mend it.
///
/// # Errors
/// Those of the store, and an object under this name that is whole and holds something else.
pub(super) async fn upload(
    store: &dyn ObjectStore,
    object: &str,
    content: Content<'_>,
) -> anyhow::Result<Uploaded> {
    let path = Path::parse(object)?;
    if content.bytes > ONE_REQUEST {
        return match store.head(&path).await {
            Ok(_) => repair(store, &path, content).await,
            Err(Error::NotFound { .. }) => in_parts(store, &path, content.file).await.map(|()| Uploaded::New),
            Err(error) => Err(error.into()),
        };
    }
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.put_opts(&path, PutPayload::from(tokio::fs::read(content.file).await?), create).await {
        Ok(_) => Ok(Uploaded::New),
        Err(Error::AlreadyExists { .. }) => repair(store, &path, content).await,
        Err(error) => Err(error.into()),
    }
}

/// Replaces an object that does not hold what its name promises.
async fn repair(store: &dyn ObjectStore, path: &Path, content: Content<'_>) -> anyhow::Result<Uploaded> {
    let there = checksum(store, path).await?;
    if there == content.checksum {
        return Ok(Uploaded::Unchanged);
    }
    // The name holds the beginning of the checksum. What begins so is no damage but another file.
    if there.0[..4] == content.checksum.0[..4] {
        bail!("the object store holds another content under {path}; push the file under another name");
    }
    in_parts(store, path, content.file).await?;
    Ok(Uploaded::Repaired)
}

async fn checksum(store: &dyn ObjectStore, path: &Path) -> anyhow::Result<Checksum> {
    let mut hasher = blake3::Hasher::new();
    let mut content = store.get(path).await?.into_stream();
    while let Some(bytes) = content.try_next().await? {
        hasher.update(&bytes);
    }
    Ok(Checksum(*hasher.finalize().as_bytes()))
}

async fn in_parts(store: &dyn ObjectStore, path: &Path, file: &FilePath) -> anyhow::Result<()> {
    let mut file = tokio::fs::File::open(file).await?;
    let mut upload = WriteMultipart::new(store.put_multipart(path).await?);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        upload.wait_for_capacity(PARTS).await?;
        upload.write(&buffer[..read]);
    }
    upload.finish().await?;
    Ok(())
}

/// Deletes objects that nobody will use. One that stays is no error: its name holds its content, so the next push of it
/// finds it.
pub(super) async fn delete<'a>(store: &dyn ObjectStore, objects: impl Iterator<Item = &'a String>) {
    for object in objects {
        let deleted = match Path::parse(object) {
            Ok(path) => store.delete(&path).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = deleted {
            let cause = pointsman_telemetry::chain(&error);
            output::note(format_args!("the object {object} stays behind in the object store: {cause}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content<'a>(file: &'a FilePath, text: &str) -> Content<'a> {
        std::fs::write(file, text).unwrap();
        Content {
            file,
            bytes: text.len() as u64,
            checksum: Checksum(*blake3::hash(text.as_bytes()).as_bytes()),
        }
    }

    #[tokio::test]
    async fn uploading_again_changes_nothing_but_mends_what_is_damaged_or_gone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.parquet");
        let one = content(&file, "one");
        let store = object_store::memory::InMemory::new();
        let path = Path::from("c/a.parquet");
        assert_eq!(upload(&store, "c/a.parquet", one).await.unwrap(), Uploaded::New);
        assert_eq!(upload(&store, "c/a.parquet", one).await.unwrap(), Uploaded::Unchanged);

        for damaged in ["0ne", "on", ""] {
            store.put(&path, PutPayload::from(damaged.to_owned())).await.unwrap();
            assert_eq!(upload(&store, "c/a.parquet", one).await.unwrap(), Uploaded::Repaired, "{damaged}");
            assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "one");
        }
        store.delete(&path).await.unwrap();
        assert_eq!(upload(&store, "c/a.parquet", one).await.unwrap(), Uploaded::New);
    }

    #[tokio::test]
    async fn another_whole_content_under_the_same_name_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.parquet");
        let mut one = content(&file, "one");
        let store = object_store::memory::InMemory::new();
        let path = Path::from("c/a.parquet");
        store.put(&path, PutPayload::from("one")).await.unwrap();
        // As if the two shared the part of the checksum that stands in the name.
        one.checksum.0[31] ^= 1;
        let error = upload(&store, "c/a.parquet", one).await.unwrap_err().to_string();
        assert!(error.contains("c/a.parquet"), "{error}");
    }

    #[tokio::test]
    async fn a_long_file_arrives_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.parquet");
        let content = vec![7; 12 << 20];
        std::fs::write(&file, &content).unwrap();
        let store = object_store::memory::InMemory::new();
        let path = Path::from("c/a.parquet");
        in_parts(&store, &path, &file).await.unwrap();
        assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == content);
    }
}
