//! `pointsman why`.

use clap::Args;
use pointsman_ids::near;

use crate::{
    Exit, Failure,
    args::Target,
    client::{Broker, Explained, RouteTable},
    output::{self, Field},
};

const EXAMPLES: &str = "\
Examples:
  pointsman why lineitem
  pointsman why lineitem sf0.05-01-of-04
  pointsman why lineitem --options 'resource_group=east;useFixedReplica=true' --json

Asks a broker how it would route a query over the collection, without running one. Exit status 3: a segment has no node
that may answer for it.";

/// Options of `why`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Segments [default: all]
    #[arg(value_name = "SEGMENT")]
    segments: Vec<String>,
    /// Options of the query, as `name=value;name=value`
    #[arg(long, value_name = "OPTIONS")]
    options: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains the routing of a collection.
pub(crate) async fn run(args: WhyArgs, target: &Target) -> anyhow::Result<Exit> {
    let broker = Broker::new(target)?;
    let page = broker.route(&args.collection, &args.segments, args.options.as_deref()).await?;
    let Some(table) = page.routes.scans.first() else {
        return Err(Failure::Failed("the broker's answer names no collection".into()).into());
    };
    check_names(table, &args.segments, &broker).await?;
    if args.json {
        output::json(&page.json)?;
    } else {
        output::print(text(table, args.segments.is_empty()))?;
    }
    let is_missing = !table.not_connected.is_empty() || table.segments.iter().any(Explained::is_missing);
    Ok(if is_missing { Exit::Missing } else { Exit::Ok })
}

/// A segment that the broker left out as unknown is a slip of the one who asked.
async fn check_names(table: &RouteTable, asked: &[String], broker: &Broker) -> anyhow::Result<()> {
    let is_known = |name: &String| table.segments.iter().any(|segment| segment.segment == **name);
    let Some(unknown) = asked.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let whole = broker.route(&table.collection, &[], None).await?;
    let known = whole.routes.scans.iter().flat_map(|scan| &scan.segments);
    let hint = near(unknown, known.map(|segment| segment.segment.as_str()), "it has none");
    let text = format!("no segment '{unknown}' in collection '{}'; {hint}", table.collection);
    Err(Failure::Failed(text).into())
}

fn text(table: &RouteTable, is_whole: bool) -> String {
    let missing = table.segments.iter().filter(|segment| segment.is_missing()).count();
    let mut text = format!(
        "{}: {}, {missing} without a node; selector {}, request {}\n",
        table.collection,
        output::count(table.segments.len() as u64, "segment"),
        table.selector,
        table.request_id
    );
    for cluster in &table.not_connected {
        text += &format!("cluster {} is not connected: its part is missing\n", output::visible(cluster));
    }
    if is_whole {
        let spans = table.segments.iter().any(|segment| segment.cluster != table.segments[0].cluster);
        let rows = table.segments.iter().map(|segment| row(segment, spans));
        text += &output::list(&["segment", "node", "why", "others"], rows);
    } else {
        table.segments.iter().for_each(|segment| text += &details(segment));
    }
    text
}

/// A segment on one line; nodes with their clusters when the collection spans several.
fn row(segment: &Explained, spans: bool) -> Vec<Field> {
    let named = |node: &str| if spans { format!("{}/{node}", segment.cluster) } else { node.to_owned() };
    let others = segment.candidates.iter().filter_map(|candidate| {
        Some(format!("{}: {}", named(&candidate.node), candidate.ruled_out.as_ref()?))
    });
    vec![
        Field::text(&segment.segment),
        node(segment, named),
        Field::text(&segment.rule),
        Field::text(others.collect::<Vec<_>>().join("; ")),
    ]
}

/// The node that answers, or what becomes of the segment without one.
fn node(segment: &Explained, named: impl Fn(&str) -> String) -> Field {
    match &segment.node {
        Some(node) => Field::State(named(node), segment.outcome != "fail_open"),
        None => Field::State(segment.outcome.replace('_', " "), !segment.is_missing()),
    }
}

/// A segment with all that might answer for it.
fn details(segment: &Explained) -> String {
    let answer = segment.node.as_deref().unwrap_or("nobody");
    let head = format!(
        "\n{} in cluster {}: {answer} ({}), because {}\n",
        segment.segment,
        segment.cluster,
        segment.outcome.replace('_', " "),
        segment.rule
    );
    let rows = segment.candidates.iter().map(|candidate| {
        let score = candidate.score.map_or("-".into(), |score| format!("{score:.2}"));
        let verdict = candidate.ruled_out.clone().unwrap_or_else(|| "chosen".into());
        vec![
            Field::text(&candidate.node),
            Field::text(candidate.pool.map_or("-".into(), |pool| pool.to_string())),
            Field::text(candidate.group.as_deref().unwrap_or("-")),
            Field::text(score),
            Field::State(output::visible(&verdict), candidate.ruled_out.is_none()),
        ]
    });
    let list = output::list(&["node", "pool", "group", "score", "verdict"], rows);
    output::lines_visible(&head) + &list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> RouteTable {
        let candidate = |node: &str, ruled_out: Option<&str>| {
            json!({
                "node": node, "pool": 0, "group": "east", "score": null, "ruled_out": ruled_out,
            })
        };
        serde_json::from_value(json!({
            "collection": "orders", "selector": "balanced", "request_id": 7, "not_connected": [],
            "segments": [
                {
                    "segment": "s1", "cluster": "local", "outcome": "served", "node": "n1",
                    "rule": "balanced, turn 7: the second of 2",
                    "candidates": [candidate("n0", Some("not its turn")), candidate("n1", None)],
                },
                {
                    "segment": "s2", "cluster": "local", "outcome": "unavailable", "node": null, "rule": "all_excluded",
                    "candidates": [candidate("n0", Some("excluded 12s ago: refused"))],
                },
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_line_names_node_rule_and_what_ruled_the_others_out() {
        let text = text(&table(), true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "orders: 2 segments, 1 without a node; selector balanced, request 7");
        assert!(
            lines[2].starts_with("s1") && lines[2].contains("n1") && lines[2].contains("turn 7"),
            "{text}"
        );
        assert!(lines[2].ends_with("n0: not its turn"), "{text}");
        assert!(
            lines[3].contains("unavailable") && lines[3].contains("n0: excluded 12s ago: refused"),
            "{text}"
        );
    }

    #[test]
    fn details_list_every_candidate_with_its_verdict() {
        let text = details(&table().segments[0]);
        assert!(text.contains("s1 in cluster local: n1 (served), because balanced, turn 7"), "{text}");
        let verdict = |node: &str| text.lines().find(|line| line.starts_with(node)).unwrap().to_owned();
        assert!(verdict("n0").ends_with("not its turn") && verdict("n1").ends_with("chosen"), "{text}");
    }
}
