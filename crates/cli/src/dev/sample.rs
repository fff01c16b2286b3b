//! Sample data: TPC-H, generated at start.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use pointsman_engine::{ingest, tpch};
use pointsman_proto::coordinator::v1::LoadCollectionRequest;
use tpchgen::generators as generate;
use tpchgen_arrow::{self as arrow_rows, RecordBatchIterator};

use super::layout::Layout;
use crate::{
    Failure,
    client::Coordinator,
    commands::load,
    output,
    push::{self, Push},
};

/// Rows of one segment, about.
const SEGMENT_ROWS: f64 = 50_000.0;
/// The most segments of one table.
const MAX_SEGMENTS: f64 = 24.0;
/// Largest scale: about 100 GB of raw data.
const MAX_SCALE: f64 = 100.0;

/// How folders with generated files begin; each is deleted when its table is pushed.
const FOLDER: &str = "sample-";

/// A sample, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    scale: f64,
}

impl FromStr for Sample {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let scale = text.strip_prefix("tpch:").and_then(|scale| scale.parse().ok());
        match scale {
            Some(scale) if scale > 0.0 && scale <= MAX_SCALE => Ok(Self { scale }),
            _ => Err(Failure::Usage(format!(
                "'{text}' is no sample; write tpch:SCALE with a scale above 0 and at most {MAX_SCALE}, such as tpch:0.1"
            ))),
        }
    }
}

/// One segment that is to be generated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    table: &'static str,
    /// Stem of the file, which becomes the segment's name.
    name: String,
    part: i32,
    parts: i32,
}

impl Sample {
    /// Generates, pushes and loads what is not there yet.
    pub(super) async fn bring_in(self, coordinator: &Coordinator, layout: &Layout) -> anyhow::Result<()> {
        for table in tpch::TABLES {
            let pieces = self.pieces(table);
            if !self.is_there(coordinator, table, &pieces).await? {
                self.push(coordinator, layout, table, pieces).await?;
            }
            // Loads run while the next table is generated.
            let request = LoadCollectionRequest {
                collection: table.into(),
                resource_groups: layout.replicas.clone(),
                ..LoadCollectionRequest::default()
            };
            load::whole(coordinator, request).await?;
        }
        Ok(())
    }

    /// Whether the collection holds this sample already; other segments may be there as well.
    ///
    /// # Errors
    /// [`Failure::Failed`] when it holds a sample of another scale.
    async fn is_there(
        self,
        coordinator: &Coordinator,
        table: &str,
        pieces: &[Piece],
    ) -> anyhow::Result<bool> {
        if coordinator.collection_if_any(table).await?.is_none() {
            return Ok(false);
        }
        let segments = coordinator.segments(table).await?;
        let names: Vec<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
        if let Some(other) =
            names.iter().find(|name| is_sample(name) && !pieces.iter().any(|piece| piece.name == **name))
        {
            return Err(Failure::Failed(format!(
                "collection '{table}' holds segment '{other}' of a sample of another scale than {}; name another --data-dir, \
                 or leave --sample out",
                self.scale
            ))
            .into());
        }
        Ok(pieces.iter().all(|piece| names.contains(&piece.name.as_str())))
    }

    async fn push(
        self,
        coordinator: &Coordinator,
        layout: &Layout,
        table: &str,
        pieces: Vec<Piece>,
    ) -> anyhow::Result<()> {
        let folder = tempfile::Builder::new().prefix(FOLDER).tempdir_in(&layout.data_dir);
        let folder = folder.with_context(|| format!("making a folder in {}", layout.data_dir.display()))?;
        let files =
            stream::iter(pieces).map(|piece| {
                let file = folder.path().join(format!("{}.parquet", piece.name));
                async move {
                    tokio::task::spawn_blocking(move || self.generate(&piece, &file).map(|()| file)).await?
                }
            });
        let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let files: Vec<PathBuf> = files.buffered(at_once).try_collect().await?;
        let named: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let inputs = push::expand(&named)?;
        let push = Push { collection: table.to_owned(), partition: None, shard: None, inputs };
        let pushed =
            push::run(coordinator, push).await.with_context(|| format!("pushing the sample's {table}"))?;
        let (segments, rows) =
            (output::count(pushed.added, "segment"), output::count(pushed.rows_added, "row"));
        output::note(format_args!("{table}: {segments} with {rows} pushed"));
        Ok(())
    }

    /// The segments of a table: more for larger ones, and at least four of the two that queries lean on most.
    fn pieces(self, table: &'static str) -> Vec<Piece> {
        let least = match table {
            "nation" | "region" => return vec![self.piece(table, 1, 1)],
            "lineitem" | "orders" => 4.0,
            _ => 1.0,
        };
        let parts = (self.rows(table) / SEGMENT_ROWS).round().clamp(least, MAX_SEGMENTS) as i32;
        (1..=parts).map(|part| self.piece(table, part, parts)).collect()
    }

    fn piece(self, table: &'static str, part: i32, parts: i32) -> Piece {
        Piece { table, name: format!("sf{}-{part:02}-of-{parts:02}", self.scale), part, parts }
    }

    /// About so many rows.
    fn rows(self, table: &str) -> f64 {
        let at_scale_1 = match table {
            "lineitem" => 6_000_000.0,
            "orders" => 1_500_000.0,
            "partsupp" => 800_000.0,
            "part" => 200_000.0,
            "customer" => 150_000.0,
            _ => 10_000.0,
        };
        at_scale_1 * self.scale
    }

    fn generate(self, piece: &Piece, file: &Path) -> anyhow::Result<()> {
        let batches = self.batches(piece)?;
        let schema = batches.schema().clone();
        let written = ingest::write_parquet(file, schema, batches);
        written.with_context(|| format!("generating {} of {}", piece.name, piece.table))
    }

    fn batches(self, piece: &Piece) -> anyhow::Result<Box<dyn RecordBatchIterator>> {
        let Self { scale } = self;
        let Piece { table, part, parts, .. } = *piece;
        Ok(match table {
            "customer" => {
                Box::new(arrow_rows::CustomerArrow::new(generate::CustomerGenerator::new(scale, part, parts)))
            }
            "lineitem" => {
                Box::new(arrow_rows::LineItemArrow::new(generate::LineItemGenerator::new(scale, part, parts)))
            }
            "nation" => {
                Box::new(arrow_rows::NationArrow::new(generate::NationGenerator::new(scale, part, parts)))
            }
            "orders" => {
                Box::new(arrow_rows::OrderArrow::new(generate::OrderGenerator::new(scale, part, parts)))
            }
            "part" => Box::new(arrow_rows::PartArrow::new(generate::PartGenerator::new(scale, part, parts))),
            "partsupp" => {
                Box::new(arrow_rows::PartSuppArrow::new(generate::PartSuppGenerator::new(scale, part, parts)))
            }
            "region" => {
                Box::new(arrow_rows::RegionArrow::new(generate::RegionGenerator::new(scale, part, parts)))
            }
            "supplier" => {
                Box::new(arrow_rows::SupplierArrow::new(generate::SupplierGenerator::new(scale, part, parts)))
            }
            other => anyhow::bail!("TPC-H has no table '{other}'"),
        })
    }
}

/// Deletes generated files that a run left behind which was killed. The data directory must be locked.
///
/// # Errors
/// Those of the file system, naming the path.
pub(super) fn clear_away(data_dir: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(data_dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    for entry in entries.with_context(|| data_dir.display().to_string())? {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(FOLDER) && path.is_dir() && is_generated(&path) {
            std::fs::remove_dir_all(&path).with_context(|| format!("deleting {}", path.display()))?;
        }
    }
    Ok(())
}

/// Whether a folder holds nothing but files that [`Sample::push`] generates.
fn is_generated(folder: &Path) -> bool {
    let generated = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            entry.path().file_stem().is_some_and(|stem| is_sample(&stem.to_string_lossy()))
        })
    };
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.all(generated))
}

/// Whether a segment's name is one that [`Sample::piece`] gives.
fn is_sample(name: &str) -> bool {
    let parts = name.strip_prefix("sf").and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(scale, part)| scale.parse::<f64>().is_ok() && part.contains("-of-"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn samples_read_from_the_command_line() {
        assert_eq!("tpch:0.1".parse(), Ok(Sample { scale: 0.1 }));
        for text in ["", "tpch", "tpch:", "tpch:0", "tpch:-1", "tpch:NaN", "tpch:inf", "tpch:1000", "ssb:1"] {
            assert!(text.parse::<Sample>().unwrap_err().to_string().contains("tpch:0.1"), "{text}");
        }
    }

    #[test]
    fn larger_tables_have_more_segments() {
        let segments = |scale, table| Sample { scale }.pieces(table).len();
        assert_eq!((segments(0.1, "lineitem"), segments(0.1, "orders"), segments(0.1, "nation")), (12, 4, 1));
        assert_eq!((segments(0.01, "lineitem"), segments(0.01, "orders"), segments(0.01, "part")), (4, 4, 1));
        assert_eq!(segments(10.0, "lineitem"), 24);
    }

    #[test]
    fn names_tell_scales_apart() {
        let names = |scale| -> BTreeSet<String> {
            Sample { scale }.pieces("orders").into_iter().map(|piece| piece.name).collect()
        };
        assert_eq!(names(0.1).len(), 4);
        assert!(names(0.1).is_disjoint(&names(0.01)));
        assert!(names(0.1).iter().all(|name| is_sample(name)));
        assert!(!is_sample("orders-2026") && !is_sample("sfo-1-of-2"));
    }

    #[test]
    fn only_generated_files_that_stayed_behind_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        file("sample-aB3dE6/sf0.01-01-of-04.parquet");
        file("sample-mine/notes.txt");
        file("objects/sf0.01-01-of-04.parquet");
        clear_away(dir.path()).unwrap();
        assert!(!dir.path().join("sample-aB3dE6").exists());
        assert!(dir.path().join("sample-mine/notes.txt").exists());
        assert!(dir.path().join("objects/sf0.01-01-of-04.parquet").exists());
    }

    #[test]
    fn every_table_is_generated_whole() {
        let sample = Sample { scale: 0.001 };
        for table in tpch::TABLES {
            let rows = |pieces: Vec<Piece>| -> usize {
                pieces
                    .iter()
                    .flat_map(|piece| sample.batches(piece).unwrap())
                    .map(|batch| batch.num_rows())
                    .sum()
            };
            let whole = rows(vec![sample.piece(table, 1, 1)]);
            assert!(whole > 0, "{table}");
            assert_eq!(rows(sample.pieces(table)), whole, "{table}");
        }
    }
}
