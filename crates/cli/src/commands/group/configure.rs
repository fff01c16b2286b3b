//! `pointsman group create` and `update`: what a group wants and takes.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use pointsman_proto::coordinator::v1::{
    CreateResourceGroupRequest, ResourceGroupConfig, UpdateResourceGroupsRequest,
};
use serde::Deserialize;
use serde_json::json;

use super::{describe, shown};
use crate::{
    Failure,
    args::Target,
    client::{Coordinator, answer},
    output,
};

pub(super) const CREATE_EXAMPLES: &str = "\
Examples:
  pointsman group create east --requests 2 --limits 4
  pointsman group create ssd --limits 8 --filter disk=ssd
  pointsman group create spare

A group that is created without limits takes no node until it is updated. Nodes say their labels in their settings
(node.labels), and which group they would like (node.resource_group).";

pub(super) const UPDATE_EXAMPLES: &str = "\
Examples:
  pointsman group update east --requests 3 --limits 6
  pointsman group update east --transfer-from spare --no-filter
  pointsman group update --file groups.json

What is not named stays as it is. A file changes several groups, all of them or none, and holds whole configurations by
name as `group show --json` prints them: {\"east\": {\"requests\": 2, \"limits\": 4, \"node_filter\": {\"disk\": \"ssd\"}}}.
Where one group gives up all of its requests and limits and another gains as much, its nodes are handed over at once.";

/// Lists and the filter of a configuration.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Groups whose nodes it takes first when it misses some
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    transfer_from: Vec<String>,
    /// Groups to which it gives first when it has too many
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    transfer_to: Vec<String>,
    /// A label that a node must have; given several times, it must have all of them
    #[arg(long, value_name = "LABEL=VALUE", value_parser = pair)]
    filter: Vec<(String, String)>,
}

/// Options of `group create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the new group
    name: String,
    /// Nodes that it wants at least [default: 0]
    #[arg(long, value_name = "N", requires = "limits")]
    requests: Option<u32>,
    /// Nodes that it takes at most [default: 0]
    #[arg(long, value_name = "N")]
    limits: Option<u32>,
    #[command(flatten)]
    rules: RuleArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `group update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Name of the group
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// Nodes that it wants at least
    #[arg(long, value_name = "N", conflicts_with = "file")]
    requests: Option<u32>,
    /// Nodes that it takes at most
    #[arg(long, value_name = "N", conflicts_with = "file")]
    limits: Option<u32>,
    #[command(flatten)]
    rules: RuleArgs,
    /// Take from no group first
    #[arg(long, conflicts_with_all = ["transfer_from", "file"])]
    no_transfer_from: bool,
    /// Give to no group first
    #[arg(long, conflicts_with_all = ["transfer_to", "file"])]
    no_transfer_to: bool,
    /// Take any node
    #[arg(long, conflicts_with_all = ["filter", "file"])]
    no_filter: bool,
    /// Whole configurations by name, as JSON; `-`: standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["transfer_from", "transfer_to", "filter"])]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `label=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (label, value) = text.split_once('=').ok_or("write LABEL=VALUE")?;
    if label.is_empty() { Err("the label has no name".into()) } else { Ok((label.into(), value.into())) }
}

/// Pairs of a filter.
///
/// # Errors
/// [`Failure::Usage`] when a label stands twice: a node has one value of it.
fn filter(pairs: &[(String, String)]) -> Result<HashMap<String, String>, Failure> {
    let mut filter = HashMap::new();
    for (label, value) in pairs {
        if filter.insert(label.clone(), value.clone()).is_some() {
            return Err(Failure::Usage(format!("--filter names the label '{label}' twice")));
        }
    }
    Ok(filter)
}

impl CreateArgs {
    /// The configuration; `None` where nothing is said of it.
    fn config(&self) -> Result<Option<ResourceGroupConfig>, Failure> {
        let rules = &self.rules;
        let Some(limits) = self.limits else {
            if rules.transfer_from.len() + rules.transfer_to.len() + rules.filter.len() > 0 {
                let text = "a group that is to take nodes needs --limits: how many it takes at most";
                return Err(Failure::Usage(text.into()));
            }
            return Ok(None);
        };
        Ok(Some(ResourceGroupConfig {
            requests: Some(self.requests.unwrap_or_default().into()),
            limits: Some(limits.into()),
            transfer_from: rules.transfer_from.clone(),
            transfer_to: rules.transfer_to.clone(),
            node_filter: filter(&rules.filter)?,
        }))
    }
}

impl UpdateArgs {
    /// The change of one configuration.
    ///
    /// # Errors
    /// [`Failure::Usage`] when nothing is changed.
    fn apply(&self, name: &str, mut config: ResourceGroupConfig) -> Result<ResourceGroupConfig, Failure> {
        let rules = &self.rules;
        let takes = |off, list: &[String]| (off || !list.is_empty()).then(|| list.to_vec());
        let from = takes(self.no_transfer_from, &rules.transfer_from);
        let to = takes(self.no_transfer_to, &rules.transfer_to);
        let filters = self.no_filter || !rules.filter.is_empty();
        if self.requests.is_none() && self.limits.is_none() && from.is_none() && to.is_none() && !filters {
            let text = format!("name what is to change, such as `pointsman group update {name} --limits 4`");
            return Err(Failure::Usage(text));
        }
        config.requests = self.requests.map(i64::from).or(config.requests);
        config.limits = self.limits.map(i64::from).or(config.limits);
        config.transfer_from = from.unwrap_or(config.transfer_from);
        config.transfer_to = to.unwrap_or(config.transfer_to);
        if filters {
            config.node_filter = filter(&rules.filter)?;
        }
        Ok(config)
    }
}

/// A configuration in a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConfig {
    requests: Option<i64>,
    limits: Option<i64>,
    #[serde(default)]
    transfer_from: Vec<String>,
    #[serde(default)]
    transfer_to: Vec<String>,
    #[serde(default)]
    node_filter: HashMap<String, String>,
}

impl From<FileConfig> for ResourceGroupConfig {
    fn from(config: FileConfig) -> Self {
        let FileConfig { requests, limits, transfer_from, transfer_to, node_filter } = config;
        Self { requests, limits, transfer_from, transfer_to, node_filter }
    }
}

fn read(path: &Path) -> anyhow::Result<HashMap<String, ResourceGroupConfig>> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("standard input")?;
        text
    } else {
        fs::read_to_string(path).with_context(|| path.display().to_string())?
    };
    Ok(parse(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?)
}

fn parse(text: &str) -> serde_json::Result<HashMap<String, ResourceGroupConfig>> {
    let configs: BTreeMap<String, FileConfig> = serde_json::from_str(text)?;
    Ok(configs.into_iter().map(|(name, config)| (name, config.into())).collect())
}

/// Creates a group.
pub(super) async fn create(args: CreateArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let CreateArgs { name, json, .. } = &args;
    let config = args.config()?;
    let request = CreateResourceGroupRequest { name: name.clone(), config };
    let answer = answer(coordinator.resource_groups().create_resource_group(request).await)?;
    let group = answer.group.unwrap_or_default();
    if *json {
        let mut told = shown::json(&group);
        told["created"] = json!(answer.created);
        return Ok(output::json(&told)?);
    }
    let outcome = if answer.created { "created" } else { "was there already" };
    output::note(format_args!("resource group {name} {outcome}"));
    if group.config.and_then(|config| config.limits) == Some(0) {
        output::note(format_args!(
            "its limits are 0; it takes nodes after `pointsman group update {name} --limits N`"
        ));
    }
    Ok(())
}

/// Changes one group, or those of a file.
pub(super) async fn update(args: UpdateArgs, target: &Target) -> anyhow::Result<()> {
    let read = args.file.as_deref().map(read).transpose()?;
    let coordinator = Coordinator::connect(target).await?;
    let configs = match (read, &args.name) {
        (Some(configs), _) => configs,
        (None, name) => {
            let name = name.clone().unwrap_or_default();
            args.apply(&name, ResourceGroupConfig::default())?;
            let group = describe(&coordinator, &name).await?.group.unwrap_or_default();
            [(name.clone(), args.apply(&name, group.config.unwrap_or_default())?)].into()
        }
    };
    let mut names: Vec<String> = configs.keys().cloned().collect();
    names.sort_unstable();
    let request = UpdateResourceGroupsRequest { configs };
    let updated = answer(coordinator.resource_groups().update_resource_groups(request).await)?;
    if args.json {
        let told = json!({ "changed": updated.changed, "moved": updated.moved });
        return Ok(output::json(&told)?);
    }
    for name in names {
        let outcome = if updated.changed.contains(&name) { "updated" } else { "is configured so already" };
        output::note(format_args!("{name}: {outcome}"));
    }
    if !updated.moved.is_empty() {
        output::note(format_args!("handed over: {}", updated.moved.join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    enum Line {
        Create(CreateArgs),
        Update(UpdateArgs),
    }

    fn read(line: &str) -> Result<Line, String> {
        let words = ["group"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map_err(|error| error.to_string())
    }

    fn created(line: &str) -> Result<Option<ResourceGroupConfig>, String> {
        match read(&format!("create east {line}"))? {
            Line::Create(args) => args.config().map_err(|error| error.to_string()),
            Line::Update(_) => Err("no creation".into()),
        }
    }

    fn updated(line: &str, config: &ResourceGroupConfig) -> Result<ResourceGroupConfig, String> {
        match read(&format!("update {line}"))? {
            Line::Update(args) => args.apply("east", config.clone()).map_err(|error| error.to_string()),
            Line::Create(_) => Err("no update".into()),
        }
    }

    fn sample() -> ResourceGroupConfig {
        ResourceGroupConfig {
            requests: Some(1),
            limits: Some(2),
            transfer_from: vec!["a".into()],
            transfer_to: vec!["b".into()],
            node_filter: [("zone".to_owned(), "x".to_owned())].into(),
        }
    }

    #[test]
    fn a_new_group_has_no_configuration_or_a_whole_one() {
        assert_eq!(created(""), Ok(None));
        let plain = ResourceGroupConfig { requests: Some(0), limits: Some(4), ..Default::default() };
        assert_eq!(created("--limits 4"), Ok(Some(plain)));
        let line = "--requests 1 --limits 2 --transfer-from a --transfer-to b --filter zone=x";
        assert_eq!(created(line), Ok(Some(sample())));
        assert!(created("--requests 1").unwrap_err().contains("--limits"));
        assert!(created("--filter zone=x").unwrap_err().contains("needs --limits"));
        assert!(created("--limits 1 --filter zone").unwrap_err().contains("LABEL=VALUE"));
        assert!(created("--limits 1 --filter z=1 --filter z=2").unwrap_err().contains("twice"));
        assert!(created("--limits -1").is_err());
    }

    #[test]
    fn an_update_changes_what_it_names_and_nothing_else() {
        let expected = ResourceGroupConfig { limits: Some(9), ..sample() };
        assert_eq!(updated("east --limits 9", &sample()), Ok(expected));
        let expected = ResourceGroupConfig { transfer_from: vec!["c".into(), "d".into()], ..sample() };
        assert_eq!(updated("east --transfer-from c,d", &sample()), Ok(expected));
        let expected = ResourceGroupConfig { requests: Some(1), limits: Some(2), ..Default::default() };
        assert_eq!(updated("east --no-transfer-from --no-transfer-to --no-filter", &sample()), Ok(expected));
        assert!(updated("east", &sample()).unwrap_err().contains("name what is to change"));
        for wrong in ["", "east --no-filter --filter zone=x", "east --file x", "--file x --limits 1"] {
            assert!(updated(wrong, &sample()).unwrap_err().contains("error:"), "{wrong}");
        }
    }

    #[test]
    fn a_file_holds_whole_configurations_and_nothing_that_is_not_known() {
        let told = json!({ "east": shown::config_json(&sample()) }).to_string();
        assert_eq!(parse(&told).unwrap(), [("east".to_owned(), sample())].into());
        let lacks = parse(r#"{"east": {"requests": 1}}"#).unwrap();
        assert_eq!(lacks["east"].limits, None, "the coordinator says what is missing");
        assert!(parse(r#"{"east": {"request": 1}}"#).unwrap_err().to_string().contains("request"));
    }
}
