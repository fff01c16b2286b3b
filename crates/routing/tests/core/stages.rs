//! Nodes for the stages of a query: the same routable set as for its leaves.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::{GroupName, GroupNumber, feed::GroupEntry};
use pointsman_routing::{RouteRequest, RoutedNode};

use crate::world::{Shape, World, key, seg, shape};

fn told(nodes: Vec<Arc<RoutedNode>>) -> Vec<String> {
    nodes.into_iter().map(|node| node.key.to_string()).collect()
}

#[test]
fn stages_run_on_routable_nodes_of_the_clusters_that_the_query_reads() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1 n2 n3");
    world.join("east", "e1");
    world.put("home", Shape { clusters: "home east", ..shape("both", &[seg("a", "n1", "n1")]) }).unwrap();
    world.put("east", shape("both", &[seg("b", "e1", "e1")])).unwrap();
    world.put("home", shape("near", &[seg("a", "n1", "n1")])).unwrap();
    world.edit(&key("home", "n2"), |entry| entry.enabled = false);
    let view = world.core.view();
    let none = BTreeSet::new();
    assert_eq!(told(view.stage_nodes([], None, &none)), ["home/n1", "home/n3"]);
    assert_eq!(told(view.stage_nodes(["near"], None, &none)), ["home/n1", "home/n3"]);
    assert_eq!(told(view.stage_nodes(["near", "both"], None, &none)), ["east/e1", "home/n1", "home/n3"]);
    let failed = BTreeSet::from([key("home", "n1"), key("far", "n3")]);
    assert_eq!(told(view.stage_nodes(["near"], None, &failed)), ["home/n3"]);
    world.mark("n3");
    assert_eq!(told(world.core.view().stage_nodes(["near"], None, &none)), ["home/n1"]);
    world.mark("n1");
    assert_eq!(told(world.core.view().stage_nodes(["near"], None, &none)), [] as [&str; 0]);
}

#[test]
fn a_groups_work_stays_in_the_group() {
    let mut world = World::new(&["home"]);
    world.join("home", "n1 n2 n3");
    let groups = [(1, "east"), (2, "west"), (3, "north"), (4, "south")];
    let groups =
        groups.map(|(number, name)| GroupEntry { number: GroupNumber(number), name: name.parse().unwrap() });
    world.core.set_groups(&"home".parse().unwrap(), groups.to_vec()).unwrap();
    let segments = [seg("a", "n1@0 n2@1", "n1@0 n2@1"), seg("b", "n1@0 n3@1", "n1@0 n3@1=error")];
    world.put("home", Shape { replicas: &[1, 2, 3], finished: &[1, 2], ..shape("t", &segments) }).unwrap();
    let view = world.core.view();
    let within = |group: &str| {
        let group: GroupName = group.parse().unwrap();
        let request = RouteRequest { resource_group: Some(&group), ..RouteRequest::all("t", 0) };
        let stages = told(view.stage_nodes(["t"], Some(&group), &BTreeSet::new()));
        (view.route(&request).map(|table| (world.told(&table), table.unavailable.len())), stages)
    };
    let (table, stages) = within("west");
    assert_eq!(
        (table.unwrap(), stages),
        ((vec!["a:n2".to_owned()], 1), vec!["home/n2".to_owned(), "home/n3".to_owned()])
    );
    let (table, stages) = within("east");
    assert_eq!(
        (table.unwrap(), stages),
        ((vec!["a:n1".to_owned(), "b:n1".to_owned()], 0), vec!["home/n1".to_owned()])
    );
    let code = |group| pointsman_ids::AnswerCode::from(within(group).0.unwrap_err().code()).number();
    assert_eq!([code("north"), code("south"), code("nowhere")], [410, 410, 700]);
}
