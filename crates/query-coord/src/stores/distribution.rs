//! What nodes report to lead.

use std::{collections::BTreeSet, sync::Arc};

use imbl::{OrdMap, OrdSet};
use pointsman_ids::{CollectionId, NodeId, NodeName, SegmentId, ShardName, TargetVersion};

use crate::Replica;

/// What a node says of a shard that it leads. One per (node, collection, shard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderReport {
    /// The node that leads.
    pub node: NodeName,
    /// Number of its name and incarnation.
    pub node_id: NodeId,
    /// The collection.
    pub collection: CollectionId,
    /// The shard.
    pub shard: ShardName,
    /// Grows with every change of the lead; the higher one is elected.
    pub version: u64,
    /// The target that its view works with.
    pub target_version: TargetVersion,
    /// Whether it can answer for its shard: its view is synced, and everything in it is loaded.
    pub serviceable: bool,
    /// What it can reach.
    pub view: LeaderView,
}

/// The segments that a leader can reach, and who hosts each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderView {
    /// Segments, ascending.
    segments: Vec<SegmentId>,
    /// For each segment the place of its host in `names`.
    hosts: Vec<u32>,
    /// Hosts, each once, ascending.
    names: Vec<NodeName>,
}

impl LeaderView {
    /// A view of these segments with their hosts. Of a segment that stands twice the last host counts.
    pub fn new(entries: impl IntoIterator<Item = (SegmentId, NodeName)>) -> Self {
        let mut entries: Vec<(SegmentId, NodeName)> = entries.into_iter().collect();
        entries.reverse();
        entries.sort_by_key(|(segment, _)| *segment);
        entries.dedup_by_key(|(segment, _)| *segment);
        let mut names: Vec<NodeName> = Vec::new();
        let mut hosts = Vec::with_capacity(entries.len());
        for (_, name) in &entries {
            if let Err(at) = names.binary_search(name) {
                names.insert(at, name.clone());
            }
        }
        for (_, name) in &entries {
            let at = names.binary_search(name).unwrap_or_default();
            hosts.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        Self { segments: entries.into_iter().map(|(segment, _)| segment).collect(), hosts, names }
    }

    /// The view after a change: these segments are there now, or on another host, and those are not. What stays is only
    /// copied.
    #[must_use]
    pub fn changed(
        &self,
        hosted: impl IntoIterator<Item = (SegmentId, NodeName)>,
        removed: &BTreeSet<SegmentId>,
    ) -> Self {
        let hosted = Self::new(hosted);
        let mut names: Vec<NodeName> = self.names.iter().chain(&hosted.names).cloned().collect();
        names.sort_unstable();
        names.dedup();
        let places = |view: &Self| -> Vec<u32> {
            let place = |name| u32::try_from(names.binary_search(name).unwrap_or_default());
            view.names.iter().map(|name| place(name).unwrap_or(u32::MAX)).collect()
        };
        let (own, other) = (places(self), places(&hosted));
        let length = self.segments.len() + hosted.segments.len();
        let mut after =
            Self { segments: Vec::with_capacity(length), hosts: Vec::with_capacity(length), names };
        let mut new = hosted.segments.iter().zip(&hosted.hosts).peekable();
        let mut gone = removed.iter().peekable();
        for (segment, host) in self.segments.iter().zip(&self.hosts) {
            while let Some((segment, host)) = new.next_if(|(new, _)| *new < segment) {
                after.push(*segment, &other, *host);
            }
            while gone.next_if(|gone| *gone < segment).is_some() {}
            if let Some((segment, host)) = new.next_if(|(new, _)| *new == segment) {
                after.push(*segment, &other, *host);
            } else if gone.peek() != Some(&segment) {
                after.push(*segment, &own, *host);
            }
        }
        new.for_each(|(segment, host)| after.push(*segment, &other, *host));
        after.without_idle_hosts()
    }

    fn push(&mut self, segment: SegmentId, places: &[u32], host: u32) {
        let place = usize::try_from(host).ok().and_then(|host| places.get(host));
        self.segments.push(segment);
        self.hosts.push(place.copied().unwrap_or(u32::MAX));
    }

    /// The same without hosts of nothing.
    fn without_idle_hosts(mut self) -> Self {
        let mut hosting = vec![false; self.names.len()];
        for host in &self.hosts {
            if let Some(hosting) = usize::try_from(*host).ok().and_then(|host| hosting.get_mut(host)) {
                *hosting = true;
            }
        }
        if hosting.iter().all(|hosting| *hosting) {
            return self;
        }
        let mut kept = 0;
        let places: Vec<u32> = hosting
            .iter()
            .map(|hosting| {
                let place = kept;
                kept += u32::from(*hosting);
                place
            })
            .collect();
        for host in &mut self.hosts {
            let place = usize::try_from(*host).ok().and_then(|host| places.get(host));
            *host = place.copied().unwrap_or(u32::MAX);
        }
        let mut hosting = hosting.into_iter();
        self.names.retain(|_| hosting.next() == Some(true));
        self
    }

    /// Its segments, ascending.
    pub fn segments(&self) -> &[SegmentId] {
        &self.segments
    }

    /// For each segment the place of its host in [`Self::hosts`].
    pub fn host_places(&self) -> &[u32] {
        &self.hosts
    }

    /// Every host, ascending.
    pub fn hosts(&self) -> &[NodeName] {
        &self.names
    }

    /// Segments with their hosts, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentId, &NodeName)> {
        let host = |at: &u32| self.names.get(usize::try_from(*at).unwrap_or(usize::MAX));
        self.segments.iter().zip(&self.hosts).filter_map(move |(segment, at)| Some((*segment, host(at)?)))
    }
}

/// A shard of a collection.
type Key = (CollectionId, ShardName);

/// Leaders by shard; those of one shard by node id.
type Shards = OrdMap<ShardName, Arc<Vec<Arc<LeaderReport>>>>;

/// All leaders that nodes report, by collection and shard. A clone shares everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    leaders: OrdMap<CollectionId, Shards>,
    /// What each node leads, so that its going costs what it led.
    led: OrdMap<NodeName, OrdSet<Key>>,
}

impl Distribution {
    /// Every leader of a shard on any node, serviceable or not, node known or not; by node id.
    pub fn leaders(&self, collection: CollectionId, shard: &ShardName) -> &[Arc<LeaderReport>] {
        let shards = self.leaders.get(&collection);
        shards.and_then(|shards| shards.get(shard)).map_or(&[], |leaders| leaders)
    }

    /// What a node says of a shard.
    pub fn get(
        &self,
        node: &NodeName,
        collection: CollectionId,
        shard: &ShardName,
    ) -> Option<&Arc<LeaderReport>> {
        self.leaders(collection, shard).iter().find(|leader| leader.node == *node)
    }

    /// All leaders of a collection, by shard and node id.
    pub fn of(&self, collection: CollectionId) -> impl Iterator<Item = &Arc<LeaderReport>> {
        let shards = self.leaders.get(&collection).into_iter();
        shards.flat_map(|shards| shards.values()).flat_map(|leaders| leaders.iter())
    }

    /// Whether a node says that it leads a shard of the collection.
    pub fn leads(&self, node: &NodeName, collection: CollectionId) -> bool {
        self.led.get(node).is_some_and(|led| led.iter().any(|(id, _)| *id == collection))
    }

    /// Puts a report in the place of what this node said of the shard before.
    pub fn insert(&mut self, report: LeaderReport) {
        let key = (report.collection, report.shard.clone());
        self.led.entry(report.node.clone()).or_default().insert(key);
        let shards = self.leaders.entry(report.collection).or_default();
        let leaders = Arc::make_mut(shards.entry(report.shard.clone()).or_default());
        leaders.retain(|leader| leader.node != report.node);
        let at = leaders.partition_point(|leader| leader.node_id < report.node_id);
        leaders.insert(at, Arc::new(report));
    }

    /// The node leads the shard no more.
    pub fn remove(&mut self, node: &NodeName, collection: CollectionId, shard: &ShardName) {
        let key = (collection, shard.clone());
        if let Some(led) = self.led.get_mut(node) {
            led.remove(&key);
            if led.is_empty() {
                self.led.remove(node);
            }
        }
        self.forget(node, &key);
    }

    /// The node leads nothing any more: it is gone, or says everything anew.
    pub fn remove_node(&mut self, node: &NodeName) {
        for key in self.led.remove(node).iter().flatten() {
            self.forget(node, key);
        }
    }

    /// A process is gone that views may name as host: it hosts nothing any more.
    pub fn forget_host(&mut self, host: &NodeName) {
        let names = |leader: &&Arc<LeaderReport>| leader.view.hosts().binary_search(host).is_ok();
        let named: Vec<Arc<LeaderReport>> = self.iter().filter(names).cloned().collect();
        for leader in named {
            let hosted = leader.view.iter().filter(|(_, name)| *name != host);
            let view = LeaderView::new(hosted.map(|(segment, name)| (segment, name.clone())));
            self.insert(LeaderReport { view, ..LeaderReport::clone(&leader) });
        }
    }

    /// Collections whose leaders differ in another version. Costs what differs.
    pub(crate) fn changes(&self, after: &Self) -> Vec<CollectionId> {
        super::differing(&self.leaders, &after.leaders)
    }

    /// All leaders, by collection, shard and node id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LeaderReport>> {
        self.leaders.values().flat_map(|shards| shards.values()).flat_map(|leaders| leaders.iter())
    }

    fn forget(&mut self, node: &NodeName, (collection, shard): &Key) {
        let Some(shards) = self.leaders.get_mut(collection) else { return };
        let Some(leaders) = shards.get_mut(shard) else { return };
        Arc::make_mut(leaders).retain(|leader| leader.node != *node);
        if leaders.is_empty() {
            shards.remove(shard);
        }
        if shards.is_empty() {
            self.leaders.remove(collection);
        }
    }
}

impl FromIterator<LeaderReport> for Distribution {
    fn from_iter<T: IntoIterator<Item = LeaderReport>>(reports: T) -> Self {
        let mut made = Self::default();
        reports.into_iter().for_each(|report| made.insert(report));
        made
    }
}

/// Of the leaders of a shard, which are in the order of node ids, the one that stands for a replica: on a node that the
/// replica contains, serviceable before unserviceable, then the higher version, then the lower node id. Whether its
/// node is known plays no part.
pub fn elected<'a>(leaders: &'a [Arc<LeaderReport>], replica: &Replica) -> Option<&'a Arc<LeaderReport>> {
    let own = leaders.iter().filter(|leader| replica.contains(leader.node.as_str()));
    // `max_by_key` takes the last of equals; backwards that is the lowest id.
    own.rev().max_by_key(|leader| (leader.serviceable, leader.version))
}
