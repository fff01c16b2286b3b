//! Where a group is ready, a request to each of its shards succeeds: against simulated nodes that come, go, load and drop.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{NodeId, NodeName, SegmentId, ShardName, TargetVersion};
use pointsman_query_coord::{
    LeaderReport, LeaderView, LoadRecord, LoadStatus, NextStep, SegmentReport, SessionState, Stores,
    answers::{Form, readiness, shard_leaders},
    copies_on, lead_wishes, rebalance,
};
use proptest::prelude::*;
use world::*;

const SHARDS: u32 = 2;
const NODES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];

/// What a process really has, whatever the coordinator believes.
#[derive(Clone, Debug, Default)]
struct Process {
    up: bool,
    held: BTreeSet<SegmentId>,
    leads: BTreeMap<ShardName, Led>,
}

/// A shard as its leader serves it.
#[derive(Clone, Debug, Default)]
struct Led {
    version: u64,
    target: TargetVersion,
    view: Vec<SegmentId>,
    hosts: BTreeMap<SegmentId, NodeName>,
}

struct Cluster {
    stores: Stores,
    processes: BTreeMap<NodeName, Process>,
    pushed: u64,
    version: u64,
    /// The newest version of a lead.
    leads: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A node loads so many of the segments that it lacks.
    Fetch(usize, usize),
    Crash(usize),
    /// A crashed process is there again with all that it had, as after a cut of the network.
    Return(usize),
    /// A process starts anew with an empty disk.
    Restart(usize),
    /// The operator's switch.
    Switch(usize, bool),
    Push,
    /// A segment is dropped from the catalog.
    Drop(u64),
    Promote,
    Rebalance,
}

impl Cluster {
    /// Three nodes in `east`, two in `west`, and a collection that is loaded in both.
    fn new() -> Self {
        let mut stores = world(&[("east", &NODES[..3]), ("west", &NODES[3..])]);
        collection(&mut stores, SHARDS, &[10; 4]);
        load(&mut stores, &[("east", 1), ("west", 1)]);
        let process = |name: &&str| (node(name), Process { up: true, ..Process::default() });
        let processes = NODES.iter().map(process).collect();
        Self { stores, processes, pushed: 4, version: 1, leads: 0 }
    }

    fn process(&mut self, at: usize) -> (NodeName, &mut Process) {
        let name = node(NODES[at]);
        let process = self.processes.get_mut(&name).unwrap();
        (name, process)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Fetch(at, count) => self.fetch(at, count),
            Event::Crash(at) => {
                let (name, process) = self.process(at);
                process.up = false;
                set(&mut self.stores, name.as_str(), SessionState::Lost);
            }
            Event::Return(at) => {
                let (name, process) = self.process(at);
                process.up = true;
                set(&mut self.stores, name.as_str(), SessionState::Live);
            }
            Event::Restart(at) => self.restart(at),
            Event::Switch(at, on) => {
                self.stores.nodes.get_mut(&node(NODES[at])).unwrap().switched_on = on;
            }
            Event::Push => {
                self.pushed += 1;
                let new = segment(self.pushed, SHARDS, 10);
                self.stores.collections.get_mut(&COLLECTION).unwrap().insert(new);
                self.pull();
            }
            Event::Drop(id) => {
                if self.stores.collections[&COLLECTION].segments.contains_key(&SegmentId(id)) {
                    drop_segment(&mut self.stores, id);
                    self.pull();
                }
            }
            Event::Promote => {
                if step(&self.stores) == NextStep::Promote {
                    promote(&mut self.stores);
                    let record = self.stores.loads.get(COLLECTION).unwrap();
                    let record = LoadRecord { status: LoadStatus::Loaded, ..record.clone() };
                    self.stores.loads.insert(record);
                }
            }
            Event::Rebalance => rebalance(&self.stores).apply(&mut self.stores),
        }
        self.exchange();
    }

    fn pull(&mut self) {
        self.version += 1;
        self.stores.targets.set_next(whole_target(&self.stores, self.version));
    }

    fn fetch(&mut self, at: usize, count: usize) {
        let wanted = self.wanted(&node(NODES[at]));
        let (name, process) = self.process(at);
        if !process.up {
            return;
        }
        let new: Vec<SegmentId> = wanted.difference(&process.held).copied().take(count).collect();
        process.held.extend(&new);
        new.iter().for_each(|id| report(&mut self.stores, name.as_str(), id.0, SegmentReport::Held));
    }

    fn restart(&mut self, at: usize) {
        let (name, process) = self.process(at);
        *process = Process { up: true, ..Process::default() };
        unreport_all(&mut self.stores, name.as_str());
        self.stores.distribution.remove_node(&name);
        self.stores.distribution.forget_host(&name);
        let highest = self.stores.observed.values().map(|seen| seen.id.0).max().unwrap();
        let seen = self.stores.observed.get_mut(&name).unwrap();
        (seen.id, seen.state) = (NodeId(highest + 1), SessionState::Live);
    }

    /// What a node is told to hold.
    fn wanted(&self, name: &NodeName) -> BTreeSet<SegmentId> {
        let replicas = self.stores.replicas_of(COLLECTION);
        replicas.flat_map(|replica| copies_on(&self.stores, replica, name)).collect()
    }

    /// The coordinator decides, nodes hear of it and report: first what they lead, then what they dropped.
    fn exchange(&mut self) {
        decide(&mut self.stores);
        let mut wishes = lead_wishes(&self.stores, &hosted(&self.stores), |_| step(&self.stores));
        let names: BTreeMap<NodeId, NodeName> =
            self.stores.observed.iter().map(|(name, seen)| (seen.id, name.clone())).collect();
        for (name, process) in self.processes.iter_mut().filter(|(_, process)| process.up) {
            let mut former = std::mem::take(&mut process.leads);
            self.stores.distribution.remove_node(name);
            for ((collection, shard), wish) in wishes.remove(name).unwrap_or_default() {
                let mut led = former.remove(&shard).unwrap_or_default();
                if led.version == 0 {
                    self.leads += 1;
                    led.version = self.leads;
                }
                if let Some(target) = &wish.view {
                    led.target = target.version;
                    led.view =
                        target.shard(shard.as_str()).map_or(Vec::new(), |shard| shard.segments.clone());
                }
                led.hosts =
                    wish.hosts.iter().map(|(segment, host)| (*segment, names[host].clone())).collect();
                self.stores.distribution.insert(LeaderReport {
                    node: name.clone(),
                    node_id: self.stores.observed[name].id,
                    collection,
                    shard: shard.clone(),
                    version: led.version,
                    target_version: led.target,
                    serviceable: led.target != TargetVersion(0)
                        && led.view.iter().all(|segment| led.hosts.contains_key(segment)),
                    view: LeaderView::new(led.hosts.clone()),
                });
                process.leads.insert(shard, led);
            }
        }
        for name in self.processes.keys().cloned().collect::<Vec<_>>() {
            let wanted = self.wanted(&name);
            let process = self.processes.get_mut(&name).unwrap();
            if process.up {
                let dropped: Vec<SegmentId> = process.held.difference(&wanted).copied().collect();
                process.held.retain(|segment| wanted.contains(segment));
                dropped.iter().for_each(|id| unreport(&mut self.stores, name.as_str(), id.0));
            }
        }
    }

    /// What becomes of a request to a leader, which asks its hosts.
    fn request(&self, leader: &NodeName, shard: &ShardName) -> Result<(), String> {
        let process = &self.processes[leader];
        let led = process.leads.get(shard).filter(|_| process.up);
        let led = led.ok_or_else(|| format!("{leader} does not lead {shard}"))?;
        for segment in &led.view {
            let host =
                led.hosts.get(segment).ok_or_else(|| format!("{leader} knows no host of {segment}"))?;
            let host_process = &self.processes[host];
            if !host_process.up || !host_process.held.contains(segment) {
                return Err(format!("{host} does not have {segment} of {shard}"));
            }
        }
        Ok(())
    }

    /// Asks every shard of every group that is ready; how many groups are.
    fn ask(&self) -> Result<usize, String> {
        let snapshot = self.stores.snapshot();
        let wired = snapshot.wired();
        let mut ready = 0;
        for group in ["east", "west"] {
            let verdict = readiness(&wired, COLLECTION, Some(group));
            if !verdict.is_ready() {
                continue;
            }
            ready += 1;
            let listed = shard_leaders(&wired, COLLECTION, Form::Loose).map_err(|error| error.to_string())?;
            assert_eq!(listed.len(), verdict.total_shards);
            for shard in listed {
                let ours = shard
                    .leaders
                    .iter()
                    .filter(|leader| leader.serviceable && leader.group.as_str() == group);
                let ours: Vec<&NodeName> = ours.map(|leader| &leader.node).collect();
                if ours.is_empty() {
                    return Err(format!("nobody in {group} for {}", shard.shard));
                }
                ours.iter().try_for_each(|leader| self.request(leader, &shard.shard))?;
            }
        }
        Ok(ready)
    }
}

fn event() -> impl Strategy<Value = Event> {
    let at = 0..NODES.len();
    prop_oneof![
        8 => (at.clone(), 1..4_usize).prop_map(|(at, count)| Event::Fetch(at, count)),
        1 => at.clone().prop_map(Event::Crash),
        2 => at.clone().prop_map(Event::Return),
        1 => at.clone().prop_map(Event::Restart),
        1 => at.clone().prop_map(|at| Event::Switch(at, false)),
        2 => at.prop_map(|at| Event::Switch(at, true)),
        1 => Just(Event::Push),
        1 => (1..8_u64).prop_map(Event::Drop),
        3 => Just(Event::Promote),
        1 => Just(Event::Rebalance),
    ]
}

#[test]
fn a_cluster_that_loads_in_peace_becomes_ready() {
    let mut cluster = Cluster::new();
    cluster.exchange();
    assert_eq!(cluster.ask(), Ok(0));
    let fetch_all =
        |cluster: &mut Cluster| (0..NODES.len()).for_each(|at| cluster.happens(Event::Fetch(at, 9)));
    fetch_all(&mut cluster);
    cluster.happens(Event::Promote);
    assert_eq!(cluster.ask(), Ok(2));
    // One node of a group goes; the others take over.
    cluster.happens(Event::Crash(0));
    assert_eq!(cluster.ask(), Ok(1));
    fetch_all(&mut cluster);
    // Who leads anew says whom it can reach, and is given a view then.
    (0..3).for_each(|_| cluster.exchange());
    assert_eq!(cluster.ask(), Ok(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_request_to_every_shard_of_a_ready_group_succeeds(events in prop::collection::vec(event(), 1..60)) {
        let mut cluster = Cluster::new();
        for event in events {
            cluster.happens(event);
            let asked = cluster.ask();
            prop_assert!(asked.is_ok(), "after {event:?}: {asked:?}");
        }
    }
}
