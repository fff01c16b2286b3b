//! `pointsman dev`: a whole cluster on this machine, every component a process of its own.
//!
//! Everything lives in the data directory: settings of each component under `config/`, logs under `logs/`, the
//! metastore, the objects, and the nodes' caches. Starting again on the same directory finds all of it again.

mod cluster;
mod config;
mod layout;
mod lock;
mod ports;
mod process;
mod ready;
mod sample;
mod strays;

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

pub use ready::{Component, NodeComponent, ReadyFile};

use self::{cluster::Cluster, layout::Layout, lock::Lock, sample::Sample};
use crate::{
    Exit, Failure,
    args::Target,
    client::{Broker, Coordinator, QueryOptions},
    loading, output,
};

/// How long loads may take at start.
const LOAD_TIMEOUT: Duration = Duration::from_secs(300);
/// How long the broker may take to see what the coordinator has.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long something is waited for without a word.
const PATIENCE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  pointsman dev --sample tpch:0.1
  pointsman dev --nodes 6 --resource-groups blue,green --replicas 2 --data-dir /tmp/cluster --http-port 0
  pointsman dev --metastore postgres://me@localhost/meta

Runs until Ctrl-C. While it runs, every other command finds it by itself (for another directory: --data-dir DIR).";

/// Options of `dev`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 4)]
    nodes: u32,
    /// Resource groups; nodes are dealt out in turn
    #[arg(long, value_name = "GROUP", value_delimiter = ',', default_value = "east,west")]
    resource_groups: Vec<String>,
    /// Replicas of the sample over all groups, dealt out in turn [default: one per group]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Generate, push and load a sample: `tpch:SCALE`
    #[arg(long, value_name = "SAMPLE")]
    sample: Option<Sample>,
    /// Where metadata lives: `postgres://...` or `sqlite:FILE` [default: a SQLite file in the data directory]
    #[arg(long, value_name = "URL", env = "POINTSMAN_METASTORE_URL", hide_env_values = true)]
    metastore: Option<String>,
    /// Port of the broker's query surface; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8099)]
    http_port: u16,
    /// Where all other ports begin, one after the other: coordinator, nodes, broker [default: those of the last run from
    /// the data directory, or any that are free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    first_port: Option<u16>,
    /// Also write the addresses to this file once queries can be answered
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Runs the cluster until a signal comes.
pub(crate) async fn run(args: DevArgs, target: &Target) -> anyhow::Result<Exit> {
    let layout = Layout::new(&args, &target.data_dir)?;
    // What is refused leaves no directory behind; and of two that start on one, the second hears of the first.
    let lock = layout.data_dir.exists().then(|| Lock::take(&layout.data_dir)).transpose()?;
    let mut cluster = Cluster::new(layout.clone())?;
    let _lock = match lock {
        Some(lock) => lock,
        None => {
            let made = std::fs::create_dir_all(&layout.data_dir);
            made.with_context(|| format!("making the data directory {}", layout.data_dir.display()))?;
            Lock::take(&layout.data_dir)?
        }
    };
    sample::clear_away(&layout.data_dir)?;
    let mut stop = Stop::new()?;
    let ready_files = ReadyFiles::new(&layout, args.ready_file.clone());
    cluster.write_settings()?;

    let ended = tokio::select! {
        up = bring_up(&mut cluster, &args, &ready_files) => match up {
            Ok(()) => None,
            Err(error) => Some(Err(error)),
        },
        () = stop.wait() => Some(Ok(Exit::Ok)),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            stop.wait().await;
            output::note("stopping; once more to stop at once");
            Ok(Exit::Ok)
        }
    };
    drop(ready_files);
    tokio::select! {
        () = cluster.stop() => {}
        () = stop.wait() => cluster.kill().await,
    }
    strays::tell(&layout);
    ended
}

/// Starts everything, brings the sample in, waits for every load and tells where things are.
async fn bring_up(cluster: &mut Cluster, args: &DevArgs, ready_files: &ReadyFiles) -> anyhow::Result<()> {
    let started = Instant::now();
    let addresses = cluster.start().await?;
    let coordinator = cluster.coordinator().await?;
    if let Some(sample) = args.sample {
        sample.bring_in(&coordinator, cluster.layout()).await?;
    }
    let loads = loading::show(&coordinator, &[]).await?;
    let loaded: Vec<String> = loads.into_iter().map(|load| load.collection).collect();
    if !loaded.is_empty() {
        cluster.tell_of_former_nodes(&coordinator).await?;
        loading::wait(&coordinator, &loaded, Instant::now() + LOAD_TIMEOUT).await?;
        wait_for_answers(&coordinator, &addresses, &loaded).await?;
    }
    ready_files.write(&addresses)?;
    cluster.report_deaths();
    output::note(format_args!("up after {:.1} s", started.elapsed().as_secs_f64()));
    Ok(output::print(welcome(&addresses, cluster.layout(), !loaded.is_empty()))?)
}

/// Waits until the broker answers from everything that is loaded.
async fn wait_for_answers(
    coordinator: &Coordinator,
    addresses: &ReadyFile,
    collections: &[String],
) -> anyhow::Result<()> {
    let broker = Broker::at(addresses.broker.http.clone(), "pointsman dev".into())?;
    let started = Instant::now();
    let mut shown = String::new();
    for name in collections {
        let sql = format!("SELECT count(*) FROM \"{name}\"");
        let rows = coordinator.collection(name).await?.rows;
        loop {
            let answer = broker.query(&sql, &QueryOptions::default()).await?;
            let counted =
                answer.result_table.as_ref().and_then(|table| table.rows.first()?.first()?.as_u64());
            if answer.is_complete() && counted == Some(rows) {
                break;
            }
            let why = answer.exceptions.first().map_or("rows are missing", |exception| &exception.message);
            if started.elapsed() >= ANSWER_TIMEOUT {
                let text =
                    format!("the broker does not answer from '{name}' in time, which has {rows} rows: {why}");
                return Err(Failure::NotReady(text).into());
            }
            let line = format!("waiting for the broker to answer from '{name}': {why}");
            if started.elapsed() >= PATIENCE && line != shown {
                output::note(&line);
                shown = line;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Where things are, and what to try.
fn welcome(addresses: &ReadyFile, layout: &Layout, loaded: bool) -> String {
    let ReadyFile { broker, coordinator, nodes, .. } = addresses;
    let dir = layout.data_dir_flag();
    let mut text = format!(
        "\n{} in {} run from {}\n\n",
        output::count(nodes.len() as u64, "node"),
        layout.groups.join(", "),
        layout.data_dir.display()
    );
    text += &format!("  broker       {}  (SQL; process {})\n", broker.http, broker.pid);
    text += &format!("  coordinator  {}  (process {})\n", coordinator.grpc, coordinator.pid);
    for NodeComponent { name, resource_group, grpc, pid } in nodes {
        text += &format!("  node {name:<7} {grpc}  (group {resource_group}; process {pid})\n");
    }
    text += "\nThe broker fails open: when all nodes that hold a segment are excluded, it asks one of them all the same.\n";
    text += "\nTry, in another terminal:\n\n";
    if loaded {
        text += &format!("  pointsman status{dir}\n");
        text += &format!("  pointsman sql{dir} -c 'SHOW TABLES'\n");
    }
    text += &format!(
        "  pointsman segment push{dir} --collection mine FILE.csv && pointsman load{dir} mine --resource-groups {} --wait\n",
        layout.groups.join(",")
    );
    if let Some(node) = nodes.first() {
        let config = layout.config_file(&node.name);
        text += &format!(
            "  kill -9 {}   # queries go on; bring it back: pointsman node --config {}\n",
            node.pid,
            config.display()
        );
    }
    text + "\nCtrl-C stops everything.\n"
}

/// Signals that end the program.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The ready files, which are there exactly while queries can be answered.
struct ReadyFiles(Vec<PathBuf>);

impl ReadyFiles {
    /// None is there yet; one that an earlier run left behind is removed.
    fn new(layout: &Layout, named: Option<PathBuf>) -> Self {
        let files =
            Self([Some(layout.data_dir.join(ReadyFile::NAME)), named].into_iter().flatten().collect());
        files.remove();
        files
    }

    fn write(&self, addresses: &ReadyFile) -> anyhow::Result<()> {
        self.0.iter().try_for_each(|path| addresses.write(path))
    }

    fn remove(&self) {
        for path in &self.0 {
            // Mostly it is not there.
            let _absent = std::fs::remove_file(path);
        }
    }
}

impl Drop for ReadyFiles {
    fn drop(&mut self) {
        self.remove();
    }
}
