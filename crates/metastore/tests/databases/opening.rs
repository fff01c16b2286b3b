//! URLs that name a metastore, and those that do not.

use std::time::{Duration, Instant};

use pointsman_metastore::{Error, OpenOptions, open};
use tempfile::TempDir;

async fn fails(url: &str) -> Error {
    let options = OpenOptions { acquire: Duration::from_secs(1), ..OpenOptions::default() };
    let error = open(url, options).await.expect_err("the URL names no metastore");
    assert!(!format!("{error} {error:?}").contains("secret"), "a password is shown: {error:?}");
    let error_of_house: pointsman_ids::Error = error.into();
    assert!(!error_of_house.message().contains("secret"), "{error_of_house}");
    open(url, options).await.expect_err("still")
}

#[tokio::test]
async fn a_url_of_another_kind_is_refused_with_the_lawful_ones() {
    for url in [
        "",
        "meta.db",
        "mysql://u:secret@h/db",
        "u:secret@h/db",
        "sqlite3:secret",
        "sqlite",
        "POSTGRES://h/secret",
    ] {
        let error = fails(url).await;
        assert!(matches!(error, Error::Url(_)), "{url}: {error:?}");
        assert!(
            error.to_string().contains("postgres://USER:PASSWORD@HOST:5432/DATABASE and sqlite:PATH"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_url_of_postgresql_that_cannot_be_read_is_refused() {
    for url in
        ["postgres://u:secret@h:port/db", "postgres://u:secret@h/db?sslmode=maybe", "postgres://u:secret@h"]
    {
        let error = fails(url).await;
        assert!(matches!(error, Error::Url(_)), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn sqlite_in_memory_or_with_options_is_refused() {
    for url in ["sqlite:", "sqlite://", "sqlite::memory:", "sqlite:a.db?mode=ro"] {
        let error = fails(url).await;
        assert!(error.to_string().contains("names no file for the metastore"), "{error}");
    }
}

#[tokio::test]
async fn an_sqlite_file_and_its_folders_are_made() {
    let folder = TempDir::new().unwrap();
    for (path, url) in [("a/b/meta.db", "sqlite:"), ("c/with space #1 %20.db", "sqlite://")] {
        let path = folder.path().join(path);
        open(&format!("{url}{}", path.display()), OpenOptions::default()).await.unwrap();
        assert!(path.is_file(), "{path:?}");
    }
}

#[tokio::test]
async fn a_folder_is_no_sqlite_file() {
    let folder = TempDir::new().unwrap();
    let error = fails(&format!("sqlite:{}", folder.path().display())).await;
    let text = pointsman_ids::Error::from(error).to_string();
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    assert!(text.contains("name a file inside the folder"), "{text}");
}

#[tokio::test]
async fn garbage_is_no_sqlite_file_and_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let garbage = "this is a letter, not a database. ".repeat(200);
    std::fs::write(&path, &garbage).unwrap();
    let error = fails(&format!("sqlite:{}", path.display())).await;
    assert!(error.to_string().contains("the file is no SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), garbage);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = fails(&format!("sqlite:{}/meta.db", file.display())).await;
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    assert!(error.to_string().contains("check that its folder may be created"), "{error}");
}

#[tokio::test]
async fn an_sqlite_file_that_may_not_be_written_is_named() {
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("meta.db");
    // Also the superuser, for whom permissions mean nothing, cannot make a file there.
    std::os::unix::fs::symlink("/proc/meta.db", &link).unwrap();
    let error = fails(&format!("sqlite:{}", link.display())).await;
    assert!(error.to_string().contains("may be read and written"), "{error}");
}

#[tokio::test]
async fn nobody_at_the_address_is_told_soon() {
    let port = pointsman_testkit::free_port().unwrap();
    let begin = Instant::now();
    let error = fails(&format!("postgres://u:secret@127.0.0.1:{port}/db")).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let expected = format!(
        "the metastore 'postgres://u@127.0.0.1:{port}/db' cannot be opened (check that PostgreSQL runs there and takes connections)"
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(pointsman_ids::Error::from(error).code(), pointsman_ids::ErrorCode::ServiceNotReady);
}

#[tokio::test]
async fn a_silent_server_is_told_soon() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u:secret@{}/db", listener.local_addr().unwrap());
    let begin = Instant::now();
    let error = fails(&url).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
}
