//! A collection's settings, as far as choice is concerned.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{
    CollectionName, Error, ErrorCode,
    catalog::{RoutingOptions, SelectorKind},
};

use crate::{NodeIndex, Nodes, placement::Placement};

/// What states are built by.
#[derive(Clone, Debug)]
pub struct StatesSettings<'a> {
    /// The collection; its name seeds the fixed replica.
    pub collection: CollectionName,
    /// What its creator decided.
    pub routing: &'a RoutingOptions,
    /// `routing.replica_groups` with the places of the names; only `multi_stage_replica_group` reads it.
    pub replica_groups: BTreeMap<u32, Vec<Vec<NodeIndex>>>,
    /// How long a segment that is loaded for the first time may count as new.
    pub new_segment_window: Duration,
    /// Whether the broker chooses adaptively.
    pub adaptive: bool,
}

/// Settings that make sense, in the form that selectors read.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) collection: CollectionName,
    /// `H` of the routing rules.
    pub(crate) hash: u64,
    pub(crate) selector: SelectorKind,
    /// Two replicas are never mixed.
    pub(crate) consistent: bool,
    pub(crate) fixed_replica: bool,
    pub(crate) fail_closed: bool,
    pub(crate) window: Duration,
    /// For `multi_stage_replica_group` alone.
    pub(crate) placement: Option<Placement>,
}

impl Rules {
    /// # Errors
    /// `parameter_invalid` naming the collection, what is wrong with it and the remedy.
    pub(crate) fn new(settings: &StatesSettings<'_>, nodes: &Nodes) -> Result<Self, Error> {
        let routing = settings.routing;
        let selector = routing.selector;
        let refuse = |what: &str| Err(refusal(&settings.collection, what));
        let groups_of_replicas =
            matches!(selector, SelectorKind::ReplicaGroup | SelectorKind::StrictReplicaGroup);
        if routing.consistent_replicas && !groups_of_replicas {
            let selector = selector.as_str();
            return refuse(&format!(
                "consistent_replicas does not go with the selector '{selector}'; use 'replica_group' or 'strict_replica_group', or leave it out"
            ));
        }
        if routing.fixed_replica && settings.adaptive {
            return refuse(
                "fixed_replica does not go with adaptive selection; leave it out, or set broker.adaptive.kind to none",
            );
        }
        let placement = if selector == SelectorKind::MultiStageReplicaGroup {
            Some(Placement::new(&settings.collection, &settings.replica_groups, nodes)?)
        } else {
            None
        };
        Ok(Self {
            hash: hash(settings.collection.as_str()),
            collection: settings.collection.clone(),
            selector,
            consistent: routing.consistent_replicas || selector == SelectorKind::StrictReplicaGroup,
            fixed_replica: routing.fixed_replica,
            fail_closed: routing.fail_closed,
            window: settings.new_segment_window,
            placement,
        })
    }
}

pub(crate) fn refusal(collection: &CollectionName, what: &str) -> Error {
    Error::new(ErrorCode::ParameterInvalid, format!("collection '{collection}': {what}"))
}

/// `H`: over the UTF-16 code units of the name `h = 31 * h + unit` in 32 bits, then the top bit cleared.
fn hash(name: &str) -> u64 {
    let add = |hash: u32, unit: u16| hash.wrapping_mul(31).wrapping_add(unit.into());
    u64::from(name.encode_utf16().fold(0, add) & 0x7fff_ffff)
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn the_hash_of_a_name_is_that_of_the_rules() {
        assert_eq!((hash("orders"), hash("t"), hash("")), (1_138_713_317, 116, 0));
    }
}
