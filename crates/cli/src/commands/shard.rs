//! `pointsman shard`: who leads the shards of a collection, as a broker knows it.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::{
    Exit,
    args::Target,
    client::{Broker, Leader, Leaders},
    output::{self, Field},
};

const LIST_EXAMPLES: &str = "\
Example:
  pointsman shard list docs

Shows for every leader its resource group, whether it can answer, what operators and the failure detector say of it, for
how long it is avoided after a failure, and what the broker's balancer knows. Every broker has its own view: name another
one with --broker. A broker asks for leaders with the first request by shard.";

const CLEAR_EXAMPLES: &str = "\
Examples:
  pointsman shard clear docs --shard docs-00 --node n1
  pointsman shard clear docs

With a shard and a node, the broker asks the node for the shard again though it failed there a moment ago. Without, it
forgets who leads the collection's shards and asks the coordinator with the next request.";

/// What can be done with shards.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardCommand {
    /// List the leaders of a collection's shards, and what speaks against them
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Have a broker ask a node again that it avoids, or ask for the leaders again
    #[command(after_help = CLEAR_EXAMPLES)]
    Clear(ClearArgs),
}

/// Options of `shard list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `shard clear`.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Shard for which a node is avoided
    #[arg(long, value_name = "SHARD", requires = "node")]
    shard: Option<String>,
    /// Name or number of the node
    #[arg(long, value_name = "NODE", requires = "shard")]
    node: Option<String>,
}

/// Does what can be done with shards.
pub(crate) async fn run(command: ShardCommand, target: &Target) -> anyhow::Result<Exit> {
    let broker = Broker::new(target)?;
    match command {
        ShardCommand::List(args) => {
            let (leaders, page) = broker.leaders(&args.collection).await?;
            match args.json {
                true => output::json(&page)?,
                false if leaders.cached => output::print(text(&leaders))?,
                false => {
                    output::note("the broker knows no leaders yet; it asks with the first request by shard")
                }
            }
        }
        ShardCommand::Clear(args) => {
            let entry = args.shard.as_deref().zip(args.node.as_deref());
            let stood = broker.clear(&args.collection, entry).await?;
            output::note(match (entry.is_some(), stood) {
                (true, true) => "the node is asked for the shard again",
                (true, false) => "this broker did not avoid the node for the shard",
                (false, true) => "the broker asks for the leaders again",
                (false, false) => "the broker knew no leaders yet",
            });
        }
    }
    Ok(Exit::Ok)
}

fn text(leaders: &Leaders) -> String {
    let header = [
        "shard",
        "node",
        "group",
        "serves",
        "standing",
        "avoided",
        "running",
        "score",
        "health",
        "excluded because",
    ];
    let rows = leaders.shards.iter().flat_map(|shard| {
        let leaderless = shard.leaders.is_empty().then(|| bare(&shard.shard, "no leader"));
        let led = shard.leaders.iter().map(|leader| row(&shard.shard, leader));
        let besides = shard.avoided_besides.iter().map(|avoided| {
            let node = format!("#{}, leads no more", avoided.node_id);
            let mut row = bare(&shard.shard, &node);
            row.extend([
                Field::text(""),
                Field::text(""),
                Field::text(""),
                until(Some(avoided.avoided_for_ms)),
            ]);
            row
        });
        leaderless.into_iter().chain(led).chain(besides).collect::<Vec<_>>()
    });
    output::list(&header, rows)
}

fn bare(shard: &str, node: &str) -> Vec<Field> {
    vec![Field::text(shard), Field::State(node.to_owned(), false)]
}

fn row(shard: &str, leader: &Leader) -> Vec<Field> {
    let health = if leader.unavailable { "unreachable" } else { "ok" };
    vec![
        Field::text(shard),
        Field::text(leader.node.clone().unwrap_or_else(|| format!("#{}", leader.node_id))),
        Field::text(leader.group.as_deref().unwrap_or("-")),
        Field::yes(leader.serviceable),
        Field::State(leader.standing.clone(), leader.standing == "routable"),
        until(leader.avoided_for_ms),
        Field::text(leader.executing),
        Field::text(leader.score.map_or("-".to_owned(), |score| score.to_string())),
        Field::State(health.to_owned(), !leader.unavailable),
        Field::text(leader.excluded_because.as_deref().unwrap_or("-")),
    ]
}

/// How much longer a node is avoided.
fn until(avoided_for_ms: Option<u64>) -> Field {
    match avoided_for_ms {
        Some(left) => {
            Field::State(humantime::format_duration(Duration::from_millis(left)).to_string(), false)
        }
        None => Field::text("-"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::args::Args as Line;

    #[test]
    fn a_line_tells_what_speaks_against_a_leader() {
        let leader = |node: u64, group: Option<&str>, avoided: Option<u64>| {
            json!({
                "node_id": node, "node": (node == 1).then_some("n1"), "group": group, "serviceable": node == 1,
                "standing": "excluded", "excluded_because": "refused", "avoided_for_ms": avoided, "executing": 3,
                "score": 27, "unavailable": node == 2,
            })
        };
        let page = json!({
            "cached": true,
            "shards": [
                {
                    "shard": "docs-00", "leaders": [leader(1, Some("east"), Some(12_500)), leader(2, None, None)],
                    "avoided_besides": [{"node_id": 7, "avoided_for_ms": 3000}],
                },
                {"shard": "docs-01", "leaders": [], "avoided_besides": []},
            ],
        });
        let text = text(&serde_json::from_value(page).unwrap());
        let lines: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["docs-00", "n1", "east", "yes", "excluded", "12s", "500ms", "3", "27", "ok", "refused"],
                vec!["docs-00", "#2", "-", "no", "excluded", "-", "3", "27", "unreachable", "refused"],
                vec!["docs-00", "#7,", "leads", "no", "more", "3s"],
                vec!["docs-01", "no", "leader"],
            ],
            "{text}"
        );
    }

    #[test]
    fn a_shard_and_a_node_are_named_together() {
        for (more, is_fine) in [
            (&[][..], true),
            (&["--shard", "s", "--node", "n1"], true),
            (&["--shard", "s"], false),
            (&["--node", "n"], false),
        ] {
            let line = ["pointsman", "shard", "clear", "docs"];
            assert_eq!(Line::read(line.iter().chain(more)).is_ok(), is_fine, "{more:?}");
        }
    }
}
