//! What comes over the wire and may be anything.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, NullArray, RecordBatch, StringArray, UInt32Array},
    datatypes::{DataType, Field, Schema},
    ipc::{
        CompressionType,
        writer::{IpcWriteOptions, StreamWriter},
    },
};
use bytes::Bytes;
use pointsman_engine::rows::{Checked, MAX_ROWS, Memory, RowStore, decode, encode};
use pointsman_ids::{
    ErrorCode,
    request::{Query, Question, Search},
};
use proptest::prelude::*;

use crate::world::{Row, Store, THREADS, table};

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![Some(1), None, Some(3)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("bc"), None]));
    RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).expect("a batch")
}

#[test]
fn rows_come_back_also_from_bytes_that_lie_anywhere() {
    let encoded = encode(&batch()).unwrap();
    for shift in 0..9 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(&encoded);
        assert_eq!(decode(Bytes::from(bytes).slice(shift..)).unwrap(), batch());
    }
    let none = batch().slice(0, 0);
    assert_eq!(decode(encode(&none).unwrap()).unwrap(), none);
}

#[test]
fn what_is_cut_off_compressed_or_too_long_is_refused() {
    let encoded = encode(&batch()).unwrap();
    for end in 0..encoded.len() {
        let error = decode(encoded.slice(..end)).expect_err("it is not whole");
        assert_eq!(error.code(), ErrorCode::ServiceInternal, "{end}: {error}");
    }
    let mut more = encoded.to_vec();
    more.push(0);
    assert!(decode(more.into()).unwrap_err().message().contains("follows"));
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut small = vec![];
    let mut writer = StreamWriter::try_new_with_options(&mut small, batch().schema_ref(), options).unwrap();
    writer.write(&batch()).and_then(|()| writer.finish()).unwrap();
    assert!(decode(small.into()).unwrap_err().message().contains("compressed"));
    assert!(decode(vec![0; 70 << 20].into()).unwrap_err().message().contains("more than an answer"));
}

/// Nulls take no memory on the way, and a loop over them has no end.
#[test]
fn more_rows_than_an_answer_has_are_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("nothing", DataType::Null, true)]));
    let nulls =
        |rows| RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(NullArray::new(rows))]).unwrap();
    assert_eq!(decode(encode(&nulls(MAX_ROWS)).unwrap()).unwrap().num_rows(), MAX_ROWS);
    for rows in [MAX_ROWS + 1, 1 << 40] {
        assert!(decode(encode(&nulls(rows)).unwrap()).unwrap_err().message().contains("without end"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_are_refused_or_are_rows(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&batch()).unwrap().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // Neither a panic nor a request for memory without end, which would end the process.
        if let Ok(rows) = decode(bytes.into()) {
            prop_assert!(rows.num_rows() <= MAX_ROWS);
        }
    }
}

#[test]
fn a_part_of_another_question_is_refused() {
    let mut store = Store::new();
    store.add(1, &[Row { id: Some(1), name: None, n: 1, v: Some(vec![0.0, 0.0]) }], 2, 10, 0);
    let (ids, table) = (store.ids(), table(Some("id"), 2, vec![]));
    let rows: Arc<dyn RowStore> = Arc::new(store);
    let query = Checked::new(Question::Query(Query { limit: 1, ..Query::default() }), &table).unwrap();
    let search = Search { vectors: vec![vec![0.0, 0.0]], k: 1, ..Search::default() };
    let search = Checked::new(Question::Search(search), &table).unwrap();
    let (part, _) = THREADS.block_on(query.answer(&ids, &rows, &Memory::new(0))).unwrap();
    let bytes = part.encode().unwrap();
    assert_eq!(query.decode(bytes.clone()).unwrap(), part);
    assert!(search.decode(bytes).unwrap_err().message().contains("were asked for"));
    assert_eq!(query.finish(&query.merge(vec![]).unwrap()).unwrap().num_rows(), 0);
}
