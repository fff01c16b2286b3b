//! Vectors that lie one after the other in memory.

use crate::Error;

/// Numbers hashed at once; enough for the hash to use all lanes of the processor.
const HASHED: usize = 16 * 1024;

/// Vectors of one number of dimensions, one after the other: row `i` begins at `i * dims`. Borrowed, and cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<'a> {
    values: &'a [f32],
    dims: usize,
}

impl<'a> Vectors<'a> {
    /// `values` as vectors of `dims` dimensions. No values are no vectors.
    ///
    /// # Errors
    /// [`Error::Shape`]: `dims` is 0, a vector is not whole, or there are more than `u32::MAX`.
    pub fn new(values: &'a [f32], dims: usize) -> Result<Self, Error> {
        let whole =
            dims > 0 && values.len().is_multiple_of(dims) && u32::try_from(values.len() / dims).is_ok();
        if whole { Ok(Self { values, dims }) } else { Err(Error::Shape { values: values.len(), dims }) }
    }

    /// How many.
    pub fn rows(&self) -> usize {
        self.values.len() / self.dims
    }

    /// Numbers per vector, at least 1.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// All numbers.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The vector of a row.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, row: u32) -> &'a [f32] {
        &self.values[row as usize * self.dims..][..self.dims]
    }

    /// All vectors in the order of rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.dims)
    }

    /// BLAKE3 over all numbers as little-endian bytes, by which an index knows the vectors that it belongs to.
    pub fn checksum(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Vec::with_capacity(HASHED.min(self.values.len()) * size_of::<f32>());
        for values in self.values.chunks(HASHED) {
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            hasher.update(&bytes);
        }
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_whole_or_refused() {
        assert_eq!(Vectors::new(&[0.0; 6], 3).unwrap().rows(), 2);
        assert_eq!(Vectors::new(&[], 3).unwrap().rows(), 0);
        assert_eq!(Vectors::new(&[0.0; 7], 3).unwrap_err(), Error::Shape { values: 7, dims: 3 });
        assert_eq!(Vectors::new(&[], 0).unwrap_err(), Error::Shape { values: 0, dims: 0 });
    }

    #[test]
    fn the_checksum_is_that_of_the_bytes() {
        let values: Vec<f32> = (0..HASHED as u32 * 2 + 2).map(|at| at as f32).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let vectors = Vectors::new(&values, 2).unwrap();
        assert_eq!(vectors.checksum(), *blake3::hash(&bytes).as_bytes());
    }
}
