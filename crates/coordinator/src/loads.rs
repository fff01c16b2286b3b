//! Loading, releasing, and how far that is.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, NodeName, ReplicaId};
use pointsman_metastore::NewReplica;
use pointsman_proto::{coordinator::v1 as pb, error_to_proto, status};
use pointsman_query_coord::{
    GroupProgress, LoadProgress, LoadRecord, LoadStatus, Replica, SessionState, Stores, replica_nodes,
    show_load,
};
use tonic::{Request, Response, Status};

use crate::{catalog::find, shared::Shared, tenure::Tenure};

/// Most replicas of one load.
const MAX_REPLICAS: u32 = 64;

/// Serves loads.
#[derive(Debug)]
pub(crate) struct LoadService(pub(crate) Arc<Shared>);

/// How many replicas each group should have.
type Wanted = BTreeMap<GroupName, u32>;

/// Reads how many replicas are asked for, per group.
fn wanted(stores: &Stores, request: &pb::LoadCollectionRequest) -> Result<Wanted, Error> {
    let invalid = |text: String| Error::new(ErrorCode::ParameterInvalid, text);
    let groups = &request.resource_groups;
    for group in groups {
        stores.group(group)?;
    }
    let listed = u32::try_from(groups.len()).unwrap_or(u32::MAX);
    let number = if request.replicas == 0 { listed.max(1) } else { request.replicas };
    if number > MAX_REPLICAS {
        return Err(invalid(format!("{number} replicas are too many; at most {MAX_REPLICAS}")));
    }
    let mut wanted = Wanted::new();
    match groups.as_slice() {
        [] => drop(wanted.insert(GroupName::default_group(), number)),
        [group] => drop(wanted.insert(GroupName::new(group)?, number)),
        several if listed == number => {
            for group in several {
                *wanted.entry(GroupName::new(group)?).or_default() += 1;
            }
        }
        several => {
            return Err(invalid(format!(
                "{number} replicas over {} resource groups: name one group, or one per replica",
                several.len()
            )));
        }
    }
    Ok(wanted)
}

/// Checks that every group has at least one node per replica.
fn check_nodes(stores: &Stores, wanted: &Wanted) -> Result<(), Error> {
    let lacking = |(name, need): &(&GroupName, &u32)| {
        takers(stores, name) < usize::try_from(**need).unwrap_or(usize::MAX)
    };
    match wanted.iter().find(lacking) {
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

/// The replicas of a new load with the nodes that they begin with.
fn new_replicas(stores: &Stores, collection: CollectionId, wanted: &Wanted) -> Vec<NewReplica> {
    let each = wanted.iter().flat_map(|(group, number)| (0..*number).map(move |_| group.clone()));
    // Their numbers come with the write; until then any do.
    let planned: Vec<Replica> = (1..)
        .zip(each)
        .map(|(id, group)| Replica {
            id: ReplicaId(id),
            collection,
            group,
            nodes: Default::default(),
            ro_nodes: Default::default(),
            query_visible: true,
            finished: false,
        })
        .collect();
    let assigned = replica_nodes(stores, collection, &planned);
    let replica = |planned: Replica| {
        let assigned = assigned.iter().find(|assigned| assigned.id == planned.id);
        NewReplica {
            group: planned.group,
            nodes: assigned.map(|a| a.nodes.clone()).unwrap_or_default().into_iter().collect(),
        }
    };
    planned.into_iter().map(replica).collect()
}

/// Whether a registered load is the very one that is asked for; with other replicas it is an error.
fn same_load(stores: &Stores, id: CollectionId, name: &str, wanted: &Wanted) -> Result<bool, Error> {
    if !stores.loads.contains_key(&id) {
        return Ok(false);
    }
    let mut present = Wanted::new();
    for replica in stores.replicas_of(id) {
        *present.entry(replica.group.clone()).or_default() += 1;
    }
    if present == *wanted {
        return Ok(true);
    }
    let shown: Vec<String> = present.iter().map(|(group, number)| format!("{number} in '{group}'")).collect();
    let text =
        format!("collection '{name}' is loaded with other replicas ({}); release it first", shown.join(", "));
    Err(Error::new(ErrorCode::ParameterInvalid, text))
}

impl Tenure {
    async fn load(&self, request: &pb::LoadCollectionRequest) -> Result<pb::LoadCollectionResponse, Error> {
        let pen = self.begin_write().await?;
        let name = &request.collection;
        let (id, replicas) = {
            let state = self.state();
            let id = find(&state.stores, name)?.collection.id;
            let wanted = wanted(&state.stores, request)?;
            if same_load(&state.stores, id, name, &wanted)? {
                return Ok(pb::LoadCollectionResponse { registered: false });
            }
            check_nodes(&state.stores, &wanted)?;
            (id, new_replicas(&state.stores, id, &wanted))
        };
        let now = self.wall();
        let record = LoadRecord {
            collection: id,
            replicas: u32::try_from(replicas.len()).unwrap_or(u32::MAX),
            status: LoadStatus::Loading,
            percent: 0,
            created_at: now,
            updated_at: now,
        };
        let registered = pen.metastore.register_load(pen.epoch, record.clone(), replicas).await;
        let registered = registered.map_err(|error| self.failed(error))?;
        tracing::info!(collection = name, replicas = registered.len(), "a load was registered");
        let mut state = self.state();
        state.stores.loads.insert(id, record);
        state.stores.replicas.extend(registered.into_iter().map(|replica| (replica.id, replica)));
        self.wake();
        Ok(pb::LoadCollectionResponse { registered: true })
    }

    async fn release(&self, name: &str) -> Result<pb::ReleaseCollectionResponse, Error> {
        {
            let pen = self.begin_write().await?;
            let id = self.state().stores.collection(name).map(|store| store.collection.id);
            let Some(id) = id.filter(|id| self.state().stores.loads.contains_key(id)) else {
                return Ok(pb::ReleaseCollectionResponse {});
            };
            pen.metastore.release_load(pen.epoch, id).await.map_err(|error| self.failed(error))?;
            tracing::info!(collection = name, "a load was released");
            self.state().release(id);
        }
        self.publish();
        self.wake();
        Ok(pb::ReleaseCollectionResponse {})
    }
}

impl crate::state::State {
    fn release(&mut self, id: CollectionId) {
        let stores = &mut self.stores;
        stores.loads.remove(&id);
        stores.current.remove(&id);
        stores.next.remove(&id);
        stores.replicas.retain(|_, replica| replica.collection != id);
        stores.placement.retain(|replica, _| stores.replicas.contains_key(replica));
        stores.leads.retain(|(replica, _), _| stores.replicas.contains_key(replica));
        let segments = stores.collections.get(&id).map(|store| &store.segments);
        stores.failures.retain(|segment, _| segments.is_none_or(|segments| !segments.contains_key(segment)));
    }
}

fn group_message((name, progress): (GroupName, GroupProgress)) -> pb::GroupLoad {
    let failure = |failure: pointsman_query_coord::CopyFailure| pb::LoadFailure {
        node: failure.node.to_string(),
        segment: failure.segment.to_string(),
        tries: failure.tries,
        error: Some(error_to_proto(&failure.error)),
    };
    pb::GroupLoad {
        resource_group: name.to_string(),
        percent: progress.percent.into(),
        replicas: progress.replicas,
        segments_wanted: progress.wanted,
        segments_held: progress.held,
        ready: progress.ready,
        failures: progress.failures.into_iter().map(failure).collect(),
        nodes: progress.nodes.iter().map(ToString::to_string).collect(),
    }
}

fn message(name: &str, load: LoadProgress) -> pb::CollectionLoad {
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
    }
}

fn show(stores: &Stores, request: &pb::ShowLoadRequest) -> Result<pb::ShowLoadResponse, Error> {
    let group = match request.resource_group.as_str() {
        "" => None,
        name => Some(&stores.group(name)?.name),
    };
    let collections = match request.collection.as_str() {
        "" => stores.names.values().filter_map(|id| stores.collections.get(id)).collect(),
        name => vec![find(stores, name)?],
    };
    let mut loads = Vec::new();
    for store in collections {
        let name = store.collection.name.as_str();
        match show_load(stores, store.collection.id, group) {
            Some(load) => loads.push(message(name, load)),
            None if request.collection.is_empty() => {}
            None => {
                let text = format!("collection '{name}' is not loaded");
                return Err(Error::new(ErrorCode::CollectionNotLoaded, text));
            }
        }
    }
    Ok(pb::ShowLoadResponse { collections: loads })
}

#[tonic::async_trait]
impl pb::query_coord_server::QueryCoord for LoadService {
    async fn load_collection(
        &self,
        request: Request<pb::LoadCollectionRequest>,
    ) -> Result<Response<pb::LoadCollectionResponse>, Status> {
        let call = async { self.0.active()?.load(request.get_ref()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn release_collection(
        &self,
        request: Request<pb::ReleaseCollectionRequest>,
    ) -> Result<Response<pb::ReleaseCollectionResponse>, Status> {
        let call = async { self.0.active()?.release(&request.get_ref().collection).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn show_load(
        &self,
        request: Request<pb::ShowLoadRequest>,
    ) -> Result<Response<pb::ShowLoadResponse>, Status> {
        let show = || {
            let tenure = self.0.active()?;
            let state = tenure.state();
            show(&state.stores, request.get_ref())
        };
        show().map(Response::new).map_err(|error: Error| status(&error))
    }
}
