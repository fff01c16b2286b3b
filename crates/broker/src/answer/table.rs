//! Columns and rows of an answer as JSON, written straight from Arrow.

use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeSeq, SerializeStruct},
};

use super::{
    cells::{Cell, Column},
    types::AnswerType,
};

/// Columns and rows of an answer.
#[derive(Debug)]
pub(crate) struct ResultTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ResultTable {
    /// A table of these batches; `None` when the result has no columns.
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Option<Self> {
        (!schema.fields().is_empty()).then_some(Self { schema, batches })
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

impl Serialize for ResultTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_struct("resultTable", 2)?;
        table.serialize_field("dataSchema", &DataSchema::of(&self.schema))?;
        table.serialize_field("rows", &Rows(self))?;
        table.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DataSchema<'a> {
    column_names: Vec<&'a str>,
    column_data_types: Vec<String>,
}

impl<'a> DataSchema<'a> {
    fn of(schema: &'a SchemaRef) -> Self {
        Self {
            column_names: schema.fields().iter().map(|field| field.name().as_str()).collect(),
            column_data_types: schema
                .fields()
                .iter()
                .map(|field| AnswerType::of(field).to_string())
                .collect(),
        }
    }
}

struct Rows<'a>(&'a ResultTable);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.rows()))?;
        for batch in &self.0.batches {
            let columns: Vec<_> = self
                .0
                .schema
                .fields()
                .iter()
                .zip(batch.columns())
                .map(|(field, array)| Column::new(field, array))
                .collect::<Result<_, _>>()
                .map_err(S::Error::custom)?;
            for row in 0..batch.num_rows() {
                rows.serialize_element(&Row { columns: &columns, row })?;
            }
        }
        rows.end()
    }
}

struct Row<'a> {
    columns: &'a [Column],
    row: usize,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.columns.iter().map(|column| Cell { column, row: self.row }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{
            Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
            FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int64Array, ListArray, StringArray,
            StringViewArray, StructArray, TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
        },
        datatypes::{DataType, Field, Fields, Int32Type, Schema},
    };
    use serde_json::{Value, json};

    use super::*;

    fn table(array: impl Array + 'static) -> ResultTable {
        let schema = Arc::new(Schema::new(vec![Field::new("c", array.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(array)]).unwrap();
        ResultTable::new(schema, vec![batch]).unwrap()
    }

    /// The column's type in the answer and its cells.
    fn column(array: impl Array + 'static) -> (String, Vec<Value>) {
        let json = serde_json::to_value(table(array)).unwrap();
        assert_eq!(json["dataSchema"]["columnNames"], json!(["c"]));
        let name = json["dataSchema"]["columnDataTypes"][0].as_str().unwrap().to_owned();
        let cells = json["rows"].as_array().unwrap().iter().map(|row| row[0].clone()).collect();
        (name, cells)
    }

    fn expect(array: impl Array + 'static, name: &str, cells: Value) {
        let (found_name, found) = column(array);
        assert_eq!((found_name.as_str(), Value::from(found)), (name, cells));
    }

    #[test]
    fn plain_values_are_json_values() {
        expect(BooleanArray::from(vec![Some(true), None]), "BOOLEAN", json!([true, null]));
        expect(Int8Array::from(vec![Some(-1), None]), "INT", json!([-1, null]));
        expect(Int64Array::from(vec![i64::MIN]), "LONG", json!([i64::MIN]));
        expect(UInt64Array::from(vec![u64::MAX]), "LONG", json!([u64::MAX]));
        expect(StringArray::from(vec![Some("é\""), None]), "STRING", json!(["é\"", null]));
        expect(
            StringViewArray::from(vec!["a text that is longer than a view"]),
            "STRING",
            json!(["a text that is longer than a view"]),
        );
    }

    #[test]
    fn numbers_that_json_lacks_are_texts() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        expect(
            Float64Array::from(vec![0.1, nan, inf, -inf]),
            "DOUBLE",
            json!([0.1, "NaN", "Infinity", "-Infinity"]),
        );
        let singles = table(Float32Array::from(vec![Some(0.1), Some(f32::NAN), None]));
        let text = serde_json::to_string(&singles).unwrap();
        assert!(text.ends_with(r#""columnDataTypes":["FLOAT"]},"rows":[[0.1],["NaN"],[null]]}"#), "{text}");
    }

    #[test]
    fn instants_are_utc_and_local_times_have_no_zone() {
        let second = 1_577_934_245;
        expect(
            TimestampSecondArray::from(vec![Some(second), None]),
            "TIMESTAMP",
            json!(["2020-01-02T03:04:05", null]),
        );
        let instants =
            TimestampMicrosecondArray::from(vec![second * 1_000_000 + 250_000]).with_timezone("+02:00");
        expect(instants, "TIMESTAMP", json!(["2020-01-02T03:04:05.250Z"]));
    }

    #[test]
    fn bytes_are_hex() {
        expect(BinaryArray::from(vec![b"\x00\xab".as_slice(), b""]), "BYTES", json!(["00ab", ""]));
        let fixed = FixedSizeBinaryArray::try_from_iter([[0xff_u8, 1]].into_iter()).unwrap();
        expect(fixed, "BYTES", json!(["ff01"]));
    }

    #[test]
    fn what_has_no_counterpart_is_its_usual_text() {
        let decimals =
            Decimal128Array::from(vec![Some(-1230), None]).with_precision_and_scale(15, 2).unwrap();
        expect(decimals, "STRING", json!(["-12.30", null]));
        expect(Date32Array::from(vec![9131]), "STRING", json!(["1995-01-01"]));
        let fields = Fields::from(vec![Field::new("a", DataType::Int64, true)]);
        let structure = StructArray::new(fields, vec![Arc::new(Int64Array::from(vec![1]))], None);
        expect(structure, "STRING", json!(["{a: 1}"]));
    }

    #[test]
    fn dictionaries_are_their_values() {
        let dictionary: DictionaryArray<Int32Type> = [Some("x"), None, Some("y")].into_iter().collect();
        expect(dictionary, "STRING", json!(["x", null, "y"]));
    }

    #[test]
    fn lists_are_arrays() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(2)]),
        ]);
        expect(lists.slice(1, 3), "INT_ARRAY", json!([null, [], [2]]));
        expect(lists, "INT_ARRAY", json!([[1, null], null, [], [2]]));
    }

    #[test]
    fn a_result_without_columns_has_no_table() {
        assert!(ResultTable::new(Arc::new(Schema::empty()), vec![]).is_none());
    }
}
