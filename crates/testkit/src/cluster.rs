//! A whole cluster on loopback, each component a real process.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{
    Endpoint, NodeEndpoint, Process, Ready, Sql, eventually, free_port, free_ports, is_alive, program, signal,
};

/// Longest time from start to the first answer; the dev profile generates samples slowly.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Longest time until a killed process is gone, or a started one answers.
const STEP_LIMIT: Duration = Duration::from_secs(30);

/// What to start.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Number of nodes.
    pub nodes: usize,
    /// Resource groups that share the nodes.
    pub resource_groups: Vec<String>,
    /// Replicas of loaded collections.
    pub replicas: usize,
    /// Data to begin with, such as `tpch:0.01`. None: no collection.
    pub sample: Option<String>,
    /// URL of the metastore. None: SQLite in the data directory.
    pub metastore: Option<String>,
    /// Where everything lies. None: a temporary folder that goes with the cluster.
    pub data_dir: Option<PathBuf>,
    /// The `pointsman` program. None: the one of this build.
    pub program: Option<PathBuf>,
    /// Whether `pointsman dev` says what it does where our output goes. Otherwise it goes to a log.
    pub show: bool,
    /// Name of the cluster. None: that of the settings, `local`.
    pub name: Option<String>,
    /// Variables that overlay the settings of every component, such as `POINTSMAN_BROKER__FAIL_OPEN__ENABLED`.
    pub variables: Vec<(String, String)>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 4,
            resource_groups: vec!["east".into(), "west".into()],
            replicas: 2,
            sample: None,
            metastore: None,
            data_dir: None,
            program: None,
            show: false,
            name: None,
            variables: Vec::new(),
        }
    }
}

/// A cluster under `pointsman dev`. Dropping it stops every process of it.
#[derive(Debug)]
pub struct Cluster {
    /// Components that were started again, by name: before `dev`, so that they stop first.
    restarted: BTreeMap<String, Process>,
    dev: Process,
    ready: Ready,
    /// Addresses for commands, once there are several.
    coordinators: Vec<String>,
    name: String,
    /// Variables of all components, and those that single ones were started again with.
    variables: Vec<(String, String)>,
    own_variables: BTreeMap<String, Vec<(String, String)>>,
    program: PathBuf,
    data_dir: PathBuf,
    _folder: Option<TempDir>,
}

impl Cluster {
    /// Starts a cluster and waits until queries can be answered.
    ///
    /// # Errors
    /// It did not come up in time, or `pointsman dev` ended; the text holds the end of its log.
    pub fn start(options: ClusterOptions) -> anyhow::Result<Self> {
        let folder = match &options.data_dir {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("pointsman-cluster-").tempdir()?),
        };
        let data_dir = match (&options.data_dir, &folder) {
            (Some(given), _) => given.clone(),
            (None, Some(folder)) => folder.path().join("data"),
            (None, None) => bail!("a cluster needs a data directory"),
        };
        fs::create_dir_all(&data_dir)?;
        let program = options.program.clone().map_or_else(|| program("pointsman"), Ok)?;
        let log = data_dir.join("dev.log");
        let ready_file = data_dir.join("ready.json");
        if ready_file.exists() {
            fs::remove_file(&ready_file)?; // Of an earlier run that was killed.
        }
        let variables = variables(&options);
        let mut command = dev_command(&program, &options, &data_dir)?;
        command.envs(variables.iter().cloned());
        let output = (!options.show).then_some(log.as_path());
        let mut dev =
            Process::start("pointsman dev", &mut command, output, folder.as_ref().map(TempDir::path))?;
        let ready = eventually("a cluster that answers queries", READY_LIMIT, || {
            Ok(match (Ready::read(&ready_file), dev.exit()?) {
                (Ok(ready), _) => Ok(ready),
                (Err(_), Some(status)) => Err(status),
                (Err(error), None) => return Err(error),
            })
        });
        match ready {
            Ok(Ok(ready)) => Ok(Self {
                restarted: BTreeMap::new(),
                dev,
                ready,
                coordinators: Vec::new(),
                name: options.name.unwrap_or_else(|| "local".into()),
                variables,
                own_variables: BTreeMap::new(),
                program,
                data_dir,
                _folder: folder,
            }),
            Ok(Err(status)) => bail!("pointsman dev ended with {status}:\n{}", log_end(&log)),
            Err(error) => Err(error.context(log_end(&log))),
        }
    }

    /// Name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client of the broker.
    pub fn sql(&self) -> Sql {
        Sql::new(&self.ready.broker.http)
    }

    /// Where everything was at the start.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder of the segments of a collection.
    pub fn objects(&self, collection: &str) -> PathBuf {
        self.data_dir.join("objects").join(collection)
    }

    /// The process `pointsman dev` itself.
    pub fn dev(&mut self) -> &mut Process {
        &mut self.dev
    }

    /// A command line of `pointsman` that talks to this cluster.
    pub fn pointsman(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--data-dir").arg(&self.data_dir).stdin(Stdio::null());
        if !self.coordinators.is_empty() {
            command.arg("--coordinator").arg(self.coordinators.join(","));
        }
        command
    }

    /// Runs [`Cluster::pointsman`] to its end.
    ///
    /// # Errors
    /// It ended with another status than 0; the text holds what it said.
    pub fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.pointsman(args).output()?;
        ensure!(output.status.success(), "pointsman {}: {}", args.join(" "), told(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Kills a node (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// There is no such node.
    pub fn kill_node(&mut self, name: &str) -> anyhow::Result<()> {
        let pid = self.node(name)?.pid;
        self.kill(name, pid)
    }

    /// Starts a killed node again, from the same settings and data.
    ///
    /// # Errors
    /// There is no such node, or it does not start.
    pub fn restart_node(&mut self, name: &str) -> anyhow::Result<()> {
        self.restart_node_with(name, &[])
    }

    /// The same with variables that overlay its settings, now and whenever it is started again without others.
    ///
    /// # Errors
    /// As [`Cluster::restart_node`].
    pub fn restart_node_with(&mut self, name: &str, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        let pid = self.restart("node", name, variables)?;
        self.node_mut(name)?.pid = pid;
        Ok(())
    }

    /// Stops a node's threads (SIGSTOP): it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// There is no such node.
    pub fn freeze_node(&self, name: &str) -> anyhow::Result<()> {
        signal(self.node(name)?.pid, Signal::SIGSTOP)
    }

    /// Lets a frozen node go on.
    ///
    /// # Errors
    /// There is no such node.
    pub fn thaw_node(&self, name: &str) -> anyhow::Result<()> {
        signal(self.node(name)?.pid, Signal::SIGCONT)
    }

    /// Kills the coordinator (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// It is gone already.
    pub fn kill_coordinator(&mut self) -> anyhow::Result<()> {
        self.kill("coordinator", self.ready.coordinator.pid)
    }

    /// Starts the killed coordinator again.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart_coordinator(&mut self) -> anyhow::Result<()> {
        self.ready.coordinator.pid = self.restart("coordinator", "coordinator", &[])?;
        Ok(())
    }

    /// Kills the broker (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// It is gone already.
    pub fn kill_broker(&mut self) -> anyhow::Result<()> {
        self.kill("broker", self.ready.broker.pid)
    }

    /// Starts the killed broker again and waits until it says that it is ready.
    ///
    /// # Errors
    /// It does not start, or is not ready in time.
    pub fn restart_broker(&mut self) -> anyhow::Result<()> {
        self.restart_broker_with(&[])
    }

    /// The same with variables that overlay its settings, now and whenever it is started again without others.
    ///
    /// # Errors
    /// As [`Cluster::restart_broker`].
    pub fn restart_broker_with(&mut self, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        self.ready.broker.pid = self.restart("broker", "broker", variables)?;
        is_ready(&self.sql())
    }

    /// Asks a component to stop (SIGTERM) and waits until it is gone: `coordinator`, `broker`, a node, or a broker that
    /// was added.
    ///
    /// # Errors
    /// There is no such component, or it does not stop in time.
    pub fn stop(&mut self, name: &str) -> anyhow::Result<()> {
        if let Some(mut process) = self.restarted.remove(name) {
            return process.stop().map(drop);
        }
        let pid = match name {
            "coordinator" => self.ready.coordinator.pid,
            "broker" => self.ready.broker.pid,
            node => self.node(node)?.pid,
        };
        signal(pid, Signal::SIGTERM)?;
        eventually(&format!("the end of {name}"), STEP_LIMIT, || {
            ensure!(!is_alive(pid), "process {pid} still runs");
            Ok(())
        })
    }

    /// Starts one more broker, from the settings of the first and with a name, ports and a folder of its own, or one that
    /// was stopped. Waits until it says that it is ready.
    ///
    /// # Errors
    /// It does not start, or is not ready in time.
    pub fn add_broker(&mut self, name: &str) -> anyhow::Result<Sql> {
        let config = self.data_dir.join("config");
        let port = |key: &str| anyhow::Ok((key.to_owned(), format!("127.0.0.1:{}", free_port()?)));
        if !self.own_variables.contains_key(name) {
            fs::copy(config.join("broker.toml"), config.join(format!("{name}.toml")))?;
            let folder = self.data_dir.join(name).to_string_lossy().into_owned();
            let variables = vec![
                ("POINTSMAN_BROKER__NAME".to_owned(), name.to_owned()),
                ("POINTSMAN_BROKER__DATA_DIR".to_owned(), folder),
                port("POINTSMAN_BROKER__HTTP_LISTEN")?,
                port("POINTSMAN_BROKER__GRPC_LISTEN")?,
            ];
            self.own_variables.insert(name.to_owned(), variables);
        }
        self.restart("broker", name, &[])?;
        let own = self.own_variables.get(name).into_iter().flatten();
        let http = own.clone().find(|(key, _)| key.ends_with("HTTP_LISTEN")).map(|(_, address)| address);
        let sql = Sql::new(&format!("http://{}", http.context("it listens somewhere")?));
        is_ready(&sql)?;
        Ok(sql)
    }

    /// Starts one more coordinator over the same metastore, from the settings of the first and with a name and ports of its
    /// own. From then on nodes, broker and commands know both.
    ///
    /// # Errors
    /// It does not start, or nodes and broker do not.
    pub fn add_coordinator(&mut self, name: &str) -> anyhow::Result<Endpoint> {
        let config = self.data_dir.join("config");
        fs::copy(config.join("coordinator.toml"), config.join(format!("{name}.toml")))?;
        let (grpc, http) = (format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
        let variables = [
            ("POINTSMAN_COORDINATOR__NAME", name),
            ("POINTSMAN_COORDINATOR__GRPC_LISTEN", &grpc),
            ("POINTSMAN_COORDINATOR__HTTP_LISTEN", &http),
        ];
        let pid = self.restart("coordinator", name, &variables)?;
        let added = Endpoint { http: format!("http://{http}"), grpc: format!("http://{grpc}"), pid };
        let all = format!("[\"{}\", \"{}\"]", self.ready.coordinator.grpc, added.grpc);
        for name in self.node_names() {
            self.kill_node(&name)?;
            self.restart_node_with(&name, &[("POINTSMAN_NODE__COORDINATORS", &all)])?;
        }
        self.kill_broker()?;
        self.restart_broker_with(&[("POINTSMAN_BROKER__COORDINATORS", &all)])?;
        self.coordinators = vec![self.ready.coordinator.grpc.clone(), added.grpc.clone()];
        Ok(added)
    }

    /// Starts a coordinator again that was added and killed.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart_added_coordinator(&mut self, name: &str) -> anyhow::Result<()> {
        self.restart("coordinator", name, &[]).map(drop)
    }

    /// Kills a coordinator that was added (SIGKILL).
    ///
    /// # Errors
    /// There is none of this name.
    pub fn kill_added_coordinator(&mut self, name: &str) -> anyhow::Result<()> {
        self.restarted.remove(name).with_context(|| format!("no coordinator {name}"))?.kill()
    }

    /// The names of the nodes.
    pub fn node_names(&self) -> Vec<String> {
        self.ready.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// Waits until a collection is loaded whole in every group that it has a replica in.
    ///
    /// # Errors
    /// It is not within the limit; the text holds the last status.
    pub fn wait_loaded(&self, collection: &str, limit: Duration) -> anyhow::Result<()> {
        eventually(&format!("collection {collection} loaded"), limit, || {
            let text = self.run(&["status", collection, "--json"])?;
            let loads: serde_json::Value = serde_json::from_str(&text)?;
            let groups = loads[0]["groups"].as_array().context("a load without groups")?;
            let whole = !groups.is_empty()
                && groups.iter().all(|group| group["percent"] == 100 && group["ready"] == true);
            ensure!(whole, "{text}");
            Ok(())
        })
    }

    /// Waits until the broker can ask `copies` nodes for every segment of a collection.
    ///
    /// # Errors
    /// It cannot within the limit; the text holds what it sees.
    pub fn wait_routable(&self, collection: &str, copies: usize, limit: Duration) -> anyhow::Result<()> {
        let sql = self.sql();
        eventually(&format!("{copies} routable copies of every segment of {collection}"), limit, || {
            let (_, text) = sql.get(&format!("/debug/routing/{collection}"))?;
            let routing: serde_json::Value = serde_json::from_str(&text)?;
            let segments = routing["segments"].as_array().context("segments in the broker's view")?;
            let routable = |segment: &serde_json::Value| {
                let candidates = segment["candidates"].as_array().map(Vec::as_slice).unwrap_or_default();
                candidates
                    .iter()
                    .filter(|copy| copy["observed"] == "online" && copy["routable"] == true)
                    .count()
            };
            let whole = !segments.is_empty() && segments.iter().all(|segment| routable(segment) >= copies);
            ensure!(whole, "{text}");
            Ok(())
        })
    }

    fn kill(&mut self, name: &str, pid: u32) -> anyhow::Result<()> {
        if let Some(mut process) = self.restarted.remove(name) {
            return process.kill();
        }
        signal(pid, Signal::SIGKILL)?;
        eventually(&format!("the end of {name}"), STEP_LIMIT, || {
            ensure!(!is_alive(pid), "process {pid} still runs");
            Ok(())
        })
    }

    fn restart(&mut self, program: &str, name: &str, variables: &[(&str, &str)]) -> anyhow::Result<u32> {
        let settings = self.data_dir.join("config").join(format!("{name}.toml"));
        ensure!(settings.is_file(), "{} is not there", settings.display());
        let own = self.own_variables.entry(name.to_owned()).or_default();
        if !variables.is_empty() {
            *own = variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        }
        let mut command = Command::new(&self.program);
        command.arg(program).arg("--config").arg(&settings);
        command.envs(self.variables.iter().chain(own.iter()).cloned());
        let log = self.data_dir.join("logs").join(format!("{name}.log"));
        let process = Process::start(name, &mut command, Some(&log), None)?;
        let pid = process.pid();
        self.restarted.insert(name.to_owned(), process);
        Ok(pid)
    }

    fn node(&self, name: &str) -> anyhow::Result<&NodeEndpoint> {
        self.ready.nodes.iter().find(|node| node.name == name).with_context(|| format!("no node {name}"))
    }

    fn node_mut(&mut self, name: &str) -> anyhow::Result<&mut NodeEndpoint> {
        self.ready.nodes.iter_mut().find(|node| node.name == name).with_context(|| format!("no node {name}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A frozen process does not hear that it should stop.
        for node in &self.ready.nodes {
            let _ = signal(node.pid, Signal::SIGCONT);
        }
    }
}

/// Waits until a broker says that it is ready.
fn is_ready(sql: &Sql) -> anyhow::Result<()> {
    eventually("a broker that is ready", STEP_LIMIT, || {
        let (status, text) = sql.get("/ready")?;
        ensure!(status == 200, "/ready: {status} {text}");
        Ok(())
    })
}

/// Variables of all components.
fn variables(options: &ClusterOptions) -> Vec<(String, String)> {
    let name = options.name.iter().flat_map(|name| {
        ["COORDINATOR", "BROKER"].map(|program| (format!("POINTSMAN_{program}__CLUSTER"), name.clone()))
    });
    name.chain(options.variables.iter().cloned()).collect()
}

fn dev_command(program: &Path, options: &ClusterOptions, data_dir: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    command.arg("dev").arg("--data-dir").arg(data_dir);
    command.args(["--nodes", &options.nodes.to_string()]);
    command.args(["--resource-groups", &options.resource_groups.join(",")]);
    command.args(["--replicas", &options.replicas.to_string()]);
    let nodes = u16::try_from(options.nodes)?;
    let first = free_ports(4 + 2 * nodes)?;
    command.args(["--http-port", &first.to_string(), "--first-port", &(first + 1).to_string()]);
    if let Some(sample) = &options.sample {
        command.args(["--sample", sample]);
    }
    if let Some(metastore) = &options.metastore {
        command.args(["--metastore", metastore]);
    }
    Ok(command)
}

/// The last lines of a log.
fn log_end(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn told(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}\n{out}{err}", output.status)
}
