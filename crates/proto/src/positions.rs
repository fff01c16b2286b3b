//! Lists of positions as they lie in a message: 4 bytes, little-endian, for each.

use bytes::Bytes;

/// The positions of a list. Bytes behind the last whole position are left out.
pub fn positions(list: &[u8]) -> impl ExactSizeIterator<Item = u32> + '_ {
    let (whole, _) = list.as_chunks::<4>();
    whole.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// A list of these positions.
pub fn from_positions(positions: &[u32]) -> Bytes {
    let mut list = Vec::new();
    put_positions(positions, &mut list);
    list.into()
}

/// Appends positions to a list.
pub(crate) fn put_positions(positions: &[u32], list: &mut Vec<u8>) {
    let start = list.len();
    // Room first, and a loop without growth then: it is a copy where integers are little-endian.
    list.resize(start + positions.len() * 4, 0);
    let (places, _) = list[start..].as_chunks_mut::<4>();
    places.iter_mut().zip(positions).for_each(|(place, position)| *place = position.to_le_bytes());
}
