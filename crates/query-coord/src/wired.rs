//! The stores as the answers see them: each may be missing while the coordinator starts.

use std::collections::BTreeSet;

use pointsman_ids::{GroupName, NodeName};

use crate::{
    Distribution, FailedLoads, KnownNode, KnownNodes, Observation, Registrations, Replicas, SessionState,
    Stores, Targets,
};

/// Snapshots of the stores, each taken once. `None`: not wired.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wired<'a> {
    /// Registrations of loads.
    pub registrations: Option<&'a Registrations>,
    /// Replicas.
    pub replicas: Option<&'a Replicas>,
    /// Names of the resource groups. Whose member a node is says nothing about which replica it serves, so no answer may
    /// ask. The default group is known also when it is not among them.
    pub groups: Option<&'a BTreeSet<GroupName>>,
    /// Targets.
    pub targets: Option<&'a Targets>,
    /// What nodes report to lead.
    pub distribution: Option<&'a Distribution>,
    /// Known nodes.
    pub nodes: Option<&'a KnownNodes>,
    /// Failed loads. Missing, it knows no failure, which is no error.
    pub failed_loads: Option<&'a FailedLoads>,
}

/// All stores as they stood at one moment. It shares what they hold, and outlives changes of them.
#[derive(Clone, Debug)]
pub struct Snapshot {
    registrations: Registrations,
    replicas: Replicas,
    groups: BTreeSet<GroupName>,
    targets: Targets,
    distribution: Distribution,
    nodes: KnownNodes,
    failed_loads: FailedLoads,
}

impl Snapshot {
    /// Everything is wired.
    pub fn wired(&self) -> Wired<'_> {
        Wired {
            registrations: Some(&self.registrations),
            replicas: Some(&self.replicas),
            groups: Some(&self.groups),
            targets: Some(&self.targets),
            distribution: Some(&self.distribution),
            nodes: Some(&self.nodes),
            failed_loads: Some(&self.failed_loads),
        }
    }
}

impl Stores {
    /// The stores that answers are made of, as they stand.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            registrations: self.loads.clone(),
            replicas: self.replicas.clone(),
            groups: self.groups.keys().cloned().collect(),
            targets: self.targets.clone(),
            distribution: self.distribution.clone(),
            nodes: self.known_nodes(),
            failed_loads: self.failed_loads.clone(),
        }
    }

    fn known_nodes(&self) -> KnownNodes {
        let known = self.observed.iter().filter(|(name, _)| self.is_known(name.as_str()));
        let node = |(name, seen): (&NodeName, &Observation)| {
            let stopping = self.session(name.as_str()) == SessionState::Stopping;
            (name.clone(), KnownNode { id: seen.id, address: seen.address.clone(), stopping })
        };
        known.map(node).collect()
    }
}
