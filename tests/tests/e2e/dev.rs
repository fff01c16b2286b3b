//! `pointsman dev` leaves nothing behind and does not share its folder.

use std::{fs, net::TcpListener, process::Command};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use pointsman_testkit::{Cluster, ClusterOptions, Process, Ready, eventually, is_alive, program, signal};

use super::LIMIT;

/// Ctrl-C ends every component, and the ready file goes.
#[test]
fn ctrl_c_leaves_no_process() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(ClusterOptions::default())?;
    let pids = cluster.ready().pids();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    signal(cluster.dev().pid(), Signal::SIGINT)?;
    let status = cluster.dev().wait(LIMIT)?;
    assert!(status.success(), "{status}");
    assert_eq!(pids.iter().filter(|pid| is_alive(**pid)).count(), 0);
    assert!(!cluster.data_dir().join("ready.json").exists());
    let log = fs::read_to_string(cluster.data_dir().join("dev.log"))?;
    assert!(!log.contains("killing it"), "nodes have nobody to wait for: {log}");
    Ok(())
}

/// Not even SIGKILL to `dev` leaves a component behind.
#[test]
fn a_killed_dev_leaves_no_process() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(ClusterOptions::default())?;
    let pids = cluster.ready().pids();
    cluster.dev().kill()?;
    eventually("the end of every component", LIMIT, || {
        let left: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        ensure!(left.is_empty(), "still there: {left:?}");
        Ok(())
    })
}

/// A second cluster on the same folder is refused, and the first one does not notice.
#[test]
fn a_second_dev_on_the_same_folder_is_refused() -> anyhow::Result<()> {
    let cluster = Cluster::start(ClusterOptions::default())?;
    let output = cluster.pointsman(&["dev", "--http-port", "0"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("another `pointsman dev`"), "{text}");
    assert!(cluster.sql().query("SELECT 1").is_ok());
    Ok(())
}

/// A node that was started by hand is no child of `dev`: it outlives it, and is named with what stops it.
#[test]
fn a_node_that_was_started_by_hand_is_named_at_the_end() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(ClusterOptions::default())?;
    let name = cluster.node_names().remove(0);
    cluster.kill_node(&name)?;
    cluster.restart_node(&name)?;
    let node = cluster.ready().nodes.iter().find(|node| node.name == name);
    let pid = node.map(|node| node.pid.to_string()).unwrap_or_default();
    let lock = cluster.data_dir().join(&name).join("lock");
    eventually("the node to have its folder", LIMIT, || {
        ensure!(fs::read_to_string(&lock)?.trim() == pid);
        Ok(())
    })?;
    signal(cluster.dev().pid(), Signal::SIGINT)?;
    let status = cluster.dev().wait(LIMIT)?;
    let log = fs::read_to_string(cluster.data_dir().join("dev.log"))?;
    ensure!(status.success(), "{status}: {log}");
    ensure!(
        log.contains(&format!("{name} was started by hand")) && log.contains(&format!("`kill {pid}`")),
        "{log}"
    );
    let other = cluster.node_names().remove(1);
    ensure!(!log.contains(&format!("{other} was started by hand")), "{log}");
    Ok(())
}

/// A node that was moved to another group stays there when `dev` starts again, and everybody is where he was before.
#[test]
fn a_dev_that_starts_again_finds_moved_nodes_and_its_addresses() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let addresses = |ready: &Ready| {
        let nodes = ready.nodes.iter().map(|node| node.grpc.clone());
        let [broker, coordinator] = [&ready.broker, &ready.coordinator];
        let own = [&broker.http, &broker.grpc, &coordinator.http, &coordinator.grpc].map(Clone::clone);
        nodes.chain(own).collect::<Vec<_>>()
    };
    let group = |ready: &Ready, name: &str| {
        let node = ready.nodes.iter().find(|node| node.name == name);
        node.map(|node| node.resource_group.clone()).context("the node")
    };
    let start = || {
        let mut command = Command::new(program("pointsman")?);
        command.args(["dev", "--http-port", "0", "--data-dir"]).arg(&data_dir);
        let log = folder.path().join("dev.log");
        let mut dev = Process::start("pointsman dev", &mut command, Some(&log), None)?;
        let ready = eventually("the ready file", LIMIT, || {
            ensure!(dev.exit()?.is_none(), "it ended: {}", fs::read_to_string(&log)?);
            Ready::read(&data_dir.join("ready.json"))
        })?;
        anyhow::Ok((dev, ready))
    };
    let (mut dev, before) = start()?;
    ensure!(group(&before, "n1")? == "east" && group(&before, "n3")? == "east");
    let mut transfer = Command::new(program("pointsman")?);
    transfer.args(["group", "transfer", "east", "west", "--nodes", "1", "--data-dir"]).arg(&data_dir);
    ensure!(transfer.status()?.success());
    ensure!(dev.stop()?.success());

    let (mut dev, after) = start()?;
    ensure!(addresses(&after) == addresses(&before), "{after:?} after {before:?}");
    let moved = ["n1", "n3"].map(|name| group(&after, name)).into_iter().collect::<Result<Vec<_>, _>>()?;
    ensure!(moved.iter().filter(|group| *group == "west").count() == 1, "{after:?}");
    ensure!(dev.stop()?.success());
    Ok(())
}

/// Who starts on a folder that was made for other groups is told so.
#[test]
fn a_dev_with_other_groups_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    drop(Cluster::start(ClusterOptions { data_dir: Some(data_dir.clone()), ..ClusterOptions::default() })?);
    let mut command = Command::new(program("pointsman")?);
    command.args(["dev", "--http-port", "0", "--resource-groups", "a,b", "--data-dir"]).arg(&data_dir);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(1) && text.contains("other --resource-groups"),
        "{}: {text}",
        output.status
    );
    Ok(())
}

/// What is refused before anything is started leaves nothing behind.
#[test]
fn a_dev_that_is_refused_leaves_no_folder() -> anyhow::Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("new");
    let mut command = Command::new(program("pointsman")?);
    command.args(["dev", "--http-port", &port, "--data-dir"]).arg(&data_dir);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1) && text.contains(&port), "{}: {text}", output.status);
    ensure!(!data_dir.exists(), "{} is there", data_dir.display());
    Ok(())
}
