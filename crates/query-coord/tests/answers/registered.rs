//! The stored figures, of collections and partitions.

use pointsman_ids::{CollectionId, ErrorCode, PartitionName};
use pointsman_query_coord::{
    LoadStatus,
    answers::{Registered, show_load, show_loads, show_partitions},
};

use crate::world::{Missing, Registration, World};

fn world() -> World {
    let mut world = World::default();
    world.registrations.insert(3, Registration { percentages: vec![100, 99], ..Registration::at(0) });
    world.registrations.insert(4, Registration { loaded: true, ..Registration::at(70) });
    world
        .registrations
        .insert(5, Registration { loaded: true, percentages: Vec::new(), ..Registration::at(0) });
    world
}

fn at(percentage: u8, status: LoadStatus) -> Registered {
    Registered { percentage, status }
}

#[test]
fn a_collection_is_the_average_of_its_partitions_whatever_its_status() {
    let built = world().build();
    assert_eq!(show_load(&built.wired(), CollectionId(3)), Ok(at(99, LoadStatus::Loading)));
    assert_eq!(show_load(&built.wired(), CollectionId(4)), Ok(at(70, LoadStatus::Loaded)));
    for id in [5, 6] {
        let error = show_load(&built.wired(), CollectionId(id)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CollectionNotLoaded);
        assert!(error.message().contains(&format!("collection {id}")), "{error}");
    }
}

#[test]
fn a_list_of_all_leaves_out_what_is_not_registered() {
    let all = show_loads(&world().build().wired()).unwrap();
    let expected = [(3, at(99, LoadStatus::Loading)), (4, at(70, LoadStatus::Loaded))];
    assert_eq!(all, expected.map(|(id, shown)| (CollectionId(id), shown)));
}

#[test]
fn partitions_likewise() {
    let built = world().build();
    let name = |name: &str| PartitionName::new(name).unwrap();
    let shown = |partitions: &[PartitionName]| show_partitions(&built.wired(), CollectionId(3), partitions);
    let (first, second) =
        ((name("p0"), at(100, LoadStatus::Loading)), (name("p1"), at(99, LoadStatus::Loading)));
    assert_eq!(shown(&[]), Ok(vec![first.clone(), second.clone()]));
    assert_eq!(shown(&[name("p1"), name("p0")]), Ok(vec![second, first]));
    let error = shown(&[name("p0"), name("p9")]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartitionNotLoaded);
    assert!(error.message().contains("'p9' of collection 3"), "{error}");
    let error = show_partitions(&built.wired(), CollectionId(5), &[]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartitionNotLoaded);
}

#[test]
fn only_the_registrations_need_to_be_there() {
    for (missing, code) in [
        (Missing::Registrations, Some(ErrorCode::ServiceNotReady)),
        (Missing::Everything, Some(ErrorCode::ServiceNotReady)),
        (Missing::Replicas, None),
        (Missing::Targets, None),
        (Missing::Distribution, None),
        (Missing::Nodes, None),
        (Missing::Groups, None),
    ] {
        let built = World { missing, ..world() }.build();
        assert_eq!(
            show_load(&built.wired(), CollectionId(3)).err().map(|error| error.code()),
            code,
            "{missing:?}"
        );
        assert_eq!(show_loads(&built.wired()).err().map(|error| error.code()), code, "{missing:?}");
    }
}
