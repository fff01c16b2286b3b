//! Runs the steps through the real client on a virtual clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::FutureExt;
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::CollectionId;
use pointsman_shard_client::{
    AllRoutable, Balancer, CollectionWorkload, Handle, Leader, Parts, Runtime, Selected, ShardClient,
    ShardError, TooManyTimers, VirtualRuntime, balancer::balancer, filter_by_resource_group,
};

use super::{
    balancer::{Scripted, Watched},
    explain,
    observed::{self, Shown, put},
    scenario::{Action, Execute, GetShard, Scenario, SelectNode, Step},
    world::{Network, Tracked, World},
};
use crate::{Options, ScenarioError, StepOutcome};

/// More timers than any scenario means in one step: health checks of a day.
const MAX_TIMERS: u64 = 100_000;

/// All collections of a file have the same database and name.
const DATABASE: &str = "default";
const NAME: &str = "scenario";

pub(super) type Client = ShardClient<Network>;

/// Runs all steps.
pub(super) fn run(scenario: &Scenario, options: &Options) -> Result<Vec<StepOutcome>, ScenarioError> {
    let mut driver = Driver::new(scenario, options);
    (1..).zip(&scenario.steps).map(|(number, step)| driver.step(number, step)).collect()
}

struct Driver<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    runtime: VirtualRuntime,
    world: Arc<World>,
    balancer: Arc<Watched>,
    client: Client,
    background: BTreeMap<String, Running>,
    /// Of the step that runs.
    explanation: Vec<String>,
}

/// A call under way.
struct Running {
    collection: CollectionId,
    begun: MonoTime,
    call: Call,
}

enum Call {
    Execute { request: Arc<Tracked>, handle: Handle<Ended<Result<(), ShardError>>> },
    GetShard { handle: Handle<Ended<Result<Arc<[Leader]>, ShardError>>> },
}

/// What came out, and when.
type Ended<T> = (T, MonoTime);

/// Why a step cannot be run to its end.
type Stuck = TooManyTimers;

impl<'a> Driver<'a> {
    fn new(scenario: &'a Scenario, options: &'a Options) -> Self {
        let runtime = VirtualRuntime::default();
        let world = Arc::new(World::new(scenario, runtime.clone()));
        let chooses: Arc<dyn Balancer> = match &scenario.picks {
            Some(picks) => Arc::new(Scripted::new(picks.clone())),
            None => balancer(&scenario.settings),
        };
        let balancer = Arc::new(Watched::new(chooses));
        let parts = Parts {
            coordinator: world.clone(),
            connector: Arc::new(Network(world.clone())),
            balancer: balancer.clone(),
            view: Arc::new(AllRoutable),
            runtime: Arc::new(runtime.clone()),
        };
        let client = ShardClient::new(scenario.settings.clone(), parts);
        runtime.spawn(client.maintenance().boxed());
        Self {
            scenario,
            options,
            runtime,
            world,
            balancer,
            client,
            background: BTreeMap::new(),
            explanation: Vec::new(),
        }
    }

    fn step(&mut self, number: usize, step: &Step) -> Result<StepOutcome, ScenarioError> {
        let stuck = |stuck: Stuck| {
            ScenarioError::at(
                step.line,
                &format!("steps[{}].{}", number - 1, step.name),
                format_args!("it does not come to an end: {stuck}"),
            )
        };
        let calls = self.world.calls();
        self.balancer.take();
        let mut values = self.act(&step.action).map_err(stuck)?;
        self.runtime.settle(MAX_TIMERS).map_err(stuck)?;
        let asks =
            matches!(step.name, "execute" | "execute_one_shard" | "select_node" | "get_shard" | "join");
        if asks {
            put(&mut values, "coordinator_calls", self.world.calls() - calls);
        }
        let failures = step.expect.check(&values);
        let now = self.runtime.now().since_start();
        let explanation = std::mem::take(&mut self.explanation);
        Ok(StepOutcome { number, line: step.line, action: step.name, now, values, failures, explanation })
    }

    fn act(&mut self, action: &Action) -> Result<Shown, Stuck> {
        let mut shown = Shown::new();
        match action {
            Action::Execute(execute) => {
                let running = self.execute(execute);
                return self.wait_or_leave(running, execute.background.as_ref());
            }
            Action::GetShard(read) => {
                let running = self.get_shard(read);
                return self.wait_or_leave(running, read.background.as_ref());
            }
            Action::Join(label) => {
                // The parser knows that every label is started once and joined once.
                if let Some(running) = self.background.remove(label) {
                    return self.wait(running);
                }
            }
            Action::SelectNode(select) => return self.select(select),
            Action::Filter { leaders, group } => {
                let kept = filter_by_resource_group(leaders, group);
                put(&mut shown, "leaders", observed::leaders(&kept));
            }
            Action::Locations => {
                put(&mut shown, "nodes", observed::nodes(self.client.locations().into_keys()));
            }
            Action::Invalidate(collections) => self.client.invalidate(collections),
            Action::Advance(by) => self.runtime.advance(*by, MAX_TIMERS)?,
            Action::ProbeAnswers(probes) => self.world.set_probes(probes.clone()),
            Action::ReportCost(costs) => {
                for (node, cost) in costs {
                    self.balancer.report_cost(*node, *cost, self.runtime.now());
                }
            }
            Action::Cancel { node, nq } => self.balancer.cancel(*node, *nq),
            Action::Check => return Ok(observed::check(&self.client, self.scenario.collection)),
        }
        Ok(shown)
    }

    fn wait_or_leave(&mut self, running: Running, label: Option<&String>) -> Result<Shown, Stuck> {
        let Some(label) = label else { return self.wait(running) };
        self.background.insert(label.clone(), running);
        Ok(Shown::new())
    }

    fn wait(&mut self, running: Running) -> Result<Shown, Stuck> {
        let Running { collection, begun, call } = running;
        let mut shown = Shown::new();
        let end = match call {
            Call::Execute { request, mut handle } => {
                let (outcome, end) = self.finish(&mut handle)?;
                put(&mut shown, "error", observed::error(outcome.err().as_ref()));
                let tries = request.tries.lock();
                observed::visits(&mut shown, &tries);
                if self.options.explain {
                    self.explanation = explain::lines(&tries);
                }
                put(&mut shown, "blacklist", observed::blacklist(&self.client, collection));
                end
            }
            Call::GetShard { mut handle } => {
                let (outcome, end) = self.finish(&mut handle)?;
                put(&mut shown, "leaders", observed::leaders(outcome.as_deref().unwrap_or_default()));
                put(&mut shown, "error", observed::error(outcome.err().as_ref()));
                end
            }
        };
        put(&mut shown, "took", observed::duration(end - begun));
        Ok(shown)
    }

    /// Maintenance never ends, so a call that waits for ever meets the limit.
    fn finish<T>(&self, handle: &mut Handle<T>) -> Result<T, Stuck> {
        self.runtime.finish(handle, MAX_TIMERS)?.ok_or(TooManyTimers(MAX_TIMERS))
    }

    fn execute(&self, execute: &Execute) -> Running {
        let request = Arc::new(Tracked { world: self.world.clone(), tries: Mutex::default() });
        let workload = CollectionWorkload {
            database: DATABASE.into(),
            name: NAME.into(),
            collection: execute.collection,
            nq: execute.nq,
            request: request.clone(),
            resource_group: execute.group.clone(),
            preferred: execute.preferred.clone(),
            preferred_group: "".into(),
        };
        let (client, deadline, one_shard) =
            (self.client.clone(), self.deadline(execute.timeout), execute.one_shard);
        let handle = self.runtime.start(async move {
            let outcome = match one_shard {
                true => client.execute_one_shard(&workload, deadline).await.map(drop),
                false => client.execute(&workload, deadline).await.map(drop),
            };
            (outcome, client.now())
        });
        self.running(execute.collection, Call::Execute { request, handle })
    }

    fn get_shard(&self, read: &GetShard) -> Running {
        let (client, deadline) = (self.client.clone(), self.deadline(read.timeout));
        let (collection, shard, with_cache) = (read.collection, read.shard.clone(), read.with_cache);
        let handle = self.runtime.start(async move {
            let outcome = client.get_shard(collection, &shard, with_cache, deadline).await;
            (outcome, client.now())
        });
        self.running(collection, Call::GetShard { handle })
    }

    fn running(&self, collection: CollectionId, call: Call) -> Running {
        Running { collection, begun: self.runtime.now(), call }
    }

    fn deadline(&self, timeout: Option<Duration>) -> Option<MonoTime> {
        timeout.map(|timeout| self.runtime.now() + timeout)
    }

    /// What the balancer picked stays in flight.
    fn select(&self, select: &SelectNode) -> Result<Shown, Stuck> {
        let workload = CollectionWorkload {
            database: DATABASE.into(),
            name: NAME.into(),
            collection: select.collection,
            nq: select.nq,
            request: Arc::new(()),
            resource_group: select.group.clone(),
            preferred: None,
            preferred_group: "".into(),
        };
        let workload = workload.for_shard(&select.shard, select.preferred);
        let (client, begun, deadline) =
            (self.client.clone(), self.runtime.now(), self.deadline(select.timeout));
        let mut excluded = select.excluded.clone();
        let mut handle = self.runtime.start(async move {
            let outcome = client.select_node(&workload, &mut excluded, deadline).await;
            (outcome, excluded, client.now())
        });
        let (outcome, excluded, end) = self.finish(&mut handle)?;
        let mut shown = Shown::new();
        observed::selected(&mut shown, outcome.as_ref().ok());
        put(&mut shown, "error", observed::error(outcome.as_ref().err()));
        put(&mut shown, "excluded", observed::nodes(excluded));
        put(&mut shown, "took", observed::duration(end - begun));
        let seen = self.balancer.take();
        put(&mut shown, "offered", observed::nodes(seen.offered));
        put(&mut shown, "registered", observed::nodes(seen.registered));
        if let Ok(Selected { work: Some(work), .. }) = outcome {
            work.keep();
        }
        Ok(shown)
    }
}
