//! Settings files of the components: complete, so that they also show what else can be set.

use std::{
    collections::BTreeMap, fs, io::Write, net::SocketAddr, os::unix::fs::OpenOptionsExt, path::Path,
    time::Duration,
};

use anyhow::Context;
use pointsman_settings::{BrokerSettings, CoordinatorSettings, FailOpenSettings, NodeSettings};
use serde::{Deserialize, Serialize};

use super::layout::{BROKER, COORDINATOR, Layout};

/// How long a node of this cluster drains: nobody waits long for a cluster on a desk.
const NODE_GRACE: Duration = Duration::from_secs(2);

/// Where a component listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listen {
    /// gRPC.
    pub(super) grpc: SocketAddr,
    /// HTTP.
    pub(super) http: SocketAddr,
}

/// Where a component listened when its settings were written last; `None`: there are none, or not of this form.
pub(super) fn former(path: &Path, section: &str) -> Option<Listen> {
    #[derive(Deserialize)]
    struct Former {
        grpc_listen: SocketAddr,
        http_listen: SocketAddr,
    }
    let text = fs::read_to_string(path).ok()?;
    let mut sections: BTreeMap<String, Former> = toml::from_str(&text).ok()?;
    let Former { grpc_listen, http_listen } = sections.remove(section)?;
    Some(Listen { grpc: grpc_listen, http: http_listen })
}

/// Settings of the coordinator.
pub(super) fn coordinator(layout: &Layout, listen: Listen) -> CoordinatorSettings {
    CoordinatorSettings {
        name: COORDINATOR.into(),
        grpc_listen: listen.grpc,
        http_listen: listen.http,
        metastore: layout.metastore.clone(),
        objects: layout.objects().display().to_string(),
        resource_groups: layout.nodes_per_group(),
        ..CoordinatorSettings::default()
    }
}

/// Settings of the broker. On one machine nodes that are thought to be ill mostly are not, so it fails open.
pub(super) fn broker(layout: &Layout, listen: Listen, coordinator: Listen) -> BrokerSettings {
    BrokerSettings {
        name: BROKER.into(),
        coordinators: vec![url(coordinator.grpc)],
        grpc_listen: listen.grpc,
        http_listen: listen.http,
        data_dir: layout.component_dir(BROKER),
        fail_open: FailOpenSettings { enabled: true, ..FailOpenSettings::default() },
        ..BrokerSettings::default()
    }
}

/// Settings of a node.
pub(super) fn node(
    layout: &Layout,
    name: &str,
    group: &str,
    listen: Listen,
    coordinator: Listen,
) -> NodeSettings {
    NodeSettings {
        name: name.to_owned(),
        coordinators: vec![url(coordinator.grpc)],
        grpc_listen: listen.grpc,
        http_listen: listen.http,
        data_dir: layout.component_dir(name),
        resource_group: group.to_owned(),
        grace: NODE_GRACE,
        ..NodeSettings::default()
    }
}

/// Writes `settings` as section `section`. Only the owner may read the file, since a URL may hold a password.
pub(super) fn write(path: &Path, section: &str, settings: &impl Serialize) -> anyhow::Result<()> {
    let write = || {
        let text = toml::to_string_pretty(&BTreeMap::from([(section, settings)]))?;
        // A file that is there would keep its mode.
        let _absent = fs::remove_file(path);
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        anyhow::Ok(())
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// An address as URL.
pub(super) fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NONE: [(&str, &str); 0] = [];

    fn written(section: &str, settings: &impl Serialize) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        write(&path, section, settings).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn addresses_of_a_former_run_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n1.toml");
        assert_eq!(former(&path, "node"), None);
        let node = NodeSettings { grpc_listen: "127.0.0.1:4711".parse().unwrap(), ..NodeSettings::default() };
        write(&path, "node", &node).unwrap();
        assert_eq!(former(&path, "node"), Some(Listen { grpc: node.grpc_listen, http: node.http_listen }));
        assert_eq!(former(&path, "broker"), None);
        fs::write(&path, "[node]\ngrpc_listen = 1").unwrap();
        assert_eq!(former(&path, "node"), None);
    }

    #[test]
    fn every_program_reads_back_what_is_written() {
        let node = NodeSettings { name: "n1".into(), grace: NODE_GRACE, ..NodeSettings::default() };
        assert_eq!(NodeSettings::load(&written("node", &node), NONE).unwrap(), node);
        let broker = BrokerSettings { name: "b".into(), ..BrokerSettings::default() };
        assert_eq!(BrokerSettings::load(&written("broker", &broker), NONE).unwrap(), broker);
        let resource_groups = BTreeMap::from([("east".to_owned(), 2)]);
        let coordinator = CoordinatorSettings { resource_groups, ..CoordinatorSettings::default() };
        assert_eq!(
            CoordinatorSettings::load(&written("coordinator", &coordinator), NONE).unwrap(),
            coordinator
        );
    }
}
