//! The key of a collection: which column it is, how its values are ordered, and keys that a request brings.

use std::{collections::BTreeMap, fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
    row::{RowConverter, Rows, SortField},
};
use datafusion::{
    common::ScalarValue,
    physical_expr::{
        PhysicalExpr,
        expressions::{Column, Literal, in_list},
    },
};
use pointsman_ids::{Error, ErrorCode, Result, catalog::Value};

use super::{
    limits::answer_fits,
    pause,
    segment::{Pick, Segment},
    smallest::Smallest,
    table::Columns,
};
use crate::values::scalar;

/// The column that names rows.
#[derive(Clone)]
pub(super) struct KeyColumn {
    /// As answers have it.
    pub(super) field: Field,
    order: Arc<RowConverter>,
}

impl fmt::Debug for KeyColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyColumn").field("field", &self.field).finish_non_exhaustive()
    }
}

impl KeyColumn {
    /// # Errors
    /// `parameter_invalid` when the values of the column have no order.
    pub(super) fn new(columns: &Columns, column: usize) -> Result<Self> {
        let field = columns.answered(column);
        let data_type = field.data_type().clone();
        let no_order = || {
            let why = format!(
                "column '{}' of collection '{}' cannot be its key: values of {data_type} have no order",
                field.name(),
                columns.collection
            );
            Error::new(ErrorCode::ParameterInvalid, why)
        };
        if data_type.is_nested() {
            return Err(no_order());
        }
        let order = RowConverter::new(vec![last_nulls(data_type.clone())]).map_err(|_| no_order())?;
        Ok(Self { field, order: Arc::new(order) })
    }

    /// Values as bytes that compare as the values do, nothing last.
    pub(super) fn ordered(&self, values: &ArrayRef) -> Result<Rows> {
        self.order.convert_columns(std::slice::from_ref(values)).map_err(super::broken)
    }

    /// As [`Self::ordered`] for values of a file, which may lie there in another form. `None`: they are none of the column.
    pub(super) fn ordered_as(&self, values: &ArrayRef) -> Option<Rows> {
        self.ordered(&cast(values, self.field.data_type()).ok()?).ok()
    }

    /// The schema of the column alone.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![self.field.clone()]))
    }

    /// Offers some rows of a segment, ascending, by their keys.
    pub(super) async fn offer(&self, segment: &Segment, rows: &[u32], to: &mut Smallest) -> Result<()> {
        let mut keys = Keys::new(self, segment, rows)?;
        while let Some((rows, keys)) = keys.next()? {
            to.offer(0, rows.iter().copied(), Some(&keys))?;
            pause().await;
        }
        Ok(())
    }

    /// The keys of some rows of a segment, ascending.
    pub(super) async fn of_rows(&self, segment: &Segment, rows: &[u32]) -> Result<BTreeMap<u32, Box<[u8]>>> {
        let mut all = BTreeMap::new();
        let mut bytes = 0;
        let mut keys = Keys::new(self, segment, rows)?;
        while let Some((rows, keys)) = keys.next()? {
            bytes += keys.size();
            answer_fits(bytes)?;
            all.extend(rows.iter().zip(keys.iter()).map(|(row, key)| (*row, key.data().into())));
            pause().await;
        }
        Ok(all)
    }

    /// The keys of a request.
    ///
    /// # Errors
    /// `parameter_invalid` naming one that is none of the column, or that stands there twice.
    pub(super) fn asked(&self, keys: &[Value]) -> Result<Asked> {
        let scalars = keys.iter().enumerate().map(|(at, key)| self.one(key, at));
        let scalars = scalars.collect::<Result<Vec<_>>>()?;
        let values = ScalarValue::iter_to_array(scalars.iter().cloned()).map_err(super::broken)?;
        let ordered = self.ordered(&values)?;
        let mut places: Vec<(Box<[u8]>, u32)> =
            (ordered.iter().zip(0..)).map(|(row, at)| (row.data().into(), at)).collect();
        places.sort_unstable();
        if let Some([(_, first), (_, second)]) = places.array_windows().find(|[a, b]| a.0 == b.0) {
            let shown = keys.get(*first as usize).map(show).unwrap_or_default();
            let why = format!("keys {first} and {second} are both {shown}; ask for each key once");
            return Err(Error::new(ErrorCode::ParameterInvalid, why));
        }
        let column = Arc::new(Column::new(self.field.name(), 0));
        let literals =
            scalars.into_iter().map(|scalar| Arc::new(Literal::new(scalar)) as Arc<dyn PhysicalExpr>);
        let among = in_list(column, literals.collect(), &false, &self.schema()).map_err(super::broken)?;
        Ok(Asked { places: places.into(), among })
    }

    /// A key of a request as one of the column.
    fn one(&self, value: &Value, at: usize) -> Result<ScalarValue> {
        self.scalar(value).ok_or_else(|| {
            let (name, data_type) = (self.field.name(), self.field.data_type());
            let why = format!("key {at}, {}, is none of column '{name}', which is {data_type}", show(value));
            Error::new(ErrorCode::ParameterInvalid, why)
        })
    }

    fn scalar(&self, value: &Value) -> Option<ScalarValue> {
        if let Some(scalar) = scalar(value, self.field.data_type()) {
            return Some(scalar);
        }
        match value {
            // What JSON has no form for is written as text.
            Value::Text(text)
                if self.field.data_type().is_temporal() || self.field.data_type().is_decimal() =>
            {
                let parsed = ScalarValue::Utf8(Some(text.clone())).cast_to(self.field.data_type()).ok()?;
                (!parsed.is_null()).then_some(parsed)
            }
            #[expect(clippy::cast_precision_loss, reason = "whoever asks for 2 means 2.0")]
            Value::Integer(value) if self.field.data_type().is_floating() => {
                scalar(&Value::Float(*value as f64), self.field.data_type())
            }
            _ => None,
        }
    }
}

/// The order of keys: ascending, rows without one last.
pub(super) fn last_nulls(data_type: DataType) -> SortField {
    SortField::new_with_options(
        data_type,
        arrow::compute::SortOptions { descending: false, nulls_first: false },
    )
}

/// Keys of some rows, batch by batch.
struct Keys<'a> {
    column: &'a KeyColumn,
    pick: Option<Pick>,
    left: &'a [u32],
}

impl<'a> Keys<'a> {
    fn new(column: &'a KeyColumn, segment: &Segment, rows: &'a [u32]) -> Result<Self> {
        let pick = (!rows.is_empty()).then(|| segment.pick(&column.schema(), rows)).transpose()?;
        Ok(Self { column, pick, left: rows })
    }

    fn next(&mut self) -> Result<Option<(&'a [u32], Rows)>> {
        let Some(batch) = self.pick.as_mut().map_or(Ok(None), Pick::next)? else { return Ok(None) };
        let split = self.left.split_at_checked(batch.num_rows());
        let (rows, left) = split.ok_or_else(|| super::broken("more rows were read than were asked for"))?;
        self.left = left;
        Ok(Some((rows, self.column.ordered(batch.column(0))?)))
    }
}

/// The keys of a request, in the order of keys, each with its place in the request. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    places: Arc<[(Box<[u8]>, u32)]>,
    /// Whether a key is one of them; quick, for most rows have others.
    among: Arc<dyn PhysicalExpr>,
}

impl Asked {
    /// The place of a key in the request, if it is asked for.
    pub(super) fn place(&self, key: &[u8]) -> Option<u32> {
        let at = self.places.binary_search_by(|(asked, _)| (**asked).cmp(key)).ok()?;
        self.places.get(at).map(|(_, place)| *place)
    }

    /// Which rows of a batch, whose only column is the key, have one that is asked for.
    pub(super) fn held(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let held = self.among.evaluate(batch).and_then(|held| held.into_array(batch.num_rows()));
        let held = held.map_err(super::broken)?;
        held.as_boolean_opt()
            .cloned()
            .ok_or_else(|| super::broken("whether keys are asked for is no truth value"))
    }

    /// Whether a key is asked for that is between two others, or one of them.
    pub(super) fn any_within(&self, from: &[u8], to: &[u8]) -> bool {
        let first = self.places.partition_point(|(asked, _)| **asked < *from);
        self.places.get(first).is_some_and(|(asked, _)| **asked <= *to)
    }
}

/// Letters of a key that an error shows.
const SHOWN: usize = 40;

pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Boolean(value) => format!("the truth value {value}"),
        Value::Integer(value) => format!("the integer {value}"),
        Value::Float(value) => format!("the number {value}"),
        Value::Text(text) => {
            format!("the text '{}'", text.chars().take(SHOWN).collect::<String>().escape_debug())
        }
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    }
}
