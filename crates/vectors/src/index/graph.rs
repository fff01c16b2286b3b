//! The graph: layers of rows with links to near ones.

/// Links of a row in the layers above the lowest. A row is in the next layer with a chance of one in so many.
pub(crate) const LINKS: usize = 16;

/// Links of a row in the lowest layer, which holds all of them.
pub(crate) const BASE_LINKS: usize = 2 * LINKS;

/// Layers at most, by the bits of a number drawn.
pub(crate) const MAX_LAYERS: usize = 16;

/// No link: what follows is none either. No row has this number, since there are at most `u32::MAX`.
pub(crate) const NONE: u32 = u32::MAX;

/// Layers of a graph, the lowest first; in the highest is the row at which every walk begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    base: Layer,
    above: Vec<Layer>,
    /// `None`: nothing is linked.
    pub(crate) entry: Option<u32>,
}

impl Graph {
    /// The layers, of which there is at least one.
    pub(crate) fn new(base: Layer, above: Vec<Layer>, entry: Option<u32>) -> Self {
        Self { base, above, entry }
    }

    /// The lowest layer, and those above it from below.
    pub(crate) fn layers(&self) -> (&Layer, &[Layer]) {
        (&self.base, &self.above)
    }

    /// A layer by its height, the lowest is 0.
    pub(crate) fn layer(&self, height: usize) -> &Layer {
        if height == 0 { &self.base } else { &self.above[height - 1] }
    }

    /// The same to change.
    pub(crate) fn layer_mut(&mut self, height: usize) -> &mut Layer {
        if height == 0 { &mut self.base } else { &mut self.above[height - 1] }
    }

    /// Height of the highest layer.
    pub(crate) fn top(&self) -> usize {
        self.above.len()
    }
}

/// Rows with their links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    /// The rows that are in it, ascending; `None`: all.
    rows: Option<Vec<u32>>,
    /// For each of these rows as many places as `width`, filled from the first.
    links: Vec<u32>,
    width: usize,
}

impl Layer {
    /// A layer of these rows; `None`: of `count`, which are all.
    pub(crate) fn new(rows: Option<Vec<u32>>, count: usize, width: usize) -> Self {
        let count = rows.as_ref().map_or(count, Vec::len);
        Self { rows, links: vec![NONE; count * width], width }
    }

    /// One with links, `width` places for each row.
    pub(crate) fn with_links(rows: Option<Vec<u32>>, links: Vec<u32>, width: usize) -> Self {
        Self { rows, links, width }
    }

    /// Whether it names only rows below `count`, its own in their order.
    pub(crate) fn is_sound(&self, count: usize) -> bool {
        let below = |row: u32| (row as usize) < count;
        self.rows().is_sorted_by(|a, b| a < b)
            && self.rows().last().is_none_or(|row| below(*row))
            && self.links.iter().all(|link| *link == NONE || below(*link))
    }

    /// Its rows; none for the lowest, which has all.
    pub(crate) fn rows(&self) -> &[u32] {
        self.rows.as_deref().unwrap_or_default()
    }

    /// All places for links, row by row.
    pub(crate) fn links(&self) -> &[u32] {
        &self.links
    }

    /// Places for the links of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Links of a row; none if it is not in the layer.
    #[inline]
    pub(crate) fn links_of(&self, row: u32) -> &[u32] {
        let places =
            self.place(row).and_then(|place| self.links.get(place * self.width..)?.get(..self.width));
        let places = places.unwrap_or_default();
        let len = places.iter().position(|link| *link == NONE).unwrap_or(places.len());
        &places[..len]
    }

    /// Gives a row of the layer the first `width` of `links`.
    pub(crate) fn set(&mut self, row: u32, links: &[u32]) {
        let Some(place) = self.place(row) else { return };
        let places = &mut self.links[place * self.width..][..self.width];
        places.fill(NONE);
        places.iter_mut().zip(links).for_each(|(place, link)| *place = *link);
    }

    fn place(&self, row: u32) -> Option<usize> {
        match &self.rows {
            None => Some(row as usize),
            Some(rows) => rows.binary_search(&row).ok(),
        }
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        let rows = self.rows.as_ref().map_or(0, Vec::capacity);
        (rows + self.links.capacity()) * size_of::<u32>()
    }
}
