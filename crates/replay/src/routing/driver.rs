//! Runs the steps through [`Core`] on a virtual clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_failure_detector::{Event, Key, Outcome, Probe};
use pointsman_ids::{ClusterName, Error, NodeKey};
use pointsman_instance_selector::{AdaptiveSettings, FailOpen, Measured};
use pointsman_routing::{Core, CoreSettings};
use serde_json::{Map, Value, json};

use super::{
    explain, observed,
    parts::STARTED_AT,
    scenario::{
        Action, Answer, Broker, CollectionStep, Member, NodeChange, Observation, Scenario, SelectStep, Step,
    },
    world::World,
};
use crate::{Options, ScenarioError, StepOutcome};

/// More retries than any scenario means in one `advance`: a wait of a millisecond for minutes.
const MAX_RETRIES: usize = 100_000;

/// Runs all steps.
pub(super) fn run(scenario: &Scenario, options: &Options) -> Result<Vec<StepOutcome>, ScenarioError> {
    let refuse = |error| ScenarioError::at(scenario.broker_line, "broker", error);
    let mut driver = Driver::new(scenario, options).map_err(refuse)?;
    let steps = (1..).zip(&scenario.steps);
    steps.map(|(number, step)| driver.step(number, step)).collect()
}

#[derive(Debug)]
struct Driver<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    world: World,
    core: Core,
    /// The dynamic configuration of the local cluster.
    config: BTreeMap<String, String>,
    /// Figures that the scenario stated.
    statistics: BTreeMap<NodeKey, Measured>,
    now: Duration,
}

/// What a step shows besides the state that every step shows.
type Shown = (Map<String, Value>, Vec<String>);

impl<'a> Driver<'a> {
    fn new(scenario: &'a Scenario, options: &'a Options) -> Result<Self, Error> {
        let clusters = &scenario.names.clusters;
        let world = World::new(&scenario.names, &scenario.down);
        let mut core = Core::new(settings(&scenario.broker, clusters.clone()))?;
        for (node, id) in world.ids() {
            core.introduce(&node.cluster, id, &node.node)?;
        }
        for cluster in clusters.iter().filter(|cluster| world.is_up(cluster)) {
            core.start_cluster(cluster, Vec::new(), Duration::ZERO)?;
        }
        let (config, statistics) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { scenario, options, world, core, config, statistics, now: Duration::ZERO })
    }

    fn step(&mut self, number: usize, step: &Step) -> Result<StepOutcome, ScenarioError> {
        let refuse = |error: Error| {
            ScenarioError::at(step.line, &format!("steps[{}].{}", number - 1, step.name), error)
        };
        let (mut values, explanation) = self.act(&step.action).map_err(refuse)?;
        let samples = self.core.view().samples();
        values.extend(observed::state(&self.core, &self.scenario.names, &samples));
        let failures = step.expect.check(&values, &samples);
        Ok(StepOutcome {
            number,
            line: step.line,
            action: step.name,
            now: self.now,
            values,
            failures,
            explanation,
        })
    }

    fn act(&mut self, action: &Action) -> Result<Shown, Error> {
        let mut shown = Map::new();
        match action {
            Action::Nodes(changes) => self.nodes(changes)?,
            Action::SetEnabled(switches) => self.set_enabled(switches)?,
            Action::Collection(step) => drop(shown.insert("error".to_owned(), self.collection(step)?)),
            Action::MarkUnhealthy(key) => {
                let evidence = "the scenario says so".to_owned();
                self.report(Event::Failed { key: key.clone(), incarnation: None, evidence });
            }
            Action::MarkHealthy(key) => self.report(Event::Recovered { key: key.clone() }),
            Action::Advance { by, probes } => {
                drop(shown.insert("probed".to_owned(), self.advance(*by, probes)?))
            }
            Action::SetConfig(entries) => self.set_config(entries)?,
            Action::StartCluster(cluster) => self.start_cluster(cluster)?,
            Action::Observe(observations) => self.observe(observations),
            Action::Select(select) => return Ok(self.select(select)),
            Action::RetryLookup(key) => {
                let cluster = self.core.lookup(key).map(ClusterName::as_str);
                shown.insert("retry_cluster".to_owned(), json!(cluster));
            }
            Action::Check => {}
        }
        Ok((shown, Vec::new()))
    }

    fn nodes(&mut self, changes: &[NodeChange]) -> Result<(), Error> {
        let mut touched = Vec::new();
        for change in changes {
            if let NodeChange::Remove(member) = change
                && let Some(node) = self.world.resolve(member)
            {
                self.statistics.remove(&node);
            }
            touched.extend(self.world.change_node(change));
        }
        self.tell_members(touched)
    }

    fn set_enabled(&mut self, switches: &[(Member, bool)]) -> Result<(), Error> {
        let mut touched = Vec::new();
        for (member, enabled) in switches {
            touched.extend(self.world.set_enabled(member, *enabled));
        }
        self.tell_members(touched)
    }

    /// Tells the running managers of these clusters who their members are, in the listed order, each once.
    fn tell_members(&mut self, touched: Vec<ClusterName>) -> Result<(), Error> {
        for cluster in &self.scenario.names.clusters {
            if touched.contains(cluster) && self.world.is_up(cluster) {
                self.core.set_nodes(cluster, self.world.members(cluster), self.now)?;
                self.tell_statistics(cluster);
            }
        }
        Ok(())
    }

    /// The error of the collection, or null.
    fn collection(
        &mut self,
        CollectionStep { cluster, name, change }: &CollectionStep,
    ) -> Result<Value, Error> {
        self.world.change_part(cluster, name, change);
        if !self.world.is_up(cluster) {
            return Ok(Value::Null);
        }
        match self.world.tell_part(cluster, name, self.now) {
            Some(entry) => {
                Ok(observed::error(self.core.set_collection(cluster, entry, self.now).err().as_ref()))
            }
            None => self.core.drop_collection(cluster, name).map(|()| Value::Null),
        }
    }

    fn report(&mut self, event: Event) {
        // A report asks for no probe: nothing here is suspected, and nobody is lost.
        self.core.handle(event, self.now);
    }

    /// The keys that were probed, in order.
    fn advance(&mut self, by: Duration, answers: &BTreeMap<Key, Answer>) -> Result<Value, Error> {
        let end = self.now.saturating_add(by);
        let mut probed = Vec::new();
        let mut wakeups = 0;
        while let Some(due) = self.core.next_wakeup().filter(|due| *due <= end) {
            wakeups += 1;
            if wakeups > MAX_RETRIES {
                return Err(observed::too_much(format_args!("more than {MAX_RETRIES} retries fall due")));
            }
            self.now = self.now.max(due);
            for probe in self.core.handle(Event::Tick, self.now) {
                probed.push(probe.key().to_string());
                self.answer(probe, answers);
            }
        }
        self.now = end;
        Ok(probed.into())
    }

    fn answer(&mut self, probe: Probe, answers: &BTreeMap<Key, Answer>) {
        let says = || "the scenario says so".to_owned();
        let outcome = match answers.get(probe.key()) {
            _ if self.core.lookup(probe.key()).is_none() => Outcome::NotEnabled,
            Some(Answer::Healthy) => Outcome::Healthy,
            Some(Answer::Unhealthy) => Outcome::Unhealthy(says()),
            Some(Answer::Error) => Outcome::Error(says()),
            Some(Answer::Unknown) | None => Outcome::Unknown,
        };
        self.core.handle(Event::Probed { probe, outcome }, self.now);
    }

    fn set_config(&mut self, entries: &[(String, Option<String>)]) -> Result<(), Error> {
        for (key, value) in entries {
            match value {
                Some(value) => drop(self.config.insert(key.clone(), value.clone())),
                None => drop(self.config.remove(key)),
            }
        }
        self.core.set_config(&self.scenario.names.local, self.config.clone())
    }

    /// What was said of the cluster while it was down takes effect now, as a creation. A collection that cannot be
    /// built stops no other; requests tell why.
    fn start_cluster(&mut self, cluster: &ClusterName) -> Result<(), Error> {
        if !self.world.start(cluster) {
            return Ok(());
        }
        self.core.start_cluster(cluster, self.world.members(cluster), self.now)?;
        self.tell_statistics(cluster);
        for name in self.world.parts(cluster) {
            if let Some(entry) = self.world.tell_part(cluster, &name, self.now) {
                self.core.set_collection(cluster, entry, self.now).ok();
            }
        }
        Ok(())
    }

    /// Tells what was stated of members, which a node that joins only now has not heard.
    fn tell_statistics(&mut self, cluster: &ClusterName) {
        for (node, measured) in self.statistics.iter().filter(|(node, _)| node.cluster == *cluster) {
            self.core.observe(cluster, &node.node, Some(*measured));
        }
    }

    fn observe(&mut self, observations: &[(Member, Option<Observation>)]) {
        for (member, observation) in observations {
            let Some(node) = self.world.resolve(member) else { continue };
            let measured = observation.map(|Observation { in_flight, latency }| {
                let latency = latency.map(|latency| latency.as_secs_f64() * 1e3);
                Measured::observed(self.statistics.get(&node).copied(), in_flight, latency)
            });
            self.core.observe(&node.cluster, &node.node, measured);
            match measured {
                Some(measured) => drop(self.statistics.insert(node, measured)),
                None => drop(self.statistics.remove(&node)),
            }
        }
    }

    fn select(&self, select: &SelectStep) -> Shown {
        let view = Arc::clone(self.core.view());
        let request = select.request();
        let explanation = match self.options.explain {
            true => explain::lines(&view, &request, &self.scenario.names),
            false => Vec::new(),
        };
        (observed::selection(view.route(&request), &self.scenario.names), explanation)
    }
}

fn settings(broker: &Broker, clusters: Vec<ClusterName>) -> CoreSettings {
    CoreSettings {
        clusters,
        detector: broker.detector.clone(),
        new_segment_window: broker.new_segment_window,
        fail_open: FailOpen {
            enabled: broker.fail_open,
            multi_stage: broker.fail_open_multi_stage,
            strict: broker.fail_open_strict,
        },
        adaptive: AdaptiveSettings { kind: broker.adaptive, ..AdaptiveSettings::default() },
        started_at: STARTED_AT,
    }
}
