//! What every node should lead, and what its session has to tell it of that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::{
    CollectionId, CollectionName, Epoch, NodeId, NodeName, SegmentId, ShardName, TargetVersion,
};
use pointsman_proto::node::v1 as pb;
use pointsman_query_coord::{Changes, Hosted, Lead, NextStep, Stores, Target, lead_wishes};

/// A shard of a collection.
pub(crate) type Led = (CollectionId, ShardName);

/// What nodes should lead, by node. What did not change is shared from one moment to the next.
#[derive(Debug)]
pub(crate) struct DesiredLeads {
    nodes: BTreeMap<NodeName, Arc<NodeLeads>>,
    peers: Arc<Peers>,
    hosted: Hosted,
    views: BTreeMap<(Led, TargetVersion), Arc<pb::View>>,
    /// The version that was given last.
    version: u64,
}

/// Nodes that can host segments: name and address by number.
type Peers = BTreeMap<NodeId, (NodeName, String)>;

/// What one node should lead at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLeads {
    leads: BTreeMap<Led, Arc<NodeLead>>,
    peers: Arc<Peers>,
}

#[derive(Debug)]
struct NodeLead {
    collection: CollectionName,
    version: u64,
    lead: Lead,
    view: Option<Arc<pb::View>>,
}

impl NodeLeads {
    fn is_same(&self, now: &Self) -> bool {
        let pairs = || self.leads.iter().zip(&now.leads);
        self.leads.len() == now.leads.len()
            && Arc::ptr_eq(&self.peers, &now.peers)
            && pairs().all(|((led, lead), (other, now))| led == other && Arc::ptr_eq(lead, now))
    }
}

impl NodeLead {
    fn is_same(&self, now: &Self) -> bool {
        let view = |lead: &Self| lead.view.as_ref().map(Arc::as_ptr);
        (self.version, view(self)) == (now.version, view(now))
            && self.collection == now.collection
            && self.lead.replica == now.lead.replica
            && self.lead.hosts == now.lead.hosts
    }
}

impl DesiredLeads {
    /// Versions of leads in a coordinator's tenure begin above those of every former one.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            nodes: BTreeMap::new(),
            peers: Arc::default(),
            hosted: Hosted::default(),
            views: BTreeMap::new(),
            version: epoch.0 << 32,
        }
    }

    /// Looks who should lead what with which hosts, of whom others are looked at where something changed. `step` says what
    /// is to be done about the next target of a collection.
    pub(crate) fn update(
        &mut self,
        stores: &Stores,
        changes: &Changes,
        step: impl Fn(CollectionId) -> NextStep,
    ) {
        self.hosted.update(stores, changes);
        let mut wishes = lead_wishes(stores, &self.hosted, step);
        let peers =
            stores.observed.iter().map(|(name, seen)| (seen.id, (name.clone(), seen.address.clone())));
        let peers: Peers = peers.collect();
        if *self.peers != peers {
            self.peers = Arc::new(peers);
        }
        let former = std::mem::take(&mut self.views);
        for node in stores.observed.keys() {
            let before = self.nodes.get(node).cloned().unwrap_or_default();
            let mut leads = BTreeMap::new();
            for (led, lead) in wishes.remove(node).unwrap_or_default() {
                if let Some(lead) = self.lead(stores, &former, node, &led, before.leads.get(&led), lead) {
                    leads.insert(led, lead);
                }
            }
            let now = NodeLeads { leads, peers: Arc::clone(&self.peers) };
            if !before.is_same(&now) {
                self.nodes.insert(node.clone(), Arc::new(now));
            }
        }
    }

    fn lead(
        &mut self,
        stores: &Stores,
        views: &BTreeMap<(Led, TargetVersion), Arc<pb::View>>,
        node: &NodeName,
        led: &Led,
        before: Option<&Arc<NodeLead>>,
        lead: Lead,
    ) -> Option<Arc<NodeLead>> {
        let view = lead.view.as_ref().map(|target| {
            let key = (led.clone(), target.version);
            let made = self.views.get(&key).or_else(|| views.get(&key));
            let made = made.map_or_else(|| Arc::new(view(stores, target, &led.1)), Arc::clone);
            self.views.insert(key, Arc::clone(&made));
            made
        });
        let reported = || stores.distribution.get(node, led.0, &led.1).map(|leader| leader.version);
        let version = before.map(|before| before.version).or_else(reported).unwrap_or_else(|| {
            self.version += 1;
            self.version
        });
        let collection = stores.collections.get(&led.0)?.collection.name.clone();
        let now = NodeLead { collection, version, lead, view };
        Some(before.filter(|before| before.is_same(&now)).map_or_else(|| Arc::new(now), Arc::clone))
    }

    /// What a node should lead.
    pub(crate) fn of(&self, node: &str) -> Arc<NodeLeads> {
        self.nodes.get(node).cloned().unwrap_or_default()
    }

    /// Forgets a node. Should it come back, its leads have new versions.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }
}

fn view(stores: &Stores, target: &Target, shard: &ShardName) -> pb::View {
    let mut view = pb::View {
        target_version: target.version.0,
        partitions: target.partitions.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    if let Some(shard) = target.shard(shard.as_str()) {
        let rows = |id: &SegmentId| {
            stores.segment(target.collection, *id).map_or(0, |segment| segment.segment.content.rows)
        };
        view.segments = shard.segments.iter().map(|id| id.0).collect();
        view.rows = shard.segments.iter().map(rows).collect();
        view.segment_partitions.clone_from(&shard.partitions);
    }
    view
}

/// What a session was told of leads.
#[derive(Debug, Default)]
pub(crate) struct Told {
    leads: Option<Arc<NodeLeads>>,
    peers: BTreeMap<NodeId, String>,
}

impl Told {
    /// What has to be told so that the node knows `now`; it counts as told. Everything the first time, after that what
    /// changed. `None`: nothing did.
    pub(crate) fn news(&mut self, now: &Arc<NodeLeads>) -> Option<pb::DesiredLeads> {
        let before = self.leads.replace(Arc::clone(now));
        let full = before.is_none();
        let before = before.unwrap_or_default();
        let mut message = pb::DesiredLeads { full, ..Default::default() };
        let mut hosts = BTreeSet::new();
        for (led, lead) in &now.leads {
            let known = before.leads.get(led);
            if known.is_none_or(|known| !Arc::ptr_eq(known, lead)) {
                message.leads.push(change(led, known, lead, &mut hosts));
            }
        }
        let gone = before.leads.keys().filter(|led| !now.leads.contains_key(*led));
        message.removed = gone.map(led_shard).collect();
        message.peers = self.news_of_peers(&now.peers, &hosts);
        let empty = message.leads.is_empty() && message.removed.is_empty() && message.peers.is_empty();
        (full || !empty).then_some(message)
    }

    /// Peers that were not told yet, and those that are told by another address than before.
    fn news_of_peers(&mut self, peers: &Peers, hosts: &BTreeSet<NodeId>) -> Vec<pb::Peer> {
        self.peers.retain(|id, _| peers.contains_key(id));
        let is_news = |(id, (_, address)): &(&NodeId, &(NodeName, String))| match self.peers.get(id) {
            Some(told) => told != address,
            None => hosts.contains(id),
        };
        let peer = |(id, (name, address)): (&NodeId, &(NodeName, String))| pb::Peer {
            node_id: id.0,
            name: name.to_string(),
            address: address.clone(),
        };
        let news: Vec<pb::Peer> = peers.iter().filter(is_news).map(peer).collect();
        self.peers.extend(news.iter().map(|peer| (NodeId(peer.node_id), peer.address.clone())));
        news
    }
}

fn led_shard((collection, shard): &Led) -> pb::LedShard {
    pb::LedShard { collection_id: collection.0, shard: shard.to_string() }
}

/// A lead as it differs from what was told of it; adds the hosts that it names.
fn change(
    led: &Led,
    known: Option<&Arc<NodeLead>>,
    lead: &NodeLead,
    hosts: &mut BTreeSet<NodeId>,
) -> pb::DesiredLead {
    let version = |lead: &NodeLead| lead.view.as_ref().map(|view| view.target_version);
    let view = lead.view.as_ref().filter(|_| known.is_none_or(|known| version(known) != version(lead)));
    let told = known.map_or(&[][..], |known| &known.lead.hosts);
    let (placed, removed) = difference(told, &lead.lead.hosts);
    hosts.extend(placed.iter().map(|(_, host)| *host));
    pb::DesiredLead {
        led: Some(led_shard(led)),
        collection: lead.collection.to_string(),
        replica_id: lead.lead.replica.0,
        version: lead.version,
        view: view.map(|view| pb::View::clone(view)),
        segments: placed.iter().map(|(segment, _)| segment.0).collect(),
        hosts: placed.iter().map(|(_, host)| host.0).collect(),
        removed: removed.iter().map(|segment| segment.0).collect(),
    }
}

type Hosts = [(SegmentId, NodeId)];

/// What makes `after` of `before`: segments that are new or elsewhere, and those that are gone. Both are ascending.
fn difference(before: &Hosts, after: &Hosts) -> (Vec<(SegmentId, NodeId)>, Vec<SegmentId>) {
    let (mut placed, mut removed) = (Vec::new(), Vec::new());
    let mut former = before.iter().peekable();
    for host in after {
        while let Some((segment, _)) = former.next_if(|(segment, _)| *segment < host.0) {
            removed.push(*segment);
        }
        if former.next_if(|(segment, _)| *segment == host.0).is_none_or(|former| former != host) {
            placed.push(*host);
        }
    }
    removed.extend(former.map(|(segment, _)| *segment));
    (placed, removed)
}

#[cfg(test)]
mod tests {
    use pointsman_ids::ReplicaId;

    use super::*;

    fn hosts(pairs: &[(u64, u64)]) -> Vec<(SegmentId, NodeId)> {
        pairs.iter().map(|(segment, node)| (SegmentId(*segment), NodeId(*node))).collect()
    }

    fn leads(target: Option<u64>, pairs: &[(u64, u64)]) -> Arc<NodeLeads> {
        let lead = Lead { replica: ReplicaId(1), view: None, hosts: Arc::new(hosts(pairs)) };
        let view = target.map(|target_version| Arc::new(pb::View { target_version, ..Default::default() }));
        let lead = NodeLead { collection: "t".parse().unwrap(), version: 7, lead, view };
        let peer = |id: u64| (NodeId(id), (format!("n{id}").parse().unwrap(), format!("http://n{id}")));
        let leads = [((CollectionId(1), "s0".parse().unwrap()), Arc::new(lead))].into();
        Arc::new(NodeLeads { leads, peers: Arc::new([1, 2, 3].map(peer).into()) })
    }

    #[test]
    fn a_difference_names_what_changed_and_nothing_else() {
        let before = hosts(&[(1, 1), (2, 1), (4, 1), (9, 1)]);
        let after = hosts(&[(2, 1), (3, 1), (4, 2)]);
        let (placed, removed) = difference(&before, &after);
        assert_eq!(placed, hosts(&[(3, 1), (4, 2)]));
        assert_eq!(removed, [SegmentId(1), SegmentId(9)]);
        assert_eq!(difference(&after, &after), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_session_is_told_everything_once_and_then_what_changed() {
        let mut told = Told::default();
        let first = told.news(&leads(Some(5), &[(1, 1), (2, 2)])).unwrap();
        assert!(first.full);
        assert_eq!((first.leads[0].version, first.leads[0].segments.clone()), (7, vec![1, 2]));
        assert_eq!(first.leads[0].view.as_ref().unwrap().target_version, 5);
        assert_eq!(first.peers.iter().map(|peer| peer.node_id).collect::<Vec<_>>(), [1, 2]);

        let then = told.news(&leads(Some(5), &[(2, 3)])).unwrap();
        assert!(!then.full && then.leads[0].view.is_none(), "the view is as it was");
        assert_eq!((&then.leads[0].segments[..], &then.leads[0].removed[..]), (&[2][..], &[1][..]));
        assert_eq!(then.peers.iter().map(|peer| peer.node_id).collect::<Vec<_>>(), [3]);

        let same = leads(Some(6), &[(2, 3)]);
        let synced = told.news(&same).unwrap();
        assert_eq!(synced.leads[0].view.as_ref().unwrap().target_version, 6);
        assert!(told.news(&same).is_none());
        let none = told.news(&Arc::new(NodeLeads { leads: BTreeMap::new(), peers: Arc::default() })).unwrap();
        assert_eq!(none.removed[0].shard, "s0");
    }

    #[test]
    fn a_session_that_leads_nothing_hears_so_once() {
        let mut told = Told::default();
        let nothing = Arc::default();
        assert_eq!(told.news(&nothing), Some(pb::DesiredLeads { full: true, ..Default::default() }));
        assert_eq!(told.news(&nothing), None);
    }
}
