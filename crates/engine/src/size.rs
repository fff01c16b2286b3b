//! How much memory rows take.

use arrow::{
    array::{Array, AsArray},
    datatypes::{BinaryViewType, DataType, StringViewType},
    record_batch::RecordBatch,
};

/// Bytes that a batch would take if it shared nothing with others.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| own_bytes(column) + viewed_bytes(column)).sum()
}

fn own_bytes(column: &dyn Array) -> usize {
    column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
}

/// Texts that a view points to are not part of its own size.
fn viewed_bytes(column: &dyn Array) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_byte_view::<StringViewType>().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_byte_view::<BinaryViewType>().total_buffer_bytes_used(),
        _ => 0,
    }
}
