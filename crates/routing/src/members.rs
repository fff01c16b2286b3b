//! The members of one cluster: their places, addresses and processes.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use imbl::OrdMap;
use pointsman_failure_detector::Event;
use pointsman_ids::{ClusterName, NodeId, NodeKey, NodeName, feed::NodeEntry};
use pointsman_instance_selector::{Membership, NodeIndex, NodeStatistics, NodeTable};
use url::Url;

use crate::RoutedNode;

/// A member as the feed describes it, with its address read.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) entry: NodeEntry,
    /// The same in the words of routing tables, which share it.
    pub(crate) node: Arc<RoutedNode>,
    /// Of this process; from its first request on.
    pub(crate) statistics: Arc<OnceLock<Arc<NodeStatistics>>>,
}

/// Members by place; none at the places of names that are no members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members(Arc<[Option<Member>]>);

impl Members {
    pub(crate) fn get(&self, node: NodeIndex) -> Option<&Member> {
        self.0.get(node.0 as usize)?.as_ref()
    }

    /// Whether nothing has changed between two values of one cluster.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// All members, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIndex, &Member)> {
        let places = (0..).map(NodeIndex).zip(self.0.iter());
        places.filter_map(|(node, member)| Some((node, member.as_ref()?)))
    }

    /// What selectors need of them.
    pub(crate) fn memberships(&self) -> impl Iterator<Item = (NodeIndex, Membership)> + '_ {
        self.iter().map(|(node, Member { entry, .. })| {
            (node, Membership { enabled: entry.enabled, pool: entry.pool })
        })
    }

    /// These members of a cluster in place of all before them, at places of `names`. A record without a readable address keeps
    /// the node's last good one; of a node that has none it is skipped. Both are logged.
    pub(crate) fn replaced(&self, cluster: &ClusterName, entries: &[NodeEntry], names: &mut Names) -> Self {
        let mut members = vec![];
        for entry in entries {
            let place = names.introduce(entry.id, &entry.name);
            let before = self.get(place);
            let Some(url) = readable(entry, before) else { continue };
            let node = Arc::new(RoutedNode {
                key: NodeKey { cluster: cluster.clone(), node: entry.name.clone() },
                url,
                incarnation: entry.incarnation,
                pool: entry.pool,
            });
            let same = before.filter(|before| before.entry.incarnation == entry.incarnation);
            let statistics = same.map(|before| before.statistics.clone()).unwrap_or_default();
            if members.len() <= place.0 as usize {
                members.resize(place.0 as usize + 1, None);
            }
            members[place.0 as usize] = Some(Member { entry: entry.clone(), node, statistics });
        }
        Self(members.into())
    }

    /// These members, with nothing measured of one of them.
    pub(crate) fn forgetting(&self, node: NodeIndex) -> Self {
        let mut members = self.0.to_vec();
        if let Some(Some(member)) = members.get_mut(node.0 as usize) {
            member.statistics = Arc::default();
        }
        Self(members.into())
    }

    /// What the failure detector has to know of the change from `before`: first who left, then who is there, then
    /// whose lease has ended since. `is_news`: they are newcomers to the cluster, not only to us.
    pub(crate) fn events(&self, before: &Self, cluster: &ClusterName, is_news: bool) -> Vec<Event> {
        let key = |name: &NodeName| NodeKey { cluster: cluster.clone(), node: name.clone() };
        let gone = before.iter().filter(|(node, _)| self.get(*node).is_none());
        let removed = gone.map(|(_, member)| Event::Removed { node: key(&member.entry.name) });
        let changed = self.iter().filter(|(node, member)| {
            let process = |member: &Member| (member.entry.incarnation, member.entry.enabled);
            before.get(*node).map(process) != Some(process(member))
        });
        let there = changed.map(|(_, Member { entry, .. })| {
            let (node, incarnation, enabled) = (key(&entry.name), entry.incarnation, entry.enabled);
            if is_news {
                Event::Member { node, incarnation, enabled }
            } else {
                Event::KnownMember { node, incarnation, enabled }
            }
        });
        // Its lease at the coordinator ended, which may be the one that is cut off: judge for ourselves.
        let was_lost = |node, member: &Member| {
            let before =
                before.get(node).filter(|before| before.entry.incarnation == member.entry.incarnation);
            before.is_some_and(|before| before.entry.lost)
        };
        let lost = self.iter().filter(|(node, member)| member.entry.lost && !was_lost(*node, member));
        let looks = lost.map(|(_, Member { entry, .. })| Event::ProbeWanted {
            node: key(&entry.name),
            incarnation: entry.incarnation,
        });
        removed.chain(there).chain(looks).collect()
    }
}

fn readable(entry: &NodeEntry, before: Option<&Member>) -> Option<Url> {
    match Url::parse(&entry.address) {
        Ok(url) => Some(url),
        Err(error) => {
            let (node, address) = (&entry.name, &entry.address);
            let kept = before.map(|member| member.node.url.clone());
            tracing::error!(%node, %address, %error, kept = kept.is_some(), "address of the node cannot be read");
            kept
        }
    }
}

/// The names of a cluster's nodes, and the ids that stand for them in the feed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) table: NodeTable,
    /// Ids of processes, of former ones too as long as some copy may name them.
    pub(crate) ids: OrdMap<NodeId, NodeIndex>,
}

impl Names {
    pub(crate) fn introduce(&mut self, id: NodeId, name: &NodeName) -> NodeIndex {
        let node = self.table.intern(name);
        self.ids.insert(id, node);
        node
    }

    /// Forgets all ids but these.
    pub(crate) fn keep(&mut self, ids: &BTreeSet<NodeId>) {
        let kept = self.ids.iter().filter(|(id, _)| ids.contains(id));
        self.ids = kept.map(|(id, node)| (*id, *node)).collect();
    }

    pub(crate) fn place(&self, id: NodeId) -> Option<NodeIndex> {
        self.ids.get(&id).copied()
    }
}
