//! Writing segments: from CSV and from record batches.

use std::{fs::File, io::BufReader, path::Path, sync::Arc};

use arrow::{
    array::RecordBatch,
    csv::{ReaderBuilder, reader::Format},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use parquet::{
    arrow::{ArrowSchemaConverter, ArrowWriter},
    basic::{Compression, Type, ZstdLevel},
    errors::ParquetError,
    file::properties::{EnabledStatistics, WriterProperties},
};
use pointsman_ids::{Result, catalog::Column};

use super::{
    Inspection,
    columns::{check_columns, columns, schema},
    inspect::inspect_parquet,
    invalid, misfit, quotes,
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
    let open = || File::open(csv).map(BufReader::new).map_err(|error| failed(&error));
    quotes::check(open()?, csv.display())?;
    let format = Format::default().with_header(true);
    let (inferred, _) = format.infer_schema(open()?, None).map_err(|error| failed(&error))?;
    if inferred.fields().is_empty() {
        return Err(failed(&"the file has no header"));
    }
    let schema = Arc::new(match wanted {
        Some(wanted) => in_order(&inferred, wanted).map_err(|error| error.context(csv.display()))?,
        None => with_text_for_nothing(&inferred),
    });
    let misfit = || misfit::find(csv, &schema).map_err(|error| failed(&error));
    if schema.fields().iter().any(|field| misfit::is_lossy(field.data_type()))
        && let Some(misfit) = misfit()?
    {
        return Err(failed(&misfit));
    }
    let rows = ReaderBuilder::new(Arc::clone(&schema))
        .with_header(true)
        .build(open()?)
        .map_err(|error| failed(&error))?;
    match write(parquet, Arc::clone(&schema), rows.map(|batch| batch.map_err(ParquetError::from))) {
        Ok(()) => inspect_parquet(parquet),
        // The reader's own words count neither lines nor columns as people do.
        Err(error) => Err(match misfit() {
            Ok(Some(misfit)) => failed(&misfit),
            _ => failed(&error),
        }),
    }
}

/// A column without any value can become anything later, and text can hold anything.
fn with_text_for_nothing(inferred: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Null => field.as_ref().clone().with_data_type(DataType::Utf8),
        _ => field.as_ref().clone(),
    };
    Schema::new(inferred.fields().iter().map(field).collect::<Vec<_>>())
}

/// The wanted columns in the order of the header.
fn in_order(header: &Schema, wanted: &[Column]) -> Result<Schema> {
    let wanted_schema = schema(wanted)?;
    if let Some(list) = wanted_schema.fields().iter().find(|field| field.data_type().is_nested()) {
        let why = format!("type {} has no form in CSV; push Parquet instead", list.data_type());
        return Err(invalid(format!("column '{}'", list.name()), why));
    }
    let field = |own: &Arc<Field>| {
        wanted_schema.field_with_name(own.name()).cloned().unwrap_or_else(|_| own.as_ref().clone())
    };
    let ordered = Schema::new(header.fields().iter().map(field).collect::<Vec<_>>());
    check_columns(wanted, &columns(&ordered))?;
    Ok(ordered)
}

/// Writes batches as one Parquet file with exact statistics; floating point has none, because bounds in a file do not
/// tell of NaN.
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

pub(super) fn write(
    path: &Path,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ParquetError>>,
) -> Result<(), ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_truncate_length(None);
    for column in ArrowSchemaConverter::new().convert(&schema)?.columns() {
        // The format leaves NaN out of bounds, so a reader that trusts them loses it.
        if matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE) {
            properties =
                properties.set_column_statistics_enabled(column.path().clone(), EnabledStatistics::None);
        }
    }
    let properties = properties.build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema, Some(properties))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

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

    #[test]
    fn a_column_without_values_is_text() {
        for text in ["id,note\n1,\n2,\n", "id,note\n"] {
            let found = convert(text, None).expect("a file");
            assert_eq!(found.columns[1], column("note", "Utf8"), "{text:?}");
        }
        let found = convert("id,note\n1,\n", None).expect("a file");
        convert("id,note\n2,important\n", Some(&found.columns)).expect("later values fit");
    }

    #[test]
    fn no_value_is_lost_or_changed_unseen() {
        for (data_type, bad) in [
            ("Int8", "300"),
            ("Int64", "9223372036854775808"),
            ("Int64", "1.5"),
            ("UInt16", "-1"),
            ("Float64", "1e400"),
            ("Float32", "1e39"),
            ("Float64", "1,5"),
            ("Decimal128(5, 2)", "1.239"),
            ("Decimal128(5, 2)", "1234.5"),
            ("Date32", "2024-02-30"),
            ("Date32", "soon"),
            ("Boolean", "maybe"),
            ("Timestamp(ms)", "2024-02-29 25:00:00"),
            ("Timestamp(ms)", "noon"),
        ] {
            let wanted = [column("k", "Utf8"), column("v", data_type)];
            let text = format!("k,v\n\"two\nlines\",\n,\"{bad}\"\n");
            let refused = convert(&text, Some(&wanted)).expect_err(bad);
            let message = refused.message();
            assert!(
                message.contains("t.csv") && message.contains("line 4, column 'v': wanted"),
                "{data_type} {bad}: {message}"
            );
            assert!(message.contains(&format!("got '{bad}'")), "{message}");
        }
        let wanted = [Column { nullable: false, ..column("v", "Int64") }, column("k", "Utf8")];
        let message = convert("v,k\n1,a\n,b\n", Some(&wanted)).expect_err("null").message().to_owned();
        assert!(message.contains("line 3, column 'v'"), "{message}");
    }

    #[test]
    fn damaged_rows_are_named_by_their_line() {
        let refused = |text: &str| convert(text, None).expect_err(text).message().to_owned();
        assert!(refused("id,name\n1,\"unterminated\n2,y\n").contains("line 2"));
        assert!(refused("a,b\n1,2\n1\n").contains("line 3"));
        assert!(refused("a,b\n\"1\n\",2\n1,2,3\n").contains("line 4"));
    }

    #[test]
    fn files_have_no_bounds_of_floating_point() {
        let folder = tempfile::tempdir().expect("a folder");
        let (csv, parquet) = (folder.path().join("t.csv"), folder.path().join("t.parquet"));
        std::fs::write(&csv, "n,v\n1,NaN\n2,1.5\n").expect("written");
        csv_to_parquet(&csv, &parquet, None).expect("a file");
        let file = SerializedFileReader::new(File::open(&parquet).expect("a file")).expect("Parquet");
        let group = file.metadata().row_group(0);
        assert!(group.column(0).statistics().is_some());
        assert!(group.column(1).statistics().is_none());
    }
}
