//! The running components: started in order, watched, stopped in the opposite order.

use std::{fs, time::Duration};

use anyhow::Context;
use pointsman_proto::coordinator::v1::{ListNodesRequest, Node, NodeState};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    PATIENCE,
    config::{self, Listen, url},
    layout::{BROKER, COORDINATOR, Layout},
    ports,
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
        let query_surface = ports::wanted(layout.http_port)?;
        let mut free = ports::free(3 + 2 * layout.nodes.len())?.into_iter();
        let mut next = || free.next().context("too few ports");
        Ok(Self {
            coordinator: Listen { grpc: next()?, http: next()? },
            broker: Listen { grpc: next()?, http: query_surface },
            nodes: layout
                .nodes
                .iter()
                .map(|_| anyhow::Ok(Listen { grpc: next()?, http: next()? }))
                .collect::<Result<_, _>>()?,
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
        self.wait_nodes(&nodes, deadline).await?;
        let component = |listen: Listen, process: &Process| Component {
            http: url(listen.http),
            grpc: url(listen.grpc),
            pid: process.pid,
        };
        let node =
            |(((name, group), listen), process): (((&String, &String), &Listen), &Process)| NodeComponent {
                name: name.clone(),
                resource_group: group.clone(),
                grpc: url(listen.grpc),
                pid: process.pid,
            };
        let named = self.layout.nodes.iter().map(|(name, group)| (name, group));
        Ok(ReadyFile {
            broker: component(self.broker, &broker),
            coordinator: component(self.coordinator, &coordinator),
            nodes: named.zip(&self.nodes).zip(&nodes).map(node).collect(),
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
        self.wait(process, deadline, async |_| {
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

    /// Until every node has a live session and a place in its group.
    async fn wait_nodes(&self, nodes: &[Process], deadline: Instant) -> anyhow::Result<()> {
        let coordinator = self.coordinator().await?;
        for (process, (name, group)) in nodes.iter().zip(&self.layout.nodes) {
            self.wait(process, deadline, async |patient| {
                let answer = answer(coordinator.cluster().list_nodes(ListNodesRequest {}).await);
                let nodes = match answer {
                    Ok(answer) => answer.nodes,
                    Err(error) => return Ok(Some(error.to_string())),
                };
                match placed(nodes.iter().find(|node| node.name == *name), group) {
                    Err(Misplaced { member_of }) if !patient => Err(Failure::Failed(format!(
                        "{name} is a member of resource group '{member_of}', not of '{group}': {} was made with other \
                         --resource-groups or --nodes; start with those, or name another --data-dir",
                        self.layout.data_dir.display()
                    ))
                    .into()),
                    Err(Misplaced { member_of }) => Ok(Some(format!("it is still a member of '{member_of}'"))),
                    Ok(waits_for) => Ok(waits_for.map(str::to_owned)),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until `waits_for` says that there is nothing left to wait for. It is told whether patience is still due;
    /// after that, what it says is shown. A component that ends is an error at once.
    async fn wait(
        &self,
        process: &Process,
        deadline: Instant,
        waits_for: impl AsyncFn(bool) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<()> {
        let name = &process.name;
        let started = Instant::now();
        let mut shown = String::new();
        while let Some(why) = waits_for(started.elapsed() < PATIENCE).await? {
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

/// A node that lives in another group than it asks for.
#[derive(Debug, PartialEq, Eq)]
struct Misplaced {
    member_of: String,
}

/// What a node's place in its group waits for; `None`: nothing.
fn placed(node: Option<&Node>, group: &str) -> Result<Option<&'static str>, Misplaced> {
    let Some(node) = node else { return Ok(Some("it has not joined yet")) };
    if node.state() != NodeState::Live {
        return Ok(Some("it has no session with the coordinator"));
    }
    match node.resource_group.as_str() {
        "" => Ok(Some("its resource group has no place for it yet")),
        member_of if member_of == group => Ok(None),
        member_of => Err(Misplaced { member_of: member_of.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_placed_when_it_lives_in_the_group_that_it_asks_for() {
        let mut node = Node { resource_group: "east".into(), ..Node::default() };
        assert!(placed(None, "east").unwrap().is_some());
        assert!(placed(Some(&node), "east").unwrap().is_some(), "no session yet");
        node.set_state(NodeState::Live);
        assert_eq!(placed(Some(&node), "east"), Ok(None));
        assert_eq!(placed(Some(&node), "a"), Err(Misplaced { member_of: "east".into() }));
        node.resource_group.clear();
        assert!(placed(Some(&node), "east").unwrap().is_some(), "it waits for a place");
    }
}
