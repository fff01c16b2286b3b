//! Replica groups per placement partition, for joins without a shuffle.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionName, Error};

use crate::{NodeIndex, Nodes, settings::refusal};

/// Where a node stands in the replica groups of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which of the partitions, ascending, from 0.
    pub(crate) partition: u32,
    /// Which of the partition's groups.
    pub(crate) group: u32,
    /// Which of the group's nodes.
    pub(crate) position: u32,
}

/// The replica groups of a collection: every partition has the same number of them, no node stands in two.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// Groups of each partition; at least 1.
    groups: u32,
    /// The numbers of the partitions, ascending; at least one.
    partitions: Vec<u32>,
    /// By place of the node.
    places: Vec<Option<Place>>,
}

impl Placement {
    /// # Errors
    /// `parameter_invalid` naming the collection, what is wrong with its groups and the remedy.
    pub(crate) fn new(
        collection: &CollectionName,
        replica_groups: &BTreeMap<u32, Vec<Vec<NodeIndex>>>,
        nodes: &Nodes,
    ) -> Result<Self, Error> {
        let refuse = |what: String| refusal(collection, &what);
        let Some((first, groups)) = replica_groups.first_key_value() else {
            let missing = "the selector 'multi_stage_replica_group' needs replica_groups; say for each placement partition which groups of nodes it has";
            return Err(refuse(missing.to_owned()));
        };
        let mut placement = Self {
            groups: count(groups.len()),
            partitions: replica_groups.keys().copied().collect(),
            places: Vec::new(),
        };
        for (partition, (number, groups)) in (0..).zip(replica_groups) {
            if groups.is_empty() || count(groups.len()) != placement.groups {
                return Err(refuse(format!(
                    "placement partition {number} has {} replica groups and {first} has {}; give each the same number, at least one",
                    groups.len(),
                    placement.groups
                )));
            }
            for (group, members) in (0..).zip(groups) {
                if members.is_empty() {
                    return Err(refuse(format!(
                        "replica group {group} of placement partition {number} has no node; name its nodes or leave it out"
                    )));
                }
                for (position, node) in (0..).zip(members) {
                    if !placement.put(*node, Place { partition, group, position }) {
                        let name = nodes.name(*node).map_or_else(|| format!("{node:?}"), ToString::to_string);
                        return Err(refuse(format!(
                            "node '{name}' stands in two replica groups; leave it in one of them"
                        )));
                    }
                }
            }
        }
        Ok(placement)
    }

    /// Puts a node; a repetition inside one group counts once, at its first place. Tells whether it may stand there.
    fn put(&mut self, node: NodeIndex, place: Place) -> bool {
        if self.places.len() <= node.usize() {
            self.places.resize(node.usize() + 1, None);
        }
        let stands = self.places[node.usize()].get_or_insert(place);
        (stands.partition, stands.group) == (place.partition, place.group)
    }

    /// Number of groups of each partition.
    pub(crate) fn groups(&self) -> u32 {
        self.groups
    }

    /// The partitions' numbers, ascending.
    pub(crate) fn partitions(&self) -> &[u32] {
        &self.partitions
    }

    /// Where a node stands; `None`: outside every group.
    pub(crate) fn place(&self, node: NodeIndex) -> Option<Place> {
        self.places.get(node.usize()).copied().flatten()
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
