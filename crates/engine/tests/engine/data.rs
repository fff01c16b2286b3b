//! TPC-H at scale 0.01 as Parquet segments.

use std::path::{Path, PathBuf};

use pointsman_engine::{ingest, tpch::TABLES};
use pointsman_ids::catalog::{Column, ColumnStatistics};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RecordBatchIterator,
    RegionArrow, SupplierArrow,
};

const SCALE: f64 = 0.01;

/// A table with its files.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) files: Vec<DataFile>,
}

/// A file that is to be a segment.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) statistics: std::collections::BTreeMap<String, ColumnStatistics>,
}

/// Writes all tables below `root`, one folder each.
pub(crate) fn write(root: &Path) -> Vec<Table> {
    TABLES.iter().map(|name| table(root, name)).collect()
}

fn table(root: &Path, name: &str) -> Table {
    let folder = root.join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let parts = match name {
        "nation" | "region" => 1,
        "lineitem" | "orders" => 6,
        _ => 4,
    };
    let paths: Vec<_> = (1..=parts)
        .map(|part| {
            let batches = batches(name, part, parts);
            let path = folder.join(format!("part-{part}.parquet"));
            let schema = batches.schema().clone();
            ingest::write_parquet(&path, schema, batches).expect("a Parquet file");
            path
        })
        .collect();
    from_files(name, paths)
}

/// The table that these files make.
pub(crate) fn from_files(name: &str, paths: Vec<PathBuf>) -> Table {
    let mut columns = vec![];
    let files = paths.into_iter().map(|path| {
        let found = ingest::inspect_parquet(&path).expect("a Parquet file");
        columns = found.columns;
        let bytes = std::fs::metadata(&path).expect("a file").len();
        DataFile { path, bytes, rows: found.rows, statistics: found.statistics }
    });
    let files = files.collect();
    Table { name: name.into(), columns, files }
}

fn batches(name: &str, part: i32, parts: i32) -> Box<dyn RecordBatchIterator> {
    match name {
        "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(SCALE, part, parts))),
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(SCALE, part, parts))),
        "nation" => Box::new(NationArrow::new(NationGenerator::new(SCALE, part, parts))),
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(SCALE, part, parts))),
        "part" => Box::new(PartArrow::new(PartGenerator::new(SCALE, part, parts))),
        "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(SCALE, part, parts))),
        "region" => Box::new(RegionArrow::new(RegionGenerator::new(SCALE, part, parts))),
        "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(SCALE, part, parts))),
        other => panic!("no table '{other}'"),
    }
}
