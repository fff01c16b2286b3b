//! Rows as Arrow IPC streams.

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    compute::concat_batches,
    ipc::{MessageHeader, reader::StreamDecoder, root_as_message, writer::StreamWriter},
};
use bytes::Bytes;
use pointsman_ids::Result;

use super::limits::{MAX_ANSWER_BYTES, MAX_ROWS};

/// What an encoded answer may take beside its rows: the schema, and padding of columns.
const AROUND: usize = 1 << 20;
/// What stands before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Rows as an Arrow IPC stream.
///
/// # Errors
/// `service_internal` when the encoder fails.
pub fn encode(rows: &RecordBatch) -> Result<Bytes> {
    let mut bytes = vec![];
    StreamWriter::try_new(&mut bytes, rows.schema_ref())
        .and_then(|mut writer| {
            writer.write(rows)?;
            writer.finish()
        })
        .map_err(super::broken)?;
    Ok(bytes.into())
}

/// The rows of an Arrow IPC stream that [`encode`] wrote. Takes no more memory than the bytes have.
///
/// # Errors
/// `service_internal` for what is none, is compressed, or is larger than an answer may be.
pub fn decode(bytes: Bytes) -> Result<RecordBatch> {
    if bytes.len() > MAX_ANSWER_BYTES + AROUND {
        return Err(super::broken(format!(
            "{} bytes of rows came, which is more than an answer has",
            bytes.len()
        )));
    }
    check(&bytes)?;
    // The decoder believes some of what the check does not look at.
    std::panic::catch_unwind(|| read(bytes)).unwrap_or_else(|_| Err(garbage("it contradicts itself")))
}

fn read(bytes: Bytes) -> Result<RecordBatch> {
    // Rows take at least a bit each, but for those whose columns hold nothing but nulls.
    let mut room = MAX_ROWS.max(bytes.len().saturating_mul(8));
    let mut decoder = StreamDecoder::new();
    let mut buffer = Buffer::from(bytes);
    let mut batches = vec![];
    while !buffer.is_empty() {
        if let Some(batch) = decoder.decode(&mut buffer).map_err(garbage)? {
            room = room.checked_sub(batch.num_rows()).ok_or_else(|| garbage("it has rows without end"))?;
            batches.push(batch);
        }
    }
    decoder.finish().map_err(garbage)?;
    let schema = decoder.schema().ok_or_else(|| garbage("it has no schema"))?;
    match batches.pop() {
        Some(only) if batches.is_empty() => Ok(only),
        last => {
            batches.extend(last);
            concat_batches(&schema, &batches).map_err(garbage)
        }
    }
}

/// Whether all messages are there and none is compressed: a small one could become very large.
fn check(bytes: &[u8]) -> Result<()> {
    let mut left = bytes;
    loop {
        let header = |left: &[u8]| left.split_first_chunk::<4>().map(|(word, rest)| (*word, rest.len()));
        let Some((mut word, mut rest)) = header(left) else { return Err(garbage("it breaks off")) };
        if word == CONTINUATION {
            (word, rest) = header(&left[4..]).ok_or_else(|| garbage("it breaks off"))?;
        }
        let length = u32::from_le_bytes(word) as usize;
        let behind = &left[left.len() - rest..];
        if length == 0 {
            return if behind.is_empty() { Ok(()) } else { Err(garbage("something follows its end")) };
        }
        let (message, behind) = behind.split_at_checked(length).ok_or_else(|| garbage("it breaks off"))?;
        let message = root_as_message(message).map_err(garbage)?;
        let body = usize::try_from(message.bodyLength()).map_err(garbage)?;
        let compressed = match message.header_type() {
            MessageHeader::RecordBatch => {
                message.header_as_record_batch().map(|batch| batch.compression().is_some())
            }
            MessageHeader::DictionaryBatch => message
                .header_as_dictionary_batch()
                .and_then(|batch| batch.data())
                .map(|batch| batch.compression().is_some()),
            MessageHeader::Schema => Some(false),
            _ => None,
        };
        match compressed {
            Some(false) => {}
            Some(true) => return Err(garbage("it is compressed")),
            None => return Err(garbage("it holds something else")),
        }
        (_, left) = behind.split_at_checked(body).ok_or_else(|| garbage("it breaks off"))?;
    }
}

fn garbage(why: impl std::fmt::Display) -> pointsman_ids::Error {
    super::broken(format!("what came is no Arrow IPC stream of rows: {why}"))
}
