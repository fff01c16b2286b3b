//! What the core takes of the feeds: whole snapshots, deltas, or one thing at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_failure_detector::Probe;
use pointsman_ids::{
    ClusterName, CollectionName, Error, ErrorCode, FeedVersion, NodeId, NodeName,
    feed::{CollectionDelta, CollectionEntry, Delta, GroupEntry, NodeEntry, Snapshot},
};
use pointsman_instance_selector::{Measured, NodeStatistics};

use super::{Core, is_unhealthy};
use crate::{cluster::ClusterView, manager::Changed, switches};

impl Core {
    /// The manager of a cluster comes up with these members, and is given all that the detector knows: to the detector
    /// its members are no newcomers. Says what is to be probed. For one that runs it is [`Core::set_nodes`].
    ///
    /// # Errors
    /// `parameter_invalid` for a cluster that is not configured.
    pub fn start_cluster(
        &mut self,
        cluster: &ClusterName,
        nodes: Vec<NodeEntry>,
        now: Duration,
    ) -> Result<Vec<Probe>, Error> {
        let at = self.at(cluster)?;
        let before = self.managers[at].view.clone();
        let after = Snapshot { nodes: ordered(nodes), ..next(&before) };
        let (probes, _) = self.advance(at, after, now);
        Ok(probes)
    }

    /// Takes the members of a cluster as a whole, and says what is to be probed. A record whose address cannot be read
    /// is skipped with a word in the log; a member keeps its last good address.
    ///
    /// # Errors
    /// `parameter_invalid` for a cluster that is not configured or whose manager does not run.
    pub fn set_nodes(
        &mut self,
        cluster: &ClusterName,
        nodes: Vec<NodeEntry>,
        now: Duration,
    ) -> Result<Vec<Probe>, Error> {
        let at = self.running(cluster)?;
        let after = Snapshot { nodes: ordered(nodes), ..next(&self.managers[at].view) };
        Ok(self.advance(at, after, now).0)
    }

    /// Takes the resource groups of a cluster.
    ///
    /// # Errors
    /// As [`Core::set_nodes`].
    pub fn set_groups(&mut self, cluster: &ClusterName, groups: Vec<GroupEntry>) -> Result<(), Error> {
        let at = self.running(cluster)?;
        let after = Snapshot { groups, ..next(&self.managers[at].view) };
        self.advance(at, after, self.now);
        Ok(())
    }

    /// Takes the dynamic configuration of a cluster as a whole. Only that of the local cluster means anything.
    ///
    /// # Errors
    /// As [`Core::set_nodes`].
    pub fn set_config(
        &mut self,
        cluster: &ClusterName,
        config: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let at = self.running(cluster)?;
        let after = Snapshot { config, ..next(&self.managers[at].view) };
        self.advance(at, after, self.now);
        Ok(())
    }

    /// Takes a collection: built if it is new or its settings differ, else changed, if its version is newer than the
    /// one it is routed by.
    ///
    /// # Errors
    /// As [`Core::set_nodes`]; `parameter_invalid` when it cannot be built. What it was routed by stays in place then.
    pub fn set_collection(
        &mut self,
        cluster: &ClusterName,
        entry: Arc<CollectionEntry>,
        now: Duration,
    ) -> Result<(), Error> {
        let at = self.running(cluster)?;
        let before = self.managers[at].view.clone();
        let name = entry.name.clone();
        let delta = Delta { collections: vec![CollectionDelta::Whole(entry)], ..step(&before) };
        let after = before.snapshot.apply(&delta)?;
        let (_, mut changed) = self.follow(at, after, &delta, now);
        changed.failed.remove(&name).map_or(Ok(()), Err)
    }

    /// Drops a collection with all that was counted of it. One that is not there is no error.
    ///
    /// # Errors
    /// As [`Core::set_nodes`].
    pub fn drop_collection(&mut self, cluster: &ClusterName, name: &CollectionName) -> Result<(), Error> {
        let at = self.running(cluster)?;
        let before = self.managers[at].view.clone();
        let delta = Delta { dropped: vec![name.clone()], ..step(&before) };
        let after = before.snapshot.apply(&delta)?;
        self.follow(at, after, &delta, self.now);
        Ok(())
    }

    /// Tells the name of a process that copies name and that is no member. Until the cluster has heard of an id its
    /// copies are nobody's.
    ///
    /// # Errors
    /// `parameter_invalid` for a cluster that is not configured.
    pub fn introduce(&mut self, cluster: &ClusterName, id: NodeId, name: &NodeName) -> Result<(), Error> {
        let at = self.at(cluster)?;
        self.managers[at].introduce(id, name);
        Ok(())
    }

    /// Puts other figures in the place of what was measured of a member; `None` forgets them. A node that is no member
    /// has none.
    pub fn observe(&mut self, cluster: &ClusterName, node: &NodeName, measured: Option<Measured>) {
        let Some(manager) = self.managers.iter_mut().find(|manager| manager.view.name == *cluster) else {
            return;
        };
        let Some(place) = manager.view.place(node) else { return };
        let Some(member) = manager.view.members.get(place) else { return };
        match measured {
            Some(measured) => {
                let new = || Arc::new(NodeStatistics::new(self.view.adaptive, Duration::ZERO));
                member.statistics.get_or_init(new).set(measured);
            }
            None => {
                let members = manager.view.members.forgetting(place);
                Arc::make_mut(&mut manager.view).members = members;
                self.publish(&BTreeSet::new());
            }
        }
    }

    /// Takes a snapshot that is newer than the one before, and says what is to be probed. An older one, or the same
    /// again, changes nothing. The first one of a cluster starts its manager.
    ///
    /// # Errors
    /// `parameter_invalid` for a snapshot of a cluster that is not configured. What was applied before stays in place.
    pub fn apply(&mut self, snapshot: Snapshot, now: Duration) -> Result<Vec<Probe>, Error> {
        let at = self.at(&snapshot.cluster)?;
        let before = &self.managers[at].view;
        if before.running && snapshot.version <= before.snapshot.version {
            return Ok(vec![]);
        }
        let mut snapshot = snapshot;
        snapshot.nodes = ordered(snapshot.nodes);
        Ok(self.advance(at, snapshot, now).0)
    }

    /// Takes what changed since the snapshot before, and says what is to be probed. A delta that was applied before
    /// changes nothing. Costs in proportion to the change, apart from the lists of nodes and collections.
    ///
    /// # Errors
    /// `parameter_invalid` for a delta of a cluster that is not configured, or that does not continue what is known:
    /// a whole snapshot is needed then. What was applied before stays in place.
    pub fn apply_delta(&mut self, delta: &Delta, now: Duration) -> Result<Vec<Probe>, Error> {
        let at = self.running(&delta.cluster)?;
        let before = self.managers[at].view.clone();
        if delta.after <= before.snapshot.version {
            return Ok(vec![]);
        }
        let after = before.snapshot.apply(delta)?;
        Ok(self.follow(at, after, delta, now).0)
    }

    /// Takes the next snapshot of a cluster, of which what differs is not known yet.
    fn advance(&mut self, at: usize, after: Snapshot, now: Duration) -> (Vec<Probe>, Changed) {
        let before = self.managers[at].view.snapshot.clone();
        let delta = Delta::between(&before, &after);
        // What did not change is shared with the snapshot before, down to the segment.
        let after = before.apply(&delta).unwrap_or(after);
        self.follow(at, after, &delta, now)
    }

    /// Takes the next snapshot of a cluster, to which `delta` leads.
    fn follow(&mut self, at: usize, after: Snapshot, delta: &Delta, now: Duration) -> (Vec<Probe>, Changed) {
        self.now = self.now.max(now);
        let manager = &mut self.managers[at];
        let is_running = manager.view.running;
        manager.start();
        if at == 0 {
            switches::warn_of_doubt(&manager.view.snapshot.config, &after.config);
        }
        let events = manager.set_members(&after, is_running);
        let probes = self.feed_detector(events, now);
        let (manager, detector) = (&mut self.managers[at], &self.detector);
        let cluster = manager.view.name.clone();
        let is_unhealthy = |node: &NodeName| is_unhealthy(detector, &cluster, node);
        let changed = manager.advance(after, delta, is_unhealthy, self.building, now);
        let touched = if is_running { changed.collections.clone() } else { self.all_collections() };
        self.publish(&touched);
        (probes, changed)
    }

    fn at(&self, cluster: &ClusterName) -> Result<usize, Error> {
        let at = self.managers.iter().position(|manager| manager.view.name == *cluster);
        at.ok_or_else(|| {
            let configured: Vec<_> =
                self.managers.iter().map(|manager| format!("'{}'", manager.view.name)).collect();
            let configured = configured.join(", ");
            let message = format!("something came of cluster '{cluster}', which is none of {configured}");
            Error::new(ErrorCode::ParameterInvalid, message)
        })
    }

    fn running(&self, cluster: &ClusterName) -> Result<usize, Error> {
        let at = self.at(cluster)?;
        if self.managers[at].view.running {
            return Ok(at);
        }
        let message = format!("the manager of cluster '{cluster}' does not run yet; start it first");
        Err(Error::new(ErrorCode::ParameterInvalid, message))
    }
}

/// The snapshot of a cluster one version later.
fn next(view: &ClusterView) -> Snapshot {
    Snapshot { version: step(view).after, ..Snapshot::clone(&view.snapshot) }
}

/// A change that changes nothing yet.
fn step(view: &ClusterView) -> Delta {
    let version = view.snapshot.version;
    let after = FeedVersion(version.0.saturating_add(1));
    Delta::empty(view.name.clone(), version, after)
}

/// By name; of records of one name the first counts.
fn ordered(mut nodes: Vec<NodeEntry>) -> Vec<NodeEntry> {
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes.dedup_by(|later, first| later.name == first.name);
    nodes
}
