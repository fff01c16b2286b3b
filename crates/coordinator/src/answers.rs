//! Answers about loaded collections: how far a load is, may requests be routed there, to whom. What is known is taken
//! under the lock of the state and looked at outside of it.

mod expected;
mod partitions;

pub(crate) use self::partitions::show_partitions;

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, PartitionName};
use pointsman_proto::{coordinator::v1 as pb, error_to_proto};
use pointsman_query_coord::{
    CopyFailure, GroupProgress, LoadPhase, LoadProgress, LoadStatus, PartitionLoad, Snapshot, Stores,
    answers::{
        Entry, Form, ListedLeader, Readiness, ReplicaCause, ReplicaProgress, ServerState, ShardLeaders,
        Unqueryable, UnreadyShard,
    },
    shortfall, standstill,
};

use crate::{awaited::is_settled, catalog::find, loads::PATIENCE, shared::Shared, tenure::Tenure};

/// What is known at one moment.
#[derive(Debug)]
struct Moment {
    server: ServerState,
    snapshot: Snapshot,
}

impl Moment {
    fn entry(&self) -> Entry<'_> {
        Entry { state: self.server, stores: self.snapshot.wired() }
    }
}

impl Tenure {
    /// A tenure answers from its first read of the metastore on, which is when others see it, to its end.
    fn moment(&self) -> Moment {
        let server = if self.over.is_cancelled() { ServerState::Stopping } else { ServerState::Healthy };
        Moment { server, snapshot: self.state().stores.snapshot() }
    }

    /// A collection by its name, or without one by its number.
    fn asked(&self, name: &str, id: u64) -> Result<CollectionId, Error> {
        match name {
            "" => Ok(CollectionId(id)),
            name => find(&self.state().stores, name).map(|store| store.collection.id),
        }
    }
}

/// How far loads are, of one collection or of all, in one group or in all.
pub(crate) fn show_load(
    shared: &Shared,
    request: &pb::ShowLoadRequest,
) -> Result<pb::ShowLoadResponse, Error> {
    let tenure = shared.active()?;
    let state = tenure.state();
    let stores = &state.stores;
    let group = match request.resource_group.as_str() {
        "" => None,
        name => Some(&stores.group(name)?.name),
    };
    let collections = match request.collection.as_str() {
        "" => stores.names.values().filter_map(|id| stores.collections.get(id)).collect(),
        name => vec![find(stores, name)?],
    };
    let snapshot = stores.snapshot();
    let mut loads = Vec::new();
    for store in collections {
        match pointsman_query_coord::show_load(stores, &snapshot.wired(), store.collection.id, group) {
            Ok(load) => {
                let mut message = load_message(store.collection.name.as_str(), load);
                complete(&mut message, stores, store.collection.id, WallTime(tenure.wall()));
                loads.push(message);
            }
            // Where all are listed, what is not loaded is left out.
            Err(_) if request.collection.is_empty() => {}
            Err(error) => return Err(error.context(format_args!("'{}'", store.collection.name))),
        }
    }
    Ok(pb::ShowLoadResponse { collections: loads })
}

/// How far the load of a collection is in a group.
pub(crate) fn load_percentage(
    shared: &Shared,
    request: &pb::GetLoadPercentageRequest,
) -> Result<pb::GetLoadPercentageResponse, Error> {
    let tenure = shared.in_charge()?;
    let collection = tenure.asked(&request.collection, request.collection_id);
    let (moment, group) = (tenure.moment(), Some(request.resource_group.as_str()));
    let entry = moment.entry();
    // What is wrong with the group is told before that nobody knows the collection.
    let collection = collection.or_else(|error| entry.check(group).and(Err(error)))?;
    let replicas = entry.replica_progress(collection, group)?;
    let least = replicas.iter().map(ReplicaProgress::percentage).min();
    Ok(pb::GetLoadPercentageResponse {
        percentage: least.map_or(-1, i32::from),
        replicas: replicas.into_iter().map(replica_message).collect(),
    })
}

/// Whether requests may be routed to a group. The only error is a name that no collection has.
pub(crate) fn readiness(
    shared: &Shared,
    request: &pb::GetReadinessRequest,
) -> Result<pb::GetReadinessResponse, Error> {
    let tenure = match shared.in_charge() {
        Ok(tenure) => tenure,
        Err(error) => return Ok(verdict_message(&Readiness::refused(error))),
    };
    let collection = tenure.asked(&request.collection, request.collection_id);
    let (moment, group) = (tenure.moment(), Some(request.resource_group.as_str()));
    let verdict = match (collection, moment.entry()) {
        (Ok(collection), entry) => entry.readiness(collection, group),
        (Err(unknown), entry) => Readiness::refused(entry.check(group).err().ok_or(unknown)?),
    };
    Ok(verdict_message(&verdict))
}

/// The leaders of every shard of a collection.
pub(crate) fn shard_leaders(
    shared: &Shared,
    request: &pb::GetShardLeadersRequest,
) -> Result<pb::GetShardLeadersResponse, Error> {
    let form = if request.with_unserviceable { Form::Loose } else { Form::Strict };
    let collection = CollectionId(request.collection_id);
    let tenure = shared.in_charge()?;
    let settled = is_settled(&tenure.state().stores, collection);
    let shards = tenure.moment().entry().shard_leaders(collection, form)?;
    if !settled {
        // Leaders that have not said yet that they lead are not absent: whoever knows them keeps them.
        let text = format!(
            "not all nodes that serve collection {collection} were heard yet since this coordinator became active; try again"
        );
        return Err(Error::new(ErrorCode::ServiceNotReady, text));
    }
    Ok(pb::GetShardLeadersResponse { shards: shards.into_iter().map(leaders_message).collect() })
}

/// Collections that have not been queryable for a while.
pub(crate) fn health(shared: &Shared) -> Result<pb::CheckHealthResponse, Error> {
    let tenure = shared.in_charge()?;
    let (moment, settings) = (tenure.moment(), tenure.settings());
    let found = moment.entry().health_check(WallTime(tenure.wall()), settings.unqueryable_after)?;
    let state = tenure.state();
    let message = |Unqueryable { collection, error }| {
        let store = state.stores.collections.get(&collection);
        pb::UnqueryableCollection {
            collection: store.map(|store| store.collection.name.to_string()).unwrap_or_default(),
            collection_id: collection.0,
            error: Some(error_to_proto(&error)),
        }
    };
    Ok(pb::CheckHealthResponse { collections: found.into_iter().map(message).collect() })
}

fn load_message(name: &str, load: LoadProgress) -> pb::CollectionLoad {
    pb::CollectionLoad {
        collection: name.to_owned(),
        collection_id: load.collection.0,
        replicas: load.replicas,
        loaded: load.loaded,
        percent: load.percent.into(),
        serving: load.serving,
        groups: load.groups.into_iter().map(group_message).collect(),
        segments: load.segments,
        rows: load.rows,
        ..Default::default()
    }
}

/// What the registration of a load says beside its progress, and what is in its way.
fn complete(message: &mut pb::CollectionLoad, stores: &Stores, collection: CollectionId, now: WallTime) {
    let record = stores.loads.get(collection);
    if let Some(record) = record {
        expected::expect(&mut message.groups, record, now);
    }
    let partitions = record.into_iter().flat_map(|record| &record.partitions);
    let partition = |(name, load): (&PartitionName, &PartitionLoad)| pb::PartitionLoad {
        partition: name.to_string(),
        loaded: load.status == LoadStatus::Loaded,
        percent: load.percent.into(),
    };
    message.partitions = partitions.map(partition).collect();
    if let Some(still) = standstill(stores, collection, now, PATIENCE) {
        message.stalled_ms = Some(u64::try_from(still.since.as_millis()).unwrap_or(u64::MAX));
        message.obstacles = still.causes.iter().map(ToString::to_string).collect();
    } else if message.groups.iter().any(|group| !group.ready || group.percent < 100) {
        let causes = shortfall(stores, collection, now, PATIENCE);
        message.obstacles = causes.iter().map(ToString::to_string).collect();
    }
    let dropped = stores.failed_loads.dropped_groups(collection);
    let dropped = dropped.map(|(group, dropped)| pb::DroppedGroup {
        resource_group: group.to_string(),
        why: dropped.text.clone(),
    });
    message.dropped_groups = dropped.collect();
    message.current_version = stores.targets.current(collection).map_or(0, |target| target.version.0);
}

fn group_message((name, progress): (GroupName, GroupProgress)) -> pb::GroupLoad {
    let failure = |failure: CopyFailure| pb::LoadFailure {
        node: failure.node.to_string(),
        segment: failure.segment.to_string(),
        tries: failure.tries,
        error: Some(error_to_proto(&failure.error)),
    };
    let phase = match progress.phase {
        LoadPhase::Loading => pb::LoadPhase::Loading,
        LoadPhase::Serving => pb::LoadPhase::Serving,
        LoadPhase::Recovering => pb::LoadPhase::Recovering,
    };
    let verdict = verdict_message(&progress.readiness);
    pb::GroupLoad {
        resource_group: name.to_string(),
        percent: progress.percent.into(),
        replicas: progress.replicas,
        segments_wanted: progress.wanted,
        segments_held: progress.held,
        failures: progress.failures.into_iter().map(failure).collect(),
        nodes: progress.nodes.iter().map(ToString::to_string).collect(),
        ready: verdict.ready,
        reason: verdict.reason,
        total_shards: verdict.total_shards,
        unready_shards: verdict.unready_shards,
        behind: verdict.behind,
        phase: phase.into(),
        expected_ms: None,
    }
}

fn replica_message(replica: ReplicaProgress) -> pb::ReplicaLoad {
    pb::ReplicaLoad {
        replica: replica.replica.0,
        resource_group: replica.group.to_string(),
        percentage: replica.percentage().into(),
        carried: replica.carried,
        total: replica.total,
    }
}

fn verdict_message(verdict: &Readiness) -> pb::GetReadinessResponse {
    pb::GetReadinessResponse {
        ready: verdict.is_ready(),
        reason: verdict.reason.to_string(),
        total_shards: count(verdict.total_shards),
        unready_shards: verdict.unready_shards.iter().map(unready_message).collect(),
        behind: verdict.behind.iter().map(ToString::to_string).collect(),
        error: verdict.error.as_ref().map(error_to_proto),
    }
}

fn unready_message(unready: &UnreadyShard) -> pb::UnreadyShard {
    let cause = |ReplicaCause { replica, group, cause }: &ReplicaCause| pb::ReplicaCause {
        replica: replica.0,
        resource_group: group.to_string(),
        cause: cause.as_str().to_owned(),
        node: cause.node().map(ToString::to_string).unwrap_or_default(),
        text: cause.to_string(),
    };
    pb::UnreadyShard { shard: unready.shard.to_string(), causes: unready.causes.iter().map(cause).collect() }
}

/// Every list gets its entry in the same step.
fn leaders_message(shard: ShardLeaders) -> pb::ShardLeaders {
    let mut message = pb::ShardLeaders { shard: shard.shard.to_string(), ..pb::ShardLeaders::default() };
    for ListedLeader { node_id, address, serviceable, group, .. } in shard.leaders {
        message.node_ids.push(node_id.0);
        message.node_addrs.push(address);
        message.serviceable.push(serviceable);
        message.resource_groups.push(group.to_string());
    }
    message
}

fn count(shards: usize) -> u32 {
    u32::try_from(shards).unwrap_or(u32::MAX)
}
