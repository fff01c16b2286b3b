//! Recorded failures in answers.

use pointsman_ids::{CollectionId, ErrorCode, PartitionName};
use pointsman_query_coord::answers::{
    Form, load_percentage, readiness, shard_leaders, show_load, show_partitions,
};

use crate::world::{Failed, Missing, World};

fn failed(code: ErrorCode, count: u64, last: u64) -> Failed {
    Failed { code, count, last }
}

fn told(failures: Vec<Failed>) -> String {
    let mut world = World::default();
    world.failed.insert(7, failures);
    load_percentage(&world.build().wired(), CollectionId(7), None).unwrap_err().message().to_owned()
}

#[test]
fn the_code_with_the_highest_count_is_told_then_the_latest_then_the_lower() {
    use ErrorCode::{NodeIoError, SegmentLoadFailed, ServiceUnavailable};
    let text = told(vec![failed(SegmentLoadFailed, 1, 9), failed(NodeIoError, 2, 1)]);
    assert!(text.contains("cause of node_io_error"), "{text}");
    let text = told(vec![failed(SegmentLoadFailed, 2, 1), failed(NodeIoError, 2, 5)]);
    assert!(text.contains("cause of node_io_error"), "{text}");
    let text = told(vec![
        failed(NodeIoError, 2, 5),
        failed(SegmentLoadFailed, 2, 5),
        failed(ServiceUnavailable, 1, 5),
    ]);
    assert!(text.contains("cause of segment_load_failed"), "{text}");
}

#[test]
fn every_answer_words_it_as_not_loaded_with_its_text() {
    let mut world = World::default();
    world.failed.insert(7, vec![failed(ErrorCode::ServiceUnavailable, 1, 0)]);
    let built = world.build();
    let (stores, id) = (built.wired(), CollectionId(7));
    let errors = [
        load_percentage(&stores, id, None).unwrap_err(),
        readiness(&stores, id, None).error.unwrap(),
        shard_leaders(&stores, id, Form::Loose).unwrap_err(),
        show_load(&stores, id).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), ErrorCode::CollectionNotLoaded);
        assert!(!error.is_retriable());
        assert!(
            error.message().contains("collection 7")
                && error.message().contains("cause of service_unavailable")
        );
    }
    for partitions in [vec![], vec![PartitionName::new("p0").unwrap()]] {
        let error = show_partitions(&stores, id, &partitions).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PartitionNotLoaded);
        assert!(error.message().contains("cause of service_unavailable"), "{error}");
    }
}

#[test]
fn a_missing_store_knows_no_failure() {
    let mut world = World { missing: Missing::FailedLoads, ..World::default() };
    world.failed.insert(7, vec![failed(ErrorCode::ServiceUnavailable, 1, 0)]);
    let built = world.build();
    assert_eq!(load_percentage(&built.wired(), CollectionId(7), None), Ok(None));
    assert_eq!(readiness(&built.wired(), CollectionId(7), None).error, None);
}
