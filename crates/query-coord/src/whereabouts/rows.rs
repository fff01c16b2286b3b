//! All rows, by segment. Numbers of segments lie close together, so rows lie in pages, and one is found by its page.

use std::collections::BTreeMap;

use pointsman_ids::SegmentId;

use super::Row;

/// Rows of a page.
const PAGE: usize = 64;

/// Rows by segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(BTreeMap<u64, Box<Page>>);

#[derive(Clone, Debug)]
struct Page {
    used: usize,
    rows: [Option<Row>; PAGE],
}

impl Default for Page {
    fn default() -> Self {
        Self { used: 0, rows: std::array::from_fn(|_| None) }
    }
}

impl Rows {
    pub(super) fn get(&self, segment: SegmentId) -> Option<&Row> {
        let (page, at) = place(segment);
        self.0.get(&page)?.rows.get(at)?.as_ref()
    }

    /// The row of a segment, an empty one if there was none.
    pub(super) fn row(&mut self, segment: SegmentId) -> &mut Row {
        let (page, at) = place(segment);
        let Page { used, rows } = &mut **self.0.entry(page).or_default();
        rows[at].get_or_insert_with(|| {
            *used += 1;
            Row::default()
        })
    }

    pub(super) fn remove(&mut self, segment: SegmentId) -> Option<Row> {
        let (number, at) = place(segment);
        let page = self.0.get_mut(&number)?;
        let row = page.rows.get_mut(at)?.take()?;
        page.used -= 1;
        if page.used == 0 {
            self.0.remove(&number);
        }
        Some(row)
    }
}

/// The page of a segment, and its place there.
fn place(segment: SegmentId) -> (u64, usize) {
    let page = PAGE as u64;
    (segment.0 / page, (segment.0 % page) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_they_were_put_until_they_are_taken_out() {
        let mut rows = Rows::default();
        let ids = [0, 1, 63, 64, 65, 1_000_000, u64::MAX].map(SegmentId);
        for id in ids {
            assert!(rows.get(id).is_none());
            rows.row(id).listed.wanted = true;
        }
        assert!(ids.iter().all(|id| rows.get(*id).is_some_and(Row::is_wanted)));
        assert!(rows.row(ids[0]).is_wanted(), "it is the same one");
        assert!(rows.remove(SegmentId(2)).is_none());
        assert!(ids.iter().all(|id| rows.remove(*id).is_some()));
        assert!(rows.0.is_empty(), "no page stays for nothing");
    }
}
