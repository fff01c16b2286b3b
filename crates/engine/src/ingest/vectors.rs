//! Vectors in files that hold them as lists, as pandas and others write arrays of numbers: the file does not say that they
//! are of one length.

use std::{fs::File, path::Path, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader},
    compute::{CastOptions, cast, cast_with_options},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use parquet::{
    arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
    errors::ParquetError,
};
use pointsman_ids::{Result, catalog::Column};

use super::{Inspection, columns::data_type, csv::write, inspect::inspect_parquet, invalid};
use crate::values::read_as;

/// Writes a Parquet file anew, with vectors where the columns `wanted` have them and the file has lists of numbers. `None`:
/// there is no such column, and nothing was written.
///
/// # Errors
/// `parameter_invalid` that names the file, the column and the row of a list of another length.
pub fn vectors_from_lists(parquet: &Path, wanted: &[Column], to: &Path) -> Result<Option<Inspection>> {
    let failed = |error: ParquetError| invalid(parquet.display(), error);
    let reader = reader(parquet).map_err(failed)?;
    let file = reader.schema();
    let mut fields = file.fields().to_vec();
    for column in wanted {
        let vectors = read_as(data_type(column)?);
        let is_list =
            |field: &&mut Arc<Field>| field.name() == &column.name && holds_numbers(field.data_type());
        if let (Some(_), Some(field)) = (width(&vectors), fields.iter_mut().find(is_list))
            && read_as(field.data_type().clone()) != vectors
        {
            *field = Arc::new(field.as_ref().clone().with_data_type(vectors));
        }
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    if schema.fields() == file.fields() {
        return Ok(None);
    }
    let mut rows = 0;
    let mut misfit = None;
    let batches = reader.map(|batch| {
        let batch = batch?;
        let converted = converted(&batch, &schema, rows).map_err(|why| {
            misfit = Some(why.clone());
            ParquetError::General(why)
        })?;
        rows += batch.num_rows();
        Ok(converted)
    });
    let written = write(to, Arc::clone(&schema), batches);
    match (written, misfit) {
        (Ok(()), _) => inspect_parquet(to).map(Some),
        (Err(_), Some(why)) => Err(invalid(parquet.display(), why)),
        (Err(error), None) => Err(failed(error)),
    }
}

/// The columns of a Parquet file, with vectors instead of lists in the columns `named`. How long they are is what the first
/// list says.
///
/// # Errors
/// `parameter_invalid` that names the file, and a column whose first list is empty, or that has none.
pub fn with_vector_types(parquet: &Path, columns: Vec<Column>, named: &[&str]) -> Result<Vec<Column>> {
    let typed = |column: Column| {
        let own = data_type(&column)?;
        if !named.contains(&column.name.as_str())
            || width(&read_as(own.clone())).is_some()
            || !holds_numbers(&own)
        {
            return Ok(column);
        }
        let first = first_length(parquet, &column.name).map_err(|error| invalid(parquet.display(), error))?;
        let Some(width) = first.filter(|width| *width > 0) else {
            let why = format!(
                "column '{}' holds no list that says how long its vectors are; create the collection with --column '{0} \
                 vector(N)'",
                column.name
            );
            return Err(invalid(parquet.display(), why));
        };
        let item = Field::new_list_field(DataType::Float32, true);
        Ok(Column { data_type: DataType::FixedSizeList(item.into(), width).to_string(), ..column })
    };
    columns.into_iter().map(typed).collect()
}

fn reader(parquet: &Path) -> Result<ParquetRecordBatchReader, ParquetError> {
    ParquetRecordBatchReaderBuilder::try_new(File::open(parquet)?)?.build()
}

/// Components of each vector; `None`: the type holds none.
fn width(data_type: &DataType) -> Option<i32> {
    match data_type {
        DataType::FixedSizeList(item, width) if *item.data_type() == DataType::Float32 => Some(*width),
        _ => None,
    }
}

/// Whether values are lists of numbers.
fn holds_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_numeric()
        }
        _ => false,
    }
}

/// The length of the first list of a column.
fn first_length(parquet: &Path, column: &str) -> Result<Option<i32>, ParquetError> {
    for batch in reader(parquet)? {
        let batch = batch?;
        let Some(lists) = batch.column_by_name(column) else { return Ok(None) };
        if let Some(row) = (0..lists.len()).find(|row| lists.is_valid(*row)) {
            return Ok(lengths(lists)?.nth(row).and_then(|length| i32::try_from(length).ok()));
        }
    }
    Ok(None)
}

fn lengths(lists: &ArrayRef) -> Result<Box<dyn Iterator<Item = i64>>, ParquetError> {
    let item = |item: &Arc<Field>| DataType::LargeList(Arc::clone(item));
    let large = match lists.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => item(field),
        other => return Err(ParquetError::General(format!("{other} is no list"))),
    };
    let lists = cast(lists, &large)?.as_list::<i64>().clone();
    Ok(Box::new((0..lists.len()).map(move |row| lists.value_length(row))))
}

/// The batch in another schema; `first` is the number of its first row.
fn converted(batch: &RecordBatch, schema: &SchemaRef, first: usize) -> Result<RecordBatch, String> {
    let column = |(array, field): (&ArrayRef, &Arc<Field>)| {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        let name = field.name();
        if let Some(width) = width(field.data_type()) {
            let mut lengths = lengths(array).map_err(|error| error.to_string())?.enumerate();
            let differs = |(row, length): &(usize, i64)| array.is_valid(*row) && *length != i64::from(width);
            if let Some((row, length)) = lengths.find(differs) {
                return Err(format!(
                    "row {}, column '{name}': a vector of {length} components, and those of the collection have {width}",
                    first + row + 1
                ));
            }
        }
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, field.data_type(), &strict)
            .map_err(|error| format!("column '{name}': {error}"))
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{FixedSizeListArray, Int64Array, ListArray},
        datatypes::{Float32Type, Float64Type},
    };

    use super::*;
    use crate::ingest::write_parquet;

    /// A file with numbers of rows and lists of these lengths.
    fn file(folder: &Path, lengths: &[Option<usize>]) -> std::path::PathBuf {
        let list = |length: &Option<usize>| length.map(|length| (0..length).map(|at| Some(at as f64)));
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(lengths.iter().map(list));
        let ids = Int64Array::from_iter_values(0..lengths.len() as i64);
        let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("v", Arc::new(lists))];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
        let batch = batch.expect("a batch");
        let path = folder.join("lists.parquet");
        write_parquet(&path, batch.schema(), [batch]).expect("written");
        path
    }

    fn wanted(vectors: &str) -> Vec<Column> {
        let column = |name: &str, data_type: &str| Column {
            name: name.into(),
            data_type: data_type.into(),
            nullable: true,
        };
        vec![column("id", "Int64"), column("v", vectors)]
    }

    #[test]
    fn lists_of_one_length_become_vectors() {
        let folder = tempfile::tempdir().expect("a folder");
        let (lists, to) = (file(folder.path(), &[Some(3), None, Some(3)]), folder.path().join("v.parquet"));
        let columns = inspect_parquet(&lists).expect("a file").columns;
        assert_eq!(columns[1].data_type, "List(Float64)");
        let typed = with_vector_types(&lists, columns.clone(), &["v"]).expect("types");
        assert_eq!(typed, wanted("FixedSizeList(3 x Float32)"));
        assert_eq!(with_vector_types(&lists, columns.clone(), &["id"]).expect("types"), columns);

        assert_eq!(vectors_from_lists(&lists, &columns, &to).expect("nothing to do"), None);
        let found = vectors_from_lists(&lists, &typed, &to).expect("a file").expect("something to do");
        assert_eq!((found.columns, found.rows), (typed.clone(), 3));
        let batch = reader(&to).expect("a file").next().expect("a batch").expect("rows");
        let vector = |row: usize| (row != 1).then(|| [0.0, 1.0, 2.0].map(Some).to_vec());
        let expected = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>((0..3).map(vector), 3);
        assert_eq!(batch.column(1).as_fixed_size_list(), &expected);
        assert_eq!(vectors_from_lists(&to, &typed, &lists).expect("nothing to do"), None);
    }

    #[test]
    fn a_list_of_another_length_is_named_by_its_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let (lists, to) = (file(folder.path(), &[Some(3), Some(2)]), folder.path().join("v.parquet"));
        let error =
            vectors_from_lists(&lists, &wanted("FixedSizeList(3 x Float32)"), &to).expect_err("it differs");
        let told = "row 2, column 'v': a vector of 2 components, and those of the collection have 3";
        assert!(error.message().contains("lists.parquet") && error.message().contains(told), "{error}");
        for nothing in [file(folder.path(), &[None]), file(folder.path(), &[Some(0)])] {
            let columns = inspect_parquet(&nothing).expect("a file").columns;
            let error = with_vector_types(&nothing, columns, &["v"]).expect_err("nothing says how long");
            assert!(error.message().contains("'v vector(N)'"), "{error}");
        }
    }
}
