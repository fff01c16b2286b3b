//! Explanations tell what route() does, and count nowhere.

use pointsman_ids::UnavailableCause;
use pointsman_instance_selector::{Fate, Rule, Verdict};
use pointsman_routing::{RouteRequest, Wanted};

use crate::world::{Shape, World, key, seg, shape, young};

#[test]
fn every_candidate_is_named_with_what_ruled_it_out() {
    let mut world = World::new(&["home"]);
    world.join("home", "n1 n2 n3 n4");
    let segments =
        [seg("a", "n1 n2 n3 n4 n9", "n1 n2 n3=error n4 n5 n9"), seg("b", "n2", "n2"), young("c", "n4", "")];
    world.put("home", shape("t", &segments)).unwrap();
    world.edit(&key("home", "n1"), |entry| entry.enabled = false);
    world.mark("n2");
    let told = world.core.view().explain(&RouteRequest::all("t", 4)).unwrap();
    let verdicts: Vec<_> = told[0].candidates.iter().map(|it| (it.node.node.as_str(), it.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            ("n1", Verdict::Disabled),
            ("n2", Verdict::Excluded),
            ("n4", Verdict::Usable),
            ("n9", Verdict::NotMember),
            ("n3", Verdict::NotLoaded(Some(pointsman_ids::feed::CopyState::Error))),
            ("n5", Verdict::NotAssigned),
        ]
    );
    assert_eq!((told[0].node.as_ref(), told[0].rule), (Some(&key("home", "n4")), Some(Rule::Turn(4))));
    assert_eq!(told[1].fate, Fate::Unavailable(UnavailableCause::AllExcluded));
    assert_eq!((told[2].new, told[2].node.as_ref()), (Some(true), Some(&key("home", "n4"))));
    assert_eq!(world.figure("selected_segments_total", &[]), None);
}

#[test]
fn segments_are_explained_in_the_order_of_the_request_each_in_its_cluster() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1");
    world.join("east", "n1");
    let part =
        |segments: &[crate::world::Seg<'static>]| Shape { clusters: "home east", ..shape("t", segments) };
    world.put("home", part(&[seg("a", "n1", "n1"), seg("b", "n1", "n1")])).unwrap();
    world.put("east", part(&[seg("c", "n1", "n1")])).unwrap();
    let request = RouteRequest { segments: Wanted::Positions(&[1, 2, 0, 1]), ..RouteRequest::all("t", 0) };
    let told = world.core.view().explain(&request).unwrap();
    let named: Vec<_> = told.iter().map(|it| format!("{}/{} {}", it.cluster, it.name, it.segment)).collect();
    assert_eq!(named, ["home/b 1", "home/a 0", "east/c 2"]);
    assert_eq!(told[2].node, Some(key("east", "n1")));
}

#[test]
fn a_part_that_cannot_be_chosen_is_explained_by_its_error() {
    let mut world = World::new(&["home"]);
    world.join("home", "n1");
    let idle =
        Shape { load: pointsman_ids::feed::LoadState::NotLoaded, ..shape("t", &[seg("a", "n1", "n1")]) };
    world.put("home", idle).unwrap();
    let told = world.core.view().explain(&RouteRequest::all("t", 0)).unwrap();
    assert_eq!((told[0].fate, told[0].refused.is_some()), (Fate::Refused, true));
    assert!(world.core.view().explain(&RouteRequest::all("u", 0)).is_err());
}
