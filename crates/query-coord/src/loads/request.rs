//! How many replicas are asked for, in which groups.

use std::collections::BTreeMap;

use pointsman_ids::{Error, ErrorCode, GroupName, NodeName};

use crate::{SessionState, Stores};

/// Most replicas of one collection.
pub const MAX_REPLICAS: u32 = 64;

/// How many replicas each group should have; none has 0.
pub type ReplicaNumbers = BTreeMap<GroupName, u32>;

/// What somebody says of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaRequest {
    /// How many. 0 or less: not said.
    pub number: i64,
    /// None: not said. One: all there. Several: one replica per entry.
    pub groups: Vec<String>,
    /// How many in each group. With any, `number` and `groups` say nothing.
    pub per_group: BTreeMap<String, u32>,
}

fn invalid(text: String) -> Error {
    Error::new(ErrorCode::ParameterInvalid, text)
}

impl ReplicaRequest {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.number <= 0 && self.groups.is_empty() && self.per_group.is_empty()
    }

    /// Whether it says how many replicas there should be, and not only where.
    pub fn chooses_number(&self) -> bool {
        self.number > 0 || self.groups.len() > 1 || !self.per_group.is_empty()
    }

    /// The numbers that are asked for. What is not said is one replica, or one per listed group, in the default group.
    ///
    /// # Errors
    /// `resource_group_not_found`; `parameter_invalid` when number and groups do not fit, or there are too many.
    pub fn numbers(&self, stores: &Stores) -> Result<ReplicaNumbers, Error> {
        let listed = i64::try_from(self.groups.len()).unwrap_or(i64::MAX);
        let number = if self.number > 0 { self.number } else { listed.max(1) };
        self.spread(stores, number, || ReplicaNumbers::from([(GroupName::default_group(), 1)]))
    }

    /// The numbers that are asked for where `present` is: a number that is not said stays as it is, and so do groups.
    ///
    /// # Errors
    /// As [`Self::numbers`].
    pub fn numbers_after(&self, stores: &Stores, present: &ReplicaNumbers) -> Result<ReplicaNumbers, Error> {
        let now: i64 = present.values().map(|number| i64::from(*number)).sum();
        let number = if self.number > 0 { self.number } else { now };
        if self.groups.is_empty() && self.per_group.is_empty() && number == now {
            return Ok(present.clone());
        }
        self.spread(stores, number, || present.clone())
    }

    /// Spreads a number over the groups that are listed, or else over those of `otherwise`.
    fn spread(
        &self,
        stores: &Stores,
        number: i64,
        otherwise: impl FnOnce() -> ReplicaNumbers,
    ) -> Result<ReplicaNumbers, Error> {
        for name in self.groups.iter().chain(self.per_group.keys()) {
            stores.group(name)?;
        }
        if !self.per_group.is_empty() {
            return per_group(&self.per_group);
        }
        let number = u32::try_from(number).ok().filter(|number| *number <= MAX_REPLICAS);
        let number =
            number.ok_or_else(|| invalid(format!("there may be at most {MAX_REPLICAS} replicas")))?;
        let groups: Vec<GroupName> = match self.groups.as_slice() {
            [] => otherwise().into_keys().collect(),
            names => names.iter().map(|name| GroupName::new(name)).collect::<Result<_, Error>>()?,
        };
        match groups.as_slice() {
            [group] => Ok([(group.clone(), number)].into()),
            several if u32::try_from(several.len()) == Ok(number) => {
                let mut numbers = ReplicaNumbers::new();
                several.iter().for_each(|group| *numbers.entry(group.clone()).or_default() += 1);
                Ok(numbers)
            }
            several => Err(invalid(format!(
                "{number} {} over {} resource groups ({}): name one group, one per replica, or a number for each",
                if number == 1 { "replica" } else { "replicas" },
                several.len(),
                several.iter().map(GroupName::as_str).collect::<Vec<_>>().join(", ")
            ))),
        }
    }
}

fn per_group(numbers: &BTreeMap<String, u32>) -> Result<ReplicaNumbers, Error> {
    let sum: u64 = numbers.values().map(|number| u64::from(*number)).sum();
    if sum == 0 || sum > u64::from(MAX_REPLICAS) {
        return Err(invalid(format!("{sum} replicas in all groups together; ask for 1 to {MAX_REPLICAS}")));
    }
    let some = numbers.iter().filter(|(_, number)| **number > 0);
    some.map(|(name, number)| Ok((GroupName::new(name)?, *number))).collect()
}

/// Checks that every group has at least one node per replica.
///
/// # Errors
/// `resource_group_not_enough_nodes` naming the first that has not, and what others have.
pub fn check_nodes(stores: &Stores, numbers: &ReplicaNumbers) -> Result<(), Error> {
    let lacking = |(name, need): &(&GroupName, &u32)| {
        takers(stores, name) < usize::try_from(**need).unwrap_or(usize::MAX)
    };
    match numbers.iter().find(lacking) {
        Some((name, need)) => Err(too_few(stores, name, *need)),
        None => Ok(()),
    }
}

/// How many nodes of a group take something new, or may once they are heard. Disabled ones do not.
fn takers(stores: &Stores, group: &GroupName) -> usize {
    let members = stores.groups.get(group).map(|group| &group.members).into_iter().flatten();
    let there = |node| matches!(stores.session(node), SessionState::Live | SessionState::Awaited);
    members.filter(|node| there(node.as_str()) && !stores.is_disabled(node.as_str())).count()
}

fn too_few(stores: &Stores, name: &GroupName, need: u32) -> Error {
    let others: Vec<String> =
        stores.groups.keys().map(|group| format!("{group} {}", takers(stores, group))).collect();
    let members = stores.groups.get(name).map(|group| &group.members).into_iter().flatten();
    let disabled: Vec<&str> = members.map(NodeName::as_str).filter(|node| stores.is_disabled(node)).collect();
    let disabled = match disabled.as_slice() {
        [] => String::new(),
        names => format!("; disabled by an operator: {}", names.join(", ")),
    };
    let text = format!(
        "resource group '{name}' has {} live nodes and needs {need}, one per replica at least (live nodes: {}{disabled})",
        takers(stores, name),
        others.join(", ")
    );
    Error::new(ErrorCode::ResourceGroupNotEnoughNodes, text)
}
