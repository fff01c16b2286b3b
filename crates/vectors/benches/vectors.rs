//! Exact search over 1,000,000 vectors of 128 dimensions in 4 parts, beside a plain loop over the same memory that computes the
//! same distances and keeps the least; then the index over 250,000 such vectors beside exact search. The vectors of the index lie
//! around 50 centres, as far apart from each other within a cluster as their dimensions allow, which is hard for any index; those
//! asked for are not among them.
//!
//! Criterion measures exact search. The figures of the index are printed, since it takes a minute to build.

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use pointsman_ids::request::Metric;
use pointsman_vectors::{BuildOptions, Index, Neighbour, RowSet, Vectors, nearest, nearest_to_each};
use rand::{Rng, SeedableRng, rngs::StdRng};

const DIMS: usize = 128;
const PARTS: usize = 4;
const ROWS: usize = 1_000_000;
const INDEXED: usize = 250_000;
const CLUSTERS: usize = 50;
const QUERIES: usize = 500;
const K: usize = 10;

/// Sums side by side in the plain loop: as many registers of SSE2 as the searched loop has.
const LANES: usize = 16;

fn exact(criterion: &mut Criterion) {
    let numbers = clustered(ROWS, 1);
    let parts: Vec<_> =
        numbers.chunks(ROWS / PARTS * DIMS).map(|part| Vectors::new(part, DIMS).unwrap()).collect();
    let query = &clustered(1, 2)[..];
    let queries = clustered(8, 3);
    let queries = Vectors::new(&queries, DIMS).unwrap();
    let tenth = RowSet::new(ROWS / PARTS, |row| row % 10 == 3);
    for metric in Metric::ALL {
        let mut group = criterion.benchmark_group(format!("exact_{metric}"));
        group.sample_size(30).measurement_time(Duration::from_secs(8));
        group
            .bench_function("plain", |bencher| bencher.iter(|| plain_of(metric, query, black_box(&numbers))));
        group.bench_function("search", |bencher| {
            bencher.iter(|| {
                parts.iter().map(|part| nearest(*part, metric, query, K, None).unwrap()).collect::<Vec<_>>()
            });
        });
        if metric == Metric::L2 {
            group.bench_function("search_of_a_tenth", |bencher| {
                bencher.iter(|| {
                    let one = |part: &Vectors<'_>| nearest(*part, metric, query, K, Some(&tenth)).unwrap();
                    parts.iter().map(one).collect::<Vec<_>>()
                });
            });
            group.bench_function("search_for_8", |bencher| {
                bencher.iter(|| {
                    let one = |part: &Vectors<'_>| nearest_to_each(*part, metric, queries, K, None).unwrap();
                    parts.iter().map(one).collect::<Vec<_>>()
                });
            });
        }
        group.finish();
    }
}

fn plain_of(metric: Metric, query: &[f32], numbers: &[f32]) -> f32 {
    match metric {
        Metric::L2 => plain(numbers, |row| sums(query, row, |x, y| (x - y) * (x - y))),
        Metric::InnerProduct => plain(numbers, |row| -sums(query, row, |x, y| x * y)),
        Metric::Cosine => {
            let length = sums(query, query, |x, y| x * y).sqrt();
            plain(numbers, |row| {
                let square = sums(query, row, |_, y| y * y);
                1.0 - sums(query, row, |x, y| x * y) / (length * square.sqrt())
            })
        }
    }
}

/// The least distance to a row.
fn plain(numbers: &[f32], distance: impl Fn(&[f32]) -> f32) -> f32 {
    numbers.chunks_exact(DIMS).map(distance).fold(f32::INFINITY, f32::min)
}

#[inline(always)]
fn sums(query: &[f32], row: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    for (x, y) in query.as_chunks::<LANES>().0.iter().zip(row.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += term(x[lane], y[lane]);
        }
    }
    sums.iter().sum()
}

fn index(_: &mut Criterion) {
    let numbers = clustered(INDEXED, 1);
    let vectors = Vectors::new(&numbers, DIMS).unwrap();
    let queries = clustered(QUERIES, 4);
    let queries = Vectors::new(&queries, DIMS).unwrap();
    for threads in [2, 1] {
        let options = BuildOptions { threads, ..BuildOptions::default() };
        let start = Instant::now();
        let index = Index::build(vectors, Metric::L2, &options, 1, &|| false).unwrap();
        tell(&format!("index.build_with_{threads}_threads"), start.elapsed().as_secs_f64(), "s");
        if threads == 1 {
            measure(&index, vectors, queries);
        }
    }
}

fn measure(index: &Index, vectors: Vectors<'_>, queries: Vectors<'_>) {
    tell("index.memory_per_vector", index.memory() as f64 / vectors.rows() as f64, "B");
    let start = Instant::now();
    let bytes = index.to_bytes();
    let read = Index::from_bytes(&bytes).unwrap();
    read.check(vectors, Metric::L2).unwrap();
    tell("index.write_read_and_check", start.elapsed().as_secs_f64() * 1e3, "ms");
    let filters = [1, 5].map(|share| RowSet::new(vectors.rows(), |row| row % 10 < share));
    for (name, accept) in
        [("", None), (".filtered_10", Some(&filters[0])), (".filtered_50", Some(&filters[1]))]
    {
        let (right, exact) = timed(queries, |query| nearest(vectors, Metric::L2, query, K, accept).unwrap());
        tell(&format!("index.exact{name}"), exact, "ms");
        for candidates in [96, 128, Index::CANDIDATES, 256] {
            let search = |query: &[f32]| index.search(vectors, query, K, candidates, accept).unwrap();
            let (found, took) = timed(queries, search);
            let hits: usize = found
                .iter()
                .zip(&right)
                .map(|(found, right)| found.iter().filter(|one| right.contains(one)).count())
                .sum();
            tell(&format!("index.search{name}.{candidates}"), took, "ms");
            let recall = hits as f64 / (K * queries.rows()) as f64;
            tell(&format!("index.recall_at_10{name}.{candidates}"), recall, "of the nearest");
        }
    }
}

/// Answers with the mean time of one, in milliseconds.
fn timed(queries: Vectors<'_>, answer: impl Fn(&[f32]) -> Vec<Neighbour>) -> (Vec<Vec<Neighbour>>, f64) {
    let start = Instant::now();
    let answers = queries.iter().map(answer).collect();
    (answers, start.elapsed().as_secs_f64() * 1e3 / queries.rows() as f64)
}

fn tell(figure: &str, value: f64, unit: &str) {
    println!(r#"{{"figure":"{figure}","value":{value},"unit":"{unit}"}}"#);
}

/// `rows` vectors around [`CLUSTERS`] centres, the same for every seed.
fn clustered(rows: usize, seed: u64) -> Vec<f32> {
    let mut around = StdRng::seed_from_u64(0);
    let centres: Vec<f32> = (0..CLUSTERS * DIMS).map(|_| around.random_range(-1.0..1.0)).collect();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut numbers = Vec::with_capacity(rows * DIMS);
    for _ in 0..rows {
        let centre = rng.random_range(0..CLUSTERS) * DIMS;
        // Nearly a normal distribution.
        numbers.extend(
            centres[centre..][..DIMS]
                .iter()
                .map(|at| at + 0.5 * (0..4).map(|_| rng.random_range(-1.0_f32..1.0)).sum::<f32>()),
        );
    }
    numbers
}

criterion_group!(benches, exact, index);
criterion_main!(benches);
