//! Named parts of a collection that a request may ask for instead of the whole.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{CollectionName, Error, catalog, feed::CollectionEntry};
use pointsman_instance_selector::States;

use crate::{
    inputs::{Step, exists},
    touched::{Touch, position},
};

/// The states of the first segments of a collection. They decide among themselves who is new, old and out. Positions
/// are those of the collection.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    /// How many segments of the universe it keeps.
    first_n: u64,
    /// How many it has found.
    found: u64,
    /// The position behind the last of them; behind the last of all while there are too few.
    end: usize,
    pub(crate) states: Arc<States>,
}

/// The form in which names of samplers are compared.
pub(crate) fn plain(name: &str) -> String {
    name.trim().to_lowercase()
}

/// How many segments each sampler keeps, by plain name. A blank or repeated name is skipped with a warning; of
/// repeated ones the first counts.
pub(crate) fn read(collection: &CollectionName, samplers: &[catalog::Sampler]) -> BTreeMap<String, u64> {
    let mut read = BTreeMap::new();
    for sampler in samplers {
        let name = plain(&sampler.name);
        if name.is_empty() || read.contains_key(&name) {
            tracing::warn!(%collection, sampler = sampler.name, "a sampler without a name of its own is skipped");
        } else {
            read.insert(name, sampler.first_n);
        }
    }
    read
}

impl Sampler {
    /// The sampler from nothing; `states` builds those of the segments before a position.
    pub(crate) fn build(
        entry: &CollectionEntry,
        first_n: u64,
        states: impl FnOnce(usize) -> Result<States, Error>,
    ) -> Result<Self, Error> {
        let (mut found, mut end) = (0, 0);
        let mut segments = entry.segments.iter();
        while found < first_n
            && let Some(segment) = segments.next()
        {
            found += u64::from(exists(segment));
            end += 1;
        }
        Ok(Self { first_n, found, end, states: Arc::new(states(end)?) })
    }

    /// The sampler's bounds after a change of its collection, with the steps that lead its states there: those of
    /// the collection as far as it reaches, then what its end takes in or leaves out.
    pub(crate) fn follow<'a>(
        &self,
        before: &CollectionEntry,
        after: &'a CollectionEntry,
        touches: &[Touch<'a>],
    ) -> (Self, Vec<Touch<'a>>) {
        let mut next = self.clone();
        let beyond = before.segments.get(self.end).map(|segment| &segment.name);
        let mut own = vec![];
        for touch in touches {
            // Names ascend: the first one beyond the end is followed by others.
            if beyond.is_some_and(|beyond| touch.name >= *beyond) {
                break;
            }
            let was_there = position(&before.segments, &touch.name).ok();
            let existed = was_there.and_then(|at| before.segments.get(at)).is_some_and(|known| exists(known));
            next.found += u64::from(touch.segment.is_some_and(exists));
            next.found -= u64::from(existed);
            match touch.step {
                Step::Set(_) => {}
                Step::Insert(_) => next.end += 1,
                Step::Remove(_) => next.end -= 1,
            }
            own.push(touch.clone());
        }
        next.settle(after, &mut own);
        (next, own)
    }

    pub(crate) fn with(self, states: Arc<States>) -> Self {
        Self { states, ..self }
    }

    /// Moves the end to where it belongs.
    fn settle<'a>(&mut self, entry: &'a CollectionEntry, steps: &mut Vec<Touch<'a>>) {
        while self.found < self.first_n
            && let Some(segment) = entry.segments.get(self.end)
        {
            steps.push(Touch::insert(self.end, segment));
            self.found += u64::from(exists(segment));
            self.end += 1;
        }
        while self.found >= self.first_n
            && let Some(last) = self.end.checked_sub(1)
            && let Some(segment) = entry.segments.get(last)
            && (self.found > self.first_n || !exists(segment))
        {
            steps.push(Touch::remove(last, segment));
            self.found -= u64::from(exists(segment));
            self.end = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_lower_case_and_the_first_of_a_name_counts() {
        let sampler = |name: &str, first_n| catalog::Sampler { name: name.to_owned(), first_n };
        let samplers = [sampler(" Few ", 2), sampler("  ", 9), sampler("FEW", 7), sampler("more", 8)];
        let read = read(&"t".parse().unwrap(), &samplers);
        assert_eq!(read, BTreeMap::from([("few".to_owned(), 2), ("more".to_owned(), 8)]));
    }
}
