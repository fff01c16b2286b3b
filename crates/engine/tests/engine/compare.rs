//! Answers side by side with plain DataFusion over the same files.

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Field, Float64Type, Schema},
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::cluster::Cluster;

/// Plain DataFusion over the files of the cluster.
pub(crate) async fn plain(cluster: &Cluster) -> SessionContext {
    let context = SessionContext::new();
    for table in &cluster.tables {
        let folder = cluster.folder().join(&table.name);
        let folder = folder.to_str().expect("a path");
        let fields = table.columns.iter().map(|column| {
            let data_type = column.data_type.parse().expect("a type");
            Field::new(&column.name, data_type, column.nullable)
        });
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let options = ParquetReadOptions::default().schema(&schema);
        context.register_parquet(&table.name, folder, options).await.expect("a table");
    }
    context
}

/// Rows as sorted texts; floating point numbers to six digits, because sums depend on the order.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<_> =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| text(batch, row))).collect();
    rows.sort();
    rows
}

fn text(batch: &RecordBatch, row: usize) -> String {
    let cell = |column: &dyn Array| {
        if *column.data_type() == DataType::Float64 && column.is_valid(row) {
            return format!("{:.5e}", column.as_primitive::<Float64Type>().value(row));
        }
        let options = FormatOptions::default().with_null("NULL");
        ArrayFormatter::try_new(column, &options).expect("a formatter").value(row).to_string()
    };
    batch.columns().iter().map(|column| cell(column.as_ref())).collect::<Vec<_>>().join("|")
}

/// Fails unless the cluster answers as plain DataFusion does.
pub(crate) async fn same(cluster: &Cluster, plain: &SessionContext, sql: &str) {
    let wanted = plain.sql(sql).await.expect("a plan").collect().await.expect("rows");
    let got = cluster.run(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    assert_eq!(rows(&got), rows(&wanted), "{sql}");
}
