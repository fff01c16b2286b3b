//! The program: flags, exit codes, signals.

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::{cluster::Cluster, coordinator::DEADLINE};

fn program(folder: &Path, toml: &str) -> Command {
    let config = folder.join("node.toml");
    fs::write(&config, toml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman-node"));
    command.arg("--config").arg(config).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

fn toml(cluster: &Cluster, grace: &str) -> String {
    format!(
        "[node]\nname = 'n1'\ncoordinators = ['{}']\ndata_dir = '{}'\ngrpc_listen = '127.0.0.1:0'\n\
         http_listen = '127.0.0.1:0'\ngrace = '{grace}'\n",
        cluster.coordinator.url(),
        cluster.data_dir().display()
    )
}

async fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = timeout(DEADLINE, child.wait_with_output()).await.unwrap().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().unwrap().cast_signed()), signal).unwrap();
}

#[tokio::test]
async fn wrong_settings_end_with_64_and_name_the_key() {
    let folder = tempfile::tempdir().unwrap();
    for (toml, named) in [
        ("[node]\nnmae = 'n1'", "nmae"),
        ("[node]\nfetch_concurrency = 0", "node.fetch_concurrency"),
        ("[node]\nobjects = 'ftp://me:s3cret@host/x'", "node.objects"),
    ] {
        let (code, log) = ended(program(folder.path(), toml).arg("--check").spawn().unwrap()).await;
        assert_eq!(code, Some(64), "{log}");
        assert!(log.contains(named) && !log.contains("s3cret"), "{log}");
    }
    let (code, log) =
        ended(program(folder.path(), "[node]\nname = 'n1'").arg("--check").spawn().unwrap()).await;
    assert_eq!(code, Some(0), "{log}");
}

#[tokio::test]
async fn a_signal_drains_and_the_folder_is_free_again() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    for start in 1..=2 {
        let child = program(folder.path(), &toml(&cluster, "5s")).spawn().unwrap();
        cluster.coordinator.until("a session", |heard| heard.hellos.len() == start).await;
        let (code, log) = ended(program(folder.path(), &toml(&cluster, "5s")).spawn().unwrap()).await;
        assert_eq!(code, Some(1));
        assert!(log.contains(cluster.data_dir().to_str().unwrap()) && log.contains("data_dir"), "{log}");
        signal(&child, Signal::SIGTERM);
        let (code, log) = ended(child).await;
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(cluster.coordinator.heard().stopping.len(), start);
    }
    let hellos = cluster.coordinator.heard().hellos;
    assert!(hellos[1].incarnation > hellos[0].incarnation);
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let child = program(folder.path(), &toml(&cluster, "60s")).spawn().unwrap();
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    signal(&child, Signal::SIGINT);
    cluster.coordinator.until("stopping", |heard| heard.stopping.len() == 1).await;
    signal(&child, Signal::SIGTERM);
    let (code, log) = timeout(Duration::from_secs(5), ended(child)).await.unwrap();
    assert_eq!(code, Some(143), "{log}");
}
