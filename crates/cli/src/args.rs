//! The command line itself.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{NonEmptyStringValueParser, ValueParser},
};

use crate::{commands, dev, exit};

/// Distributed SQL over replicated segments.
#[derive(Debug, Parser)]
#[command(name = "pointsman", version, after_help = exit::HELP, max_term_width = 110)]
pub(crate) struct Args {
    /// Where the cluster is.
    #[command(flatten)]
    pub(crate) target: Target,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether whoever reads the output is a program.
    #[arg(skip)]
    pub(crate) json: bool,
}

impl Args {
    /// Reads a command line. No text is empty: an empty name mostly comes from a variable of a script that is not set, and
    /// would ask for everything or for nobody.
    pub(crate) fn read(
        line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let mut command = filled(Self::command());
        let mut matches = command.try_get_matches_from_mut(line)?;
        let json = wants_json(&matches);
        let args = Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        Ok(Self { json, ..args })
    }
}

/// Whether the command was told `--json`.
fn wants_json(matches: &clap::ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|json| *json);
    own || matches.subcommand().is_some_and(|(_, inner)| wants_json(inner))
}

/// The same command where texts are not empty.
fn filled(command: clap::Command) -> clap::Command {
    let text = ValueParser::string().type_id();
    let command = command.mut_args(|arg| {
        let is_text = arg.get_action().takes_values() && arg.get_value_parser().type_id() == text;
        if is_text { arg.value_parser(NonEmptyStringValueParser::new()) } else { arg }
    });
    command.mut_subcommands(filled)
}

/// Where the cluster is. Without flags: the one that `pointsman dev` runs from ./pointsman-data, else the usual ports
/// of this machine.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Where the cluster is")]
pub(crate) struct Target {
    /// gRPC address of a coordinator; several: the active one is found among them
    #[arg(long, global = true, env = "POINTSMAN_COORDINATOR_URL", value_name = "URL", value_delimiter = ',')]
    pub(crate) coordinator: Vec<String>,
    /// HTTP address of a broker
    #[arg(long, global = true, env = "POINTSMAN_BROKER_URL", value_name = "URL")]
    pub(crate) broker: Option<String>,
    /// gRPC address of a broker, for `search`, `get` and `rows`
    #[arg(long, global = true, env = "POINTSMAN_BROKER_GRPC_URL", value_name = "URL")]
    pub(crate) broker_grpc: Option<String>,
    /// Data directory of `pointsman dev`; its ready.json names the addresses
    #[arg(
        long,
        global = true,
        env = "POINTSMAN_DATA_DIR",
        value_name = "DIR",
        default_value = "pointsman-data"
    )]
    pub(crate) data_dir: PathBuf,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine
    Dev(dev::DevArgs),
    /// Run SQL statements and print their rows
    Sql(commands::sql::SqlArgs),
    /// Search the nearest vectors
    Search(commands::search::SearchArgs),
    /// Get rows by key
    Get(commands::get::GetArgs),
    /// List rows that meet a condition
    Rows(commands::rows::ListRowsArgs),
    /// Create, list, show and drop collections
    #[command(subcommand)]
    Collection(commands::collection::CollectionCommand),
    /// Push, replace, list and drop segments
    #[command(subcommand)]
    Segment(commands::segment::SegmentCommand),
    /// List partitions of collections and how far their loads are
    #[command(subcommand)]
    Partition(commands::partition::PartitionCommand),
    /// Load collections or partitions onto nodes, or change their replicas, so that they can be queried
    Load(commands::load::LoadArgs),
    /// Release collections or partitions from the nodes; their segments stay in the catalog
    Release(commands::release::ReleaseArgs),
    /// Show how far loads are, per collection and resource group
    Status(commands::status::StatusArgs),
    /// Ask whether a resource group can serve a collection now; the exit status says it too
    Ready(commands::ready::ReadyArgs),
    /// Explain which node answers for which segment, and what rules the others out
    Why(commands::why::WhyArgs),
    /// List who leads a collection's shards as a broker knows it, and have it ask again
    #[command(subcommand)]
    Shard(commands::shard::ShardCommand),
    /// Create, list, show, update and drop resource groups, and move nodes and replicas between them
    #[command(subcommand)]
    Group(commands::group::GroupCommand),
    /// Show and change settings of the running cluster
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Back up, restore and move what coordinators store
    #[command(subcommand)]
    Metastore(commands::metastore::MetastoreCommand),
    /// List nodes, disable and enable them, or run one
    Node(commands::node::NodeCommand),
    /// Replay scenario files: what would the broker do, or the coordinator say, if ...?
    Replay(commands::replay::ReplayArgs),
    /// Run a coordinator
    #[command(hide = true)]
    Coordinator(commands::serve::Serve),
    /// Run a broker
    #[command(hide = true)]
    Broker(commands::serve::Serve),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name()).trim().to_owned();
            if command.has_subcommands() {
                command
                    .get_subcommands()
                    .filter(|command| !command.is_hide_set())
                    .for_each(|each| check(each, &path));
            } else {
                let help = command.clone().render_long_help().to_string();
                assert!(help.contains("Example") && help.contains(&path), "{path}:\n{help}");
            }
        }
        check(&<Args as clap::CommandFactory>::command(), "");
    }

    #[test]
    fn no_text_is_empty() {
        for line in [
            &["status", ""][..],
            &["ready", "orders", "--resource-group", ""],
            &["load", "orders", "--resource-groups", "east,"],
            &["group", "show", ""],
        ] {
            let error = Args::read(["pointsman"].iter().chain(line)).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::InvalidValue, "{line:?}: {error}");
        }
        assert!(Args::read(["pointsman", "status", "orders"]).is_ok());
    }

    #[test]
    fn several_coordinators_are_one_list() {
        let line = [
            "pointsman",
            "node",
            "list",
            "--coordinator",
            "http://a:1,http://b:2",
            "--coordinator",
            "http://c:3",
        ];
        let args = Args::read(line).unwrap();
        assert_eq!(args.target.coordinator, ["http://a:1", "http://b:2", "http://c:3"]);
    }
}
