//! The stores of a state.

use std::collections::BTreeSet;

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, NodeName, SegmentId};
use pointsman_query_coord::{
    Distribution, FailedLoads, KnownNode, KnownNodes, Registrations, Replicas, Targets, Wired,
    answers::{Entry, ServerState},
};

use super::parse::stores;
use crate::{
    ScenarioError,
    yaml::{At, Fields},
};

/// Which stores are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wiring {
    Ready,
    NotWired,
    NoResourceManager,
    NoTargets,
    NoDistribution,
    NoNodes,
    NoFailedLoads,
}

const WIRINGS: [(&str, Wiring); 7] = [
    ("ready", Wiring::Ready),
    ("not_wired", Wiring::NotWired),
    ("no_resource_manager", Wiring::NoResourceManager),
    ("no_targets", Wiring::NoTargets),
    ("no_distribution", Wiring::NoDistribution),
    ("no_nodes", Wiring::NoNodes),
    ("no_failed_loads", Wiring::NoFailedLoads),
];

const SERVERS: [(&str, ServerState); 3] = [
    ("healthy", ServerState::Healthy),
    ("initializing", ServerState::Initializing),
    ("stopping", ServerState::Stopping),
];

/// Everything that answers are made of.
#[derive(Debug)]
pub(super) struct World {
    wiring: Wiring,
    pub(super) server: ServerState,
    groups: BTreeSet<GroupName>,
    nodes: KnownNodes,
    registrations: Registrations,
    replicas: Replicas,
    pub(super) targets: Targets,
    distribution: Distribution,
    failed_loads: FailedLoads,
}

impl World {
    /// Reads a state. Every key may be left out, or null, which is the same.
    pub(super) fn read(at: &At<'_>) -> Result<Self, ScenarioError> {
        let mut fields = at.fields()?;
        let world = Self {
            wiring: fields.given("stores", |at| at.word(&WIRINGS))?.unwrap_or(Wiring::Ready),
            server: fields.given("server", |at| at.word(&SERVERS))?.unwrap_or(ServerState::Healthy),
            groups: fields.given("resource_groups", groups)?.unwrap_or_default(),
            nodes: fields.given("nodes", nodes)?.unwrap_or_default(),
            registrations: fields.given("collections", stores::registrations)?.unwrap_or_default(),
            failed_loads: fields.given("failed_loads", failed_loads)?.unwrap_or_default(),
            replicas: fields.given("replicas", stores::replicas)?.unwrap_or_default(),
            targets: fields.given("targets", stores::targets)?.unwrap_or_default(),
            distribution: fields.given("leaders", stores::leaders)?.unwrap_or_default(),
        };
        // Progress and readiness do not read what nodes hold, so this only has to make sense.
        fields.given("node_segments", node_segments)?;
        fields.finish()?;
        Ok(world)
    }

    /// The questions, behind the gate of a server in this state.
    pub(super) fn entry(&self, state: ServerState) -> Entry<'_> {
        Entry { state, stores: self.wired() }
    }

    fn wired(&self) -> Wired<'_> {
        let mut wired = Wired {
            registrations: Some(&self.registrations),
            replicas: Some(&self.replicas),
            groups: Some(&self.groups),
            targets: Some(&self.targets),
            distribution: Some(&self.distribution),
            nodes: Some(&self.nodes),
            failed_loads: Some(&self.failed_loads),
        };
        match self.wiring {
            Wiring::Ready => {}
            Wiring::NotWired => wired = Wired::default(),
            Wiring::NoResourceManager => wired.groups = None,
            Wiring::NoTargets => wired.targets = None,
            Wiring::NoDistribution => wired.distribution = None,
            Wiring::NoNodes => wired.nodes = None,
            Wiring::NoFailedLoads => wired.failed_loads = None,
        }
        wired
    }
}

fn groups(at: &At<'_>) -> Result<BTreeSet<GroupName>, ScenarioError> {
    at.list()?.iter().map(At::parsed).collect()
}

fn nodes(at: &At<'_>) -> Result<KnownNodes, ScenarioError> {
    let mut known: Vec<(NodeName, KnownNode)> = Vec::new();
    for (key, value) in stores::entries(at)? {
        let (name, id) = (stores::node(&key)?, stores::id(&key)?);
        let mut fields: Fields<'_> = value.fields()?;
        let address = fields.given("address", |at| Ok(at.text()?.to_owned()))?;
        // Whose member a node is says nothing about what it serves, and no answer asks.
        fields.given("resource_group", stores::group)?;
        let stopping = fields.given("stopping", At::boolean)?.unwrap_or(false);
        fields.finish()?;
        let address = address.unwrap_or_else(|| format!("node-{id}:7000"));
        known.push((name, KnownNode { id, address, stopping }));
    }
    Ok(known.into_iter().collect())
}

fn failed_loads(at: &At<'_>) -> Result<FailedLoads, ScenarioError> {
    let mut failed = FailedLoads::default();
    for (key, value) in stores::entries(at)? {
        let collection: CollectionId = stores::id(&key)?;
        let mut fields = value.fields()?;
        let code = fields.given("error", error_code)?.unwrap_or(ErrorCode::Unknown);
        let message = fields.given("message", |at| Ok(at.text()?.to_owned()))?.unwrap_or_default();
        fields.finish()?;
        failed.record(collection, &Error::new(code, message), WallTime(0));
    }
    Ok(failed)
}

fn error_code(at: &At<'_>) -> Result<ErrorCode, ScenarioError> {
    let name = at.text()?;
    let known = ErrorCode::ALL.iter().copied().find(|code| code.name() == name);
    known.ok_or_else(|| at.error(format_args!("'{name}' is no name of an error, such as service_not_ready")))
}

fn node_segments(at: &At<'_>) -> Result<(), ScenarioError> {
    for (key, value) in stores::entries(at)? {
        stores::node(&key)?;
        stores::ids::<SegmentId>(&value)?;
    }
    Ok(())
}
