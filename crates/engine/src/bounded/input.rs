//! Arguments of a function, row by row, without expanding constants.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion::{common::Result, logical_expr::ColumnarValue};

/// The arguments of one call.
pub(super) struct Inputs(Vec<Input>);

/// One argument.
pub(super) struct Input {
    /// One row for a constant.
    array: ArrayRef,
    constant: bool,
}

impl Inputs {
    pub(super) fn new(args: &[ColumnarValue]) -> Result<Self> {
        Ok(Self(args.iter().map(Input::new).collect::<Result<_>>()?))
    }

    /// Whether every argument is a constant.
    pub(super) fn constant(&self) -> bool {
        self.0.iter().all(|input| input.constant)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Input> {
        self.0.iter()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Input> {
        self.0.get(at)
    }

    /// Bytes of an argument; 0 when there is none.
    pub(super) fn bytes(&self, at: usize, row: usize) -> u64 {
        self.get(at).map_or(0, |input| input.bytes(row))
    }

    /// Whole number of an argument; 0 when there is none, or null.
    pub(super) fn number(&self, at: usize, row: usize) -> i64 {
        self.get(at).and_then(|input| input.number(row)).unwrap_or_default()
    }

    /// Text of an argument.
    pub(super) fn text(&self, at: usize, row: usize) -> Option<&str> {
        self.get(at)?.text(row)
    }

    /// Elements of a list; 0 when there is none.
    pub(super) fn elements(&self, at: usize, row: usize) -> u64 {
        self.get(at).map_or(0, |input| input.elements(row))
    }
}

impl Input {
    fn new(arg: &ColumnarValue) -> Result<Self> {
        let (array, constant) = match arg {
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            ColumnarValue::Array(array) => (ArrayRef::clone(array), false),
        };
        let array = match array.data_type() {
            DataType::Dictionary(_, inner) => cast(&array, inner)?,
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64 => cast(&array, &DataType::Int64)?,
            _ => array,
        };
        Ok(Self { array, constant })
    }

    pub(super) fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    pub(super) fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// The position of a row.
    pub(super) fn at(&self, row: usize) -> usize {
        if self.constant { 0 } else { row }
    }

    fn bytes(&self, row: usize) -> u64 {
        let at = self.at(row);
        if self.array.is_null(at) {
            return 0;
        }
        match (self.text(row), self.array.data_type()) {
            (Some(text), _) => text.len() as u64,
            (None, DataType::Int64) => 8,
            _ => bytes(&self.array.slice(at, 1)),
        }
    }

    fn number(&self, row: usize) -> Option<i64> {
        let numbers = self.array.as_primitive_opt::<Int64Type>()?;
        let at = self.at(row);
        numbers.is_valid(at).then(|| numbers.value(at))
    }

    fn text(&self, row: usize) -> Option<&str> {
        let at = self.at(row);
        if self.array.is_null(at) {
            return None;
        }
        Some(match self.array.data_type() {
            DataType::Utf8 => self.array.as_string::<i32>().value(at),
            DataType::LargeUtf8 => self.array.as_string::<i64>().value(at),
            DataType::Utf8View => self.array.as_string_view().value(at),
            _ => return None,
        })
    }

    fn elements(&self, row: usize) -> u64 {
        let at = self.at(row);
        if self.array.is_null(at) {
            return 0;
        }
        match self.array.data_type() {
            DataType::List(_) => self.array.as_list::<i32>().value(at).len() as u64,
            DataType::LargeList(_) => self.array.as_list::<i64>().value(at).len() as u64,
            DataType::FixedSizeList(_, width) => u64::try_from(*width).unwrap_or_default(),
            _ => 0,
        }
    }
}

/// Bytes of the rows of an array, and of no others that its buffers may hold.
pub(super) fn bytes(array: &ArrayRef) -> u64 {
    let len = array.len() as u64;
    let between = |first: i64, last: i64| u64::try_from(last - first).unwrap_or_default();
    match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            offsets
                .first()
                .zip(offsets.last())
                .map_or(0, |(first, last)| between((*first).into(), (*last).into()))
        }
        DataType::LargeUtf8 => {
            let offsets = array.as_string::<i64>().value_offsets();
            offsets.first().zip(offsets.last()).map_or(0, |(first, last)| between(*first, *last))
        }
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            offsets
                .first()
                .zip(offsets.last())
                .map_or(0, |(first, last)| between((*first).into(), (*last).into()))
        }
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        DataType::List(_) => {
            let lists = array.as_list::<i32>().iter();
            lists.map(|list| 8 + list.as_ref().map_or(0, bytes)).sum()
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>().iter();
            lists.map(|list| 8 + list.as_ref().map_or(0, bytes)).sum()
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(bytes).sum::<u64>() + len,
        other => match other.primitive_width() {
            Some(width) => len * width as u64,
            None => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX) as u64,
        },
    }
}
