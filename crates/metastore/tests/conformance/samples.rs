//! Things to store.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{
    CollectionId, Epoch, Error as Refusal, GroupName, NodeName, SegmentId, TargetVersion,
    catalog::{
        Checksum, Collection, CollectionOptions, Column, ColumnStatistics, NewSegment, RoutingOptions,
        Sampler, SelectorKind, Value, shard_name,
    },
    request::{Metric, VectorIndex},
};
use pointsman_metastore::{NewCollection, NewGroup, SharedMetastore};
use pointsman_query_coord::{
    GroupChange, GroupConfig, GroupMove, LoadKind, LoadRecord, LoadStatus, PartitionLoad, Target,
    TargetSegment,
};

pub(crate) const NOW: u64 = 1_800_000_000_123_456_789;

/// A name that is lawful.
pub(crate) fn name<T: std::str::FromStr<Err = Refusal>>(text: &str) -> T {
    text.parse().expect("the name is lawful")
}

pub(crate) fn nodes<C: FromIterator<NodeName>>(names: &[&str]) -> C {
    names.iter().map(|text| name(text)).collect()
}

pub(crate) fn new_collection(text: &str) -> NewCollection {
    NewCollection {
        name: name(text),
        columns: vec![
            Column { name: "id \"quoted\" \0 ö".into(), data_type: "Int64".into(), nullable: false },
            Column { name: "price".into(), data_type: "Decimal128(15, 2)".into(), nullable: true },
        ],
        options: CollectionOptions {
            shards: 3,
            routing: RoutingOptions {
                selector: SelectorKind::StrictReplicaGroup,
                consistent_replicas: true,
                samplers: vec![Sampler { name: "few".into(), first_n: 2 }],
                replica_groups: [(0, vec![nodes(&["n1"]), nodes(&["n2", "n3"])])].into(),
                ..RoutingOptions::default()
            },
            clusters: vec!["local".parse().expect("lawful"), "east".parse().expect("lawful")],
            query_timeout: Some(Duration::new(7, 1)),
            serve_before_promotion: true,
            key: Some("id".into()),
            vector_indexes: vec![VectorIndex { column: "embedding".into(), metric: Metric::Cosine }],
        },
        created_at: NOW,
    }
}

pub(crate) async fn collection(metastore: &SharedMetastore, epoch: Epoch, text: &str) -> Collection {
    metastore.create_collection(epoch, new_collection(text)).await.expect("the collection is created")
}

/// A segment whose checksum follows from `content`.
pub(crate) fn segment(text: &str, content: u8) -> NewSegment {
    let bounds = |min, max| ColumnStatistics { nulls: Some(3), min: Some(min), max: Some(max) };
    NewSegment {
        name: name(text),
        partition: name("default"),
        shard: Some(shard_name(1)),
        object: format!("c/{text}.{content:08x}.parquet"),
        rows: 1_000,
        bytes: 123_456_789_012,
        checksum: Checksum([content; 32]),
        statistics: BTreeMap::from([
            ("id".to_owned(), bounds(Value::Integer(i128::MIN), Value::Integer(i128::MAX))),
            ("f".to_owned(), bounds(Value::Float(-0.1), Value::Float(f64::INFINITY))),
            ("t".to_owned(), bounds(Value::Text("a\0".into()), Value::Text("\u{10ffff}".into()))),
            ("b".to_owned(), bounds(Value::Bytes(vec![0, 255]), Value::Bytes(Vec::new()))),
            ("unknown".to_owned(), ColumnStatistics::default()),
        ]),
    }
}

/// `count` small segments.
pub(crate) fn segments(count: usize) -> Vec<NewSegment> {
    (0..count)
        .map(|number| {
            let mut segment = segment(&format!("s{number:06}"), 7);
            segment.statistics.clear();
            let bound = Some(Value::Integer(number as i128));
            segment
                .statistics
                .insert("id".into(), ColumnStatistics { nulls: Some(0), min: bound.clone(), max: bound });
            segment
        })
        .collect()
}

pub(crate) async fn group(metastore: &SharedMetastore, epoch: Epoch, text: &str) -> GroupName {
    metastore.create_group(epoch, new_group(text, 1, 2)).await.expect("the group is created").name
}

pub(crate) fn new_group(text: &str, requests: u32, limits: u32) -> NewGroup {
    NewGroup { name: name(text), config: GroupConfig { requests, limits, ..GroupConfig::default() } }
}

/// A change that makes nodes members of groups, or of none.
pub(crate) fn moves(moves: &[(&str, Option<&str>)]) -> GroupChange {
    let one = |(node, to): &(&str, Option<&str>)| GroupMove { node: name(node), to: to.map(name) };
    GroupChange { moves: moves.iter().map(one).collect(), ..GroupChange::default() }
}

/// A load of two partitions that is this far.
pub(crate) fn load(collection: CollectionId, percent: u8) -> LoadRecord {
    let status = if percent == 100 { LoadStatus::Loaded } else { LoadStatus::Loading };
    let updated_at = NOW + u64::from(percent);
    let partition = PartitionLoad { status, percent, created_at: NOW, updated_at };
    LoadRecord {
        collection,
        replicas: 2,
        kind: LoadKind::Partitions,
        status,
        percent,
        created_at: NOW,
        updated_at,
        recoveries: 1,
        replicas_chosen: true,
        partitions: ["p1", "p2"].map(|text| (name(text), partition.clone())).into(),
    }
}

/// A target of two shards, one of which only its segments name, and of these segments in two partitions.
pub(crate) fn target(
    collection: CollectionId,
    version: u64,
    segments: impl IntoIterator<Item = u64>,
) -> Target {
    let segment = |id: u64| TargetSegment {
        id: SegmentId(id),
        partition: name(if id.is_multiple_of(2) { "p1" } else { "p2" }),
        shard: shard_name(u32::from(id.is_multiple_of(3))),
    };
    let segments = segments.into_iter().map(segment);
    Target::new(collection, TargetVersion(version), [shard_name(0)], [name("p1")], segments)
}
