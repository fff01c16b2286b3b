//! Segments that move together when a query routes some of them again.

use std::collections::BTreeMap;

use pointsman_ids::NodeKey;

use crate::{RoutingView, part::states, route::Located};

impl RoutingView {
    /// Whether segments of a collection may have to move together at all; if not, [`Self::groups`] has nothing to say.
    pub fn may_move_together(&self, collection: &str, sampler: Option<&str>) -> bool {
        let spanning = self.collections.get(collection);
        let parts = spanning.map(|spanning| self.located(collection, spanning)).unwrap_or_default();
        parts
            .iter()
            .filter_map(|part| part.routed.built())
            .any(|built| states(built, sampler).may_move_together())
    }

    /// For each of these positions of a collection, with the node that was chosen for it, the number of the group whose
    /// segments move together, since two replicas of it must not be mixed in one answer: an assignment group of
    /// consistent replicas, or a placement partition. `None`: the segment moves alone, or this view does not have it.
    /// Numbers hold for this call only.
    pub fn groups<'a>(
        &self,
        collection: &str,
        sampler: Option<&str>,
        chosen: impl IntoIterator<Item = (u32, Option<&'a NodeKey>)>,
    ) -> Vec<Option<u32>> {
        let spanning = self.collections.get(collection);
        let parts = spanning.map(|spanning| self.located(collection, spanning)).unwrap_or_default();
        let mut numbers = BTreeMap::new();
        let mut number = |position: u32, node: Option<&NodeKey>| {
            let (at, part) = parts.iter().enumerate().find(|(_, part)| part.span.own(position).is_some())?;
            let group = part.group(sampler, position, node)?;
            let next = u32::try_from(numbers.len()).ok()?;
            Some(*numbers.entry((at, group)).or_insert(next))
        };
        chosen.into_iter().map(|(position, node)| number(position, node)).collect()
    }
}

impl Located<'_> {
    fn group(&self, sampler: Option<&str>, position: u32, node: Option<&NodeKey>) -> Option<u32> {
        let states = states(self.routed.built()?, sampler);
        let place = node.and_then(|node| self.cluster.place(&node.node));
        let partition = place.and_then(|node| states.placement_partition(node));
        partition.or_else(|| states.segment(self.span.own(position)?)?.assignment_group())
    }
}
