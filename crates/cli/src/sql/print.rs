//! Printed forms of rows.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use super::{ResultTable, Schema};
use crate::output;

/// Form of printed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// With a header; no value is an empty field
    Csv,
    /// An array with one object per row, one row per line
    Json,
}

impl Format {
    /// Writes all rows.
    pub fn write(self, table: &ResultTable, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table => write_table(table, out),
            Self::Csv => write_csv(table, out),
            Self::Json => write_json(table, out),
        }
    }
}

fn write_table(table: &ResultTable, out: &mut impl Write) -> io::Result<()> {
    let Schema { column_names, column_data_types } = &table.data_schema;
    let mut printed = Table::new();
    printed.load_preset(presets::ASCII_MARKDOWN);
    printed.set_header(column_names.iter().map(|name| output::visible(name)));
    for row in &table.rows {
        printed.add_row(row.iter().map(|value| match value {
            Value::Null => "NULL".to_owned(),
            value => output::visible(&text(value)),
        }));
    }
    for (column, data_type) in printed.column_iter_mut().zip(column_data_types) {
        if matches!(data_type.as_str(), "INT" | "LONG" | "FLOAT" | "DOUBLE") {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{printed}")
}

fn write_csv(table: &ResultTable, out: &mut impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let written = writer.write_record(&table.data_schema.column_names);
    written.map_err(io::Error::from)?;
    for row in &table.rows {
        let written = writer.write_record(row.iter().map(|value| match value {
            Value::Null => String::new(),
            value => text(value),
        }));
        written.map_err(io::Error::from)?;
    }
    writer.flush()
}

/// Written by hand, since a map would neither keep the order of columns nor two of one name.
fn write_json(table: &ResultTable, out: &mut impl Write) -> io::Result<()> {
    let names = &table.data_schema.column_names;
    let names: Vec<String> = names.iter().map(|name| Value::from(name.as_str()).to_string()).collect();
    out.write_all(b"[")?;
    for (index, row) in table.rows.iter().enumerate() {
        out.write_all(if index == 0 { b"\n{" } else { b",\n{" })?;
        for (column, (name, value)) in names.iter().zip(row).enumerate() {
            let comma = if column == 0 { "" } else { ", " };
            write!(out, "{comma}{name}: {value}")?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(if table.rows.is_empty() { b"]\n" } else { b"\n]\n" })
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(format: Format, rows: Vec<Vec<Value>>) -> String {
        let data_schema = Schema {
            column_names: vec!["z name".into(), "n".into()],
            column_data_types: vec!["STRING".into(), "LONG".into()],
        };
        let mut out = Vec::new();
        format.write(&ResultTable { data_schema, rows }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn rows() -> Vec<Vec<Value>> {
        vec![vec![json!("a \"b\", c"), json!(10)], vec![Value::Null, json!(5)]]
    }

    #[test]
    fn tables_align_numbers_and_name_nulls() {
        let expected = "| z name   |  n |\n|----------|----|\n| a \"b\", c | 10 |\n| NULL     |  5 |\n";
        assert_eq!(printed(Format::Table, rows()), expected);
    }

    #[test]
    fn tables_leave_the_terminal_alone() {
        let text = printed(Format::Table, vec![vec![json!("\u{1b}[31mred\na\tb"), json!(1)]]);
        assert!(text.contains("| \\u{1b}[31mred\\na\\tb |"), "{text}");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        assert_eq!(printed(Format::Csv, rows()), "z name,n\n\"a \"\"b\"\", c\",10\n,5\n");
    }

    #[test]
    fn json_is_one_document_in_column_order() {
        let text = printed(Format::Json, rows());
        assert_eq!(
            text,
            "[\n{\"z name\": \"a \\\"b\\\", c\", \"n\": 10},\n{\"z name\": null, \"n\": 5}\n]\n"
        );
        assert!(serde_json::from_str::<Value>(&text).is_ok());
        assert_eq!(printed(Format::Json, vec![]), "[]\n");
    }
}
