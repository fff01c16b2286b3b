//! Random tables, failures and moves against the real client: what holds in every run, and that a seed is a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::{AbortHandle, Aborted, abortable};
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};
use pointsman_shard_client::{
    Answered, CollectionWorkload, Handle, Policy, Result, Settings, ShardError, ShardListing, Visit,
};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::world::{Ask, Client, DOCS, Outcome, World, blacklist, executing};

const SHARDS: [&str; 4] = ["a", "b", "c", "d"];
const NODES: u64 = 6;
const GROUPS: [&str; 3] = ["east", "west", ""];

/// What a node may say, none of which anybody else says.
const RETRIABLE: [ErrorCode; 2] = [ErrorCode::NodeNotServing, ErrorCode::ChannelTsafeStalled];
const TERMINAL: [ErrorCode; 2] = [ErrorCode::SegmentLack, ErrorCode::Unknown];
const WRONG: ErrorCode = ErrorCode::ParameterInvalid;

/// The group of the replica that a node leads a shard of; it never changes, so that a visit can be judged.
fn group(shard: &str, node: u64) -> &'static str {
    GROUPS[(usize::from(shard.as_bytes()[0]) + usize::try_from(node).unwrap() * 7) % GROUPS.len()]
}

struct Simulation {
    rng: StdRng,
    world: Arc<World>,
    client: Client,
    settings: Settings,
    shards: usize,
    requests: Vec<Running>,
    /// Most leaders that a shard ever had.
    most_leaders: BTreeMap<String, usize>,
    some_node_was_down: bool,
}

struct Running {
    workload: Arc<CollectionWorkload<Ask>>,
    begun: MonoTime,
    deadline: Option<MonoTime>,
    one_shard: bool,
    handle: Handle<Result<Result<Vec<Answered<usize>>>, Aborted>>,
    abort: AbortHandle,
}

fn behaviour(seed: u64) -> impl Fn(&Visit) -> Outcome + Send + Sync {
    let rng = Mutex::new(StdRng::seed_from_u64(seed));
    move |visit| {
        let mut rng = rng.lock();
        let after = rng.random_range(0..400);
        match rng.random_range(0..100) {
            0..55 => Outcome::After(Duration::from_millis(after), Ok(())),
            55..75 => Outcome::error_after(after, RETRIABLE[rng.random_range(0..2)]),
            75..92 => Outcome::error_after(after, TERMINAL[rng.random_range(0..2)]),
            92..95 => Outcome::error_after(after, WRONG),
            _ if visit.deadline.is_some() => Outcome::Never,
            _ => Outcome::After(Duration::from_secs(4), Ok(())),
        }
    }
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let settings = Settings {
            policy: [Policy::LookAside, Policy::RoundRobin][rng.random_range(0..2)],
            retry_on_replica: rng.random_range(-1..4),
            blacklist: Duration::from_secs([0, 1, 30][rng.random_range(0..3)]),
            check_workload_every: rng.random_range(0..5),
            connections_per_node: rng.random_range(0..4),
            invalidate_on_misrouted: rng.random(),
            retry_time: Duration::from_millis([0, 1, 700, 2_500][rng.random_range(0..4)]),
            causes: rng.random(),
            ..Settings::default()
        };
        let world = World::new();
        world.behave(behaviour(rng.random()));
        let client = world.client(settings.clone());
        let shards = rng.random_range(1..=SHARDS.len());
        let (requests, most_leaders) = (Vec::new(), BTreeMap::new());
        let some_node_was_down = false;
        let mut simulation =
            Self { rng, world, client, settings, shards, requests, most_leaders, some_node_was_down };
        simulation.new_table();
        simulation
    }

    /// Leaders move, appear, disappear, and lose or win their flag.
    fn new_table(&mut self) {
        let mut listings = Vec::new();
        for shard in &SHARDS[..self.shards] {
            let mut nodes: Vec<u64> = (1..=NODES).filter(|_| self.rng.random_bool(0.5)).collect();
            if self.rng.random_bool(0.5) {
                nodes.reverse();
            }
            let most = self.most_leaders.entry((*shard).to_owned()).or_default();
            *most = nodes.len().max(*most);
            listings.push(ShardListing {
                shard: (*shard).to_owned(),
                node_addrs: nodes
                    .iter()
                    .map(|node| format!("node-{node}:{}", self.rng.random_range(1..3)))
                    .collect(),
                serviceable: nodes.iter().map(|_| self.rng.random_bool(0.7)).collect(),
                resource_groups: nodes.iter().map(|node| group(shard, *node).to_owned()).collect(),
                node_ids: nodes,
            });
        }
        self.world.told.lock().1 = Ok(listings);
    }

    fn begin(&mut self) {
        let mut workload = self.world.workload(GROUPS[self.rng.random_range(0..3)]);
        workload.nq = self.rng.random_range(1..5);
        if self.rng.random_bool(0.3) {
            let preferred =
                [(SHARDS[self.rng.random_range(0..4)].into(), NodeId(self.rng.random_range(1..=NODES)))];
            workload.preferred = Some(Arc::new(BTreeMap::from(preferred)));
        }
        workload.preferred_group = GROUPS[self.rng.random_range(0..3)].into();
        let timeout = Duration::from_millis(self.rng.random_range(0..6_000));
        let deadline = self.rng.random_bool(0.7).then(|| self.client.now() + timeout);
        let one_shard = self.rng.random_bool(0.3);
        let (client, workload) = (self.client.clone(), Arc::new(workload));
        let (begun, request) = (self.client.now(), workload.clone());
        let (work, abort) = abortable(async move {
            match one_shard {
                true => client.execute_one_shard(&request, deadline).await.map(|answered| vec![answered]),
                false => client.execute(&request, deadline).await,
            }
        });
        let handle = self.world.runtime.start(work);
        self.requests.push(Running { workload, begun, deadline, one_shard, handle, abort });
    }

    fn event(&mut self) {
        let node = NodeId(self.rng.random_range(1..=NODES));
        match self.rng.random_range(0..100) {
            0..60 => self.begin(),
            60..70 => self.new_table(),
            70..75 => self.client.invalidate(&[DOCS]),
            75..80 => {
                self.some_node_was_down |= self.world.down.lock().insert(node);
                let dead = |connection: &&crate::world::Connection| connection.node == node;
                let opened = self.world.opened.lock();
                opened
                    .iter()
                    .filter(dead)
                    .for_each(|connection| connection.dead.store(true, Ordering::SeqCst));
            }
            80..86 => self.world.down.lock().clear(),
            86..90 => drop(self.world.unhealthy.lock().insert(node)),
            90..93 => self.world.unhealthy.lock().clear(),
            93..95 => {
                let codes = [ErrorCode::ServiceNotReady, ErrorCode::CollectionOnRecovering];
                let error = ShardError::new(codes[self.rng.random_range(0..2)], "the coordinator says so");
                self.world.told.lock().1 = Err(error);
            }
            95..97 => self.world.told.lock().0 = Duration::from_millis(self.rng.random_range(0..300)),
            _ => {
                let count = self.requests.len().max(1);
                let which = self.rng.random_range(0..count);
                self.requests.iter().skip(which).take(1).for_each(|running| running.abort.abort());
            }
        }
    }

    /// Runs to the end; what happened, to compare.
    fn run(mut self) -> Vec<String> {
        let mut trace = Vec::new();
        for _ in 0..40 {
            self.event();
            self.world.advance(self.rng.random_range(0..1_500));
            trace.push(format!(
                "{:?} {:?} {:?}",
                self.client.now(),
                executing(&self.client),
                blacklist(&self.client)
            ));
        }
        if self.world.told.lock().1.is_err() {
            self.new_table();
        }
        for running in std::mem::take(&mut self.requests) {
            trace.push(self.judge(running));
        }
        // SC-3: nothing runs, so nothing is in flight.
        assert_eq!(executing(&self.client), BTreeMap::new());
        trace.push(format!("{:?} {} {:?}", self.client.now(), self.world.calls(), self.client.samples()));
        trace
    }

    fn judge(&self, mut running: Running) -> String {
        let outcome = self.world.finish(&mut running.handle);
        let log = std::mem::take(&mut *running.workload.request.log.lock());
        let mut visits = BTreeMap::<&str, Vec<(u64, Option<ErrorCode>)>>::new();
        let begun = std::mem::take(&mut *running.workload.request.begun.lock());
        for ((visit, code), begun) in log.iter().zip(begun) {
            let visits = visits.entry(&visit.shard).or_default();
            visits.push((visit.node.0, *code));
            self.judge_visit(visit, &running);
            let (limit, age) = (self.settings.retry_time, begun - running.begun);
            let is_retry = visits.len() > 1;
            assert!(!is_retry || limit.is_zero() || age <= limit, "tried again after {age:?}: {visits:?}");
        }
        for (shard, visits) in &visits {
            let more = usize::try_from(self.settings.retry_on_replica).unwrap_or(1).max(1);
            assert!(visits.len() <= self.most_leaders[*shard] + more, "beyond the budget: {visits:?}");
            let answered = visits.iter().position(|(_, code)| code.is_none() || *code == Some(WRONG));
            assert!(answered.is_none_or(|at| at + 1 == visits.len()), "asked again: {visits:?}");
        }
        match &outcome {
            Ok(Ok(answers)) => self.judge_answers(answers, &running, &visits),
            Ok(Err(error)) => self.judge_error(error, &running, &visits),
            Err(Aborted) => {}
        }
        format!("{outcome:?} {visits:?}")
    }

    /// SC-1: no visit outside the scope.
    fn judge_visit(&self, visit: &Visit, running: &Running) {
        let scope = &*running.workload.resource_group;
        assert!(scope.is_empty() || group(&visit.shard, visit.node.0) == scope, "{visit:?}");
        assert_eq!(visit.nq, running.workload.nq);
    }

    /// SC-2: every shard is answered exactly once, by a node that was asked.
    fn judge_answers(
        &self,
        answers: &[Answered<usize>],
        running: &Running,
        visits: &BTreeMap<&str, Vec<(u64, Option<ErrorCode>)>>,
    ) {
        let shards: Vec<&str> = answers.iter().map(|answered| &*answered.shard).collect();
        match running.one_shard {
            true => assert!(shards.len() == 1 && SHARDS[..self.shards].contains(&shards[0])),
            false => assert_eq!(shards, SHARDS[..self.shards]),
        }
        for answered in answers {
            let preferred = &*running.workload.preferred_group;
            let is_there = preferred.is_empty() || group(&answered.shard, answered.node.0) == preferred;
            assert_eq!(answered.fell_back, !is_there, "{answered:?}");
            assert_eq!(visits[&*answered.shard].last(), Some(&(answered.node.0, None)));
        }
    }

    /// Masking: what a node said is told, unless "wait" is the truth by now.
    fn judge_error(
        &self,
        error: &ShardError,
        running: &Running,
        visits: &BTreeMap<&str, Vec<(u64, Option<ErrorCode>)>>,
    ) {
        let code = error.code();
        let failed: Vec<Vec<ErrorCode>> =
            visits.values().map(|visits| visits.iter().filter_map(|(_, code)| *code).collect()).collect();
        let of_nodes: BTreeSet<ErrorCode> = RETRIABLE.into_iter().chain(TERMINAL).chain([WRONG]).collect();
        if of_nodes.contains(&code) {
            assert!(failed.iter().any(|codes| codes.contains(&code)), "nobody said {error}: {visits:?}");
            return;
        }
        match code {
            ErrorCode::NodeNotAvailable => assert!(self.some_node_was_down, "{error}"),
            ErrorCode::DeadlineExceeded => assert!(running.deadline.is_some(), "{error}"),
            // No node said this, so in some shard no node has said anything, or "wait" is the truth.
            _ => {
                let nobody_asked = failed.iter().any(Vec::is_empty) || failed.len() < self.shards;
                let out_of_time =
                    failed.iter().any(|codes| codes.last() == Some(&ErrorCode::DeadlineExceeded));
                let waits = !running.workload.resource_group.is_empty()
                    && code == ErrorCode::CollectionNotFullyLoaded
                    && (self.some_node_was_down
                        || failed.iter().any(|codes| codes.last().is_some_and(|last| !last.is_retriable())));
                assert!(nobody_asked || out_of_time || waits, "{error} hides {visits:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_keeps_its_promises_and_a_seed_is_a_run(seed in any::<u64>()) {
        let first = Simulation::new(seed).run();
        let second = Simulation::new(seed).run();
        prop_assert_eq!(first, second);
    }
}
