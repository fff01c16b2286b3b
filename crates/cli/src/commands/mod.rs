//! One file per command.

pub(crate) mod collection;
pub(crate) mod config;
pub(crate) mod get;
pub(crate) mod group;
pub(crate) mod load;
pub(crate) mod metastore;
pub(crate) mod node;
pub(crate) mod partition;
pub(crate) mod ready;
pub(crate) mod release;
pub(crate) mod replay;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod segment;
pub(crate) mod serve;
pub(crate) mod shard;
pub(crate) mod sql;
pub(crate) mod status;
pub(crate) mod why;

use std::process::ExitCode;

use anyhow::Context;

use crate::{
    args::{Args, Command},
    dev,
};

/// Runs the command. An error is still to be told.
///
/// The programs of the cluster bring their own runtime and signals; the others get theirs here.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let target = &args.target;
    match args.command {
        Command::Coordinator(args) => Ok(args.run(pointsman_coordinator::cli::main)),
        Command::Broker(args) => Ok(args.run(pointsman_broker::cli::main)),
        Command::Node(node::NodeCommand { command: None, serve }) => {
            node::check(&serve)?;
            Ok(serve.run(pointsman_node::cli::main))
        }
        Command::Node(node::NodeCommand { command: Some(action), .. }) => block_on(node::run(action, target)),
        Command::Dev(args) => block_on(dev::run(args, target)),
        Command::Sql(args) => block_on(sql::run(args, target)),
        Command::Search(args) => block_on(search::run(args, target)),
        Command::Get(args) => block_on(get::run(args, target)),
        Command::Rows(args) => block_on(rows::run(args, target)),
        Command::Collection(command) => block_on(collection::run(command, target)),
        Command::Segment(command) => block_on(segment::run(command, target)),
        Command::Partition(command) => block_on(partition::run(command, target)),
        Command::Load(args) => block_on(load::run(args, target)),
        Command::Release(args) => block_on(release::run(args, target)),
        Command::Replay(args) => replay::run(&args),
        Command::Status(args) => block_on(status::run(args, target)),
        Command::Ready(args) => block_on(ready::run(args, target)),
        Command::Why(args) => block_on(why::run(args, target)),
        Command::Shard(command) => block_on(shard::run(command, target)),
        Command::Config(command) => block_on(config::run(command, target)),
        Command::Group(command) => block_on(group::run(command, target)),
        Command::Metastore(command) => block_on(metastore::run(command, target)),
    }
}

fn block_on<E: Into<ExitCode>>(command: impl Future<Output = anyhow::Result<E>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let ended = runtime.block_on(command).map(E::into);
    // A read of standard input or a name look-up that hangs must not keep the program.
    runtime.shutdown_background();
    ended
}
