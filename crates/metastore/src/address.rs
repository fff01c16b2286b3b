//! Where a metastore is: its URL taken apart, and what helps when nothing is there.

use std::{
    io,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sqlx::{
    ConnectOptions,
    postgres::PgConnectOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{Error, Result};

/// What a URL should look like.
const LAWFUL: &str = "right are postgres://USER:PASSWORD@HOST:5432/DATABASE and sqlite:PATH";

/// A URL that names a metastore. Names are URLs without passwords.
#[derive(Debug)]
pub(crate) enum Address {
    Postgres { options: Box<PgConnectOptions>, name: String },
    Sqlite { path: String, name: String },
}

impl Address {
    /// # Errors
    /// `Url` when it names no metastore.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => Self::postgres(url),
            Some(("sqlite", path)) => Self::file(path.strip_prefix("//").unwrap_or(path)),
            // No more of the text than this: it may hold a password.
            Some((scheme, _)) => {
                Err(Error::Url(format!("a metastore's URL cannot begin with '{scheme}:'; {LAWFUL}")))
            }
            None => Err(Error::Url(format!("a metastore's URL begins with its kind; {LAWFUL}"))),
        }
    }

    /// Whether both are surely one metastore, however their paths are written.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite { path, .. }, Self::Sqlite { path: other, .. }) => {
                let real = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
                real(path) == real(other)
            }
            _ => self.name() == other.name(),
        }
    }

    fn postgres(url: &str) -> Result<Self> {
        let unreadable =
            |why: sqlx::Error| Error::Url(format!("the metastore's URL cannot be read: {why}; {LAWFUL}"));
        let options = PgConnectOptions::from_str(url).map_err(unreadable)?.application_name("pointsman");
        let Some(database) = options.get_database() else {
            return Err(Error::Url(format!("the metastore's URL names no database; {LAWFUL}")));
        };
        let (user, host, port) = (options.get_username(), options.get_host(), options.get_port());
        let name = format!("postgres://{user}@{host}:{port}/{database}");
        // Statements are not logged: those of a large push are large. Nor is every server's remark. None is worth being
        // compiled: they look into indexes, whatever the server guesses about a table that just grew.
        let options = options.options([("client_min_messages", "warning"), ("jit", "off")]);
        let options = options.disable_statement_logging();
        Ok(Self::Postgres { options: Box::new(options), name })
    }

    fn file(path: &str) -> Result<Self> {
        let name = format!("sqlite:{path}");
        if path.is_empty() || path == ":memory:" || path.contains('?') {
            return Err(Error::Url(format!(
                "'{name}' names no file for the metastore, and nothing else is taken; {LAWFUL}"
            )));
        }
        Ok(Self::Sqlite { path: path.to_owned(), name })
    }

    pub(crate) fn name(&self) -> &str {
        let (Self::Postgres { name, .. } | Self::Sqlite { name, .. }) = self;
        name
    }

    /// Why it cannot be opened, and what would help.
    pub(crate) fn refuse(&self, source: sqlx::Error) -> Error {
        let remedy = match self {
            Self::Postgres { .. } => postgres_remedy(&source),
            Self::Sqlite { .. } => sqlite_remedy(&source),
        };
        Error::Open { url: self.name().to_owned(), remedy, source }
    }
}

/// How an SQLite file is opened. Its folder is made if it may be.
///
/// # Errors
/// The folder cannot be made, or the path is one.
pub(crate) async fn sqlite(
    path: &str,
    busy: Duration,
    create: bool,
) -> Result<SqliteConnectOptions, sqlx::Error> {
    let path = prepare(Path::new(path), create).await?;
    Ok(SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(create)
        .journal_mode(SqliteJournalMode::Wal)
        // Nothing that was acknowledged is lost by a power failure.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(busy)
        .disable_statement_logging())
}

/// Makes the file's folder. The path becomes absolute, so that SQLite does not take it for one of its own URLs.
async fn prepare(path: &Path, create: bool) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if tokio::fs::metadata(&path).await.is_ok_and(|found| found.is_dir()) {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if let Some(folder) = path.parent().filter(|_| create) {
        tokio::fs::create_dir_all(folder).await?;
    }
    Ok(path)
}

fn postgres_remedy(error: &sqlx::Error) -> &'static str {
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    match &*code {
        "28P01" | "28000" => "check user, password and the server's pg_hba.conf",
        "3D000" => "create the database first: CREATE DATABASE",
        "42501" => "its user must own the database, or be allowed to create tables in it",
        _ => "check that PostgreSQL runs there and takes connections",
    }
}

fn sqlite_remedy(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
            "name a file inside the folder"
        }
        sqlx::Error::Io(_) => "check that its folder may be created and written",
        sqlx::Error::Database(error) if error.code().as_deref() == Some("26") => {
            "the file is no SQLite database; name another one, or move it away"
        }
        _ => "check that file and folder may be read and written, and that no other program holds the file",
    }
}
