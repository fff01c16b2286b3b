//! Writing segments: from CSV and from record batches.

use std::{
    fs::File,
    io::{BufReader, Seek},
    path::Path,
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    csv::{ReaderBuilder, reader::Format},
    datatypes::{Field, Schema, SchemaRef},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use pointsman_ids::{Result, catalog::Column};

use super::{
    Inspection,
    columns::{check_columns, columns, schema},
    inspect::inspect_parquet,
    invalid,
};

/// Rows per row group: small enough that several cores share a segment and filters skip parts of it.
const ROW_GROUP_ROWS: usize = 128 << 10;

/// Writes a CSV file with a header as Parquet. Types are those of `wanted`, or what the values look like where it is
/// `None`: then every column may be null.
///
/// # Errors
/// `parameter_invalid` that names the file and the line and column of a value that does not fit, or the column that
/// is missing or too much; the same for files that cannot be read or written.
pub fn csv_to_parquet(csv: &Path, parquet: &Path, wanted: Option<&[Column]>) -> Result<Inspection> {
    let failed = |error: &dyn std::fmt::Display| invalid(csv.display(), error);
    let mut file = BufReader::new(File::open(csv).map_err(|error| failed(&error))?);
    let format = Format::default().with_header(true);
    let (inferred, _) = format.infer_schema(&mut file, None).map_err(|error| failed(&error))?;
    if inferred.fields().is_empty() {
        return Err(failed(&"the file has no header"));
    }
    let schema = Arc::new(match wanted {
        Some(wanted) => in_order(&inferred, wanted).map_err(|error| error.context(csv.display()))?,
        None => inferred,
    });
    file.rewind().map_err(|error| failed(&error))?;
    let rows = ReaderBuilder::new(Arc::clone(&schema))
        .with_header(true)
        .build(file)
        .map_err(|error| failed(&error))?;
    write(parquet, schema, rows.map(|batch| batch.map_err(ParquetError::from)))
        .map_err(|error| failed(&error))?;
    inspect_parquet(parquet)
}

/// The wanted columns in the order of the header.
fn in_order(header: &Schema, wanted: &[Column]) -> Result<Schema> {
    let wanted_schema = schema(wanted)?;
    let field = |own: &Arc<Field>| {
        wanted_schema.field_with_name(own.name()).cloned().unwrap_or_else(|_| own.as_ref().clone())
    };
    let ordered = Schema::new(header.fields().iter().map(field).collect::<Vec<_>>());
    check_columns(wanted, &columns(&ordered))?;
    Ok(ordered)
}

/// Writes batches as one Parquet file with exact statistics.
///
/// # Errors
/// `parameter_invalid` that names the file and what went wrong.
pub fn write_parquet(
    path: &Path,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = RecordBatch>,
) -> Result<()> {
    write(path, schema, batches.into_iter().map(Ok)).map_err(|error| invalid(path.display(), error))
}

fn write(
    path: &Path,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ParquetError>>,
) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_truncate_length(None)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema, Some(properties))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(text: &str, wanted: Option<&[Column]>) -> Result<Inspection> {
        let folder = tempfile::tempdir().expect("a folder");
        let (csv, parquet) = (folder.path().join("t.csv"), folder.path().join("t.parquet"));
        std::fs::write(&csv, text).expect("written");
        csv_to_parquet(&csv, &parquet, wanted)
    }

    fn column(name: &str, data_type: &str) -> Column {
        Column { name: name.into(), data_type: data_type.into(), nullable: true }
    }

    #[test]
    fn types_are_inferred() {
        let found = convert("n,x,t,d\n1,1.5,a,2024-02-29\n,,,\n", None).expect("a file");
        let types: Vec<_> = found.columns.iter().map(|column| column.data_type.as_str()).collect();
        assert_eq!(types, ["Int64", "Float64", "Utf8", "Date32"]);
        assert_eq!((found.rows, found.statistics["n"].nulls), (2, Some(1)));
    }

    #[test]
    fn wanted_types_win_and_order_is_the_headers() {
        let wanted = [column("a", "Utf8"), column("b", "Decimal128(10, 2)")];
        let found = convert("b,a\n1.25,7\n", Some(&wanted)).expect("a file");
        assert_eq!(found.columns, [column("b", "Decimal128(10, 2)"), column("a", "Utf8")]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let refused =
            |text: &str, wanted: &[Column]| convert(text, Some(wanted)).expect_err(text).message().to_owned();
        assert!(refused("a\n1\n", &[column("b", "Int64")]).contains("column 'b'"));
        let message = refused("a\n1\nx\n", &[column("a", "Int64")]);
        assert!(
            message.contains("t.csv") && message.contains("'x'") && message.contains("Int64"),
            "{message}"
        );
        assert!(convert("", None).is_err());
    }
}
