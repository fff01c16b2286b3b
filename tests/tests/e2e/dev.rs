//! `pointsman dev` leaves nothing behind and does not share its folder.

use anyhow::ensure;
use nix::sys::signal::Signal;
use pointsman_testkit::{Cluster, ClusterOptions, eventually, is_alive, signal};

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
