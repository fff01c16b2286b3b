//! Statistics in few bytes that are read quickly: at a start there are millions of them.
//!
//! For each column, by name: the name; a byte of marks (1: nulls follow, 2: the lower bound, 4: the upper one); what they
//! say follows. Lengths and numbers are of variable length, seven bits to a byte, the lowest first.

use pointsman_ids::catalog::{ColumnStatistics, Value};

use super::Statistics;

/// The first byte of the form.
pub(super) const VERSION: u8 = 1;

const NULLS: u8 = 1;
const MIN: u8 = 2;
const MAX: u8 = 4;

const FALSE: u8 = 0;
const TRUE: u8 = 1;
const INTEGER: u8 = 2;
const FLOAT: u8 = 3;
const TEXT: u8 = 4;
const BYTES: u8 = 5;

pub(super) fn write(statistics: &Statistics, into: &mut Vec<u8>) {
    into.push(VERSION);
    for (column, known) in statistics {
        write_bytes(column.as_bytes(), into);
        let mark = |is_known: bool, mark: u8| if is_known { mark } else { 0 };
        into.push(
            mark(known.nulls.is_some(), NULLS)
                | mark(known.min.is_some(), MIN)
                | mark(known.max.is_some(), MAX),
        );
        if let Some(nulls) = known.nulls {
            write_number(nulls.into(), into);
        }
        for bound in [&known.min, &known.max].into_iter().flatten() {
            write_value(bound, into);
        }
    }
}

fn write_value(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Boolean(value) => into.push(if *value { TRUE } else { FALSE }),
        Value::Integer(value) => {
            into.push(INTEGER);
            // Small numbers are short, also those below zero.
            write_number((value.wrapping_shl(1) ^ (value >> 127)).cast_unsigned(), into);
        }
        Value::Float(value) => {
            into.push(FLOAT);
            into.extend(value.to_bits().to_le_bytes());
        }
        Value::Text(value) => {
            into.push(TEXT);
            write_bytes(value.as_bytes(), into);
        }
        Value::Bytes(value) => {
            into.push(BYTES);
            write_bytes(value, into);
        }
    }
}

fn write_bytes(bytes: &[u8], into: &mut Vec<u8>) {
    write_number(bytes.len() as u128, into);
    into.extend(bytes);
}

fn write_number(mut number: u128, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Reads what follows the first byte.
pub(super) fn read(stored: &[u8]) -> Result<Statistics, String> {
    let mut reader = Reader { rest: stored };
    let mut statistics = Statistics::new();
    while !reader.rest.is_empty() {
        let column = reader.text()?;
        let marks = reader.byte()?;
        if marks & !(NULLS | MIN | MAX) != 0 {
            return Err(format!("column '{column}' has marks {marks}, which are not known"));
        }
        let nulls = if marks & NULLS != 0 { Some(reader.count()?) } else { None };
        let min = if marks & MIN != 0 { Some(reader.value()?) } else { None };
        let max = if marks & MAX != 0 { Some(reader.value()?) } else { None };
        statistics.insert(column, ColumnStatistics { nulls, min, max });
    }
    Ok(statistics)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let taken = self.rest.split_at_checked(length);
        let (taken, rest) = taken.ok_or_else(|| format!("it ends within {length} bytes"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        let (first, rest) = self.rest.split_first().ok_or("it ends too early")?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u128, String> {
        let (mut number, mut shift) = (0_u128, 0_u32);
        loop {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7f).checked_shl(shift).ok_or("a number has too many bytes")?;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    fn count(&mut self) -> Result<u64, String> {
        let number = self.number()?;
        u64::try_from(number).map_err(|_| format!("{number} is too large"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.count()?;
        self.take(usize::try_from(length).map_err(|_| format!("{length} bytes are too many"))?)
    }

    fn text(&mut self) -> Result<String, String> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|error| error.to_string())?;
        Ok(text.to_owned())
    }

    fn value(&mut self) -> Result<Value, String> {
        Ok(match self.byte()? {
            FALSE => Value::Boolean(false),
            TRUE => Value::Boolean(true),
            INTEGER => {
                let number = self.number()?;
                Value::Integer((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
            }
            FLOAT => {
                let bits = self.take(8)?.try_into().map_err(|_| "a float has 8 bytes")?;
                Value::Float(f64::from_bits(u64::from_le_bytes(bits)))
            }
            TEXT => Value::Text(self.text()?),
            BYTES => Value::Bytes(self.bytes()?.to_vec()),
            kind => return Err(format!("there is no kind {kind} of value")),
        })
    }
}
