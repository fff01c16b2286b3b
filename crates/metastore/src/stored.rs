//! Plain values in and out of columns.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use pointsman_ids::{
    Error as Refusal, ErrorCode, NodeName,
    catalog::{CollectionOptions, Column, RoutingOptions, Sampler, SelectorKind},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// Where a value was read, so that a corrupt one can be found.
#[derive(Debug)]
pub(crate) struct Origin {
    table: &'static str,
    row: String,
}

impl Origin {
    pub(crate) fn new(table: &'static str, row: impl fmt::Display) -> Self {
        Self { table, row: row.to_string() }
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
    Ok(CollectionOptions {
        shards: stored.shards,
        query_timeout: stored.query_timeout,
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
