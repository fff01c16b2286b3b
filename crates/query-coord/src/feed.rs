//! The content of the routing feed.

mod collection;
mod segments;

pub use collection::{collection_change, collection_entry, empty_entry};
use pointsman_ids::{
    GroupNumber, NodeName,
    feed::{GroupEntry, NodeEntry},
};

use crate::{SessionState, Stores};

/// Every node that was heard and has not gone, by name, and members that have gone. One that left its group because it was
/// lost, or that waits for a group, is in no pool. A node that this coordinator never heard has no address, and nobody
/// could reach it.
pub fn node_entries(stores: &Stores) -> Vec<NodeEntry> {
    let entry = |(name, seen): (&NodeName, &crate::Observation)| {
        let group = stores.group_of(name.as_str());
        if group.is_none() && seen.state == SessionState::Gone {
            return None;
        }
        let switched_on = stores.nodes.get(name).is_some_and(|record| record.switched_on);
        // What leaves stays in service while others take over.
        let stays = !stores.is_leaving(name.as_str()) || stores.leaving.needed.contains(name);
        Some(NodeEntry {
            name: name.clone(),
            id: seen.id,
            address: seen.address.clone(),
            incarnation: seen.incarnation,
            switched_on,
            enabled: switched_on && stays && seen.state != SessionState::Gone,
            lost: seen.state == SessionState::Lost,
            pool: group.map_or(GroupNumber::NONE, |group| group.number),
        })
    };
    stores.observed.iter().filter_map(entry).collect()
}

/// Every resource group, by number.
pub fn group_entries(stores: &Stores) -> Vec<GroupEntry> {
    let entry = |group: &crate::ResourceGroup| GroupEntry { number: group.number, name: group.name.clone() };
    let mut entries: Vec<GroupEntry> = stores.groups.values().map(entry).collect();
    entries.sort_unstable_by_key(|group| group.number);
    entries
}
