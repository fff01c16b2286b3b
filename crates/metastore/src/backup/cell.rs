//! One value of a row, the same for both databases.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
    ser::SerializeMap as _,
};
use sqlx::{Column as _, Row as _, TypeInfo as _, ValueRef as _, postgres::PgRow, sqlite::SqliteRow};

use super::BackupError;

/// One value. Truth values are 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row in the order of its table's columns.
pub(super) type CellRow = Vec<Cell>;

/// Key under which bytes stand.
const BASE64: &str = "base64";

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bytes(value) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(BASE64, &STANDARD.encode(value))?;
                map.end()
            }
        }
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing, a number of 64 bits, a text, or bytes")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Null)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell::Int(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Cell, E> {
        i64::try_from(value).map(Cell::Int).map_err(E::custom)
    }

    fn visit_str<E>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Cell, E> {
        Ok(Cell::Text(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell, A::Error> {
        let entry: Option<(String, String)> = map.next_entry()?;
        let text = entry.filter(|(key, _)| key == BASE64).map(|(_, text)| text);
        let text = text.ok_or_else(|| de::Error::custom("bytes are missing"))?;
        STANDARD.decode(text).map(Cell::Bytes).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

/// A row as it comes from PostgreSQL.
pub(super) fn of_postgres(row: &PgRow) -> Result<CellRow, BackupError> {
    let cell = |column: &sqlx::postgres::PgColumn| {
        let (at, kind) = (column.ordinal(), column.type_info().name());
        Ok(match kind {
            "INT8" => row.try_get::<Option<i64>, _>(at)?.map_or(Cell::Null, Cell::Int),
            "INT4" => row.try_get::<Option<i32>, _>(at)?.map_or(Cell::Null, |value| Cell::Int(value.into())),
            "BOOL" => row.try_get::<Option<bool>, _>(at)?.map_or(Cell::Null, |value| Cell::Int(value.into())),
            "TEXT" | "VARCHAR" => row.try_get::<Option<String>, _>(at)?.map_or(Cell::Null, Cell::Text),
            "BYTEA" => row.try_get::<Option<Vec<u8>>, _>(at)?.map_or(Cell::Null, Cell::Bytes),
            _ => return Err(BackupError::Unknown(format!("column {} of type {kind}", column.name()))),
        })
    };
    row.columns().iter().map(cell).collect()
}

/// A row as it comes from SQLite.
pub(super) fn of_sqlite(row: &SqliteRow) -> Result<CellRow, BackupError> {
    let cell = |column: &sqlx::sqlite::SqliteColumn| {
        let at = column.ordinal();
        let value = row.try_get_raw(at)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let kind = value.type_info().name().to_owned();
        Ok(match kind.as_str() {
            "INTEGER" => Cell::Int(row.try_get(at)?),
            "TEXT" => Cell::Text(row.try_get(at)?),
            "BLOB" => Cell::Bytes(row.try_get(at)?),
            _ => return Err(BackupError::Unknown(format!("column {} of type {kind}", column.name()))),
        })
    };
    row.columns().iter().map(cell).collect()
}

impl Cell {
    /// About how many characters it takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) => 8,
            Self::Text(value) => value.len(),
            Self::Bytes(value) => 2 * value.len(),
        }
    }

    /// Appends the value as `COPY ... FROM STDIN` reads it.
    pub(super) fn copy_text(&self, into: &mut Vec<u8>) {
        match self {
            Self::Null => into.extend(b"\\N"),
            Self::Int(value) => into.extend(value.to_string().as_bytes()),
            Self::Bytes(value) => {
                into.extend(b"\\\\x");
                into.extend(hex::encode(value).as_bytes());
            }
            Self::Text(value) => {
                for byte in value.bytes() {
                    match byte {
                        b'\\' => into.extend(b"\\\\"),
                        b'\t' => into.extend(b"\\t"),
                        b'\n' => into.extend(b"\\n"),
                        b'\r' => into.extend(b"\\r"),
                        byte => into.push(byte),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back_from_json() {
        let row = vec![
            Cell::Null,
            Cell::Int(i64::MIN),
            Cell::Int(i64::MAX),
            Cell::Text("a\"\n\u{10ffff}".into()),
            Cell::Bytes((0..=255).collect()),
            Cell::Bytes(Vec::new()),
        ];
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<CellRow>(&text).unwrap(), row);
        for odd in ["[1.5]", "[true]", "[[]]", "[{}]", r#"[{"base64":"?"}]"#, "[9223372036854775808]"] {
            assert!(serde_json::from_str::<CellRow>(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_copy_takes_for_a_sign_is_marked() {
        let mut text = Vec::new();
        let row = [Cell::Null, Cell::Int(-5), Cell::Text("a\\N\tb\n\r".into()), Cell::Bytes(vec![0xff, 0])];
        row.iter().for_each(|cell| cell.copy_text(&mut text));
        assert_eq!(String::from_utf8(text).unwrap(), r"\N-5a\\N\tb\n\r\\xff00");
    }
}
