//! The bytes of an index, all numbers little-endian `u32`:
//!
//! ```text
//! "PMVECTOR" | format | metric | rows | dims | BLAKE3 of the vectors, 32 bytes | entry or NONE | twins | layers above the lowest
//! for each of these, from below: rows in it
//! links of the lowest layer: rows x BASE_LINKS
//! for each of the others, from below: its rows, then links: rows in it x LINKS
//! twins: their firsts, then the others
//! BLAKE3 of all before, 32 bytes
//! ```

use pointsman_ids::request::Metric;

use super::{
    Index,
    graph::{BASE_LINKS, Graph, LINKS, Layer, MAX_LAYERS, NONE},
    twins::Twins,
};
use crate::Error;

const MAGIC: &[u8] = b"PMVECTOR";

/// Another format is refused: an index is sooner built again than converted.
const FORMAT: u32 = 1;

/// Bytes of a BLAKE3.
const HASH: usize = blake3::OUT_LEN;

impl Index {
    /// The whole index as bytes, for [`Index::from_bytes`]. The same index gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.memory() + 4 * HASH);
        bytes.extend(MAGIC);
        put(&mut bytes, &[FORMAT, number_of(self.metric), self.rows as u32, self.dims as u32]);
        bytes.extend(self.checksum);
        let (base, above) = self.graph.layers();
        let [firsts, others] = self.twins.numbers();
        put(&mut bytes, &[self.graph.entry.unwrap_or(NONE), others.len() as u32, above.len() as u32]);
        for layer in above {
            put(&mut bytes, &[layer.rows().len() as u32]);
        }
        put(&mut bytes, base.links());
        for layer in above {
            put(&mut bytes, layer.rows());
            put(&mut bytes, layer.links());
        }
        put(&mut bytes, firsts);
        put(&mut bytes, others);
        bytes.extend(blake3::hash(&bytes).as_bytes());
        bytes
    }

    /// Reads what [`Index::to_bytes`] wrote; takes no more memory than `bytes` do. Whether it belongs to some vectors,
    /// [`Index::check`] says.
    ///
    /// # Errors
    /// [`Error::Damaged`]: the bytes are not exactly such; [`Error::Version`]: they have another format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut rest = Rest(bytes);
        if rest.take(MAGIC.len())? != MAGIC {
            return Err(Error::Damaged("it does not begin as an index"));
        }
        let format = rest.number()?;
        if format != FORMAT {
            return Err(Error::Version { found: format, known: FORMAT });
        }
        let (content, hash) = bytes.split_last_chunk::<HASH>().ok_or(CUT_OFF)?;
        if blake3::hash(content) != *hash {
            return Err(Error::Damaged("its checksum differs"));
        }
        rest.0 = rest.0.strip_suffix(hash).ok_or(CUT_OFF)?;
        read(rest)
    }
}

const CUT_OFF: Error = Error::Damaged("it is cut off");

/// Reads what follows the format. Nothing is believed, though the checksum is right: a walk goes wherever a link says.
fn read(mut rest: Rest<'_>) -> Result<Index, Error> {
    let metric = metric_of(rest.number()?).ok_or(Error::Damaged("it has an unknown metric"))?;
    let [rows, dims] = [rest.number()? as usize, rest.number()? as usize];
    let checksum = rest.take(HASH)?.try_into().map_err(|_| CUT_OFF)?;
    let entry = Some(rest.number()?).filter(|entry| *entry != NONE);
    let twins = rest.number()? as usize;
    let above = rest.number()? as usize;
    if dims == 0 || above >= MAX_LAYERS || entry.is_some_and(|entry| entry as usize >= rows) {
        return Err(Error::Damaged("its head contradicts itself"));
    }
    let counts: Vec<usize> = (0..above).map(|_| Ok(rest.number()? as usize)).collect::<Result<_, Error>>()?;
    let base = Layer::with_links(None, rest.numbers(rows, BASE_LINKS)?, BASE_LINKS);
    let mut above = Vec::with_capacity(counts.len());
    for count in counts {
        let members = rest.numbers(count, 1)?;
        above.push(Layer::with_links(Some(members), rest.numbers(count, LINKS)?, LINKS));
    }
    let (firsts, others) = (rest.numbers(twins, 1)?, rest.numbers(twins, 1)?);
    if !rest.0.is_empty() {
        return Err(Error::Damaged("it is too long"));
    }
    let twins = Twins::from_numbers(firsts, others, rows);
    let (Some(twins), true) = (twins, above.iter().chain([&base]).all(|layer| layer.is_sound(rows))) else {
        return Err(Error::Damaged("it names rows that it does not have"));
    };
    Ok(Index { metric, dims, rows, checksum, graph: Graph::new(base, above, entry), twins })
}

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Error> {
        let bytes = self.take(size_of::<u32>())?;
        bytes.try_into().map(u32::from_le_bytes).map_err(|_| CUT_OFF)
    }

    /// `count * width` numbers. Memory is taken once they are known to be there.
    fn numbers(&mut self, count: usize, width: usize) -> Result<Vec<u32>, Error> {
        let len = count.checked_mul(width * size_of::<u32>()).ok_or(CUT_OFF)?;
        let (numbers, _) = self.take(len)?.as_chunks();
        Ok(numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}

fn put(bytes: &mut Vec<u8>, numbers: &[u32]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn number_of(metric: Metric) -> u32 {
    match metric {
        Metric::L2 => 1,
        Metric::InnerProduct => 2,
        Metric::Cosine => 3,
    }
}

fn metric_of(number: u32) -> Option<Metric> {
    Metric::ALL.into_iter().find(|metric| number_of(*metric) == number)
}
