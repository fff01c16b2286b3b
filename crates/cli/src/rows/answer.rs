//! Answers of requests by shard, and how they are printed.

use std::{
    collections::BTreeSet,
    io::{self, BufWriter, Write},
    time::Duration,
};

use anyhow::Context;
use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
    ipc::reader::StreamReader,
    json::{LineDelimitedWriter, WriterBuilder, writer::LineDelimited},
};
use pointsman_proto::broker::v1::ShardCoverage;
use serde_json::{Map, Value, json};

use super::RowsArgs;
use crate::{
    output,
    sql::{Format, ResultTable, Schema},
};

/// Column of the place of the vector in the request.
const QUERY: &str = "_query";
/// Items of a list that a table shows.
const SHOWN: usize = 4;

/// Rows and who answered for them.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Columns of the rows.
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    coverage: ShardCoverage,
    /// How long the broker took, the way there and back included.
    took: Duration,
    /// Vectors that were searched for; `None`: the rows are of no search.
    vectors: Option<usize>,
}

impl Answer {
    /// Reads the rows of an answer.
    ///
    /// # Errors
    /// When they are no Arrow IPC stream.
    pub(crate) fn new(ipc: &[u8], coverage: Option<ShardCoverage>, took: Duration) -> anyhow::Result<Self> {
        let reader = StreamReader::try_new(ipc, None).context("the broker's rows cannot be read")?;
        let schema = reader.schema();
        let rows = reader.collect::<Result<Vec<_>, _>>().context("the broker's rows cannot be read")?;
        Ok(Self { schema, rows, coverage: coverage.unwrap_or_default(), took, vectors: None })
    }

    /// The rows are those of a search for so many vectors.
    pub(crate) fn by_vector(self, vectors: usize) -> Self {
        Self { vectors: Some(vectors), ..self }
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(|batch| batch.num_rows() == 0)
    }

    /// Prints rows on standard output, and how complete they are on standard error.
    ///
    /// # Errors
    /// Those of standard output.
    pub(crate) fn print(&self, args: &RowsArgs) -> anyhow::Result<()> {
        if args.json {
            return Ok(output::json(&self.to_json()?)?);
        }
        let mut table = self.table()?;
        if args.format == Format::Table {
            // Of one vector the place says nothing.
            table = for_people(table, self.vectors == Some(1));
        }
        let mut out = BufWriter::new(io::stdout().lock());
        args.format.write(&table, &mut out)?;
        out.flush()?;
        output::note(output::visible(&self.line()));
        Ok(())
    }

    /// How complete the answer is and how long it took, on one line.
    fn line(&self) -> String {
        let ShardCoverage { shards, segments, indexed_segments, .. } = &self.coverage;
        let nodes: BTreeSet<u64> = shards.iter().map(|shard| shard.node_id).collect();
        let rows: usize = self.rows.iter().map(RecordBatch::num_rows).sum();
        let mut line = format!(
            "{} in {} ms; {} with {} answered by {}",
            output::count(rows as u64, "row"),
            self.took.as_millis(),
            output::count(shards.len() as u64, "shard"),
            output::count(*segments, "segment"),
            output::count(nodes.len() as u64, "node"),
        );
        if *indexed_segments > 0 {
            line += &format!(", {indexed_segments} by index");
        }
        let fell_back = shards.iter().filter(|shard| shard.fell_back).count();
        if fell_back > 0 {
            line += &format!(", {} outside the preferred group", output::count(fell_back as u64, "shard"));
        }
        line
    }

    fn objects(&self) -> anyhow::Result<Vec<Map<String, Value>>> {
        let mut writer: LineDelimitedWriter<Vec<u8>> =
            WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
        writer.write_batches(&self.rows.iter().collect::<Vec<_>>()).context("the rows have no text")?;
        writer.finish().context("the rows have no text")?;
        let text = writer.into_inner();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(serde_json::from_slice).collect::<Result<_, _>>()?)
    }

    fn table(&self) -> anyhow::Result<ResultTable> {
        let fields = self.schema.fields();
        let column_names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let column_data_types = fields.iter().map(|field| word(field.data_type()).to_owned()).collect();
        let row = |object: Map<String, Value>| {
            column_names.iter().map(|name| object.get(name).cloned().unwrap_or(Value::Null)).collect()
        };
        let rows = self.objects()?.into_iter().map(row).collect();
        Ok(ResultTable { data_schema: Schema { column_names, column_data_types }, rows })
    }

    fn to_json(&self) -> anyhow::Result<Value> {
        let ShardCoverage { shards, target_version, segments, indexed_segments, rows_scanned } =
            &self.coverage;
        let shards = shards.iter().map(|shard| {
            json!({
                "shard": shard.shard,
                "node": shard.node,
                "node_id": shard.node_id,
                "replica_id": shard.replica_id,
                "resource_group": shard.resource_group,
                "fell_back": shard.fell_back,
            })
        });
        let rows = self.objects()?;
        let rows = match self.vectors {
            None => json!(rows),
            Some(vectors) => json!(grouped(rows, vectors)),
        };
        Ok(json!({
            "rows": rows,
            "coverage": {
                "shards": shards.collect::<Vec<_>>(),
                "target_version": target_version,
                "segments": segments,
                "indexed_segments": indexed_segments,
                "rows_scanned": rows_scanned,
            },
            "time_used_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        }))
    }
}

/// A list of rows for each vector, as over HTTP.
fn grouped(rows: Vec<Map<String, Value>>, vectors: usize) -> Vec<Vec<Map<String, Value>>> {
    let mut groups = vec![Vec::new(); vectors];
    for mut row in rows {
        let place =
            row.remove(QUERY).as_ref().and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok());
        if let Some(group) = place.and_then(|place| groups.get_mut(place)) {
            group.push(row);
        }
    }
    groups
}

/// Numbers stand at the right.
fn word(data_type: &DataType) -> &'static str {
    if data_type.is_integer() {
        "LONG"
    } else if data_type.is_floating() {
        "DOUBLE"
    } else {
        "STRING"
    }
}

/// Long lists are cut, with their length behind them.
fn for_people(mut table: ResultTable, one: bool) -> ResultTable {
    if one && let Some(at) = table.data_schema.column_names.iter().position(|name| name == QUERY) {
        table.data_schema.column_names.remove(at);
        table.data_schema.column_data_types.remove(at);
        table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    for value in table.rows.iter_mut().flatten() {
        if let Value::Array(items) = value
            && items.len() > 2 * SHOWN
        {
            let shown: Vec<String> = items.iter().take(SHOWN).map(ToString::to_string).collect();
            *value = Value::String(format!("[{}, ... {} in all]", shown.join(", "), items.len()));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::{
        array::{FixedSizeListArray, Float32Array, Int64Array, StringArray, UInt32Array},
        datatypes::Float32Type,
    };
    use pointsman_proto::broker::v1::AnsweredShard;

    use super::*;

    fn answer() -> Answer {
        let vector = |width: i32| (0..width).map(|at| Some(at as f32 + 0.1)).collect::<Vec<_>>();
        let vectors =
            FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>([Some(vector(9)), None], 9);
        let columns: [(&str, datafusion::arrow::array::ArrayRef); 5] = [
            (QUERY, Arc::new(UInt32Array::from(vec![0, 0]))),
            ("_distance", Arc::new(Float32Array::from(vec![0.1, 2.0]))),
            ("id", Arc::new(Int64Array::from(vec![i64::MAX, 1]))),
            ("t", Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("v", Arc::new(vectors)),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, values)| (name, values, true)),
        );
        let batch = batch.unwrap();
        let shard = |name: &str, node_id| AnsweredShard { shard: name.into(), node_id, ..Default::default() };
        let coverage = ShardCoverage {
            shards: vec![shard("shard-0", 1), shard("shard-1", 1), shard("shard-2", 2)],
            target_version: 7,
            segments: 5,
            indexed_segments: 4,
            rows_scanned: 90,
        };
        Answer {
            schema: batch.schema(),
            rows: vec![batch],
            coverage,
            took: Duration::from_millis(12),
            vectors: None,
        }
    }

    #[test]
    fn values_are_whole_and_single_numbers_short() {
        let table = answer().table().unwrap();
        assert_eq!(table.data_schema.column_names, [QUERY, "_distance", "id", "t", "v"]);
        let expected = vec![json!(0), json!(0.1), json!(i64::MAX), json!("a")];
        assert_eq!(table.rows[0][..4], expected);
        assert_eq!(table.rows[1][3..], [Value::Null, Value::Null]);
        assert_eq!(table.rows[0][4].as_array().unwrap().len(), 9);
    }

    #[test]
    fn people_see_the_beginning_of_a_vector() {
        let table = for_people(answer().table().unwrap(), true);
        assert_eq!(table.data_schema.column_names, ["_distance", "id", "t", "v"]);
        assert_eq!(table.rows[0][3], json!("[0.1, 1.1, 2.1, 3.1, ... 9 in all]"));
        assert_eq!(for_people(answer().table().unwrap(), false).rows[0].len(), 5);
    }

    #[test]
    fn it_is_told_who_answered() {
        assert_eq!(
            answer().line(),
            "2 rows in 12 ms; 3 shards with 5 segments answered by 2 nodes, 4 by index"
        );
        let json = answer().to_json().unwrap();
        assert_eq!(json["rows"][1]["id"], json!(1));
        let grouped = answer().by_vector(2).to_json().unwrap();
        let (first, second) = (grouped["rows"][0].as_array().unwrap(), &grouped["rows"][1]);
        assert!(first.len() == 2 && first[0].get(QUERY).is_none() && *second == json!([]), "{grouped}");
        assert_eq!(json["coverage"]["shards"][2]["shard"], json!("shard-2"));
        assert_eq!((&json["coverage"]["target_version"], &json["time_used_ms"]), (&json!(7), &json!(12)));
    }

    #[test]
    fn an_answer_without_rows_has_its_columns() {
        let Answer { schema, coverage, took, .. } = answer();
        let mut ipc = Vec::new();
        datafusion::arrow::ipc::writer::StreamWriter::try_new(&mut ipc, &schema).unwrap().finish().unwrap();
        let empty = Answer::new(&ipc, Some(coverage), took).unwrap();
        let table = empty.table().unwrap();
        assert_eq!((table.data_schema.column_names.len(), table.rows.len()), (5, 0));
        assert!(Answer::new(b"nothing", None, took).is_err());
    }
}
