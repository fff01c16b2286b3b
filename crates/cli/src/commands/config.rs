//! `pointsman config`: settings that take effect while the cluster runs.

use clap::{Args, Subcommand};
use pointsman_proto::coordinator::v1::{ConfigEntry, GetConfigRequest, SetConfigRequest, UnsetConfigRequest};
use serde_json::json;

use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    output::{self, Field},
};

const GET_EXAMPLES: &str = "\
Examples:
  pointsman config get
  pointsman config get broker.fail_open.enabled
  pointsman config get --json

With a key its value alone is printed, and nothing when it has none.";

const SET_EXAMPLES: &str = "\
Example:
  pointsman config set broker.fail_open.enabled true

Every broker applies it to its next request. `pointsman config get` lists the keys and what they take.";

const UNSET_EXAMPLES: &str = "\
Example:
  pointsman config unset broker.fail_open.enabled

Every broker returns to its own setting.";

/// Settings of the cluster that take effect while it runs; each takes the place of what the programs' files say.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what is set, and what can be
    #[command(after_help = GET_EXAMPLES)]
    Get(GetArgs),
    /// Give a key a value
    #[command(after_help = SET_EXAMPLES)]
    Set(SetArgs),
    /// Take a key's value away
    #[command(after_help = UNSET_EXAMPLES)]
    Unset(UnsetArgs),
}

/// Options of `config get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The key [default: all]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `config set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The key
    key: String,
    /// Its new value
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `config unset`.
#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    /// The key
    key: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(command: ConfigCommand, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    match command {
        ConfigCommand::Get(args) => get(args, &coordinator).await?,
        ConfigCommand::Set(args) => set(args, &coordinator).await?,
        ConfigCommand::Unset(args) => unset(args, &coordinator).await?,
    }
    Ok(Exit::Ok)
}

async fn get(args: GetArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let request = GetConfigRequest { key: args.key.clone().unwrap_or_default() };
    let entries = answer(coordinator.config().get_config(request).await)?.entries;
    match (&args.key, entries.as_slice()) {
        (Some(_), [entry]) if args.json => output::json(&to_json(entry))?,
        (Some(key), [entry]) => match &entry.value {
            Some(value) => output::line(output::visible(value))?,
            None => output::note(format_args!("{key}: not set; every program has its own setting")),
        },
        _ if args.json => output::json(&entries.iter().map(to_json).collect())?,
        _ => output::print(output::list(&["key", "value", "meaning"], entries.iter().map(row)))?,
    }
    Ok(())
}

async fn set(args: SetArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let SetArgs { key, value, json } = args;
    let request = SetConfigRequest { key: key.clone(), value: value.clone() };
    let set = answer(coordinator.config().set_config(request).await)?;
    if !set.warning.is_empty() {
        output::note(format_args!("warning: {key}: {}", output::visible(&set.warning)));
    }
    if json {
        let warning = Some(set.warning).filter(|warning| !warning.is_empty());
        let told = json!({ "key": key, "value": value, "changed": set.changed, "warning": warning });
        return Ok(output::json(&told)?);
    }
    output::note(format_args!("{key}: {}", if set.changed { "set" } else { "was set so already" }));
    Ok(())
}

async fn unset(args: UnsetArgs, coordinator: &Coordinator) -> anyhow::Result<()> {
    let UnsetArgs { key, json } = args;
    let request = UnsetConfigRequest { key: key.clone() };
    let was_set = answer(coordinator.config().unset_config(request).await)?.was_set;
    if json {
        return Ok(output::json(&json!({ "key": key, "changed": was_set }))?);
    }
    output::note(format_args!("{key}: {}", if was_set { "unset" } else { "was not set" }));
    Ok(())
}

fn row(entry: &ConfigEntry) -> Vec<Field> {
    let value = entry.value.as_deref().unwrap_or("-");
    vec![Field::text(&entry.key), Field::text(value), Field::text(meaning(entry))]
}

fn meaning(entry: &ConfigEntry) -> &str {
    if entry.meaning.is_empty() { "not known to this coordinator" } else { &entry.meaning }
}

fn to_json(entry: &ConfigEntry) -> serde_json::Value {
    let known = !entry.meaning.is_empty();
    json!({ "key": entry.key, "value": entry.value, "known": known, "meaning": meaning(entry) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_a_value_and_one_that_nobody_knows_are_told_apart() {
        let unset = ConfigEntry { key: "a".into(), value: None, meaning: "Whether.".into() };
        assert_eq!(to_json(&unset), json!({"key": "a", "value": null, "known": true, "meaning": "Whether."}));
        let foreign = ConfigEntry { key: "b".into(), value: Some("".into()), meaning: String::new() };
        assert_eq!(to_json(&foreign)["value"], "");
        assert_eq!(to_json(&foreign)["known"], false);
    }
}
