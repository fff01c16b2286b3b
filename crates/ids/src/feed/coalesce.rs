//! Making one delta of two.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    CollectionChange, CollectionDelta, CopiesChange, CopyEntry, Delta, LeaderEntry, LeadersChange, NodeEntry,
    SegmentEntry,
};
use crate::{Error, ErrorCode, NodeName, SegmentName};

impl Delta {
    /// One delta that does what this one and then `later` do.
    ///
    /// # Errors
    /// `parameter_invalid` when `later` does not continue this one.
    pub fn then(&self, later: &Self) -> Result<Self, Error> {
        if later.before != self.after || later.cluster != self.cluster {
            let text = format!(
                "a delta from version {} of '{}' does not continue one to version {} of '{}'",
                later.before, later.cluster, self.after, self.cluster
            );
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        let node = |node: &NodeEntry| node.name.clone();
        let (nodes, nodes_removed) = both(
            (&self.nodes_switched(later), &self.nodes_removed),
            (&later.nodes, &later.nodes_removed),
            node,
        );
        let (collections, dropped) = self.both_collections(later)?;
        Ok(Self {
            cluster: later.cluster.clone(),
            before: self.before,
            after: later.after,
            nodes,
            nodes_removed,
            switched_off: self.both_switched_off(later),
            groups: later.groups.as_ref().or(self.groups.as_ref()).cloned(),
            config: later.config.as_ref().or(self.config.as_ref()).cloned(),
            collections,
            dropped,
            leader_drops: self.leader_drops.then(&later.leader_drops),
        })
    }

    /// The nodes of this delta, with those off that `later` switches off.
    fn nodes_switched(&self, later: &Self) -> Vec<NodeEntry> {
        let mut nodes = self.nodes.clone();
        for node in nodes.iter_mut().filter(|node| later.switched_off.contains(&node.name)) {
            node.switch_off();
        }
        nodes
    }

    /// What is known of a node later takes the place of the word on its switch.
    fn both_switched_off(&self, later: &Self) -> Vec<NodeName> {
        let known: BTreeSet<&NodeName> =
            later.nodes.iter().map(|node| &node.name).chain(&later.nodes_removed).collect();
        let earlier = self.switched_off.iter().filter(|name| !known.contains(name));
        let all: BTreeSet<&NodeName> = earlier.chain(&later.switched_off).collect();
        all.into_iter().cloned().collect()
    }

    fn both_collections(
        &self,
        later: &Self,
    ) -> Result<(Vec<CollectionDelta>, Vec<crate::CollectionName>), Error> {
        let known: BTreeMap<_, _> = self.collections.iter().map(|delta| (delta.name(), delta)).collect();
        let joined = later.collections.iter().map(|delta| match known.get(delta.name()) {
            Some(earlier) => earlier.then(delta),
            None => Ok(delta.clone()),
        });
        let joined = joined.collect::<Result<Vec<_>, _>>()?;
        let name = |delta: &CollectionDelta| delta.name().clone();
        Ok(both((&self.collections, &self.dropped), (&joined, &later.dropped), name))
    }
}

impl CollectionDelta {
    fn then(&self, later: &Self) -> Result<Self, Error> {
        Ok(match (self, later) {
            (_, Self::Whole(_)) => later.clone(),
            (Self::Whole(entry), Self::Changed(change)) => Self::Whole(Arc::new(entry.apply(change)?)),
            (Self::Changed(earlier), Self::Changed(later)) => Self::Changed(earlier.then(later)),
        })
    }
}

/// What became of one segment.
enum Fate {
    Upserted(Arc<SegmentEntry>),
    Copies(Vec<CopyEntry>),
    Removed,
}

impl CollectionChange {
    /// One change that does what this one and then `later`, of the same collection, do.
    fn then(&self, later: &Self) -> Self {
        let mut fates = BTreeMap::new();
        self.fates(&mut fates);
        later.fates(&mut fates);
        let mut both = Self {
            head: later.head.as_ref().or(self.head.as_ref()).cloned(),
            leaders: self.both_leaders(later),
            ..Self::empty(later.name.clone(), later.version)
        };
        for (segment, fate) in fates {
            match fate {
                Fate::Upserted(entry) => both.segments.push(entry),
                Fate::Copies(copies) => both.copies.push(CopiesChange { segment, copies }),
                Fate::Removed => both.removed.push(segment),
            }
        }
        both
    }

    fn fates(&self, fates: &mut BTreeMap<SegmentName, Fate>) {
        fates.extend(self.removed.iter().map(|name| (name.clone(), Fate::Removed)));
        for segment in &self.segments {
            fates.insert(segment.name.clone(), Fate::Upserted(Arc::clone(segment)));
        }
        for CopiesChange { segment, copies } in &self.copies {
            let copies = copies.clone();
            let fate = match fates.get(segment) {
                Some(Fate::Upserted(entry)) => {
                    Fate::Upserted(Arc::new(SegmentEntry { copies, ..SegmentEntry::clone(entry) }))
                }
                _ => Fate::Copies(copies),
            };
            fates.insert(segment.clone(), fate);
        }
    }

    /// A later list of shards may be shorter; it then names all of them.
    fn both_leaders(&self, later: &Self) -> Vec<LeadersChange> {
        let shards = later.head.as_ref().map_or(usize::MAX, |head| head.shards.len());
        let all = self.leaders.iter().chain(&later.leaders);
        let by_shard: BTreeMap<u32, &Vec<LeaderEntry>> =
            all.map(|change| (change.shard, &change.leaders)).collect();
        let there =
            by_shard.into_iter().filter(|(shard, _)| usize::try_from(*shard).is_ok_and(|s| s < shards));
        there.map(|(shard, leaders)| LeadersChange { shard, leaders: leaders.clone() }).collect()
    }
}

/// Two steps of taking out and putting in made one.
fn both<T: Clone, N: Ord + Clone>(
    earlier: (&[T], &[N]),
    later: (&[T], &[N]),
    name: impl Fn(&T) -> N,
) -> (Vec<T>, Vec<N>) {
    let mut upserted: BTreeMap<N, T> = BTreeMap::new();
    let mut removed: BTreeSet<N> = BTreeSet::new();
    for (new, gone) in [earlier, later] {
        for name in gone {
            upserted.remove(name);
            removed.insert(name.clone());
        }
        for entry in new {
            removed.remove(&name(entry));
            upserted.insert(name(entry), entry.clone());
        }
    }
    (upserted.into_values().collect(), removed.into_iter().collect())
}
