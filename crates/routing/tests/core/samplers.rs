//! Samplers: the first segments by name, with states of their own.

use pointsman_ids::catalog::{Sampler, SelectorKind};
use pointsman_routing::RouteRequest;

use crate::world::{Seg, Shape, World, gaps, names, seg, shape, wanting};

fn few<'a>(first_n: u64, segments: &[Seg<'a>]) -> Shape<'a> {
    let mut shape = shape("t", segments);
    shape.routing.samplers = vec![
        Sampler { name: " Few ".to_owned(), first_n },
        Sampler { name: "FEW".to_owned(), first_n: 99 },
        Sampler { name: " ".to_owned(), first_n: 1 },
    ];
    shape
}

/// Who serves what of a sampler.
fn sampled(world: &World, sampler: &str) -> Vec<String> {
    let request = RouteRequest { sampler: Some(sampler), ..RouteRequest::all("t", 0) };
    world.told(&world.core.view().route(&request).unwrap())
}

fn home() -> World {
    let mut world = World::new(&["home"]);
    world.join("home", "n1 n2");
    world
}

#[test]
fn names_are_trimmed_and_lower_case_and_an_unknown_one_means_the_whole_collection() {
    let mut world = home();
    let segments = ["a", "b", "c"].map(|name| seg(name, "n1", "n1"));
    world.put("home", few(2, &segments)).unwrap();
    for name in ["few", " FEW", "Few"] {
        assert_eq!(sampled(&world, name), ["a:n1", "b:n1"]);
    }
    for name in ["", " ", "many"] {
        assert_eq!(sampled(&world, name).len(), 3);
    }
    let list = names(&["c", "b"]);
    let request = RouteRequest { sampler: Some("few"), ..wanting("t", &list) };
    let table = world.core.view().route(&request).unwrap();
    assert_eq!((world.told(&table), table.unknown), (vec!["b:n1".to_owned()], 1), "what is in both");
}

#[test]
fn it_keeps_the_first_segments_of_the_universe_over_changes() {
    let mut world = home();
    let held = |name| seg(name, "n1", "n1");
    let (b, c, d, nobodys) = (held("b"), held("c"), held("d"), seg("a", "n1=offline", "n1"));
    world.put("home", few(2, &[nobodys, b, c, d])).unwrap();
    assert_eq!(sampled(&world, "few"), ["b:n1", "c:n1"]);
    world.put("home", few(2, &[held("a"), b, c, d])).unwrap();
    assert_eq!(sampled(&world, "few"), ["a:n1", "b:n1"]);
    world.put("home", few(2, &[c, d])).unwrap();
    assert_eq!(sampled(&world, "few"), ["c:n1", "d:n1"]);
    world.put("home", few(2, &[held("c0"), d])).unwrap();
    assert_eq!(sampled(&world, "few"), ["c0:n1", "d:n1"]);
    world.put("home", few(2, &[])).unwrap();
    assert_eq!(sampled(&world, "few"), [] as [&str; 0]);
    world.put("home", few(2, &[b, nobodys])).unwrap();
    assert_eq!(sampled(&world, "few"), ["b:n1"]);
}

#[test]
fn who_is_out_is_decided_among_its_own_segments() {
    let mut world = home();
    let segments = [seg("a", "n1 n2", "n1 n2"), seg("b", "n1 n2", "n2")];
    world.put("home", few(1, &segments).selector(SelectorKind::StrictReplicaGroup)).unwrap();
    assert_eq!(world.served("t", 0), ["a:n2", "b:n2"]);
    assert_eq!(sampled(&world, "few"), ["a:n1"], "the gap lies outside the sampler");
}

#[test]
fn what_comes_into_it_by_a_change_has_not_been_seen_by_it() {
    let mut world = home();
    world.put("home", few(1, &[seg("a", "n1", "n1"), seg("b", "n1", "")])).unwrap();
    assert_eq!(gaps(&world.route("t", 0).unwrap()), ["b:not_loaded"]);
    world.put("home", few(1, &[seg("b", "n1", "")])).unwrap();
    assert_eq!(gaps(&world.route("t", 0).unwrap()), ["b:not_loaded"], "old for the collection");
    let request = RouteRequest { sampler: Some("few"), ..RouteRequest::all("t", 0) };
    let table = world.core.view().route(&request).unwrap();
    assert_eq!((gaps(&table), table.optional_skipped), (vec![], vec![0]), "new for the sampler");
}
