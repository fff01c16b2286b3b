//! `pointsman metastore`: backup, restore and move of what coordinators store. It speaks to the database, not to a
//! coordinator.

use std::{
    fs::{self, File},
    io::Seek as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use pointsman_metastore::{BackupError, BackupSummary};
use pointsman_settings::CoordinatorSettings;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::{Exit, Failure, args::Target, output};

const BACKUP_EXAMPLES: &str = "\
Examples:
  pointsman metastore backup meta.backup
  pointsman metastore backup meta.backup --config /etc/pointsman/coordinator.toml
  pointsman metastore backup meta.backup --metastore postgres://pointsman@db.example/pointsman

Coordinators may be active meanwhile: the backup is of one moment. Back up the object store too, after the metastore.";

const CHECK_EXAMPLES: &str = "\
Example:
  pointsman metastore check meta.backup

Reads the file from beginning to end. A file that is cut or damaged is refused, and the text says where.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  pointsman metastore restore meta.backup --config /etc/pointsman/coordinator.toml
  pointsman metastore restore meta.backup --metastore sqlite:/var/lib/pointsman/meta.db --force

All of it is restored, or nothing. Stop all coordinators first. An older backup is brought up to date, and one of SQLite
may be restored into PostgreSQL and the other way round.";

const COPY_EXAMPLES: &str = "\
Example:
  pointsman metastore copy --from sqlite:/var/lib/pointsman/meta.db --to postgres://pointsman@db.example/pointsman

Stop all coordinators first, and give them the new metastore afterwards.";

/// What coordinators store, without a coordinator: backup, restore, and the way from SQLite to PostgreSQL.
#[derive(Debug, Subcommand)]
pub(crate) enum MetastoreCommand {
    /// Write everything that the metastore holds into a file
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(BackupArgs),
    /// Read a backup and say what it holds
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Put what a backup holds into an empty metastore
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Copy one metastore into another, empty one
    #[command(after_help = COPY_EXAMPLES)]
    Copy(CopyArgs),
}

/// Which metastore.
#[derive(Debug, Args)]
struct Place {
    /// The metastore: postgres://... or sqlite:path [default: what the coordinator's settings name]
    #[arg(long, value_name = "URL", env = "POINTSMAN_COORDINATOR__METASTORE", hide_env_values = true)]
    metastore: Option<String>,
    /// Settings of the coordinator, unless --metastore is given [default: config/coordinator.toml of the data directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Options of `metastore backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file; it must not be there yet
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `metastore check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `metastore restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The file
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Also into a metastore that is not empty: what it holds is replaced
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `metastore copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The metastore that is read
    #[arg(long, value_name = "URL")]
    from: String,
    /// The metastore that is written
    #[arg(long, value_name = "URL")]
    to: String,
    /// Also into a metastore that is not empty: what it holds is replaced
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(command: MetastoreCommand, target: &Target) -> anyhow::Result<Exit> {
    let (summary, json) = match command {
        MetastoreCommand::Backup(args) => (backup(&args.file, &args.place.url(target)?).await?, args.json),
        MetastoreCommand::Check(args) => {
            let mut file = open(&args.file)?;
            (told(pointsman_metastore::check(&mut file), &args.file)?, args.json)
        }
        MetastoreCommand::Restore(args) => {
            let mut file = open(&args.file)?;
            // A file that is not whole touches nothing, not even a database that would be created for it.
            told(pointsman_metastore::check(&mut file), &args.file)?;
            file.rewind().with_context(|| format!("reading {}", args.file.display()))?;
            let restored =
                pointsman_metastore::restore(&args.place.url(target)?, &mut file, args.force).await;
            (told(restored, &args.file)?, args.json)
        }
        MetastoreCommand::Copy(args) => {
            let copied = pointsman_metastore::copy(&args.from, &args.to, args.force).await;
            (copied.map_err(|error| failure(&error))?, args.json)
        }
    };
    if json {
        output::json(&to_json(&summary))?
    } else {
        output::line(to_text(&summary))?
    }
    Ok(Exit::Ok)
}

/// The file is whole and on the disk, or it is not there.
async fn backup(path: &Path, url: &str) -> anyhow::Result<BackupSummary> {
    let named = || format!("writing {}", path.display());
    if path.exists() {
        let text = format!("{} is there already; name another file, or move it away", path.display());
        return Err(Failure::Failed(text).into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).with_context(named)?;
    let summary =
        pointsman_metastore::backup(url, file.as_file_mut()).await.map_err(|error| failure(&error))?;
    file.as_file().sync_all().with_context(named)?;
    file.persist_noclobber(path).with_context(named)?;
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(named)?;
    Ok(summary)
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("reading {}", path.display()))
}

fn told(result: Result<BackupSummary, BackupError>, path: &Path) -> anyhow::Result<BackupSummary> {
    result.map_err(|error| failure(&error)).with_context(|| path.display().to_string())
}

fn failure(error: &BackupError) -> Failure {
    let text = pointsman_telemetry::chain(error);
    match error {
        BackupError::Metastore(store) if store.is_passing() => Failure::Unreachable(text),
        BackupError::Held { .. } => Failure::NotReady(text),
        _ => Failure::Failed(text),
    }
}

impl Place {
    fn url(&self, target: &Target) -> anyhow::Result<String> {
        if let Some(url) = &self.metastore {
            return Ok(url.clone());
        }
        let usual = target.data_dir.join("config").join("coordinator.toml");
        let Some(path) = self.config.clone().or_else(|| usual.is_file().then_some(usual.clone())) else {
            let text = format!(
                "which metastore? --metastore names it, --config the settings of the coordinator; {} is not there",
                usual.display()
            );
            return Err(Failure::Usage(text).into());
        };
        let toml = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let settings = CoordinatorSettings::load(&toml, pointsman_settings::environment());
        let settings = settings.with_context(|| path.display().to_string())?;
        Ok(settings.metastore.expose().to_owned())
    }
}

fn to_json(summary: &BackupSummary) -> serde_json::Value {
    json!({ "epoch": summary.epoch, "taken_at_ms": summary.taken_at, "rows": summary.rows })
}

fn to_text(summary: &BackupSummary) -> String {
    let count = |table: &str| summary.rows.get(table).copied().unwrap_or_default();
    let (tables, rows) = (summary.rows.len(), summary.rows.values().sum::<u64>());
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(summary.taken_at);
    format!(
        "{rows} rows of {tables} tables: {} collections, {} segments, {} loads, {} nodes; epoch {}, of {}",
        count("collections"),
        count("segments"),
        count("loads"),
        count("nodes"),
        summary.epoch,
        humantime::format_rfc3339_seconds(time)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_told_in_one_line() {
        let rows =
            [("collections", 2), ("segments", 30), ("nodes", 4)].map(|(name, rows)| (name.to_owned(), rows));
        let summary = BackupSummary { epoch: 7, taken_at: 1_800_000_000_000, rows: rows.into() };
        assert_eq!(
            to_text(&summary),
            "36 rows of 3 tables: 2 collections, 30 segments, 0 loads, 4 nodes; epoch 7, of 2027-01-15T08:00:00Z"
        );
    }

    #[test]
    fn the_metastore_is_the_one_that_the_settings_name() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target { data_dir: folder.path().to_owned(), ..Target::default() };
        let none = Place { metastore: None, config: None };
        let error = none.url(&target).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Usage);
        let config = folder.path().join("config");
        fs::create_dir(&config).unwrap();
        fs::write(config.join("coordinator.toml"), "[coordinator]\nmetastore = 'sqlite:a.db'\n").unwrap();
        assert_eq!(none.url(&target).unwrap(), "sqlite:a.db");
        let given = Place { metastore: Some("sqlite:b.db".into()), config: None };
        assert_eq!(given.url(&target).unwrap(), "sqlite:b.db");
    }

    #[tokio::test]
    async fn a_restore_that_is_refused_leaves_no_database() {
        let folder = tempfile::tempdir().unwrap();
        let (file, database) = (folder.path().join("cut.backup"), folder.path().join("new.db"));
        fs::write(&file, "no backup").unwrap();
        let place = Place { metastore: Some(format!("sqlite:{}", database.display())), config: None };
        let args = RestoreArgs { file, place, force: false, json: false };
        let error = run(MetastoreCommand::Restore(args), &Target::default()).await.unwrap_err();
        assert!(format!("{error:#}").contains("cut.backup"), "{error:#}");
        assert!(!database.exists(), "it was touched");
    }
}
