//! Columns as people write them: `name type [not null]`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::sql::sqlparser::{
    ast::{ArrayElemTypeDef, ColumnOption, DataType as SqlType, ExactNumberInfo, TimezoneInfo},
    dialect::GenericDialect,
    parser::Parser,
};
use pointsman_ids::catalog::Column;

use crate::Failure;

/// Reads `name type [not null]`. The type is SQL's (`bigint`, `decimal(15, 2)`) or Arrow's (`Int64`,
/// `Decimal128(15, 2)`), which may be followed by `[not null]` in the same way. Vectors are `vector(64)` or `float[64]`, or
/// in Arrow's words `FixedSizeList(64 x Float32)`. A name that needs it is quoted.
///
/// # Errors
/// [`Failure::Usage`] naming the text and what would be right.
pub(crate) fn parse(text: &str) -> Result<Column, Failure> {
    let (name, data_type, nullable) = sql(text).or_else(|| arrow(text)).ok_or_else(|| {
        Failure::Usage(format!(
            "'{text}' is not a column; write \"name type [not null]\" with a type such as bigint, double, text, boolean, \
             date, timestamp, decimal(15, 2), vector(64) or Arrow's own, such as Int64"
        ))
    })?;
    Ok(Column { name, data_type: data_type.to_string(), nullable })
}

/// The SQL form.
fn sql(text: &str) -> Option<(String, DataType, bool)> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).ok()?;
    let column = parser.parse_column_def().ok()?;
    parser.expect_token(&datafusion::sql::sqlparser::tokenizer::Token::EOF).ok()?;
    let mut nullable = true;
    for option in &column.options {
        match option.option {
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Null => nullable = true,
            _ => return None,
        }
    }
    Some((column.name.value, arrow_type(&column.data_type)?, nullable))
}

/// The form with Arrow's own words, which are not SQL.
fn arrow(text: &str) -> Option<(String, DataType, bool)> {
    let (name, rest) = text.trim().split_once(char::is_whitespace)?;
    let rest = rest.trim();
    let lower = rest.to_ascii_lowercase();
    let (data_type, nullable) =
        match lower.strip_suffix("null").and_then(|left| left.trim_end().strip_suffix("not")) {
            Some(left) => (&rest[..left.len()], false),
            None => (rest, true),
        };
    let name = name.trim_matches('"');
    (!name.is_empty()).then_some((name.to_owned(), data_type.trim().parse().ok()?, nullable))
}

fn arrow_type(sql: &SqlType) -> Option<DataType> {
    Some(match sql {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::Real | SqlType::Float4 | SqlType::Float(_) => DataType::Float32,
        SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float8 => DataType::Float64,
        SqlType::Text
        | SqlType::String(_)
        | SqlType::Varchar(_)
        | SqlType::Char(_)
        | SqlType::CharacterVarying(_) => DataType::Utf8,
        SqlType::Bytea | SqlType::Blob(_) | SqlType::Binary(_) | SqlType::Varbinary(_) => DataType::Binary,
        SqlType::Date => DataType::Date32,
        SqlType::Time(_, TimezoneInfo::None) => DataType::Time64(TimeUnit::Microsecond),
        SqlType::Timestamp(_, TimezoneInfo::None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(info)?,
        SqlType::Array(ArrayElemTypeDef::SquareBracket(item, Some(width))) => {
            let is_single = matches!(**item, SqlType::Real | SqlType::Float4 | SqlType::Float(_));
            vector(i32::try_from(*width).ok().filter(|_| is_single)?)?
        }
        SqlType::Custom(name, words) if name.to_string().eq_ignore_ascii_case("vector") => {
            let [width] = words.as_slice() else { return None };
            vector(width.parse().ok()?)?
        }
        _ => return None,
    })
}

/// Lists of so many single numbers.
fn vector(width: i32) -> Option<DataType> {
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    (width > 0).then_some(DataType::FixedSizeList(item, width))
}

fn decimal(info: &ExactNumberInfo) -> Option<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (38, 10),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    let fits = (1..=38).contains(&precision) && (0..=precision.cast_signed()).contains(&scale);
    fits.then_some(DataType::Decimal128(precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(text: &str) -> (String, String, bool) {
        let column = parse(text).unwrap();
        (column.name, column.data_type, column.nullable)
    }

    #[test]
    fn columns_read_as_in_sql() {
        for (text, name, data_type, nullable) in [
            ("id bigint not null", "id", "Int64", false),
            ("price DECIMAL(15, 2)", "price", "Decimal128(15, 2)", true),
            ("\"two words\" text", "two words", "Utf8", true),
            ("x double precision NOT NULL", "x", "Float64", false),
            ("day date null", "day", "Date32", true),
        ] {
            assert_eq!(column(text), (name.to_owned(), data_type.to_owned(), nullable), "{text}");
        }
    }

    #[test]
    fn columns_read_with_arrows_words() {
        assert_eq!(column("id Int64 not null"), ("id".into(), "Int64".into(), false));
        assert_eq!(column("v Utf8View"), ("v".into(), "Utf8View".into(), true));
        assert_eq!(column("v  List(Int32) NOT  NULL").1, "List(Int32)");
    }

    #[test]
    fn vectors_read_in_sql_and_in_arrows_words() {
        for text in
            ["v vector(64)", "v VECTOR(64)", "v float[64]", "v real[64]", "v FixedSizeList(64 x Float32)"]
        {
            assert_eq!(column(text), ("v".into(), "FixedSizeList(64 x Float32)".into(), true), "{text}");
        }
        assert_eq!(column("v vector(2) not null").1, "FixedSizeList(2 x Float32)");
        for text in ["v vector", "v vector(0)", "v vector(2, 3)", "v float[0]", "v double[4]", "v text[4]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_column_says_reads_back_as_a_type() {
        for text in ["t timestamp", "t timestamptz", "t time", "t bytea", "t boolean", "t int", "t real"] {
            let column = parse(text).unwrap();
            assert!(column.data_type.parse::<DataType>().is_ok(), "{column:?}");
        }
    }

    #[test]
    fn what_is_no_column_is_named_with_a_way_out() {
        for text in
            ["", "id", "id nonsense", "id bigint primary key", "id decimal(99, 2)", "id bigint, x int"]
        {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")) && error.contains("bigint"), "{error}");
        }
    }
}
