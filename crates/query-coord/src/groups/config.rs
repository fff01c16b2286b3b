//! What a group wants and takes, and which wishes make sense.

use std::{
    borrow::Borrow as _,
    collections::{BTreeMap, BTreeSet},
};

use pointsman_ids::{Error, ErrorCode, GroupName, check_labels};

use super::Groups;

/// Limit of the default group: more than any cluster has nodes.
pub const UNLIMITED_NODES: u32 = 1_000_000;
/// Most nodes that a configuration may name: as many as are numbered.
const MAX_NODES: u32 = i32::MAX as u32;

/// What a group wants and takes. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupConfig {
    /// Nodes that it wants at least.
    pub requests: u32,
    /// Nodes that it takes at most; not below `requests`.
    pub limits: u32,
    /// Groups whose nodes it takes first when it misses some.
    pub transfer_from: BTreeSet<GroupName>,
    /// Groups to which it gives first when it has too many.
    pub transfer_to: BTreeSet<GroupName>,
    /// Labels that a node must have, all of them, with these values. Empty: any node.
    pub node_filter: BTreeMap<String, String>,
}

impl GroupConfig {
    /// A group that wants `requests` nodes and takes as many as come.
    pub fn unlimited(requests: u32) -> Self {
        Self { requests, limits: UNLIMITED_NODES.max(requests), ..Self::default() }
    }
}

/// A configuration as somebody asks for it: it may lack things, and make no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigRequest {
    /// Nodes that the group wants at least.
    pub requests: Option<i64>,
    /// Nodes that it takes at most.
    pub limits: Option<i64>,
    /// Names of groups whose nodes it takes first; in any order.
    pub transfer_from: Vec<String>,
    /// Names of groups to which it gives first; in any order.
    pub transfer_to: Vec<String>,
    /// Labels that a node must have.
    pub node_filter: BTreeMap<String, String>,
}

impl ConfigRequest {
    /// The configuration, if it makes sense for `group` beside `groups`.
    ///
    /// # Errors
    /// `resource_group_illegal_config` naming the group and what is wrong: requests and limits are both given, neither
    /// is negative, limits are not below requests; every group of the lists exists and is another one; a filter has
    /// at most [`MAX_LABELS`](pointsman_ids::MAX_LABELS) pairs, and the default group, which accepts every node, has none.
    pub fn check(&self, group: &GroupName, groups: &Groups) -> Result<GroupConfig, Error> {
        let illegal = |text: String| {
            Error::new(ErrorCode::ResourceGroupIllegalConfig, format!("resource group '{group}': {text}"))
        };
        let (requests, limits) = self.numbers().map_err(illegal)?;
        let names = |list, names| known_names(list, names, group, groups).map_err(illegal);
        let (transfer_from, transfer_to) =
            (names("transfer_from", &self.transfer_from)?, names("transfer_to", &self.transfer_to)?);
        if *group == GroupName::default_group() && !self.node_filter.is_empty() {
            return Err(illegal("it accepts every node and takes no node filter".into()));
        }
        check_labels(&self.node_filter).map_err(|text| illegal(format!("its node filter {text}")))?;
        Ok(GroupConfig {
            requests,
            limits,
            transfer_from,
            transfer_to,
            node_filter: self.node_filter.clone(),
        })
    }

    fn numbers(&self) -> Result<(u32, u32), String> {
        let given = |key, value: Option<i64>| {
            let value = value.ok_or_else(|| format!("{key} are not given; give both requests and limits"))?;
            let number = u32::try_from(value).ok().filter(|number| *number <= MAX_NODES);
            number.ok_or_else(|| format!("{key} {value} are not between 0 and {MAX_NODES}"))
        };
        let (requests, limits) = (given("requests", self.requests)?, given("limits", self.limits)?);
        if limits < requests {
            return Err(format!(
                "limits {limits} are below requests {requests}; raise the one or lower the other"
            ));
        }
        Ok((requests, limits))
    }
}

fn known_names(
    list: &str,
    names: &[String],
    own: &GroupName,
    groups: &Groups,
) -> Result<BTreeSet<GroupName>, String> {
    let known = |name: &String| {
        if own.as_str() == name {
            return Err(format!("{list} names the group itself"));
        }
        let known = groups.get_key_value(name.as_str()).map(|(known, _)| known.clone());
        known.ok_or_else(|| {
            let all: Vec<&str> = groups.keys().map(|name| name.borrow()).collect();
            format!(
                "{list} names '{}', which does not exist; there are: {}",
                name.escape_debug(),
                all.join(", ")
            )
        })
    };
    names.iter().map(known).collect()
}
