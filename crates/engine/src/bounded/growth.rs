//! How large the result of a function can get, from its arguments.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit},
};

use super::input::{Input, Inputs};

/// Bytes of one character, at most.
const CHARACTER: u64 = 4;
/// Bytes that a number or a date takes as text, at most.
const NUMBER: u64 = 64;
/// Bytes that one sign of a format can become, at most.
const FORMATTED: u64 = 32;
/// Bytes of one element of a list beside its text: its view, its validity.
const ELEMENT: u64 = 24;

/// The law by which a function's result grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// The first argument, as often as the second says.
    Repeat,
    /// A list of the first argument, as often as the second says.
    Fill,
    /// As many characters as the second argument says.
    Pad,
    /// Every occurrence of the second argument gives way to the third.
    Replace,
    /// Every match of the second argument gives way to the third, which may quote the match.
    RegexpReplace,
    /// Every group of the second argument can be as long as the first.
    RegexpMatch,
    /// All arguments one after the other.
    Sum,
    /// The first argument as text of another base.
    Encode,
    /// All arguments with the first between them.
    Join,
    /// The first argument with other letters.
    Letters,
    /// The second argument is a format.
    Format,
    /// A list of as many elements as the second argument says, filled with the third.
    Resize,
    /// A list of the numbers or times between the first two arguments.
    Series,
    /// The elements of a list as one text, with the second argument between them.
    ListToText,
    /// A text cut into a list.
    TextToList,
    /// Elements of a list give way to the third argument.
    ListReplace,
    /// Lists side by side, all as long as the longest.
    Zip,
    /// The result is small, the work is the product of the lengths.
    Product,
}

impl Growth {
    /// The law of a function; `None` when its result is never much larger than its arguments.
    pub(super) fn of(function: &str) -> Option<Self> {
        Some(match function {
            "repeat" => Self::Repeat,
            "array_repeat" => Self::Fill,
            "lpad" | "rpad" => Self::Pad,
            "replace" => Self::Replace,
            "regexp_replace" => Self::RegexpReplace,
            "regexp_match" => Self::RegexpMatch,
            "concat" | "overlay" | "make_array" | "array_append" | "array_prepend" | "array_concat"
            | "array_union" | "map" | "||" => Self::Sum,
            "encode" => Self::Encode,
            "concat_ws" => Self::Join,
            "upper" | "lower" | "initcap" | "reverse" | "translate" | "left" | "right" | "substr"
            | "btrim" | "ltrim" | "rtrim" | "split_part" | "substr_index" => Self::Letters,
            "to_char" => Self::Format,
            "array_resize" => Self::Resize,
            "range" | "generate_series" => Self::Series,
            "array_to_string" => Self::ListToText,
            "string_to_array" => Self::TextToList,
            "array_replace" | "array_replace_n" | "array_replace_all" => Self::ListReplace,
            "arrays_zip" => Self::Zip,
            "levenshtein" => Self::Product,
            _ => return None,
        })
    }

    /// What is counted.
    pub(super) fn unit(self) -> &'static str {
        if self == Self::Product { "steps" } else { "bytes" }
    }

    /// An upper bound of the result of one row.
    pub(super) fn bound(self, inputs: &Inputs, row: usize) -> u64 {
        let bytes = |at| inputs.bytes(at, row);
        let count = |at| u64::try_from(inputs.number(at, row)).unwrap_or_default();
        let sum = || inputs.all().enumerate().map(|(at, _)| bytes(at).max(ELEMENT)).sum::<u64>();
        match self {
            Self::Repeat => bytes(0).saturating_mul(count(1)),
            Self::Fill => bytes(0).max(8).saturating_mul(count(1)),
            Self::Pad => count(1).saturating_mul(CHARACTER),
            Self::Replace => replaced(inputs, row),
            Self::RegexpReplace => {
                let quoting = 2_u64.saturating_mul(bytes(0) + 1).saturating_mul(bytes(2));
                bytes(0).saturating_add(quoting)
            }
            Self::RegexpMatch => (bytes(0) + ELEMENT).saturating_mul(1 + bytes(1) / 2),
            Self::Sum => inputs
                .all()
                .enumerate()
                .map(|(at, input)| as_text(input, bytes(at)))
                .fold(0, u64::saturating_add),
            Self::Encode => bytes(0).saturating_mul(2),
            Self::Join => {
                let others = inputs.all().count() as u64;
                sum().saturating_add(bytes(0).saturating_mul(others))
            }
            Self::Letters => bytes(0).saturating_mul(3),
            Self::Format => bytes(1).saturating_mul(FORMATTED).saturating_add(NUMBER),
            Self::Resize => bytes(0).saturating_add(bytes(2).max(8).saturating_mul(count(1))),
            Self::Series => series(inputs, row).saturating_mul(8),
            Self::ListToText => {
                let each = bytes(1).saturating_add(bytes(2)).saturating_add(NUMBER);
                let depth = bytes(0).max(inputs.elements(0, row));
                bytes(0).saturating_add(depth.saturating_mul(each))
            }
            Self::TextToList => (bytes(0) + 1).saturating_mul(ELEMENT),
            Self::ListReplace => bytes(0).saturating_add(inputs.elements(0, row).saturating_mul(bytes(2))),
            Self::Zip => sum().saturating_mul(inputs.all().count() as u64),
            Self::Product => bytes(0).saturating_mul(bytes(1)),
        }
    }
}

/// What an argument takes once it is text.
fn as_text(input: &Input, bytes: u64) -> u64 {
    match input.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => bytes,
        other if other.is_nested() || other.is_binary() => bytes,
        _ => NUMBER,
    }
}

fn replaced(inputs: &Inputs, row: usize) -> u64 {
    let (Some(text), Some(from), Some(to)) = (inputs.text(0, row), inputs.text(1, row), inputs.text(2, row))
    else {
        return inputs.bytes(0, row);
    };
    if to.len() <= from.len() {
        return text.len() as u64;
    }
    let found = text.matches(from).count() as u64;
    (text.len() as u64).saturating_add(found.saturating_mul((to.len() - from.len()) as u64))
}

/// Elements between two numbers or times, at most.
fn series(inputs: &Inputs, row: usize) -> u64 {
    let value = |at: usize| inputs.get(at).and_then(|input| moment(input, row));
    let (first, last) = match inputs.get(1) {
        None => (Some(0), value(0)),
        Some(_) => (value(0), value(1)),
    };
    let (Some(first), Some(last)) = (first, last) else { return 0 };
    let step = match inputs.get(2) {
        None => 1,
        Some(input) => stride(input, row).unwrap_or(1),
    };
    let elements = (last - first).unsigned_abs() / step.unsigned_abs().max(1) + 1;
    u64::try_from(elements).unwrap_or(u64::MAX)
}

const DAY: i128 = 86_400_000_000_000;

/// A number as it is; a time in nanoseconds.
fn moment(input: &Input, row: usize) -> Option<i128> {
    let unit = match input.data_type() {
        DataType::Date32 => DAY,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    let numbers = integers(input.array())?;
    let numbers = numbers.as_primitive_opt::<Int64Type>()?;
    let at = input.at(row);
    numbers.is_valid(at).then(|| i128::from(numbers.value(at)) * unit)
}

fn integers(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Int64 => Some(ArrayRef::clone(array)),
        DataType::Date32 => cast(&cast(array, &DataType::Int32).ok()?, &DataType::Int64).ok(),
        _ => cast(array, &DataType::Int64).ok(),
    }
}

/// How far one element is from the next, at least.
fn stride(input: &Input, row: usize) -> Option<i128> {
    if *input.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return moment(input, row);
    }
    let intervals = input.array().as_primitive_opt::<IntervalMonthDayNanoType>()?;
    let at = input.at(row);
    intervals.is_valid(at).then(|| {
        let interval = intervals.value(at);
        let days = i128::from(interval.months) * 28 + i128::from(interval.days);
        days * DAY + i128::from(interval.nanoseconds)
    })
}
