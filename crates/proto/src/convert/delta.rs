//! Deltas of the routing feed.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{
    CollectionId, Error, FeedVersion,
    feed::{CollectionChange, CollectionDelta, CopiesChange, Delta, LeaderDrops, LeadersChange},
};

use super::{
    copies::CopyLists,
    feed::{
        collection_from_proto, collection_to_proto, group_from_proto, group_to_proto, leaders_from_proto,
        leaders_to_proto, names, node_from_proto, node_to_proto, segment_from_proto, segment_to_proto,
    },
    invalid,
};
use crate::broker::v1 as pb;

impl From<&Delta> for pb::Delta {
    fn from(delta: &Delta) -> Self {
        let (mut whole, mut changed) = (vec![], vec![]);
        for collection in &delta.collections {
            match collection {
                CollectionDelta::Whole(entry) => whole.push(collection_to_proto(entry)),
                CollectionDelta::Changed(change) => changed.push(change_to_proto(change)),
            }
        }
        let groups = delta.groups.as_ref().map(|groups| groups.iter().map(group_to_proto).collect());
        let config = delta.config.as_ref().map(|config| config.clone().into_iter().collect());
        Self {
            cluster: delta.cluster.to_string(),
            before: delta.before.0,
            after: delta.after.0,
            nodes: delta.nodes.iter().map(node_to_proto).collect(),
            nodes_removed: delta.nodes_removed.iter().map(ToString::to_string).collect(),
            groups: groups.map(|groups| pb::ResourceGroups { groups }),
            config: config.map(|entries| pb::Configuration { entries }),
            whole,
            changed,
            dropped: delta.dropped.iter().map(ToString::to_string).collect(),
            switched_off: delta.switched_off.iter().map(ToString::to_string).collect(),
            leader_drops: drops_to_proto(&delta.leader_drops),
            drop_all_leaders: delta.leader_drops == LeaderDrops::All,
        }
    }
}

impl TryFrom<pb::Delta> for Delta {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` naming what makes no sense by itself. Whether the delta fits what it changes is seen when it
    /// is applied.
    fn try_from(delta: pb::Delta) -> Result<Self, Error> {
        let groups = delta.groups.map(|all| all.groups.into_iter().map(group_from_proto).collect());
        let whole = |entry: pb::Collection| {
            let name = entry.name.clone();
            let read = collection_from_proto(entry).map(|entry| CollectionDelta::Whole(Arc::new(entry)));
            read.map_err(|error| error.context(format_args!("collection '{name}'")))
        };
        let changed = |change: pb::CollectionChange| {
            let name = change.name.clone();
            let read = change_from_proto(change).map(CollectionDelta::Changed);
            read.map_err(|error| error.context(format_args!("collection '{name}'")))
        };
        let collections = delta.whole.into_iter().map(whole).chain(delta.changed.into_iter().map(changed));
        let mut collections: Vec<CollectionDelta> = collections.collect::<Result<_, _>>()?;
        collections.sort_by(|a, b| a.name().cmp(b.name()));
        if let Some(pair) = collections.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
            return Err(invalid(format!("a delta names collection '{}' twice", pair[0].name())));
        }
        Ok(Self {
            cluster: delta.cluster.parse()?,
            before: FeedVersion(delta.before),
            after: FeedVersion(delta.after),
            nodes: delta.nodes.into_iter().map(node_from_proto).collect::<Result<_, _>>()?,
            nodes_removed: names(delta.nodes_removed)?,
            groups: groups.transpose()?,
            config: delta.config.map(|config| config.entries.into_iter().collect()),
            collections,
            dropped: names(delta.dropped)?,
            switched_off: names(delta.switched_off)?,
            leader_drops: drops_from_proto(&delta.leader_drops, delta.drop_all_leaders),
        })
    }
}

fn drops_to_proto(drops: &LeaderDrops) -> Vec<pb::LeaderDrop> {
    match drops {
        LeaderDrops::All => Vec::new(),
        LeaderDrops::Of(collections) => collections
            .iter()
            .map(|(collection, version)| pb::LeaderDrop { collection: collection.0, version: version.0 })
            .collect(),
    }
}

fn drops_from_proto(drops: &[pb::LeaderDrop], all: bool) -> LeaderDrops {
    if all {
        return LeaderDrops::All;
    }
    let mut collections = BTreeMap::new();
    for drop in drops {
        let newest: &mut FeedVersion = collections.entry(CollectionId(drop.collection)).or_default();
        *newest = (*newest).max(FeedVersion(drop.version));
    }
    LeaderDrops::Of(collections)
}

fn change_to_proto(change: &CollectionChange) -> pb::CollectionChange {
    let copies = |changed: &CopiesChange| {
        let lists = CopyLists::from(&*changed.copies);
        pb::CopiesChange {
            segment: changed.segment.to_string(),
            copy_nodes: lists.nodes,
            copy_replicas: lists.replicas,
            copy_assigned: lists.assigned,
            copy_observed: lists.observed,
        }
    };
    let leaders = |changed: &LeadersChange| pb::LeadersChange {
        shard: changed.shard,
        leaders: leaders_to_proto(&changed.leaders).leaders,
    };
    pb::CollectionChange {
        name: change.name.to_string(),
        version: change.version.0,
        head: change.head.as_deref().map(collection_to_proto),
        segments: change.segments.iter().map(|segment| segment_to_proto(segment)).collect(),
        removed: change.removed.iter().map(ToString::to_string).collect(),
        copies: change.copies.iter().map(copies).collect(),
        leaders: change.leaders.iter().map(leaders).collect(),
    }
}

fn change_from_proto(change: pb::CollectionChange) -> Result<CollectionChange, Error> {
    let copies = |changed: pb::CopiesChange| {
        let lists = CopyLists {
            nodes: changed.copy_nodes,
            replicas: changed.copy_replicas,
            assigned: changed.copy_assigned,
            observed: changed.copy_observed,
        };
        let copies = lists.read(&changed.segment)?;
        Ok(CopiesChange { segment: changed.segment.parse()?, copies })
    };
    let leaders = |changed: pb::LeadersChange| LeadersChange {
        shard: changed.shard,
        leaders: leaders_from_proto(pb::ShardLeaders { leaders: changed.leaders }),
    };
    let segments = change.segments.into_iter().map(|segment| segment_from_proto(segment).map(Arc::new));
    Ok(CollectionChange {
        name: change.name.parse()?,
        version: FeedVersion(change.version),
        head: change.head.map(|head| collection_from_proto(head).map(Arc::new)).transpose()?,
        segments: segments.collect::<Result<_, Error>>()?,
        removed: names(change.removed)?,
        copies: change.copies.into_iter().map(copies).collect::<Result<_, Error>>()?,
        leaders: change.leaders.into_iter().map(leaders).collect(),
    })
}
