//! Segments of vectors, and questions to them over real gRPC.

use std::{sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Float32Type, Int64Type},
    ipc::reader::StreamReader,
};
use parquet::arrow::ArrowWriter;
use pointsman_ids::Error;
use pointsman_proto::{
    common::v1 as common,
    node::v1::{self as pb, shard_requests_client::ShardRequestsClient},
};
use tonic::{Request, transport::Channel};

use crate::cluster::Cluster;

/// The number that the scripted coordinator gives.
pub(crate) const OWN: u64 = 7;
/// That of another node of the replica.
pub(crate) const PEER: u64 = 8;
/// Rows per segment.
pub(crate) const ROWS: u64 = 100;

/// A segment whose rows have the keys from `id * ROWS`, each with the vector (key, 0, 0, 0).
pub(crate) fn vectors(cluster: &Cluster, id: u64) -> pb::DesiredSegment {
    let keys: Vec<i64> = (id * ROWS..(id + 1) * ROWS).map(|key| key as i64).collect();
    let values: Vec<f32> = keys.iter().flat_map(|key| [*key as f32, 0.0, 0.0, 0.0]).collect();
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let lists = FixedSizeListArray::new(item, 4, Arc::new(Float32Array::from(values)), None);
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(Int64Array::from(keys))), ("v", Arc::new(lists))];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let mut content = vec![];
    let mut writer = ArrowWriter::try_new(&mut content, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    pb::DesiredSegment { rows: ROWS, ..cluster.push(id, &content) }
}

pub(crate) fn index(column: &str) -> common::VectorIndex {
    common::VectorIndex { column: column.into(), metric: common::Metric::L2.into() }
}

/// The same with an index over a column.
pub(crate) fn indexed(segment: &pb::DesiredSegment, column: &str) -> pb::DesiredSegment {
    pb::DesiredSegment { indexes: vec![index(column)], ..segment.clone() }
}

fn table() -> pb::Table {
    let column = |name: &str, data_type: &str| common::Column {
        name: name.into(),
        data_type: data_type.into(),
        nullable: true,
    };
    pb::Table {
        collection: "orders".into(),
        columns: vec![column("id", "Int64"), column("v", "FixedSizeList(4 x Float32)")],
        key: "id".into(),
        indexes: vec![index("v")],
    }
}

/// The `k` rows nearest to (`key`, 0, 0, 0).
pub(crate) fn nearest(key: f32, k: u32) -> common::Question {
    let vectors = vec![common::Vector { values: vec![key, 0.0, 0.0, 0.0] }];
    let search = common::Search { vectors, k, ..Default::default() };
    common::Question { kind: Some(common::question::Kind::Search(search)) }
}

/// Rows by a condition.
pub(crate) fn rows_where(filter: &str) -> common::Question {
    let query = common::Query { filter: filter.into(), columns: vec!["id".into()], limit: 1000 };
    common::Question { kind: Some(common::question::Kind::Query(query)) }
}

fn shard() -> pb::LedShard {
    pb::LedShard { collection_id: 3, shard: "shard-0".into() }
}

/// A wish to lead shard 0 with a view of these segments, hosted so; the other node listens at `peer`.
pub(crate) fn lead(target_version: u64, hosts: &[(u64, u64)], peer: &str) -> pb::DesiredLeads {
    let segments: Vec<u64> = hosts.iter().map(|(segment, _)| *segment).collect();
    let view = pb::View {
        target_version,
        segments: segments.clone(),
        rows: segments.iter().map(|_| ROWS).collect(),
        ..Default::default()
    };
    let lead = pb::DesiredLead {
        led: Some(shard()),
        collection: "orders".into(),
        replica_id: 5,
        version: 9,
        view: Some(view),
        segments,
        hosts: hosts.iter().map(|(_, host)| *host).collect(),
        removed: vec![],
    };
    let peer = pb::Peer { node_id: PEER, name: "n2".into(), address: peer.into() };
    pb::DesiredLeads { full: true, leads: vec![lead], peers: vec![peer], ..Default::default() }
}

/// Waits until the node has said that it can answer for what it leads.
pub(crate) async fn until_serviceable(cluster: &Cluster, target_version: u64) {
    let said = |lead: &pb::LeadReport| lead.serviceable && lead.target_version == target_version;
    let heard = |heard: &crate::coordinator::Heard| {
        heard.reports.iter().rev().find_map(|report| report.leads.last()).is_some_and(said)
    };
    cluster.coordinator.until("a serviceable lead", heard).await;
}

pub(crate) fn request(question: common::Question) -> pb::AnswerShardRequest {
    pb::AnswerShardRequest {
        collection_id: 3,
        shard: "shard-0".into(),
        node_id: OWN,
        table: Some(table()),
        question: Some(question),
        target_version_at_least: 0,
    }
}

pub(crate) async fn client(url: &str) -> ShardRequestsClient<Channel> {
    ShardRequestsClient::connect(url.to_owned()).await.unwrap()
}

/// Asks the leader.
pub(crate) async fn ask(
    url: &str,
    request: pb::AnswerShardRequest,
) -> Result<pb::AnswerShardResponse, Error> {
    ask_within(url, request, Duration::from_secs(20)).await
}

/// Asks the leader with a deadline.
pub(crate) async fn ask_within(
    url: &str,
    request: pb::AnswerShardRequest,
    time: Duration,
) -> Result<pb::AnswerShardResponse, Error> {
    let mut request = Request::new(request);
    request.set_timeout(time);
    let answer = client(url).await.answer_shard(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| pointsman_proto::error(&status))
}

/// Asks a node for segments.
pub(crate) async fn ask_segments(
    url: &str,
    node_id: u64,
    segments: &[u64],
) -> Result<pb::AnswerSegmentsResponse, Error> {
    let (segments, table, question) = (segments.to_vec(), Some(table()), Some(nearest(150.0, 3)));
    let request = pb::AnswerSegmentsRequest { node_id, segments, table, question };
    let answer = client(url).await.answer_segments(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| pointsman_proto::error(&status))
}

fn read(rows: &[u8]) -> RecordBatch {
    let reader = StreamReader::try_new(rows, None).unwrap();
    let schema = reader.schema();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

/// Keys of the rows of an answer, in order.
pub(crate) fn keys(rows: &[u8]) -> Vec<i64> {
    let rows = read(rows);
    rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
}

/// Distances of the rows of an answer, in order.
pub(crate) fn distances(rows: &[u8]) -> Vec<f32> {
    let rows = read(rows);
    rows.column_by_name("_distance").unwrap().as_primitive::<Float32Type>().values().to_vec()
}
