//! What comes out of a question, by the keys under which it may be expected. Beside an error a figure is -1, a map is
//! empty, a status is null.

use std::collections::BTreeMap;

use pointsman_ids::{Error, ReplicaId};
use pointsman_query_coord::{
    LoadStatus,
    answers::{ListedLeader, Readiness, Registered, ShardLeaders},
};
use serde_json::{Map, Value, json};

use super::parse::stores::STATUSES;
use crate::errors;

/// What a step shows.
pub(super) type Shown = Map<String, Value>;

/// The percentage of a group; `None` is -1.
pub(super) fn percentage(told: &Result<Option<u8>, Error>) -> Shown {
    let figure = told.as_ref().ok().copied().flatten();
    shown([("percentage", json!(figure.map_or(-1, i64::from)))], told.as_ref().err())
}

/// The percentage of each replica.
pub(super) fn percentages(told: &Result<BTreeMap<ReplicaId, u8>, Error>) -> Shown {
    let figures = told.iter().flatten().map(|(replica, figure)| (replica.to_string(), json!(figure)));
    shown([("percentages", figures.collect::<Map<_, _>>().into())], told.as_ref().err())
}

/// A verdict.
pub(super) fn readiness(told: &Readiness) -> Shown {
    let unready: Vec<&str> = told.unready_shards.iter().map(|unready| unready.shard.as_str()).collect();
    let values = [
        ("ready", json!(told.is_ready())),
        ("reason", json!(told.reason.as_str())),
        ("total_shards", json!(told.total_shards)),
        ("unready_shards", json!(unready)),
    ];
    shown(values, told.error.as_ref())
}

/// Leaders by shard.
pub(super) fn leaders(told: &Result<Vec<ShardLeaders>, Error>) -> Shown {
    let leader = |leader: &ListedLeader| {
        json!({
            "node": leader.node_id.0,
            "address": leader.address,
            "serviceable": leader.serviceable,
            "resource_group": leader.group.as_str(),
        })
    };
    let shards = told.iter().flatten();
    let shards =
        shards.map(|shard| (shard.shard.to_string(), shard.leaders.iter().map(leader).collect::<Value>()));
    shown([("shards", shards.collect::<Map<_, _>>().into())], told.as_ref().err())
}

/// The stored figure of a collection.
pub(super) fn registered(told: &Result<Registered, Error>) -> Shown {
    let figure = told.as_ref().ok();
    let values = [
        ("percentage", json!(figure.map_or(-1, |figure| i64::from(figure.percentage)))),
        ("status", json!(figure.and_then(|figure| word(figure.status)))),
    ];
    shown(values, told.as_ref().err())
}

fn word(status: LoadStatus) -> Option<&'static str> {
    STATUSES.iter().find(|(_, each)| *each == status).map(|(word, _)| *word)
}

fn shown<const N: usize>(values: [(&str, Value); N], error: Option<&Error>) -> Shown {
    let told = |error: &Error| {
        errors::told(error.code(), error.is_retriable(), error.code().class(), error.message())
    };
    let error = error.map_or(Value::Null, told);
    values.into_iter().chain([("error", error)]).map(|(key, value)| (key.to_owned(), value)).collect()
}
