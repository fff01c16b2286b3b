//! Groups as they are shown.

use pointsman_proto::coordinator::v1::{
    DescribeResourceGroupResponse, GroupCollection, ResourceGroup, ResourceGroupConfig,
};
use serde_json::{Value, json};

use crate::output::{self, Field};

/// Names in one line; `-` for none.
fn names(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn config(group: &ResourceGroup) -> ResourceGroupConfig {
    group.config.clone().unwrap_or_default()
}

fn number(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}

/// `label=value` pairs, by label.
fn filter(config: &ResourceGroupConfig) -> Vec<String> {
    let mut pairs: Vec<String> =
        config.node_filter.iter().map(|(label, value)| format!("{label}={value}")).collect();
    pairs.sort_unstable();
    pairs
}

/// What is told of nodes that went elsewhere; nothing where none did.
pub(super) fn moved(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!("; moved: {}", nodes.join(", ")) }
}

/// A line of the list.
pub(super) fn row(group: &ResourceGroup) -> Vec<Field> {
    let config = config(group);
    vec![
        Field::text(&group.name),
        Field::number(number(config.requests)),
        Field::number(number(config.limits)),
        Field::State(group.missing.to_string(), group.missing == 0),
        Field::text(names(&group.nodes)),
    ]
}

/// A configuration as `group update --file` reads it.
pub(super) fn config_json(config: &ResourceGroupConfig) -> Value {
    json!({
        "requests": number(config.requests),
        "limits": number(config.limits),
        "transfer_from": config.transfer_from,
        "transfer_to": config.transfer_to,
        "node_filter": config.node_filter,
    })
}

/// A group as JSON.
pub(super) fn json(group: &ResourceGroup) -> Value {
    json!({
        "name": group.name,
        "number": group.number,
        "config": config_json(&config(group)),
        "nodes": group.nodes,
        "live": group.live,
        "missing": group.missing,
        "redundant": group.redundant,
    })
}

/// All that is known of a group, in words.
pub(super) fn described(described: &DescribeResourceGroupResponse) -> String {
    let group = described.group.clone().unwrap_or_default();
    let config = config(&group);
    let bounds = format!(
        "requests {}, limits {}; {} live, {} missing, {} too many",
        number(config.requests),
        number(config.limits),
        group.live,
        group.missing,
        group.redundant
    );
    let lines = [
        ("group", format!("{} (number {})", group.name, group.number)),
        ("nodes", bounds),
        ("members", names(&group.nodes)),
        ("not accepted", names(&described.dirty)),
        ("node filter", names(&filter(&config))),
        ("takes from", names(&config.transfer_from)),
        ("gives to", names(&config.transfer_to)),
    ];
    let mut text = String::new();
    for (title, value) in lines {
        text += &format!("{title:<13}{}\n", output::visible(&value));
    }
    if !described.collections.is_empty() {
        let header = ["collection", "replicas", "outgoing", "incoming"];
        text += "\n";
        text += &output::list(&header, described.collections.iter().map(collection_row));
    }
    text
}

fn collection_row(collection: &GroupCollection) -> Vec<Field> {
    vec![
        Field::text(&collection.collection),
        Field::number(collection.replicas),
        Field::text(names(&collection.outgoing)),
        Field::text(names(&collection.incoming)),
    ]
}

/// All that is known of a group, as JSON.
pub(super) fn described_json(described: &DescribeResourceGroupResponse) -> Value {
    let collection = |collection: &GroupCollection| {
        json!({
            "collection": collection.collection,
            "replicas": collection.replicas,
            "outgoing": collection.outgoing,
            "incoming": collection.incoming,
        })
    };
    let mut told = json(&described.group.clone().unwrap_or_default());
    told["dirty"] = json!(described.dirty);
    told["collections"] = described.collections.iter().map(collection).collect();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> DescribeResourceGroupResponse {
        let config = ResourceGroupConfig {
            requests: Some(2),
            limits: Some(4),
            transfer_from: vec!["west".into()],
            node_filter: [("zone".to_owned(), "a".to_owned()), ("disk".to_owned(), "ssd".to_owned())].into(),
            ..ResourceGroupConfig::default()
        };
        let group = ResourceGroup {
            name: "east".into(),
            number: 3,
            nodes: vec!["n1".into(), "n2".into()],
            config: Some(config),
            live: 1,
            missing: 1,
            redundant: 1,
        };
        let collection = GroupCollection {
            collection: "orders".into(),
            replicas: 1,
            outgoing: vec!["n9".into()],
            incoming: vec![],
        };
        DescribeResourceGroupResponse {
            group: Some(group),
            dirty: vec!["n2".into()],
            collections: vec![collection],
        }
    }

    #[test]
    fn a_group_is_described_in_words_with_what_it_borrows() {
        let text = described(&sample());
        for line in [
            "group        east (number 3)\n",
            "nodes        requests 2, limits 4; 1 live, 1 missing, 1 too many\n",
            "members      n1, n2\n",
            "not accepted n2\n",
            "node filter  disk=ssd, zone=a\n",
            "takes from   west\n",
            "gives to     -\n",
        ] {
            assert!(text.contains(line), "{line:?} in\n{text}");
        }
        let table: Vec<&str> = text.lines().skip(8).flat_map(str::split_whitespace).collect();
        assert_eq!(table, ["COLLECTION", "REPLICAS", "OUTGOING", "INCOMING", "orders", "1", "n9", "-"]);
    }

    #[test]
    fn json_has_the_configuration_in_the_form_that_an_update_reads() {
        let told = described_json(&sample());
        assert_eq!(told["config"]["node_filter"], json!({"disk": "ssd", "zone": "a"}));
        assert_eq!((&told["dirty"], &told["missing"]), (&json!(["n2"]), &json!(1)));
        assert_eq!(told["collections"][0]["outgoing"], json!(["n9"]));
        assert_eq!(moved(&["n1".into(), "n2".into()]), "; moved: n1, n2");
    }
}
