//! The running components: started in order, watched, stopped in the opposite order.

use std::{cell::Cell, fs, time::Duration};

use anyhow::Context;
use pointsman_proto::coordinator::v1::{ListNodesRequest, Node, NodeState};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    PATIENCE,
    config::{self, Listen, url},
    layout::{BROKER, COORDINATOR, Layout},
    ports::Ports,
    process::Process,
    ready::{Component, NodeComponent, ReadyFile},
};
use crate::{
    Failure,
    client::{Coordinator, Endpoints, answer},
    output,
};

/// How long a component may take until it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// How long a component may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// The components and where they listen.
#[derive(Debug)]
pub(super) struct Cluster {
    layout: Layout,
    coordinator: Listen,
    broker: Listen,
    nodes: Vec<Listen>,
    /// In the order in which they were started.
    processes: Vec<Process>,
    /// Set when they are meant to end.
    stopping: CancellationToken,
    http: reqwest::Client,
}

impl Cluster {
    /// Chooses ports. Writes and starts nothing.
    pub(super) fn new(layout: Layout) -> anyhow::Result<Self> {
        let mut ports = layout.first_port.map_or_else(Ports::free, Ports::from);
        let former = |name: &str, section: &str| config::former(&layout.config_file(name), section);
        let before = former(BROKER, "broker");
        let query_surface = ports.wanted(layout.http_port, before.map(|listen| listen.http))?;
        let mut listen = |former: Option<Listen>| {
            let grpc = ports.next(former.map(|listen| listen.grpc))?;
            anyhow::Ok(Listen { grpc, http: ports.next(former.map(|listen| listen.http))? })
        };
        Ok(Self {
            coordinator: listen(former(COORDINATOR, "coordinator"))?,
            nodes: layout
                .nodes
                .iter()
                .map(|(name, _)| listen(former(name, "node")))
                .collect::<Result<_, _>>()?,
            broker: Listen { grpc: ports.next(before.map(|listen| listen.grpc))?, http: query_surface },
            processes: Vec::new(),
            stopping: CancellationToken::new(),
            http: reqwest::Client::builder().timeout(Duration::from_secs(2)).build()?,
            layout,
        })
    }

    /// Writes the settings of every component.
    pub(super) fn write_settings(&self) -> anyhow::Result<()> {
        let layout = &self.layout;
        for dir in [layout.data_dir.join("config"), layout.data_dir.join("logs"), layout.objects()] {
            fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        }
        let coordinator = config::coordinator(layout, self.coordinator);
        config::write(&layout.config_file(COORDINATOR), "coordinator", &coordinator)?;
        let broker = config::broker(layout, self.broker, self.coordinator);
        config::write(&layout.config_file(BROKER), "broker", &broker)?;
        for ((name, group), listen) in layout.nodes.iter().zip(&self.nodes) {
            let node = config::node(layout, name, group, *listen, self.coordinator);
            config::write(&layout.config_file(name), "node", &node)?;
        }
        Ok(())
    }

    /// The plan.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A connection to the coordinator.
    pub(super) async fn coordinator(&self) -> anyhow::Result<Coordinator> {
        let endpoints =
            Endpoints { urls: vec![url(self.coordinator.grpc)], named_by: "pointsman dev".into() };
        Coordinator::find(&endpoints).await
    }

    /// Starts everything and waits until it is ready. Broker and nodes start side by side.
    ///
    /// # Errors
    /// Names the component that ended or is not ready in time, with the end of its log.
    pub(super) async fn start(&mut self) -> anyhow::Result<ReadyFile> {
        let deadline = Instant::now() + START_TIMEOUT;
        let coordinator = self.spawn(COORDINATOR, "coordinator")?;
        self.wait_ready(&coordinator, self.coordinator, deadline).await?;
        let mut nodes = Vec::new();
        for (name, _) in self.layout.nodes.clone() {
            nodes.push(self.spawn(&name, "node")?);
        }
        let broker = self.spawn(BROKER, "broker")?;
        self.wait_ready(&broker, self.broker, deadline).await?;
        let members = self.wait_nodes(&nodes, deadline).await?;
        let component = |listen: Listen, process: &Process| Component {
            http: url(listen.http),
            grpc: url(listen.grpc),
            pid: process.pid,
        };
        let listens = self.nodes.iter().zip(&nodes).map(|(listen, process)| (url(listen.grpc), process.pid));
        let named = self.layout.nodes.iter().map(|(name, _)| name.clone()).zip(members);
        let node = |((name, resource_group), (grpc, pid))| NodeComponent { name, resource_group, grpc, pid };
        Ok(ReadyFile {
            broker: component(self.broker, &broker),
            coordinator: component(self.coordinator, &coordinator),
            nodes: named.zip(listens).map(node).collect(),
            metastore: self.layout.metastore.to_string(),
            objects: self.layout.objects().display().to_string(),
        })
    }

    fn spawn(&mut self, name: &str, program: &str) -> anyhow::Result<Process> {
        let (config, log) = (self.layout.config_file(name), self.layout.log_file(name));
        let process = Process::start(name, program, &config, &log)?;
        self.processes.push(process.clone());
        Ok(process)
    }

    async fn wait_ready(&self, process: &Process, listen: Listen, deadline: Instant) -> anyhow::Result<()> {
        let url = format!("{}/ready", url(listen.http));
        self.wait(process, deadline, async || {
            let Ok(answer) = self.http.get(&url).send().await else {
                // It does not listen yet; why not stands in its log alone.
                return Ok(Some(process.last_line().unwrap_or_else(|| "it does not listen yet".into())));
            };
            if answer.status().is_success() {
                return Ok(None);
            }
            let text = answer.text().await.unwrap_or_default();
            Ok(Some(process.last_line().map_or(text.clone(), |line| format!("{text} {line}"))))
        })
        .await
    }

    /// Until every node has a live session and a place in a group; tells which one it is for each.
    async fn wait_nodes(&self, nodes: &[Process], deadline: Instant) -> anyhow::Result<Vec<String>> {
        let coordinator = self.coordinator().await?;
        // Moves that the coordinator is about to make are made by then.
        let settled = Instant::now() + PATIENCE;
        let mut members = Vec::new();
        for (process, (name, group)) in nodes.iter().zip(&self.layout.nodes) {
            let member = Cell::new(None);
            self.wait(process, deadline, async || {
                let answer = answer(coordinator.cluster().list_nodes(ListNodesRequest {}).await);
                let nodes = match answer {
                    Ok(answer) => answer.nodes,
                    Err(error) => return Ok(Some(error.to_string())),
                };
                let node = nodes.iter().find(|node| node.name == *name);
                Ok(match placed(node, group) {
                    Place::Waits(why) => Some(why.to_owned()),
                    Place::Elsewhere(other) if Instant::now() < settled => {
                        Some(format!("it is still a member of '{other}'"))
                    }
                    Place::Elsewhere(other) => {
                        self.was_moved(name, group, other, &nodes)?;
                        member.set(Some(other.to_owned()));
                        None
                    }
                    Place::Right => {
                        member.set(Some(group.clone()));
                        None
                    }
                })
            })
            .await?;
            members.extend(member.take());
        }
        Ok(members)
    }

    /// A node of another group than it asks for was moved there by somebody, and stays.
    ///
    /// # Errors
    /// It looks as if the folder was made for other groups: nobody is in the one that it asks for, and nobody asks for the
    /// one that it is in.
    fn was_moved(&self, name: &str, group: &str, member_of: &str, nodes: &[Node]) -> Result<(), Failure> {
        let asked_for = self.layout.groups.iter().any(|group| group == member_of);
        if !asked_for && !nodes.iter().any(|node| node.resource_group == group) {
            return Err(Failure::Failed(format!(
                "{name} is a member of resource group '{member_of}', and '{group}' has no member: {} was made with other \
                 --resource-groups or --nodes; start with those, or name another --data-dir",
                self.layout.data_dir.display()
            )));
        }
        output::note(format_args!(
            "{name} is a member of resource group '{member_of}', not of '{group}': it was moved"
        ));
        Ok(())
    }

    /// Waits until `waits_for` says that there is nothing left to wait for. After a while, what it says is shown. A component
    /// that ends is an error at once.
    async fn wait(
        &self,
        process: &Process,
        deadline: Instant,
        waits_for: impl AsyncFn() -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<()> {
        let name = &process.name;
        let started = Instant::now();
        let mut shown = String::new();
        while let Some(why) = waits_for().await? {
            if let Some(ended) = self.processes.iter().find(|process| process.end().is_some()) {
                return Err(ended.failure().into());
            }
            if Instant::now() >= deadline {
                let failure = process.failure();
                return Err(
                    Failure::NotReady(format!("{name} is not ready in time: {why}; {failure}")).into()
                );
            }
            if started.elapsed() >= PATIENCE && why != shown {
                output::note(format_args!("waiting for {name}: {why}"));
                shown = why;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Says which nodes of a former run are not part of this one: a coordinator that has just started waits for word of
    /// every member, or the end of its lease, before it tells brokers anything new.
    pub(super) async fn tell_of_former_nodes(&self, coordinator: &Coordinator) -> anyhow::Result<()> {
        let nodes = answer(coordinator.cluster().list_nodes(ListNodesRequest {}).await)?.nodes;
        let is_former = |node: &&Node| {
            node.state() == NodeState::Unspecified
                && !self.layout.nodes.iter().any(|(name, _)| *name == node.name)
        };
        let former: Vec<&str> = nodes.iter().filter(is_former).map(|node| node.name.as_str()).collect();
        if !former.is_empty() {
            output::note(format_args!(
                "{} ran here before and {} not part of this run; the coordinator waits up to half a minute for word of them",
                former.join(", "),
                if former.len() == 1 { "is" } else { "are" },
            ));
        }
        Ok(())
    }

    /// From now on, a component that ends is reported; the others run on.
    pub(super) fn report_deaths(&self) {
        for process in self.processes.clone() {
            let (config, log) = (self.layout.config_file(&process.name), self.layout.log_file(&process.name));
            let program = if self.layout.nodes.iter().any(|(name, _)| *name == process.name) {
                "node"
            } else {
                process.name.as_str()
            };
            let hint = format!("pointsman {program} --config {}", config.display());
            let stopping = self.stopping.clone();
            pointsman_telemetry::spawn("report", async move {
                let Some(Some(status)) = stopping.run_until_cancelled(process.ended()).await else { return };
                let (name, pid) = (&process.name, process.pid);
                output::note(format_args!(
                    "{name} (process {pid}) ended: {status}; log: {}; start it again: {hint}",
                    log.display()
                ));
            });
        }
    }

    /// Stops everything: first the broker, so that no query finds its nodes gone, then the nodes, then the coordinator.
    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        let (nodes, others): (Vec<_>, Vec<_>) =
            self.processes.iter().partition(|process| process.name != BROKER && process.name != COORDINATOR);
        let named =
            |name| others.iter().copied().filter(move |process| process.name == name).collect::<Vec<_>>();
        for rank in [named(BROKER), nodes.clone(), named(COORDINATOR)] {
            let stops = rank.into_iter().map(|process| async move {
                if !process.stop(STOP_TIMEOUT).await {
                    output::note(format_args!("{} does not stop; killing it", process.name));
                    process.kill().await;
                }
            });
            futures::future::join_all(stops).await;
        }
    }

    /// Ends everything at once.
    pub(super) async fn kill(&self) {
        self.stopping.cancel();
        futures::future::join_all(self.processes.iter().map(Process::kill)).await;
    }
}

/// A node's place.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    /// In the group that it asks for.
    Right,
    /// In another one.
    Elsewhere(&'a str),
    /// There is none yet, for this reason.
    Waits(&'static str),
}

fn placed<'a>(node: Option<&'a Node>, group: &str) -> Place<'a> {
    let Some(node) = node else { return Place::Waits("it has not joined yet") };
    if node.state() != NodeState::Live {
        return Place::Waits("it has no session with the coordinator");
    }
    match node.resource_group.as_str() {
        "" => Place::Waits("its resource group has no place for it yet"),
        member_of if member_of == group => Place::Right,
        member_of => Place::Elsewhere(member_of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_placed_when_it_lives_in_a_group() {
        let waits = |node: Option<&Node>, group: &str| matches!(placed(node, group), Place::Waits(_));
        let mut node = Node { resource_group: "east".into(), ..Node::default() };
        assert!(waits(None, "east"));
        assert!(waits(Some(&node), "east"), "no session yet");
        node.set_state(NodeState::Live);
        assert_eq!(placed(Some(&node), "east"), Place::Right);
        assert_eq!(placed(Some(&node), "a"), Place::Elsewhere("east"));
        node.resource_group.clear();
        assert!(waits(Some(&node), "east"), "it waits for a place");
    }
}
