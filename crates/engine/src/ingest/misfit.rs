//! Values of CSV that their column's type cannot hold.
//!
//! The reader of CSV rounds decimals and takes a number that is too large for infinity. Neither may happen unseen.

use std::{fs::File, path::Path, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::cast,
    csv::ReaderBuilder,
    datatypes::{DataType, Field, Schema},
    error::ArrowError,
};

/// Whether the reader would change values of such a column instead of refusing them.
pub(super) fn is_lossy(data_type: &DataType) -> bool {
    data_type.is_floating() || data_type.is_decimal()
}

/// Describes the first value that does not fit: where it is, what was wanted and what is there. `None` when all fit.
pub(super) fn find(csv: &Path, schema: &Schema) -> Result<Option<String>, ArrowError> {
    let texts = schema.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true));
    let texts = Arc::new(Schema::new(texts.collect::<Vec<_>>()));
    let mut line = 2; // behind the header
    for batch in ReaderBuilder::new(texts).with_header(true).build(File::open(csv)?)? {
        let batch = batch?;
        let typed = schema.fields().iter().zip(batch.columns()).map(|(field, texts)| {
            let values =
                if is_text(field.data_type()) { Arc::clone(texts) } else { cast(texts, field.data_type())? };
            Ok((field, texts, values))
        });
        let typed = typed.collect::<Result<Vec<(&Arc<Field>, &ArrayRef, ArrayRef)>, ArrowError>>()?;
        for row in 0..batch.num_rows() {
            let misfit = typed.iter().find_map(|(field, texts, values)| misfit(field, texts, values, row));
            if let Some(misfit) = misfit {
                return Ok(Some(format!("line {line}, {misfit}")));
            }
            let text = |texts: &ArrayRef| texts.as_string::<i32>().value(row).matches('\n').count();
            line += 1 + batch.columns().iter().map(text).sum::<usize>();
        }
    }
    Ok(None)
}

fn is_text(data_type: &DataType) -> bool {
    data_type.is_string()
        || data_type.is_binary()
        || data_type.is_nested()
        || matches!(data_type, DataType::Dictionary(..))
}

fn misfit(field: &Field, texts: &ArrayRef, values: &ArrayRef, row: usize) -> Option<String> {
    let wanted = field.data_type();
    let texts = texts.as_string::<i32>();
    if texts.is_null(row) {
        let name = field.name();
        return (!field.is_nullable())
            .then(|| format!("column '{name}': wanted {wanted} not null, got no value"));
    }
    let text = texts.value(row);
    let fits = values.is_valid(row)
        && match wanted {
            DataType::Float64 => !overflows(text, text.parse::<f64>().is_ok_and(f64::is_infinite)),
            DataType::Float32 => !overflows(text, text.parse::<f32>().is_ok_and(f32::is_infinite)),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => places(text) <= i64::from(*scale),
            _ => true,
        };
    (!fits).then(|| format!("column '{}': wanted {wanted}, got '{text}'", field.name()))
}

/// Whether infinity stands for a number that is too large, not for the word.
fn overflows(text: &str, infinite: bool) -> bool {
    infinite && text.contains(|c: char| c.is_ascii_digit())
}

/// Decimal places that a number needs, negative when it ends in zeros before the point.
fn places(text: &str) -> i64 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if !significant.contains(|c: char| c.is_ascii_digit()) {
        return i64::MIN; // zero fits everywhere
    }
    let count = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let zeros = count(&digits) - count(significant);
    count(fraction).saturating_sub(exponent.parse().unwrap_or_default()).saturating_sub(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_that_matter() {
        for (text, wanted) in [
            ("1.25", 2),
            ("1.250", 2),
            ("-0.125", 3),
            ("5", 0),
            ("500", -2),
            ("1.5e1", 0),
            ("1e-3", 3),
            ("0.00", i64::MIN),
        ] {
            assert_eq!(places(text), wanted, "{text}");
        }
    }
}
