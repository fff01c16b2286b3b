//! The index as its users see it: what it finds, what it costs at most, what it says to bytes that are not its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use pointsman_ids::request::Metric;
use pointsman_vectors::{BuildOptions, Error, Index, Neighbour, RowSet, Vectors, nearest};
use proptest::{collection::vec, prelude::*};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// `rows` vectors around `clusters` centres.
fn clustered(rows: usize, dims: usize, clusters: usize, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let centres: Vec<f32> = (0..clusters * dims).map(|_| rng.random_range(-1.0..1.0)).collect();
    let mut numbers = Vec::with_capacity(rows * dims);
    for _ in 0..rows {
        let centre = rng.random_range(0..clusters) * dims;
        numbers.extend(centres[centre..][..dims].iter().map(|at| at + rng.random_range(-0.5..0.5)));
    }
    numbers
}

fn build(vectors: Vectors<'_>, metric: Metric) -> Index {
    Index::build(vectors, metric, &BuildOptions::default(), 1, &|| false).unwrap()
}

fn rows(found: &[Neighbour]) -> Vec<u32> {
    found.iter().map(|found| found.row).collect()
}

/// How many of the 10 nearest to 100 other vectors are found.
fn recall(index: &Index, vectors: Vectors<'_>, queries: Vectors<'_>, accept: Option<&RowSet>) -> f64 {
    let mut found = 0;
    for query in queries.iter() {
        let exact = rows(&nearest(vectors, index.metric(), query, 10, accept).unwrap());
        let answer = index.search(vectors, query, 10, Index::CANDIDATES, accept).unwrap();
        found += rows(&answer).iter().filter(|row| exact.contains(row)).count();
    }
    found as f64 / (10 * queries.rows()) as f64
}

#[test]
fn most_of_the_nearest_are_found_with_every_metric_and_with_filters() {
    let numbers = clustered(12_100, 32, 12, 3);
    let (queries, numbers) = numbers.split_at(100 * 32);
    let (queries, vectors) = (Vectors::new(queries, 32).unwrap(), Vectors::new(numbers, 32).unwrap());
    let half = RowSet::new(vectors.rows(), |row| row % 10 < 7);
    for metric in Metric::ALL {
        let index = build(vectors, metric);
        for accept in [None, Some(&half)] {
            let recall = recall(&index, vectors, queries, accept);
            assert!(recall >= 0.95, "{metric}: {recall}, filtered: {}", accept.is_some());
        }
    }
}

#[test]
fn the_index_is_the_same_with_any_number_of_threads_and_another_with_another_seed() {
    let numbers = clustered(5_000, 8, 10, 5);
    let vectors = Vectors::new(&numbers, 8).unwrap();
    let with = |threads, seed| {
        let options = BuildOptions { threads, ..BuildOptions::default() };
        Index::build(vectors, Metric::L2, &options, seed, &|| false).unwrap()
    };
    assert_eq!(with(1, 1), with(3, 1));
    assert_ne!(with(1, 1), with(1, 2));
}

#[test]
fn a_filter_far_from_the_query_is_answered_whole() {
    let numbers = clustered(20_000, 16, 2, 9);
    let vectors = Vectors::new(&numbers, 16).unwrap();
    let index = build(vectors, Metric::L2);
    let query = vectors.row(0);
    let all = nearest(vectors, Metric::L2, query, vectors.rows(), None).unwrap();
    let far = &all[12_000..];
    let bound = all[11_999].distance;
    let set = RowSet::new(vectors.rows(), |row| {
        let alone = Vectors::new(vectors.row(row as u32), 16).unwrap();
        nearest(alone, Metric::L2, query, 1, None).unwrap()[0].distance > bound
    });
    assert_eq!(set.len(), far.len());
    let found = index.search(vectors, query, 10, 64, Some(&set)).unwrap();
    assert_eq!(rows(&found), rows(&far[..10]), "a walk that went too far is done again by looking at all");
}

#[test]
fn vectors_that_are_equal_or_no_numbers_are_answered_as_exactly_as_without_an_index() {
    let mut numbers = vec![0.5; 12_000 * 4];
    numbers[..400].fill(f32::NAN);
    let vectors = Vectors::new(&numbers, 4).unwrap();
    let odd = RowSet::new(vectors.rows(), |row| row % 2 == 1);
    for metric in Metric::ALL {
        let index = build(vectors, metric);
        for (query, accept) in [([0.5; 4], None), ([0.0; 4], Some(&odd)), ([f32::NAN; 4], None)] {
            let found = index.search(vectors, &query, 7, 10, accept).unwrap();
            assert_eq!(found, nearest(vectors, metric, &query, 7, accept).unwrap(), "{metric}, {query:?}");
        }
    }
}

/// As texts without content are, in a real collection: one vector, very often, in the midst of all.
#[test]
fn many_equal_vectors_do_not_hide_the_others() {
    let mut numbers = clustered(10_100, 16, 1, 4);
    numbers.iter_mut().skip(100 * 16).step_by(16 * 3).for_each(|number| *number = f32::NAN);
    let equal = |row: &[f32]| row[0].is_nan();
    numbers.chunks_exact_mut(16).filter(|row| equal(row)).for_each(|row| row.fill(0.0));
    let (queries, numbers) = numbers.split_at(100 * 16);
    let (queries, vectors) = (Vectors::new(queries, 16).unwrap(), Vectors::new(numbers, 16).unwrap());
    for metric in Metric::ALL {
        let recall = recall(&build(vectors, metric), vectors, queries, None);
        assert!(recall >= 0.95, "{metric}: {recall}");
    }
}

/// Equal distances from different vectors, as numbers of few bits have them.
#[test]
fn many_equally_near_vectors_are_built_and_searched_soon() {
    let mut rng = StdRng::seed_from_u64(8);
    let numbers: Vec<f32> = (0..20_000 * 24).map(|_| f32::from(u8::from(rng.random_bool(0.1)))).collect();
    let vectors = Vectors::new(&numbers, 24).unwrap();
    let start = Instant::now();
    let index = build(vectors, Metric::InnerProduct);
    assert!(start.elapsed() < Duration::from_secs(60), "a walk goes through all that are equally near");
    let found = index.search(vectors, &[1.0; 24], 10, 64, None).unwrap();
    assert_eq!(found.len(), 10);
}

#[test]
fn a_build_stops_when_it_is_told_to() {
    let numbers = clustered(20_000, 16, 2, 9);
    let vectors = Vectors::new(&numbers, 16).unwrap();
    for threads in [1, 2] {
        let looks = AtomicUsize::new(0);
        let cancelled = || looks.fetch_add(1, Relaxed) > 50;
        let options = BuildOptions { threads, ..BuildOptions::default() };
        let built = Index::build(vectors, Metric::L2, &options, 1, &cancelled);
        assert_eq!(built, Err(Error::Cancelled));
        assert!(looks.load(Relaxed) < 100, "it went on");
    }
}

#[test]
fn an_index_belongs_to_its_vectors_alone() {
    let numbers = clustered(1_000, 4, 2, 9);
    let vectors = Vectors::new(&numbers, 4).unwrap();
    let index = Index::from_bytes(&build(vectors, Metric::L2).to_bytes()).unwrap();
    assert_eq!(index.check(vectors, Metric::L2), Ok(()));
    let other = Error::OtherMetric { expected: Metric::Cosine, found: Metric::L2 };
    assert_eq!(index.check(vectors, Metric::Cosine), Err(other));
    let fewer = Vectors::new(&numbers[4..], 4).unwrap();
    assert_eq!(index.check(fewer, Metric::L2), Err(Error::Rows { expected: 1_000, found: 999 }));
    assert!(index.search(fewer, &[0.0; 4], 1, 10, None).is_err());
    let mut changed = numbers.clone();
    changed[3_999] += 1.0;
    assert_eq!(index.check(Vectors::new(&changed, 4).unwrap(), Metric::L2), Err(Error::OtherVectors));
    let query = Error::Dims { expected: 4, found: 3 };
    assert_eq!(index.search(vectors, &[0.0; 3], 1, 10, None), Err(query));
    let set = RowSet::new(999, |_| true);
    let set_error = Error::Rows { expected: 1_000, found: 999 };
    assert_eq!(index.search(vectors, &[0.0; 4], 1, 10, Some(&set)), Err(set_error));
}

#[test]
fn rows_that_no_walk_comes_by_are_found_by_looking_at_all() {
    let mut numbers = clustered(12_000, 4, 2, 9);
    numbers[..8_000 * 4].fill(f32::INFINITY);
    let vectors = Vectors::new(&numbers, 4).unwrap();
    let far = RowSet::new(vectors.rows(), |row| row < 8_000);
    let found = build(vectors, Metric::L2).search(vectors, &[0.0; 4], 3, 10, Some(&far)).unwrap();
    assert_eq!(rows(&found), [0, 1, 2]);
}

#[test]
fn a_link_to_a_row_that_is_not_there_is_refused() {
    let numbers = clustered(700, 3, 4, 2);
    let bytes = build(Vectors::new(&numbers, 3).unwrap(), Metric::L2).to_bytes();
    for from_the_end in (36..400).step_by(4) {
        let mut bytes = bytes.clone();
        let at = bytes.len() - from_the_end;
        bytes[at..at + 4].copy_from_slice(&700_u32.to_le_bytes());
        let (content, hash) = bytes.split_last_chunk_mut::<32>().unwrap();
        *hash = *blake3::hash(content).as_bytes();
        let damaged =
            matches!(Index::from_bytes(&bytes), Err(Error::Damaged("it names rows that it does not have")));
        assert!(damaged, "{from_the_end}");
    }
}

#[test]
fn another_format_is_named() {
    let numbers = clustered(100, 4, 2, 9);
    let mut bytes = build(Vectors::new(&numbers, 4).unwrap(), Metric::L2).to_bytes();
    bytes[8] = 9;
    assert_eq!(Index::from_bytes(&bytes), Err(Error::Version { found: 9, known: 1 }));
}

fn metric() -> impl Strategy<Value = Metric> {
    prop::sample::select(Metric::ALL.to_vec())
}

/// Few numbers, so that there are ties.
fn numbers(rows: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f32>> {
    vec((-8_i8..8).prop_map(|number| f32::from(number) / 4.0), rows.start * 3..rows.end * 3).prop_map(
        |mut numbers| {
            numbers.truncate(numbers.len() / 3 * 3);
            numbers
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn exact_search_is_sorting(
        numbers in numbers(0..300),
        query in prop::array::uniform3(-2.0_f32..2.0),
        k in 0_usize..400,
        metric in metric(),
        modulus in 1_usize..5,
    ) {
        let vectors = Vectors::new(&numbers, 3).unwrap();
        let set = RowSet::new(vectors.rows(), |row| row % modulus == 0);
        let mut expected: Vec<Neighbour> = (0..vectors.rows() as u32)
            .step_by(modulus)
            .flat_map(|row| {
                let alone = nearest(Vectors::new(vectors.row(row), 3).unwrap(), metric, &query, 1, None).unwrap();
                alone.into_iter().map(move |found| Neighbour { row, ..found })
            })
            .collect();
        expected.sort_unstable();
        expected.truncate(k);
        prop_assert_eq!(nearest(vectors, metric, &query, k, Some(&set)).unwrap(), expected);
    }

    #[test]
    fn an_answer_is_ordered_whole_and_of_accepted_rows(
        numbers in numbers(500..1500),
        query in prop::array::uniform3(-2.0_f32..2.0),
        k in 0_usize..40,
        candidates in 0_usize..12,
        metric in metric(),
        modulus in 1_usize..5,
    ) {
        let vectors = Vectors::new(&numbers, 3).unwrap();
        let options = BuildOptions { candidates: 8, threads: 1 };
        let index = Index::build(vectors, metric, &options, 1, &|| false).unwrap();
        let set = RowSet::new(vectors.rows(), |row| row % modulus == 0);
        let found = index.search(vectors, &query, k, candidates, Some(&set)).unwrap();
        let all = nearest(vectors, metric, &query, vectors.rows(), Some(&set)).unwrap();
        prop_assert_eq!(found.len(), k.min(all.len()));
        prop_assert!(found.is_sorted_by(|a, b| a < b), "{:?}", found);
        prop_assert!(found.iter().all(|found| all.contains(found)), "a row or its distance is not true");
    }

    #[test]
    fn of_few_rows_an_index_finds_exactly_the_nearest(
        numbers in numbers(0..200),
        query in prop::array::uniform3(-2.0_f32..2.0),
        k in 0_usize..40,
        metric in metric(),
    ) {
        let vectors = Vectors::new(&numbers, 3).unwrap();
        let index = build(vectors, metric);
        let found = index.search(vectors, &query, k, Index::CANDIDATES, None).unwrap();
        prop_assert_eq!(found, nearest(vectors, metric, &query, k, None).unwrap());
    }

    #[test]
    fn an_index_is_read_as_it_was_written(numbers in numbers(0..400), metric in metric(), seed: u64) {
        let vectors = Vectors::new(&numbers, 3).unwrap();
        let index = Index::build(vectors, metric, &BuildOptions::default(), seed, &|| false).unwrap();
        prop_assert_eq!(Index::from_bytes(&index.to_bytes()), Ok(index));
    }

    #[test]
    fn damage_is_noticed(
        numbers in numbers(0..400),
        at: prop::sample::Index,
        change in 1_u8..,
        cut: prop::sample::Index,
        longer in vec(any::<u8>(), 1..50),
    ) {
        let bytes = build(Vectors::new(&numbers, 3).unwrap(), Metric::L2).to_bytes();
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= change;
        prop_assert!(Index::from_bytes(&changed).is_err());
        prop_assert!(Index::from_bytes(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert!(Index::from_bytes(&[bytes, longer].concat()).is_err());
    }

    /// As one who writes such bytes on purpose would: the checksum is right.
    #[test]
    fn bytes_that_lie_are_refused_or_do_no_harm(
        changes in vec((any::<prop::sample::Index>(), prop::sample::select(vec![0_u32, 1, 7, 300, 700, 703, u32::MAX - 1, u32::MAX])), 1..6),
        in_head: bool,
    ) {
        let numbers = clustered(700, 3, 4, 2);
        let vectors = Vectors::new(&numbers, 3).unwrap();
        let mut bytes = build(vectors, Metric::L2).to_bytes();
        bytes.truncate(bytes.len() - 32);
        let numbers_at = if in_head { 3..20 } else { 3..bytes.len() / 4 };
        for (at, number) in changes {
            let at = (numbers_at.start + at.index(numbers_at.len())) * 4;
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let hash = *blake3::hash(&bytes).as_bytes();
        bytes.extend(hash);
        if let Ok(index) = Index::from_bytes(&bytes) {
            let _ = index.search(vectors, vectors.row(0), 3, 4, None);
        }
    }
}
