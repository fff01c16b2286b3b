//! Plain values in and out of columns.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use pointsman_ids::{
    CollectionId, Error as Refusal, ErrorCode, GroupName, NodeName, PartitionName, SegmentId, ShardName,
    TargetVersion,
    catalog::{CollectionOptions, Column, RoutingOptions, Sampler, SelectorKind},
    request::VectorIndex,
};
use pointsman_query_coord::{Target, TargetSegment, TargetShard};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// Where a value was read, so that a corrupt one can be found.
#[derive(Debug)]
pub(crate) struct Origin {
    table: &'static str,
    row: RowName,
}

/// What a row is called. Numbers become text only when they are told: there are millions of rows.
#[derive(Debug)]
pub(crate) enum RowName {
    Number(i64),
    Text(String),
}

impl From<i64> for RowName {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RowName {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for RowName {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<fmt::Arguments<'_>> for RowName {
    fn from(text: fmt::Arguments<'_>) -> Self {
        Self::Text(text.to_string())
    }
}

impl fmt::Display for RowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Origin {
    pub(crate) fn new(table: &'static str, row: impl Into<RowName>) -> Self {
        Self { table, row: row.into() }
    }

    /// The value of a column, if it makes sense.
    pub(crate) fn read<T, E: fmt::Display>(&self, column: &str, value: Result<T, E>) -> Result<T> {
        value.map_err(|why| Error::Corrupt {
            table: self.table,
            what: format!("row {}, column {column}: {why}", self.row),
        })
    }

    /// A number that is never negative and has its own width.
    pub(crate) fn number<T: TryFrom<i64, Error: fmt::Display>>(&self, column: &str, value: i64) -> Result<T> {
        self.read(column, T::try_from(value))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &str, text: &str) -> Result<T> {
        self.read(column, serde_json::from_str(text))
    }

    pub(crate) fn group_names(&self, column: &str, text: &str) -> Result<BTreeSet<GroupName>> {
        let names: Vec<String> = self.json(column, text)?;
        names.iter().map(|name| self.read(column, GroupName::new(name))).collect()
    }

    pub(crate) fn node_names(&self, column: &str, text: &str) -> Result<BTreeSet<NodeName>> {
        let names: Vec<String> = self.json(column, text)?;
        names.iter().map(|name| self.read(column, NodeName::new(name))).collect()
    }
}

/// A number as the databases take it.
pub(crate) fn int(what: &str, value: u64) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| refusal(format!("{what} {value} is too large for the metastore (at most {})", i64::MAX)))
}

/// A text as the databases take it: PostgreSQL has no NUL.
pub(crate) fn text<'a>(what: &str, value: &'a str) -> Result<&'a str> {
    if value.contains('\0') {
        return Err(refusal(format!("{what} '{}' holds a NUL character", value.escape_debug())));
    }
    Ok(value)
}

pub(crate) fn refusal(message: impl Into<String>) -> Error {
    Refusal::new(ErrorCode::ParameterInvalid, message).into()
}

/// JSON of a value that always has one.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|why| refusal(format!("a value has no stored form: {why}")))
}

pub(crate) fn group_names<'a>(names: impl IntoIterator<Item = &'a GroupName>) -> Result<String> {
    json(&names.into_iter().map(GroupName::as_str).collect::<BTreeSet<_>>())
}

pub(crate) fn node_names<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Result<String> {
    json(&names.into_iter().map(NodeName::as_str).collect::<BTreeSet<_>>())
}

/// Stored form of a [`Column`].
#[derive(Serialize, Deserialize)]
struct StoredColumn {
    name: String,
    data_type: String,
    nullable: bool,
}

pub(crate) fn columns(columns: &[Column]) -> Result<String> {
    let stored = columns.iter().map(|column| StoredColumn {
        name: column.name.clone(),
        data_type: column.data_type.clone(),
        nullable: column.nullable,
    });
    json(&stored.collect::<Vec<_>>())
}

pub(crate) fn read_columns(origin: &Origin, text: &str) -> Result<Vec<Column>> {
    let stored: Vec<StoredColumn> = origin.json("columns", text)?;
    let columns = stored.into_iter().map(|column| Column {
        name: column.name,
        data_type: column.data_type,
        nullable: column.nullable,
    });
    Ok(columns.collect())
}

/// Stored form of [`CollectionOptions`].
#[derive(Serialize, Deserialize)]
struct StoredOptions {
    shards: u32,
    selector: String,
    query_timeout: Option<std::time::Duration>,
    #[serde(default)]
    clusters: Vec<String>,
    #[serde(default)]
    consistent_replicas: bool,
    #[serde(default)]
    fixed_replica: bool,
    #[serde(default)]
    fail_closed: bool,
    #[serde(default)]
    samplers: Vec<(String, u64)>,
    #[serde(default)]
    replica_groups: BTreeMap<u32, Vec<Vec<String>>>,
    #[serde(default)]
    serve_before_promotion: bool,
    #[serde(default)]
    key: Option<String>,
    /// Column and metric.
    #[serde(default)]
    vector_indexes: Vec<(String, String)>,
}

pub(crate) fn options(options: &CollectionOptions) -> Result<String> {
    let routing = &options.routing;
    let groups = |groups: &Vec<Vec<NodeName>>| -> Vec<Vec<String>> {
        groups.iter().map(|nodes| nodes.iter().map(ToString::to_string).collect()).collect()
    };
    json(&StoredOptions {
        shards: options.shards,
        selector: routing.selector.as_str().to_owned(),
        query_timeout: options.query_timeout,
        clusters: options.clusters.iter().map(ToString::to_string).collect(),
        consistent_replicas: routing.consistent_replicas,
        fixed_replica: routing.fixed_replica,
        fail_closed: routing.fail_closed,
        samplers: routing.samplers.iter().map(|one| (one.name.clone(), one.first_n)).collect(),
        replica_groups: routing.replica_groups.iter().map(|(at, of)| (*at, groups(of))).collect(),
        serve_before_promotion: options.serve_before_promotion,
        key: options.key.clone(),
        vector_indexes: (options.vector_indexes.iter())
            .map(|index| (index.column.clone(), index.metric.to_string()))
            .collect(),
    })
}

pub(crate) fn read_options(origin: &Origin, text: &str) -> Result<CollectionOptions> {
    use SelectorKind::{Balanced, MultiStageReplicaGroup, ReplicaGroup, StrictReplicaGroup};
    let stored: StoredOptions = origin.json("options", text)?;
    let kinds = [Balanced, ReplicaGroup, StrictReplicaGroup, MultiStageReplicaGroup];
    let selector = kinds.into_iter().find(|kind| kind.as_str() == stored.selector);
    let selector = selector.ok_or_else(|| format!("there is no selector '{}'", stored.selector));
    let named = |nodes: Vec<String>| nodes.into_iter().map(|name| name.parse()).collect::<Result<_, _>>();
    let groups = |groups: Vec<Vec<String>>| groups.into_iter().map(named).collect::<Result<_, _>>();
    let replica_groups: Result<_, pointsman_ids::Error> =
        stored.replica_groups.into_iter().map(|(at, of)| Ok((at, groups(of)?))).collect();
    let clusters: Result<_, pointsman_ids::Error> =
        stored.clusters.into_iter().map(|name| name.parse()).collect();
    let vector_indexes: Result<_, pointsman_ids::Error> = (stored.vector_indexes.into_iter())
        .map(|(column, metric)| Ok(VectorIndex { column, metric: metric.parse()? }))
        .collect();
    Ok(CollectionOptions {
        key: stored.key,
        vector_indexes: origin.read("options", vector_indexes)?,
        shards: stored.shards,
        query_timeout: stored.query_timeout,
        serve_before_promotion: stored.serve_before_promotion,
        clusters: origin.read("options", clusters)?,
        routing: RoutingOptions {
            selector: origin.read("options", selector)?,
            consistent_replicas: stored.consistent_replicas,
            fixed_replica: stored.fixed_replica,
            fail_closed: stored.fail_closed,
            samplers: (stored.samplers.into_iter())
                .map(|(name, first_n)| Sampler { name, first_n })
                .collect(),
            replica_groups: origin.read("options", replica_groups)?,
        },
    })
}

/// Stored form of a [`Target`].
#[derive(Serialize, Deserialize)]
struct StoredTarget {
    partitions: Vec<String>,
    shards: Vec<StoredShard>,
}

#[derive(Serialize, Deserialize)]
struct StoredShard {
    name: String,
    listed: bool,
    segments: Vec<u64>,
    /// For each segment the place of its partition.
    partitions: Vec<u32>,
}

pub(crate) fn target(target: &Target) -> Result<String> {
    let shard = |shard: &TargetShard| StoredShard {
        name: shard.name.to_string(),
        listed: shard.listed,
        segments: shard.segments.iter().map(|id| id.0).collect(),
        partitions: shard.partitions.clone(),
    };
    json(&StoredTarget {
        partitions: target.partitions.iter().map(ToString::to_string).collect(),
        shards: target.shards.iter().map(shard).collect(),
    })
}

pub(crate) fn read_target(
    origin: &Origin,
    collection: CollectionId,
    version: TargetVersion,
    text: &str,
) -> Result<Target> {
    let stored: StoredTarget = origin.json("content", text)?;
    let names = stored.partitions.iter().map(|name| PartitionName::new(name)).collect::<Result<Vec<_>, _>>();
    let partitions = origin.read("content", names)?;
    let mut listed = Vec::new();
    let mut segments = Vec::new();
    for shard in &stored.shards {
        let name = origin.read("content", ShardName::new(&shard.name))?;
        if shard.segments.len() != shard.partitions.len() {
            let what = format!(
                "shard '{name}' names {} segments and {} partitions",
                shard.segments.len(),
                shard.partitions.len()
            );
            return origin.read("content", Err(what));
        }
        for (id, at) in shard.segments.iter().zip(&shard.partitions) {
            let place = usize::try_from(*at).ok().and_then(|at| partitions.get(at));
            let partition =
                origin.read("content", place.ok_or_else(|| format!("there is no partition {at}")))?;
            let (id, partition, shard) = (SegmentId(*id), partition.clone(), name.clone());
            segments.push(TargetSegment { id, partition, shard });
        }
        if shard.listed {
            listed.push(name);
        }
    }
    Ok(Target::new(collection, version, listed, partitions, segments))
}
