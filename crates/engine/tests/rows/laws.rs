//! Whatever the rows and the question: an answer is that of the model, and merging in any way gives the same.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{Float32Type, UInt32Type},
};
use pointsman_engine::rows::{Checked, Memory, Part, RowStore};
use pointsman_ids::{
    catalog::Value,
    request::{Get, Metric, Query, Question, Search},
};
use proptest::prelude::*;

use crate::{
    model::{CONDITIONS, Condition, Key, Line, Model},
    world::{Row, Store, THREADS, table},
};

const DIMS: usize = 2;

fn row() -> impl Strategy<Value = Row> {
    let vector = prop::collection::vec((-2_i8..3).prop_map(f32::from), DIMS);
    let name = prop::sample::select(vec![None, Some(""), Some("a"), Some("b"), Some("a longer name")]);
    (prop::option::weighted(0.9, 0_i64..5), name, 0..6, prop::option::weighted(0.9, vector))
        .prop_map(|(id, name, n, v)| Row { id, name, n, v })
}

fn segments() -> impl Strategy<Value = Vec<Vec<Row>>> {
    prop::collection::vec(prop::collection::vec(row(), 0..40), 0..5)
}

fn key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec![Key::None, Key::Id, Key::Name])
}

fn condition() -> impl Strategy<Value = Option<Condition>> {
    prop::option::of(prop::sample::select(CONDITIONS))
}

fn filter(condition: Option<Condition>) -> Option<String> {
    condition.map(|(sql, _)| sql.to_owned())
}

/// A store with the segments 10, 11, and so on.
fn store(segments: &[Vec<Row>], group: usize) -> Arc<Store> {
    let mut store = Store::new();
    let mut first = 0;
    for (id, rows) in (10..).zip(segments) {
        store.add(id, rows, DIMS, group, first);
        first += u32::try_from(rows.len()).expect("few");
    }
    Arc::new(store)
}

/// How segments are shared out among parts, and which parts are merged before the others.
#[derive(Clone, Debug)]
struct Split {
    part_of: Vec<usize>,
    early: Vec<bool>,
}

fn split() -> impl Strategy<Value = Split> {
    (prop::collection::vec(0_usize..4, 5), prop::collection::vec(any::<bool>(), 4))
        .prop_map(|(part_of, early)| Split { part_of, early })
}

/// The answer, merged from parts that came over the wire.
fn answer(checked: &Checked, store: &Arc<Store>, memory: &Memory, split: &Split) -> RecordBatch {
    let rows: Arc<dyn RowStore> = Arc::clone(store) as _;
    let part = |part: usize| {
        let own: Vec<_> = (store.ids().into_iter().zip(&split.part_of))
            .filter(|(_, of)| **of == part)
            .map(|(id, _)| id)
            .collect();
        let (part, looked) = THREADS.block_on(checked.answer(&own, &rows, memory)).expect("an answer");
        assert_eq!(looked.segments, own.len() as u64);
        checked.decode(part.encode().expect("an answer")).expect("an answer")
    };
    let (early, late): (Vec<(usize, Part)>, _) =
        (0..4).map(|at| (at, part(at))).partition(|(at, _)| split.early[*at]);
    let parts = |parts: Vec<(usize, Part)>| parts.into_iter().map(|(_, part)| part);
    let merged = checked.merge(parts(early).collect()).expect("an answer");
    let all = parts(late).chain([merged]).collect();
    checked.finish(&checked.merge(all).expect("an answer")).expect("an answer")
}

fn tags(rows: &RecordBatch) -> Vec<u32> {
    rows["tag"].as_primitive::<UInt32Type>().values().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_the_model_finds(
        segments in segments(),
        group in 1_usize..20,
        key in key(),
        condition in condition(),
        vectors in prop::collection::vec(prop::collection::vec((-2_i8..3).prop_map(f32::from), DIMS), 1..20),
        k in 1_u32..12,
        metric in prop::sample::select(Metric::ALL.to_vec()),
        memory in prop::sample::select(vec![0, 3_000, 1 << 20]),
        split in split(),
    ) {
        let search = Search {
            vectors, k, metric: Some(metric), filter: filter(condition), columns: vec!["tag".into()],
            ..Search::default()
        };
        let checked = Checked::new(Question::Search(search.clone()), &table(key.column(), DIMS, vec![])).unwrap();
        let store = store(&segments, group);
        let rows = answer(&checked, &store, &Memory::new(memory), &split);
        let queries = rows["_query"].as_primitive::<UInt32Type>();
        let distances = rows["_distance"].as_primitive::<Float32Type>();
        let found: Vec<Line> = tags(&rows).into_iter().enumerate()
            .map(|(at, tag)| (queries.value(at), distances.value(at).to_bits(), tag))
            .collect();
        prop_assert_eq!(found, Model { rows: segments.concat(), key }.search(&search, condition));
    }

    #[test]
    fn rows_by_condition_are_those_of_the_model(
        segments in segments(),
        group in 1_usize..20,
        key in key(),
        condition in condition(),
        limit in 1_u32..40,
        split in split(),
    ) {
        let query = Query { filter: filter(condition), columns: vec![], limit };
        let checked = Checked::new(Question::Query(query.clone()), &table(key.column(), DIMS, vec![])).unwrap();
        let store = store(&segments, group);
        let rows = answer(&checked, &store, &Memory::new(1 << 20), &split);
        prop_assert_eq!(tags(&rows), Model { rows: segments.concat(), key }.query(&query, condition));
    }

    #[test]
    fn rows_by_key_are_those_of_the_model(
        segments in segments(),
        group in 1_usize..20,
        ids in prop::collection::hash_set(-1_i128..7, 1..5),
        names in prop::collection::hash_set(prop::sample::select(vec!["", "a", "b", "c"]), 1..4),
        by_id in any::<bool>(),
        split in split(),
    ) {
        let (key, keys) = if by_id {
            (Key::Id, ids.into_iter().map(Value::Integer).collect())
        } else {
            (Key::Name, names.into_iter().map(|name| Value::Text(name.into())).collect())
        };
        let get = Get { keys, columns: vec!["v".into(), "tag".into()] };
        let checked = Checked::new(Question::Get(get.clone()), &table(key.column(), DIMS, vec![])).unwrap();
        let store = store(&segments, group);
        let rows = answer(&checked, &store, &Memory::new(1 << 20), &split);
        let model = Model { rows: segments.concat(), key };
        let found = tags(&rows);
        prop_assert_eq!(&found, &model.get(&get));
        let lists = rows["v"].as_fixed_size_list();
        for (at, tag) in found.into_iter().enumerate() {
            use arrow::array::Array;
            let own = lists.is_valid(at).then(|| lists.value(at).as_primitive::<Float32Type>().values().to_vec());
            prop_assert_eq!(&own, &model.rows[tag as usize].v);
        }
    }
}
