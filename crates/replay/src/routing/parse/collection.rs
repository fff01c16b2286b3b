//! Collections and their segments.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_ids::{
    ClusterName, CollectionName, NodeName, SegmentName,
    catalog::{RoutingOptions, Sampler, SelectorKind},
    feed::CopyState,
};

use super::super::{
    names::Names,
    scenario::{CollectionChange, CollectionStep, ReplicaGroups, Segment},
};
use crate::{
    ScenarioError,
    yaml::{At, Fields},
};

const DEFAULT_AGE: Duration = Duration::from_secs(3600);

const SELECTORS: [SelectorKind; 4] = [
    SelectorKind::Balanced,
    SelectorKind::ReplicaGroup,
    SelectorKind::StrictReplicaGroup,
    SelectorKind::MultiStageReplicaGroup,
];

/// Settings of a collection, which stand only in the step that creates it.
const SETTINGS: [&str; 5] = ["selector", "consistent_replicas", "fixed_replica", "fail_closed", "samplers"];

const ASSIGNED: [(&str, CopyState); 3] =
    [("online", CopyState::Online), ("consuming", CopyState::Consuming), ("offline", CopyState::Offline)];
const OBSERVED: [(&str, CopyState); 4] = [
    ("online", CopyState::Online),
    ("consuming", CopyState::Consuming),
    ("offline", CopyState::Offline),
    ("error", CopyState::Error),
];

/// The parts of collections, step by step through the file.
#[derive(Debug, Default)]
pub(super) struct PartsSoFar {
    /// PartsSoFar that exist after the steps so far.
    created: BTreeSet<(ClusterName, CollectionName)>,
    /// Which cluster's part of a collection has a segment.
    owners: BTreeMap<(CollectionName, SegmentName), ClusterName>,
}

/// Declares the collection that a step creates or changes.
pub(super) fn declare(at: &At<'_>, names: &mut Names) -> Result<(), ScenarioError> {
    let mut fields = at.fields()?;
    let name = fields.require("name")?.parsed()?;
    if !fields.optional("drop", At::boolean)?.unwrap_or(false) {
        names.declare_collection(name);
    }
    Ok(())
}

/// One step.
pub(super) fn step(
    at: &At<'_>,
    names: &Names,
    parts: &mut PartsSoFar,
) -> Result<CollectionStep, ScenarioError> {
    let mut fields = at.fields()?;
    let name = names.collection(&fields.require("name")?)?;
    let cluster = fields.optional("cluster", |at| names.cluster(at))?.unwrap_or_else(|| names.local.clone());
    let part = (cluster.clone(), name.clone());
    let change = if fields.optional("drop", At::boolean)?.unwrap_or(false) {
        parts.created.remove(&part);
        CollectionChange::Drop
    } else if parts.created.insert(part) {
        let mut routing = settings(&mut fields)?;
        routing.replica_groups = replica_groups(&mut fields, names, &cluster)?.unwrap_or_default();
        CollectionChange::Create {
            routing,
            segments: segments(&mut fields, names, &cluster)?.unwrap_or_default(),
        }
    } else {
        refuse_settings(&mut fields)?;
        let replica_groups = replica_groups(&mut fields, names, &cluster)?;
        let Some(segments) = segments(&mut fields, names, &cluster)? else {
            return Err(at.error("the key 'segments' is missing; a later step replaces all segments"));
        };
        CollectionChange::Assign { replica_groups, segments }
    };
    fields.finish()?;
    parts.claim(at, &cluster, &name, &change)?;
    Ok(CollectionStep { cluster, name, change })
}

impl PartsSoFar {
    /// Segment names differ between the parts of a collection.
    fn claim(
        &mut self,
        at: &At<'_>,
        cluster: &ClusterName,
        name: &CollectionName,
        change: &CollectionChange,
    ) -> Result<(), ScenarioError> {
        self.owners.retain(|(collection, _), owner| collection != name || owner != cluster);
        let (CollectionChange::Create { segments, .. } | CollectionChange::Assign { segments, .. }) = change
        else {
            return Ok(());
        };
        for segment in segments {
            let owner =
                self.owners.entry((name.clone(), segment.name.clone())).or_insert_with(|| cluster.clone());
            if owner != cluster {
                let what = format!("segment '{}' is in the part of cluster '{owner}' already", segment.name);
                return Err(at.error(what));
            }
        }
        Ok(())
    }
}

fn settings(fields: &mut Fields<'_>) -> Result<RoutingOptions, ScenarioError> {
    let words = SELECTORS.map(|selector| (selector.as_str(), selector));
    Ok(RoutingOptions {
        selector: fields.optional("selector", |at| at.word(&words))?.unwrap_or_default(),
        consistent_replicas: fields.optional("consistent_replicas", At::boolean)?.unwrap_or(false),
        fixed_replica: fields.optional("fixed_replica", At::boolean)?.unwrap_or(false),
        fail_closed: fields.optional("fail_closed", At::boolean)?.unwrap_or(false),
        samplers: fields.optional("samplers", samplers)?.unwrap_or_default(),
        replica_groups: ReplicaGroups::new(),
    })
}

fn refuse_settings(fields: &mut Fields<'_>) -> Result<(), ScenarioError> {
    match SETTINGS.iter().find_map(|key| fields.take(key)) {
        None => Ok(()),
        Some(at) => Err(at.error("the key stands only in the step that creates the collection")),
    }
}

fn samplers(at: &At<'_>) -> Result<Vec<Sampler>, ScenarioError> {
    let sampler = |(key, value): &(At<'_>, At<'_>)| {
        let mut fields = value.fields()?;
        let first_n = fields.require("first_n")?.integer()?;
        fields.finish()?;
        Ok(Sampler { name: key.text()?.to_owned(), first_n })
    };
    at.entries()?.iter().map(sampler).collect()
}

fn replica_groups(
    fields: &mut Fields<'_>,
    names: &Names,
    cluster: &ClusterName,
) -> Result<Option<ReplicaGroups>, ScenarioError> {
    let group = |at: &At<'_>| at.list()?.iter().map(|node| names.plain(node, cluster)).collect();
    let partition = |(key, value): &(At<'_>, At<'_>)| {
        let groups = value.list()?.iter().map(group).collect::<Result<Vec<Vec<NodeName>>, _>>()?;
        Ok((key.integer()?, groups))
    };
    fields.optional("replica_groups", |at| at.entries()?.iter().map(partition).collect())
}

fn segments(
    fields: &mut Fields<'_>,
    names: &Names,
    cluster: &ClusterName,
) -> Result<Option<Vec<Segment>>, ScenarioError> {
    let segment = |(key, value): &(At<'_>, At<'_>)| {
        let mut fields = value.fields()?;
        let segment = Segment {
            name: key.parsed()?,
            assigned: states(&mut fields, "assigned", &ASSIGNED, names, cluster)?,
            observed: states(&mut fields, "observed", &OBSERVED, names, cluster)?,
            age: fields.optional("age", At::duration)?.unwrap_or(DEFAULT_AGE),
        };
        fields.finish()?;
        Ok(segment)
    };
    fields.optional("segments", |at| at.entries()?.iter().map(segment).collect())
}

/// A map of node to state, or a list of nodes that are online. A node that is listed twice counts once.
fn states(
    fields: &mut Fields<'_>,
    key: &'static str,
    words: &[(&str, CopyState)],
    names: &Names,
    cluster: &ClusterName,
) -> Result<Vec<(NodeName, CopyState)>, ScenarioError> {
    let Some(at) = fields.take(key) else { return Ok(Vec::new()) };
    if !at.is_list() {
        let state = |(node, state): &(At<'_>, At<'_>)| Ok((names.plain(node, cluster)?, state.word(words)?));
        return at.entries()?.iter().map(state).collect();
    }
    let mut seen = BTreeSet::new();
    let mut states = Vec::new();
    for item in at.list()? {
        let node = names.plain(&item, cluster)?;
        if seen.insert(node.clone()) {
            states.push((node, CopyState::Online));
        }
    }
    Ok(states)
}
