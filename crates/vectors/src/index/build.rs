//! Building the graph, in batches: the rows of a batch look for their links in the graph as it was before, side by side, and
//! are then put into it in one order. So it comes out the same with any number of threads.

use std::{collections::BTreeSet, panic, thread};

use pointsman_ids::request::Metric;

use super::{
    BuildOptions,
    choose::choose,
    graph::{BASE_LINKS, Graph, LINKS, Layer, MAX_LAYERS},
    mix,
    twins::Twins,
    walk::{Walker, Wanted},
};
use crate::{Error, Neighbour, Vectors, distance::Measure, neighbours::Nearest};

/// Rows of a batch: at most one for so many that are in the graph, of which it may miss its own as neighbours.
const SHARE: usize = 32;

/// Rows of a batch at most: more would only take more memory.
const MAX_BATCH: usize = 8192;

/// Rows between two looks at whether to stop.
const LOOK: usize = 64;

/// While a graph is built a row may have a quarter more links, so that they are chosen anew for many new ones at once.
const fn with_slack(links: usize) -> usize {
    links + links / 4
}

/// Links of a row in the layer of a height.
fn most(height: usize) -> usize {
    if height == 0 { BASE_LINKS } else { LINKS }
}

/// Builds the graph of those vectors whose numbers are finite, of equal ones the first.
pub(crate) fn build(
    vectors: Vectors<'_>,
    metric: Metric,
    options: &BuildOptions,
    seed: u64,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<(Graph, Twins), Error> {
    let finite =
        vectors.iter().zip(0_u32..).filter(|(vector, _)| vector.iter().all(|value| value.is_finite()));
    let finite: Vec<u32> = finite.map(|(_, row)| row).collect();
    let twins = Twins::find(vectors, finite.iter().copied());
    let order = order(&finite, &twins, seed);
    let top = order.first().map_or(0, |(height, _)| *height);
    let layer = |height: usize| {
        let rows = order.iter().take_while(|(highest, _)| *highest >= height).map(|(_, row)| *row);
        let mut rows: Vec<u32> = rows.collect();
        rows.sort_unstable();
        Layer::new(Some(rows), 0, with_slack(most(height)))
    };
    let base = Layer::new(None, vectors.rows(), with_slack(most(0)));
    let graph = Graph::new(base, (1..=top).map(layer).collect(), order.first().map(|(_, row)| *row));
    let mut builder = Builder { vectors, metric, options, cancelled, graph };
    let mut done = 1;
    while done < order.len() {
        let batch = (done / SHARE).clamp(1, MAX_BATCH).min(order.len() - done);
        builder.insert(&order[done..done + batch])?;
        done += batch;
    }
    Ok((builder.finish()?, twins))
}

/// Rows in the order of their insertion, each with the highest layer that it is in: from the highest layers down, so that these
/// are a fair sample early on, and by chance, so that rows which resemble each other do not come together.
fn order(rows: &[u32], twins: &Twins, seed: u64) -> Vec<(usize, u32)> {
    let [_, others] = twins.numbers();
    let others: BTreeSet<u32> = others.iter().copied().collect();
    let firsts = rows.iter().filter(|row| !others.contains(row));
    let mut drawn: Vec<(usize, u64, u32)> = firsts
        .map(|&row| {
            let number = mix(seed ^ mix(row.into()));
            let height = number.trailing_zeros() / LINKS.ilog2();
            ((height as usize).min(MAX_LAYERS - 1), number, row)
        })
        .collect();
    drawn.sort_unstable_by(|a, b| b.cmp(a));
    drawn.into_iter().map(|(height, _, row)| (height, row)).collect()
}

struct Builder<'a> {
    vectors: Vectors<'a>,
    metric: Metric,
    options: &'a BuildOptions,
    cancelled: &'a (dyn Fn() -> bool + Sync),
    graph: Graph,
}

/// Height of a layer, a row in it, and another that links to it.
type Edge = (usize, u32, u32);

/// What a row is linked to in a layer.
struct Links {
    height: usize,
    row: u32,
    to: Vec<u32>,
}

impl Builder<'_> {
    fn insert(&mut self, batch: &[(usize, u32)]) -> Result<(), Error> {
        let found = self.in_parallel(batch, |walker, &(height, row)| self.links(walker, height, row))?;
        let mut back: Vec<Edge> = Vec::new();
        for links in found.into_iter().flatten() {
            back.extend(links.to.iter().map(|to| (links.height, *to, links.row)));
            self.graph.layer_mut(links.height).set(links.row, &links.to);
        }
        back.sort_unstable();
        let targets: Vec<_> = back.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
        let changed = self.in_parallel(&targets, |_, edges| self.linked_back(edges))?;
        for links in changed {
            self.graph.layer_mut(links.height).set(links.row, &links.to);
        }
        Ok(())
    }

    /// The links of a new row in each of its layers.
    fn links(&self, walker: &mut Walker<'_>, highest: usize, row: u32) -> Vec<Links> {
        let measure = Measure::new(self.metric, self.vectors.row(row));
        let mut entries: Vec<u32> = self.graph.entry.into_iter().collect();
        let mut links = Vec::with_capacity(highest + 1);
        for height in (0..=self.graph.top()).rev() {
            let most_found = if height > highest { 1 } else { self.options.candidates.max(1) };
            let found = walker.walk(
                self.graph.layer(height),
                &measure,
                &entries,
                most_found,
                Wanted::default(),
                usize::MAX,
            );
            let found = found.map(Nearest::into_sorted).unwrap_or_default();
            if height <= highest {
                let to = choose(self.vectors, self.metric, &found, LINKS);
                links.push(Links { height, row, to });
            }
            // Where no distance can be computed the walk goes on from where it was.
            if !found.is_empty() {
                entries.clear();
                entries.extend(found.iter().map(|found| found.row));
            }
        }
        links
    }

    /// The links of a row to which new ones link.
    fn linked_back(&self, edges: &[Edge]) -> Links {
        let (height, row) = edges.first().map_or((0, 0), |(height, row, _)| (*height, *row));
        let layer = self.graph.layer(height);
        let mut to = layer.links_of(row).to_vec();
        to.extend(edges.iter().map(|(.., from)| *from));
        if to.len() > layer.width() {
            to = self.fewer(height, row, &to);
        }
        Links { height, row, to }
    }

    /// The best of too many links.
    fn fewer(&self, height: usize, row: u32, links: &[u32]) -> Vec<u32> {
        let measure = Measure::new(self.metric, self.vectors.row(row));
        let neighbour = |&row: &u32| Neighbour { distance: measure.to(self.vectors.row(row)), row };
        let mut candidates: Vec<Neighbour> = links.iter().map(neighbour).collect();
        candidates.sort_unstable();
        choose(self.vectors, self.metric, &candidates, most(height))
    }

    /// The graph without room for more links.
    fn finish(self) -> Result<Graph, Error> {
        let all: Vec<u32> = (0..self.vectors.rows() as u32).collect();
        let (base, above) = self.graph.layers();
        let base = self.trim(0, base, None, &all)?;
        let above = above
            .iter()
            .zip(1..)
            .map(|(layer, height)| self.trim(height, layer, Some(layer.rows().to_vec()), layer.rows()));
        Ok(Graph::new(base, above.collect::<Result<_, _>>()?, self.graph.entry))
    }

    fn trim(
        &self,
        height: usize,
        layer: &Layer,
        own: Option<Vec<u32>>,
        rows: &[u32],
    ) -> Result<Layer, Error> {
        let links = self.in_parallel(rows, |_, &row| {
            let links = layer.links_of(row);
            if links.len() > most(height) { self.fewer(height, row, links) } else { links.to_vec() }
        })?;
        let mut trimmed = Layer::new(own, rows.len(), most(height));
        rows.iter().zip(&links).for_each(|(&row, links)| trimmed.set(row, links));
        Ok(trimmed)
    }

    /// What `work` makes of each item, in their order.
    fn in_parallel<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&mut Walker<'_>, &T) -> R + Sync,
    ) -> Result<Vec<R>, Error> {
        let run = |items: &[T]| {
            let mut walker = Walker::new(self.vectors);
            let mut made = Vec::with_capacity(items.len());
            for some in items.chunks(LOOK) {
                if (self.cancelled)() {
                    return Err(Error::Cancelled);
                }
                made.extend(some.iter().map(|item| work(&mut walker, item)));
            }
            Ok(made)
        };
        let share = items.len().div_ceil(self.options.threads.max(1)).max(LOOK);
        if items.len() <= share {
            return run(items);
        }
        let mut made = Vec::with_capacity(items.len());
        thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = items.chunks(share).map(|items| scope.spawn(move || run(items))).collect();
            for thread in threads {
                made.extend(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?);
            }
            Ok(made)
        })
    }
}
