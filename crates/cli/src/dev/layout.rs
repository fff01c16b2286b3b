//! What runs and where its files are: decided before anything is started.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Context;
use pointsman_ids::GroupName;
use pointsman_settings::SecretUrl;

use super::DevArgs;
use crate::Failure;

/// Name of the coordinator's process.
pub(super) const COORDINATOR: &str = "coordinator";
/// Name of the broker's process.
pub(super) const BROKER: &str = "broker";

/// The plan of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Everything is below; absolute.
    pub(super) data_dir: PathBuf,
    /// As the person named it, for hints; `None`: as by default.
    named_dir: Option<PathBuf>,
    /// Resource groups, in the order given.
    pub(super) groups: Vec<String>,
    /// Name and group of each node.
    pub(super) nodes: Vec<(String, String)>,
    /// The group of each replica of the sample.
    pub(super) replicas: Vec<String>,
    /// Where metadata lives.
    pub(super) metastore: SecretUrl,
    /// Port of the query surface; 0: any.
    pub(super) http_port: u16,
    /// Where the other ports begin; `None`: wherever they are free.
    pub(super) first_port: Option<u16>,
}

impl Layout {
    /// Plans from the command line.
    ///
    /// # Errors
    /// [`Failure::Usage`] when nodes, groups and replicas do not go together.
    pub(super) fn new(args: &DevArgs, named_dir: &Path) -> anyhow::Result<Self> {
        let data_dir = std::path::absolute(named_dir).with_context(|| named_dir.display().to_string())?;
        let groups = args.resource_groups.clone();
        check_groups(&groups)?;
        let nodes = deal(args.nodes as usize, &groups);
        let nodes: Vec<_> =
            nodes.into_iter().enumerate().map(|(index, group)| (format!("n{}", index + 1), group)).collect();
        let replicas = deal(args.replicas.map_or(groups.len(), |replicas| replicas as usize), &groups);
        let layout = Self {
            metastore: SecretUrl::new(match &args.metastore {
                Some(url) => url.clone(),
                None => format!("sqlite:{}", data_dir.join("meta.db").display()),
            }),
            named_dir: (named_dir != Path::new("pointsman-data")).then(|| named_dir.to_owned()),
            data_dir,
            groups,
            nodes,
            replicas,
            http_port: args.http_port,
            first_port: args.first_port,
        };
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.replicas.is_empty() {
            return Err(Failure::Usage("--replicas must be at least 1".into()));
        }
        for (group, nodes) in self.nodes_per_group() {
            let replicas = self.replicas.iter().filter(|home| **home == group).count();
            if nodes == 0 || (nodes as usize) < replicas {
                return Err(Failure::Usage(format!(
                    "{} nodes and {} replicas in {} groups leave group {group} with {nodes} nodes for {replicas} replicas; \
                     a group needs a node, and one for each of its replicas",
                    self.nodes.len(),
                    self.replicas.len(),
                    self.groups.len(),
                )));
            }
        }
        Ok(())
    }

    /// How many nodes each group is meant to have.
    pub(super) fn nodes_per_group(&self) -> BTreeMap<String, u32> {
        let mut counts: BTreeMap<String, u32> = self.groups.iter().map(|group| (group.clone(), 0)).collect();
        for (_, group) in &self.nodes {
            counts.entry(group.clone()).and_modify(|count| *count += 1);
        }
        counts
    }

    /// Settings of a component.
    pub(super) fn config_file(&self, name: &str) -> PathBuf {
        self.data_dir.join("config").join(format!("{name}.toml"))
    }

    /// Log of a component.
    pub(super) fn log_file(&self, name: &str) -> PathBuf {
        self.data_dir.join("logs").join(format!("{name}.log"))
    }

    /// Data of a component.
    pub(super) fn component_dir(&self, name: &str) -> PathBuf {
        self.data_dir.join(name)
    }

    /// Root of the object store.
    pub(super) fn objects(&self) -> PathBuf {
        self.data_dir.join("objects")
    }

    /// What other commands need to find this cluster, with a space in front; empty when they find it by themselves.
    pub(super) fn data_dir_flag(&self) -> String {
        self.named_dir.as_ref().map_or_else(String::new, |dir| format!(" --data-dir {}", dir.display()))
    }
}

fn check_groups(groups: &[String]) -> anyhow::Result<()> {
    for (index, group) in groups.iter().enumerate() {
        GroupName::new(group)?;
        if groups[..index].contains(group) {
            return Err(Failure::Usage(format!("--resource-groups names '{group}' twice")).into());
        }
    }
    Ok(())
}

/// Groups dealt out in turn.
fn deal(count: usize, groups: &[String]) -> Vec<String> {
    groups.iter().cycle().take(count).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(nodes: u32, groups: &str, replicas: Option<u32>) -> anyhow::Result<Layout> {
        let args = DevArgs {
            nodes,
            resource_groups: groups.split(',').map(str::to_owned).collect(),
            replicas,
            sample: None,
            metastore: None,
            http_port: 0,
            first_port: None,
            ready_file: None,
        };
        Layout::new(&args, Path::new("data"))
    }

    #[test]
    fn nodes_and_replicas_are_dealt_out_in_turn() {
        let layout = plan(4, "east,west", None).unwrap();
        let nodes: Vec<_> =
            layout.nodes.iter().map(|(name, group)| (name.as_str(), group.as_str())).collect();
        assert_eq!(nodes, [("n1", "east"), ("n2", "west"), ("n3", "east"), ("n4", "west")]);
        assert_eq!(layout.replicas, ["east", "west"]);
        assert_eq!(plan(4, "east,west", Some(3)).unwrap().replicas, ["east", "west", "east"]);
        assert_eq!(plan(4, "east,west", Some(1)).unwrap().replicas, ["east"]);
    }

    #[test]
    fn a_group_needs_a_node_for_each_of_its_replicas() {
        for (nodes, groups, replicas) in
            [(1, "east,west", None), (2, "east,west", Some(4)), (2, "east", Some(0))]
        {
            let error = plan(nodes, groups, replicas).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Failure::Usage(_))), "{error}");
        }
        assert!(plan(4, "east,east", None).unwrap_err().to_string().contains("twice"));
        assert!(plan(4, "a b", None).is_err());
    }

    #[test]
    fn paths_are_absolute_so_that_components_may_run_anywhere() {
        let layout = plan(2, "east,west", None).unwrap();
        assert!(layout.config_file("n1").is_absolute());
        assert!(layout.metastore.expose().starts_with("sqlite:/"));
    }
}
