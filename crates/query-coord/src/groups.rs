//! Resource groups: what they want, which nodes are their members, and which members serve their replicas.
//!
//! A node is a member of at most one group. Membership goes by name: a node that starts anew finds its place again.

mod arrive;
mod assign;
mod change;
mod config;
mod counts;
mod describe;
mod plan;
mod recover;
mod replicas;
mod settle;

use std::collections::BTreeMap;

use pointsman_ids::{Error, ErrorCode, GroupName, NodeName};

pub use self::{
    arrive::{group_for, incoming},
    assign::{GroupWait, replica_nodes},
    change::{GroupChange, GroupMove, create_group, drop_group, transfer_nodes, update_groups},
    config::{ConfigRequest, GroupConfig, UNLIMITED_NODES},
    counts::GroupCounts,
    describe::{Borrowed, GroupDescription, describe_group},
    recover::{Recovery, recover},
    replicas::transfer_replicas,
    settle::settle_groups,
};
use crate::{NodeRecord, ResourceGroup, Stores};

/// All groups, by name.
pub type Groups = BTreeMap<GroupName, ResourceGroup>;

/// All registered nodes, by name.
pub type Nodes = BTreeMap<NodeName, NodeRecord>;

/// The group of this name.
///
/// # Errors
/// `resource_group_not_found` naming those that there are.
pub(crate) fn known_group<'a>(groups: &'a Groups, name: &str) -> Result<&'a ResourceGroup, Error> {
    groups.get(name).ok_or_else(|| {
        let known: Vec<&str> = groups.keys().map(GroupName::as_str).collect();
        let text =
            format!("there is no resource group '{}'; there are: {}", name.escape_debug(), known.join(", "));
        Error::new(ErrorCode::ResourceGroupNotFound, text)
    })
}

impl Stores {
    /// A group that must exist.
    ///
    /// # Errors
    /// `resource_group_not_found` naming the groups that do.
    pub fn group(&self, name: &str) -> Result<&ResourceGroup, Error> {
        known_group(&self.groups, name)
    }

    /// The group that a node is a member of.
    pub fn group_of(&self, node: &str) -> Option<&ResourceGroup> {
        self.groups.values().find(|group| group.members.contains(node))
    }
}
