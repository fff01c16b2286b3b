//! How many segments of a shard stand in the views of its leaders. All lists are ascending and hold nothing twice.

use pointsman_ids::SegmentId;

/// Segments are marked in a bit each where their numbers lie this close on average: the marks take at most four times the
/// room of the list then. Numbers grow by one, so those of a shard mostly lie about as close as it has siblings.
const DENSE: u64 = 256;

/// The segments that a target wants of a shard, to be compared with several replicas one after the other.
///
/// Linear in the segments of the shard and of the views between its ends, without allocation per segment.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    segments: &'a [SegmentId],
    marks: &'a mut Marks,
    is_marked: bool,
}

/// Room for marks, to be used again for the next shard.
#[derive(Debug, Default)]
pub(super) struct Marks {
    wanted: Vec<u64>,
    seen: Vec<u64>,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(segments: &'a [SegmentId], marks: &'a mut Marks) -> Self {
        Self { segments, marks, is_marked: false }
    }

    /// How many stand in at least one of the views. Uses the views up.
    pub(super) fn carried(&mut self, views: &mut [&[SegmentId]]) -> usize {
        let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) else { return 0 };
        // Mostly one leader has everything.
        if views.iter().any(|view| are_equal(self.segments, view)) {
            return self.segments.len();
        }
        for view in &mut *views {
            let from = view.partition_point(|id| id < first);
            let to = view.partition_point(|id| id <= last);
            *view = view.get(from..to).unwrap_or_default();
        }
        if (last.0 - first.0) / DENSE < self.segments.len() as u64 {
            self.count_marks(*first, *last, views)
        } else {
            self.segments.iter().filter(|segment| stands_in_any(**segment, views)).count()
        }
    }

    fn count_marks(&mut self, first: SegmentId, last: SegmentId, views: &[&[SegmentId]]) -> usize {
        let Marks { wanted, seen } = &mut *self.marks;
        let words = usize::try_from((last.0 - first.0) / 64 + 1).unwrap_or(usize::MAX);
        if !self.is_marked {
            clear(wanted, words);
            mark(wanted, first, self.segments);
            self.is_marked = true;
        }
        if let [view] = views {
            return view.iter().map(|id| bit(wanted, first, *id)).sum();
        }
        clear(seen, words);
        views.iter().for_each(|view| mark(seen, first, view));
        wanted.iter().zip(&*seen).map(|(wanted, seen)| (wanted & seen).count_ones() as usize).sum()
    }
}

fn clear(marks: &mut Vec<u64>, words: usize) {
    marks.clear();
    marks.resize(words, 0);
}

/// The word and the bit of a segment that does not lie below `first`.
fn place(first: SegmentId, id: SegmentId) -> (usize, u32) {
    let offset = id.0.wrapping_sub(first.0);
    (usize::try_from(offset / 64).unwrap_or(usize::MAX), (offset % 64) as u32)
}

/// Marks from four places of the list in turn: neighbours share a word, and each would wait for the one before it.
fn mark(marks: &mut [u64], first: SegmentId, segments: &[SegmentId]) {
    let length = segments.len().div_ceil(4).max(1);
    let mut parts = segments.chunks(length);
    let parts = [(); 4].map(|()| parts.next().unwrap_or_default());
    for at in 0..length {
        for id in parts.iter().filter_map(|part| part.get(at)) {
            let (word, bit) = place(first, *id);
            if let Some(word) = marks.get_mut(word) {
                *word |= 1 << bit;
            }
        }
    }
}

fn bit(marks: &[u64], first: SegmentId, id: SegmentId) -> usize {
    let (word, bit) = place(first, id);
    marks.get(word).map_or(0, |word| (word >> bit & 1) as usize)
}

/// Looks at whole stretches, which a processor compares in few instructions.
fn are_equal(one: &[SegmentId], other: &[SegmentId]) -> bool {
    const STRETCH: usize = 64;
    let same = |(one, other): (&[SegmentId], &[SegmentId])| {
        one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one.0 ^ other.0)) == 0
    };
    one.len() == other.len() && one.chunks(STRETCH).zip(other.chunks(STRETCH)).all(same)
}

/// Whether the segment stands in a view; all that is not above it is cut off from them.
fn stands_in_any(segment: SegmentId, views: &mut [&[SegmentId]]) -> bool {
    let mut stands = false;
    for view in views {
        if view.first().is_some_and(|first| *first < segment) {
            *view = from(view, segment);
        }
        let is_next = view.first() == Some(&segment);
        *view = view.get(usize::from(is_next)..).unwrap_or_default();
        stands |= is_next;
    }
    stands
}

/// The part of a list that does not lie below `bound`: by steps that double, so that near bounds are found at once and
/// far ones quickly.
fn from(list: &[SegmentId], bound: SegmentId) -> &[SegmentId] {
    let (mut low, mut step) = (0, 1);
    while list.get(low + step - 1).is_some_and(|id| *id < bound) {
        low += step;
        step *= 2;
    }
    let end = list.len().min(low + step - 1);
    let below = list.get(low..end).map_or(0, |part| part.partition_point(|id| *id < bound));
    list.get(low + below..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<SegmentId> {
        let sorted: BTreeSet<u64> = numbers.into_iter().collect();
        sorted.into_iter().map(SegmentId).collect()
    }

    /// Each of several sets of views, one after the other, with the same marks.
    fn counts(segments: &[SegmentId], views: &[Vec<Vec<SegmentId>>], marks: &mut Marks) -> Vec<usize> {
        let mut wanted = Wanted::new(segments, marks);
        let count = |views: &Vec<Vec<SegmentId>>| {
            wanted.carried(&mut views.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        views.iter().map(count).collect()
    }

    #[test]
    fn long_lists_with_and_without_gaps() {
        for factor in [1, 16, 63, 255, 257, 1 << 40] {
            let times = |numbers: &mut dyn Iterator<Item = u64>| ids(numbers.map(|id| id * factor + 7));
            let all = times(&mut (0..1000));
            let views = [
                vec![],
                vec![times(&mut (0..1000))],
                vec![times(&mut (0..1000).filter(|id| id % 3 > 0))],
                vec![times(&mut (500..2000))],
                vec![times(&mut (0..400)), times(&mut (300..700)), times(&mut [999, 5000].into_iter())],
                vec![times(&mut (0..1000).map(|id| id * 7))],
            ];
            let expected = [0, 1000, 666, 500, 701, 143];
            assert_eq!(counts(&all, &views, &mut Marks::default()), expected, "{factor}");
        }
        let ends = ids([0, u64::MAX]);
        let views = [vec![ids([u64::MAX])], vec![ids([0, 1, u64::MAX - 1])], vec![ids([0]), ids([u64::MAX])]];
        assert_eq!(counts(&ends, &views, &mut Marks::default()), [1, 1, 2]);
    }

    proptest! {
        #[test]
        fn as_sets_say(
            shards in prop::collection::vec(
                (
                    1..600_u64,
                    prop::collection::btree_set(0..300_u64, 0..200),
                    prop::collection::vec(prop::collection::vec(prop::collection::btree_set(0..300_u64, 0..250), 0..4), 0..3),
                ),
                1..4,
            ),
        ) {
            let mut marks = Marks::default();
            for (factor, segments, replicas) in shards {
                let list = |set: &BTreeSet<u64>| ids(set.iter().map(|id| id * factor));
                let lists: Vec<Vec<_>> = replicas.iter().map(|views| views.iter().map(list).collect()).collect();
                let union = |views: &Vec<BTreeSet<u64>>| views.iter().flatten().copied().collect::<BTreeSet<u64>>();
                let expected: Vec<_> =
                    replicas.iter().map(|views| segments.intersection(&union(views)).count()).collect();
                prop_assert_eq!(counts(&list(&segments), &lists, &mut marks), expected);
            }
        }
    }
}
