//! What columns can do besides holding values: name rows, and hold vectors that an index is over. Types are Arrow's text
//! forms; the coordinator knows no more of them than this.

use std::collections::BTreeSet;

use pointsman_ids::{
    Error, ErrorCode,
    catalog::{CollectionOptions, Column},
    near,
};

use super::invalid;

/// Types whose values name rows, up to their parameters: those that are equal or not, whatever computed them.
const KEYS: &[&str] = &[
    "Boolean",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Decimal256",
    "Date32",
    "Date64",
    "Time32",
    "Time64",
    "Timestamp",
    "Utf8",
    "LargeUtf8",
    "Utf8View",
    "Binary",
    "LargeBinary",
    "BinaryView",
    "FixedSizeBinary",
];

/// Checks that the key and the indexes are over columns that can be that.
///
/// # Errors
/// `column_not_found` with the names that may be meant; `parameter_invalid` naming the column, its type and what would do.
pub(super) fn check(options: &CollectionOptions, columns: &[Column]) -> Result<(), Error> {
    if let Some(key) = &options.key {
        let column = find(columns, key, "the key")?;
        if !can_be_key(&column.data_type) {
            return Err(invalid(format!(
                "column '{key}' of type {} cannot be the key; choose a column of integers, decimals, text, bytes, dates or \
                 times",
                column.data_type
            )));
        }
    }
    let mut seen = BTreeSet::new();
    for index in &options.vector_indexes {
        let name = &index.column;
        let column = find(columns, name, "a vector index")?;
        if width(&column.data_type).is_none() {
            return Err(invalid(format!(
                "column '{name}' of type {} holds no vectors, so it can have no vector index; its type would have to be \
                 FixedSizeList(N x Float32) with N from 1 on",
                column.data_type
            )));
        }
        if !seen.insert(name) {
            return Err(invalid(format!(
                "column '{name}' has two vector indexes; keep the one with the metric that searches use"
            )));
        }
    }
    Ok(())
}

fn find<'a>(columns: &'a [Column], name: &str, what: &str) -> Result<&'a Column, Error> {
    columns.iter().find(|column| column.name == name).ok_or_else(|| {
        let hint = near(name, columns.iter().map(|column| column.name.as_str()), "it has none");
        let text = format!(
            "{what} is over column '{}', which the collection does not have; {hint}",
            name.escape_debug()
        );
        Error::new(ErrorCode::ColumnNotFound, text)
    })
}

fn can_be_key(data_type: &str) -> bool {
    let end = data_type.find('(').unwrap_or(data_type.len());
    KEYS.contains(&data_type[..end].trim())
}

/// Components of each vector of a column of this type; `None`: it holds none. Arrow's text form is `FixedSizeList(64 x
/// Float32)`; components may be said to be `non-null`, and their field may have a name of its own.
fn width(data_type: &str) -> Option<u32> {
    let inside = data_type.trim().strip_prefix("FixedSizeList(")?.strip_suffix(')')?;
    let (width, rest) = inside.split_once([' ', ','])?;
    let rest = rest.trim_start().trim_start_matches("x ").trim_start();
    let item = rest.strip_prefix("non-null ").unwrap_or(rest);
    let item = item.split(',').next().unwrap_or_default().trim();
    width.trim().parse().ok().filter(|width| *width > 0 && item == "Float32")
}

#[cfg(test)]
mod tests {
    use pointsman_ids::request::{Metric, VectorIndex};

    use super::*;

    fn columns() -> Vec<Column> {
        let column = |(name, data_type): (&str, &str)| Column {
            name: name.into(),
            data_type: data_type.into(),
            nullable: true,
        };
        let columns = [
            ("id", "Int64"),
            ("Title", "Utf8View"),
            ("score", "Float64"),
            ("embedding", "FixedSizeList(64 x Float32)"),
            ("words", "List(Float32)"),
        ];
        columns.map(column).into()
    }

    fn options(key: Option<&str>, indexes: &[&str]) -> CollectionOptions {
        let index = |column: &&str| VectorIndex { column: (*column).to_owned(), metric: Metric::Cosine };
        CollectionOptions {
            key: key.map(str::to_owned),
            vector_indexes: indexes.iter().map(index).collect(),
            ..CollectionOptions::default()
        }
    }

    #[test]
    fn keys_and_indexes_are_over_columns_that_can_be_that() {
        assert_eq!(check(&options(None, &[]), &columns()), Ok(()));
        assert_eq!(check(&options(Some("id"), &["embedding"]), &columns()), Ok(()));
        assert_eq!(check(&options(Some("Title"), &[]), &columns()), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named_with_what_could() {
        for (key, indexes, code, parts) in [
            (Some("idd"), &[][..], ErrorCode::ColumnNotFound, ["the key", "did you mean id?"]),
            (Some("title"), &[], ErrorCode::ColumnNotFound, ["'title'", "did you mean Title?"]),
            (Some("score"), &[], ErrorCode::ParameterInvalid, ["'score' of type Float64", "integers"]),
            (Some("embedding"), &[], ErrorCode::ParameterInvalid, ["FixedSizeList(64 x Float32)", "text"]),
            (None, &["embeding"], ErrorCode::ColumnNotFound, ["vector index", "did you mean embedding?"]),
            (None, &["words"], ErrorCode::ParameterInvalid, ["List(Float32)", "FixedSizeList(N x Float32)"]),
            (None, &["embedding", "embedding"], ErrorCode::ParameterInvalid, ["'embedding'", "two"]),
        ] {
            let error = check(&options(key, indexes), &columns()).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(parts.iter().all(|part| error.message().contains(part)), "{error}");
        }
    }

    #[test]
    fn types_are_known_by_their_text() {
        for (data_type, key) in [
            ("Timestamp(µs, \"UTC\")", true),
            ("Decimal128(15, 2)", true),
            ("FixedSizeBinary(16)", true),
            ("Float32", false),
            ("Int64List", false),
            ("Struct(Int64)", false),
        ] {
            assert_eq!(can_be_key(data_type), key, "{data_type}");
        }
        for (data_type, expected) in [
            ("FixedSizeList(4 x Float32)", Some(4)),
            ("FixedSizeList(4 x non-null Float32)", Some(4)),
            ("FixedSizeList(128 x Float32, field: 'element')", Some(128)),
            ("FixedSizeList(3, Float32)", Some(3)),
            ("FixedSizeList(0 x Float32)", None),
            ("FixedSizeList(4 x Float64)", None),
            ("FixedSizeList(2 x FixedSizeList(2 x Float32))", None),
            ("List(Float32)", None),
        ] {
            assert_eq!(width(data_type), expected, "{data_type}");
        }
    }
}
