//! Objects: written once under a name that holds their checksum, so that writing again changes nothing.

use std::path::Path as FilePath;

use anyhow::bail;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart, path::Path,
};
use tokio::io::AsyncReadExt;

use crate::output;

/// Up to this length an object is written with one request, which makes sure that it is new.
const ONE_REQUEST: u64 = 64 << 20;
/// Parts of a longer one that are on their way at once.
const PARTS: usize = 4;

/// Uploads a file. False when the object was there already with the same length.
///
/// # Errors
/// Those of the store, and an object of another length under this name.
pub(super) async fn upload(
    store: &dyn ObjectStore,
    object: &str,
    file: &FilePath,
    bytes: u64,
) -> anyhow::Result<bool> {
    let path = Path::from(object);
    if bytes > ONE_REQUEST {
        return match store.head(&path).await {
            Ok(there) => same_length(object, there.size, bytes),
            Err(Error::NotFound { .. }) => in_parts(store, &path, file).await.map(|()| true),
            Err(error) => Err(error.into()),
        };
    }
    let content = PutPayload::from(tokio::fs::read(file).await?);
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.put_opts(&path, content, create).await {
        Ok(_) => Ok(true),
        Err(Error::AlreadyExists { .. }) => same_length(object, store.head(&path).await?.size, bytes),
        Err(error) => Err(error.into()),
    }
}

fn same_length(object: &str, there: u64, bytes: u64) -> anyhow::Result<bool> {
    if there != bytes {
        bail!(
            "the object store holds {object} with {there} bytes where {bytes} are expected; delete it there and push again"
        );
    }
    Ok(false)
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
        if let Err(error) = store.delete(&Path::from(object.as_str())).await {
            let cause = pointsman_telemetry::chain(&error);
            output::note(format_args!("the object {object} stays behind in the object store: {cause}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn uploading_again_changes_nothing_and_another_length_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.parquet");
        std::fs::write(&file, "one").unwrap();
        let store = object_store::memory::InMemory::new();
        assert!(upload(&store, "c/a.parquet", &file, 3).await.unwrap());
        assert!(!upload(&store, "c/a.parquet", &file, 3).await.unwrap());

        std::fs::write(&file, "longer").unwrap();
        let error = upload(&store, "c/a.parquet", &file, 6).await.unwrap_err().to_string();
        assert!(error.contains("c/a.parquet with 3 bytes"), "{error}");
        let kept = store.get(&Path::from("c/a.parquet")).await.unwrap().bytes().await.unwrap();
        assert_eq!(kept, "one");
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
