//! Distances, with the same bits on every machine: each number of a row goes to one of [`LANES`] sums by its place, and
//! these are added in pairs. Nothing is fused and nothing depends on the width of the processor's registers, so the compiler
//! may use whatever it has.

use pointsman_ids::request::Metric;

/// Sums that run side by side: four registers of SSE2, which is enough to hide how long an addition takes.
const LANES: usize = 16;

/// What vectors are compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure<'a> {
    query: &'a [f32],
    metric: Metric,
    /// Length of the query, for cosine alone.
    length: f32,
}

impl<'a> Measure<'a> {
    pub(crate) fn new(metric: Metric, query: &'a [f32]) -> Self {
        let length = if metric == Metric::Cosine { inner(query, query).sqrt() } else { 0.0 };
        Self { query, metric, length }
    }

    /// The distance to a vector of as many dimensions; NaN if they have none.
    #[inline]
    pub(crate) fn to(&self, row: &[f32]) -> f32 {
        match self.metric {
            Metric::L2 => self.l2(row),
            Metric::InnerProduct => self.inner_product(row),
            Metric::Cosine => self.cosine(row),
        }
    }

    /// Runs `work` with the function that measures, so that the metric is decided once and not for every row.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl MeasuredWork<R>) -> R {
        match self.metric {
            Metric::L2 => work.run(|row| self.l2(row)),
            Metric::InnerProduct => work.run(|row| self.inner_product(row)),
            Metric::Cosine => work.run(|row| self.cosine(row)),
        }
    }

    #[inline]
    fn l2(&self, row: &[f32]) -> f32 {
        let [sum] = sums(self.query, row, |x, y| [(x - y) * (x - y)]);
        sum
    }

    #[inline]
    fn inner_product(&self, row: &[f32]) -> f32 {
        // The negative of 0 plus 0 is 0.
        -inner(self.query, row) + 0.0
    }

    #[inline]
    fn cosine(&self, row: &[f32]) -> f32 {
        let [product, square] = sums(self.query, row, |x, y| [x * y, y * y]);
        let lengths = self.length * square.sqrt();
        if lengths == 0.0 { 1.0 } else { (1.0 - product / lengths).clamp(0.0, 2.0) + 0.0 }
    }
}

/// What [`Measure::with`] runs.
pub(crate) trait MeasuredWork<R> {
    /// Runs with the function that gives the distance to a row.
    fn run(self, distance: impl Fn(&[f32]) -> f32) -> R;
}

#[inline]
fn inner(a: &[f32], b: &[f32]) -> f32 {
    let [sum] = sums(a, b, |x, y| [x * y]);
    sum
}

/// The sums of `N` terms of each pair of numbers; a term of zeros is 0.
#[inline(always)]
fn sums<const N: usize>(a: &[f32], b: &[f32], terms: impl Fn(f32, f32) -> [f32; N]) -> [f32; N] {
    let mut sums = [[0.0; LANES]; N];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        add(&mut sums, a, b, &terms);
    }
    // Filled up with zeros, so that no place of the sums is chosen as it runs: they would not stay in registers.
    if !a_rest.is_empty() {
        add(&mut sums, &filled_up(a_rest), &filled_up(b_rest), &terms);
    }
    sums.map(in_pairs)
}

#[inline(always)]
fn add<const N: usize>(
    sums: &mut [[f32; LANES]; N],
    a: &[f32; LANES],
    b: &[f32; LANES],
    terms: &impl Fn(f32, f32) -> [f32; N],
) {
    for lane in 0..LANES {
        let terms = terms(a[lane], b[lane]);
        for at in 0..N {
            sums[at][lane] += terms[at];
        }
    }
}

#[inline(always)]
fn filled_up(numbers: &[f32]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    all.iter_mut().zip(numbers).for_each(|(place, number)| *place = *number);
    all
}

#[inline(always)]
fn in_pairs(sums: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|lane| sums[lane] + sums[lane + 8]);
    let four: [f32; 4] = std::array::from_fn(|lane| eight[lane] + eight[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f32 {
        Measure::new(metric, a).to(b)
    }

    #[test]
    fn each_metric_says_what_it_should() {
        let (a, b) = ([1.0, 2.0, 2.0], [3.0, 0.0, 4.0]);
        assert_eq!(distance(Metric::L2, &a, &b), 12.0);
        assert_eq!(distance(Metric::InnerProduct, &a, &b), -11.0);
        assert!((distance(Metric::Cosine, &a, &b) - (1.0 - 11.0 / 15.0)).abs() < 1e-6);
        assert_eq!(distance(Metric::Cosine, &a, &a), 0.0);
        assert_eq!(distance(Metric::Cosine, &a, &a.map(|x| -x)), 2.0);
    }

    #[test]
    fn a_vector_of_length_0_has_no_angle() {
        assert_eq!(distance(Metric::Cosine, &[0.0; 3], &[1.0, 0.0, 0.0]), 1.0);
        assert_eq!(distance(Metric::Cosine, &[1.0, 0.0, 0.0], &[0.0; 3]), 1.0);
        assert_eq!(distance(Metric::InnerProduct, &[0.0; 3], &[1.0; 3]).to_bits(), 0.0_f32.to_bits());
    }

    /// What every machine has to compute: the sums written out, without anything for a compiler to arrange.
    #[test]
    fn the_bits_are_those_of_16_sums_added_in_pairs() {
        for dims in [1, 2, 15, 16, 17, 100, 128] {
            let number = |seed: u32| ((seed.wrapping_mul(2_654_435_761) >> 8) as f32 / 65_536.0).sin();
            let a: Vec<f32> = (0..dims).map(number).collect();
            let b: Vec<f32> = (dims..2 * dims).map(number).collect();
            let mut lanes = [0.0_f32; 16];
            for at in 0..dims as usize {
                lanes[at % 16] += (a[at] - b[at]) * (a[at] - b[at]);
            }
            let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = lanes;
            let sum = (((a0 + b0) + (a4 + b4)) + ((a2 + b2) + (a6 + b6)))
                + (((a1 + b1) + (a5 + b5)) + ((a3 + b3) + (a7 + b7)));
            assert_eq!(distance(Metric::L2, &a, &b).to_bits(), sum.to_bits(), "{dims}");
        }
    }
}
