//! Statistics of segments in a column, without loss.
//!
//! A first byte of 1 says that the compact form follows; `{` begins the JSON of older versions, which is read as well.

mod compact;
mod json;

use std::collections::BTreeMap;

use pointsman_ids::catalog::ColumnStatistics;

use crate::{Result, stored::Origin};

/// A segment's statistics by column.
pub(crate) type Statistics = BTreeMap<String, ColumnStatistics>;

const COLUMN: &str = "statistics";

/// Appends the stored form of a segment's statistics.
pub(crate) fn statistics(statistics: &Statistics, into: &mut Vec<u8>) {
    compact::write(statistics, into);
}

/// A segment's statistics from their stored form.
pub(crate) fn read_statistics(origin: &Origin, stored: &[u8]) -> Result<Statistics> {
    match stored {
        [compact::VERSION, rest @ ..] => origin.read(COLUMN, compact::read(rest)),
        [b'{', ..] => origin.read(COLUMN, json::read(stored)),
        [] => origin.read(COLUMN, Err("it is empty")),
        [version, ..] => origin.read(COLUMN, Err(format!("there is no form {version}"))),
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::catalog::Value;

    use super::*;

    fn stored(known: &Statistics) -> Vec<u8> {
        let mut bytes = Vec::new();
        statistics(known, &mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Statistics> {
        read_statistics(&Origin::new("segments", 7_i64), bytes)
    }

    fn of(value: Value) -> Statistics {
        let known = ColumnStatistics { nulls: Some(u64::MAX), min: Some(value), max: None };
        BTreeMap::from([("c".to_owned(), known)])
    }

    #[test]
    fn every_value_reads_back_exactly() {
        let values = [
            Value::Boolean(true),
            Value::Boolean(false),
            Value::Integer(0),
            Value::Integer(-1),
            Value::Integer(i128::MIN),
            Value::Integer(i128::MAX),
            Value::Float(0.1 + 0.2),
            Value::Float(f64::MIN_POSITIVE / 8.0),
            Value::Float(f64::MAX),
            Value::Float(f64::NEG_INFINITY),
            Value::Text(String::new()),
            Value::Text("a\0\"\u{10ffff}\n".into()),
            Value::Bytes((0..=255).collect()),
        ];
        for value in values {
            let known = of(value);
            assert_eq!(read(&stored(&known)).unwrap(), known);
        }
        assert_eq!(read(&stored(&Statistics::new())).unwrap(), Statistics::new());
    }

    #[test]
    fn minus_zero_keeps_its_sign() {
        let known = read(&stored(&of(Value::Float(-0.0)))).unwrap();
        let Some(Value::Float(zero)) = known["c"].min else { panic!("a float stays a float") };
        assert!(zero.is_sign_negative());
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        let known = ColumnStatistics { nulls: None, min: None, max: Some(Value::Integer(3)) };
        let known = BTreeMap::from([
            ("a".to_owned(), ColumnStatistics::default()),
            ("b".to_owned(), known),
            (String::new(), ColumnStatistics { nulls: Some(0), ..ColumnStatistics::default() }),
        ]);
        assert_eq!(read(&stored(&known)).unwrap(), known);
    }

    #[test]
    fn the_form_of_older_versions_is_read() {
        let text = r#"{"i":{"nulls":3,"min":{"integer":"-170141183460469231731687303715884105728"}},
            "f":{"max":{"float":"inf"}},"t":{"min":{"text":"a"},"max":{"bytes":[0,255]}},"b":{"min":{"boolean":true}},"u":{}}"#;
        let known = read(text.as_bytes()).unwrap();
        assert_eq!((known["i"].nulls, &known["i"].min), (Some(3), &Some(Value::Integer(i128::MIN))));
        assert_eq!(known["f"].max, Some(Value::Float(f64::INFINITY)));
        assert_eq!(known["t"].min, Some(Value::Text("a".into())));
        assert_eq!(known["t"].max, Some(Value::Bytes(vec![0, 255])));
        assert_eq!(known["b"].min, Some(Value::Boolean(true)));
        assert_eq!(known["u"], ColumnStatistics::default());
    }

    #[test]
    fn what_is_not_statistics_is_refused_by_row_and_column() {
        let whole = stored(&of(Value::Text("abc".into())));
        let cut = (2..whole.len()).map(|length| whole[..length].to_vec());
        let texts = ["", "[]", r#"{"c":{"min":{"integer":"x"}}}"#, r#"{"c":{"min":{"colour":"x"}}}"#];
        let odd: [&[u8]; 4] = [
            &[1, 1, b'c', 2, 9], // A kind of value that there is not.
            &[1, 1, b'c', 8],    // A mark that there is not.
            &[1, 1, 0xff, 0],    // A name that is no text.
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], // A length beyond all numbers.
        ];
        let all = cut.chain(texts.map(|text| text.as_bytes().to_vec())).chain(odd.map(<[u8]>::to_vec));
        for bytes in all {
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.starts_with("a row of segments is corrupt: row 7, column statistics: "), "{error}");
        }
    }
}
