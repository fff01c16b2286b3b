//! The columns of a collection as requests see them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pointsman_ids::{Error, ErrorCode, Result, near, request::Table};

use crate::values::read_as;

/// The columns of a collection, with their types.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) collection: String,
    /// As conditions see them: text and bytes as views.
    pub(super) schema: SchemaRef,
}

impl Columns {
    /// # Errors
    /// `service_internal` naming a column whose type this version does not know.
    pub(super) fn of(table: &Table) -> Result<Self> {
        let field = |column: &pointsman_ids::catalog::Column| {
            let data_type = column.data_type.parse::<DataType>().map_err(|error| {
                let (name, known) = (&column.name, &column.data_type);
                let why = format!(
                    "collection '{}', column '{name}': type '{known}' is not known here: {error}",
                    table.collection
                );
                Error::new(ErrorCode::ServiceInternal, why)
            })?;
            Ok(Field::new(&column.name, read_as(data_type), column.nullable))
        };
        let fields = table.columns.iter().map(field).collect::<Result<Vec<_>>>()?;
        Ok(Self { collection: table.collection.to_string(), schema: Arc::new(Schema::new(fields)) })
    }

    pub(super) fn field(&self, at: usize) -> &Field {
        self.schema.field(at)
    }

    /// The place of a column.
    ///
    /// # Errors
    /// `column_not_found` with the names that come near.
    pub(super) fn place(&self, name: &str) -> Result<usize> {
        self.schema.index_of(name).map_err(|_| {
            let why = format!(
                "collection '{}' has no column '{}'; {}",
                self.collection,
                name.escape_debug(),
                near(name, self.schema.fields().iter().map(|field| field.name().as_str()), "it has none")
            );
            Error::new(ErrorCode::ColumnNotFound, why)
        })
    }

    /// The column as answers have it.
    pub(super) fn answered(&self, at: usize) -> Field {
        let field = self.field(at);
        Field::new(field.name(), answered_as(field.data_type()), field.is_nullable())
    }
}

/// The type that answers have for a column: text and bytes without views, which every reader of Arrow knows and which
/// hold nothing but their own rows, and values instead of dictionaries, which differ from segment to segment.
fn answered_as(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, values) => answered_as(values),
        other => other.clone(),
    }
}

/// Whether a column holds vectors, of whatever numbers.
pub(super) fn is_vectors(field: &Field) -> bool {
    matches!(field.data_type(), DataType::FixedSizeList(item, _) if item.data_type().is_floating())
}

/// Dimensions of a column of vectors, at least 1.
///
/// # Errors
/// `parameter_invalid` for another column.
pub(super) fn dimensions(field: &Field) -> Result<usize> {
    if let DataType::FixedSizeList(item, dims) = field.data_type()
        && *item.data_type() == DataType::Float32
        && let Ok(dims @ 1..) = usize::try_from(*dims)
    {
        return Ok(dims);
    }
    let (name, data_type) = (field.name(), field.data_type());
    let why = format!(
        "column '{name}' holds {data_type}; searches take vectors of Float32, such as FixedSizeList(128 x Float32)"
    );
    Err(Error::new(ErrorCode::ParameterInvalid, why))
}
