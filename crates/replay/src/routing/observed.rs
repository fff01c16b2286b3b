//! What a step shows, by the keys under which it may be expected.

use std::fmt::Display;

use pointsman_ids::{AnswerCode, Error, ErrorCode, UnavailableCause};
use pointsman_routing::{Core, RoutedPart, RoutingTable, Sample};
use serde_json::{Map, Value, json};

use super::{metrics, names::Names};

/// The state that every step shows.
pub(super) fn state(core: &Core, names: &Names, samples: &[Sample]) -> Map<String, Value> {
    let view = core.view();
    let unhealthy: Vec<_> = view.exclusions().keys().map(ToString::to_string).collect();
    // A cluster whose manager is down routes nothing.
    let mut routable: Map<String, Value> =
        names.clusters.iter().map(|cluster| (cluster.to_string(), json!([]))).collect();
    for (cluster, nodes) in view.routable() {
        let nodes: Vec<_> = nodes.iter().map(|key| key.node.as_str()).collect();
        routable.insert(cluster.to_string(), json!(nodes));
    }
    let mut state = Map::new();
    state.insert("unhealthy".to_owned(), unhealthy.into());
    state.insert("routable".to_owned(), routable.into());
    state.insert("metrics".to_owned(), metrics::all(samples).into());
    state
}

/// What a request came to. Beside an error nothing is served and nothing is missing.
pub(super) fn selection(routed: Result<RoutingTable, Error>, names: &Names) -> Map<String, Value> {
    let (table, error) = match &routed {
        Ok(table) => (Some(table), None),
        Err(error) => (None, Some(error)),
    };
    let mut shown = Map::new();
    let mut show = |key: &str, value: Value| drop(shown.insert(key.to_owned(), value));
    show("served", picks(table, names, |part| &part.segments));
    show("optional", picks(table, names, |part| &part.optional));
    show("unavailable", unavailable(table, |cause| cause != UnavailableCause::OutsideReplicaGroups));
    show(
        "outside_replica_groups",
        unavailable(table, |cause| cause == UnavailableCause::OutsideReplicaGroups),
    );
    show("fail_open", segments(table, |table| &table.fail_open));
    show("new", segments(table, |table| &table.new));
    show("optional_skipped", segments(table, |table| &table.optional_skipped));
    show("unknown", json!(table.map_or(0, |table| table.unknown)));
    show("error", self::error(error));
    shown
}

fn picks(table: Option<&RoutingTable>, names: &Names, of: impl Fn(&RoutedPart) -> &[u32]) -> Value {
    let mut picks = Map::new();
    let parts = table.into_iter().flat_map(|table| table.parts.iter().map(move |part| (table, part)));
    for (table, part) in parts {
        let node = names.outcome(&part.node.key.cluster, &part.node.key.node);
        let segments = of(part).iter().filter_map(|at| table.segment_name(*at));
        picks.extend(segments.map(|segment| (segment.to_string(), node.clone().into())));
    }
    picks.into()
}

fn unavailable(table: Option<&RoutingTable>, counts: impl Fn(UnavailableCause) -> bool) -> Value {
    let gaps = table.into_iter().flat_map(|table| &table.unavailable);
    let names: Vec<_> = gaps.filter(|gap| counts(gap.cause)).map(|gap| gap.name.to_string()).collect();
    names.into()
}

fn segments(table: Option<&RoutingTable>, of: impl Fn(&RoutingTable) -> &[u32]) -> Value {
    let names = table.into_iter().flat_map(|table| of(table).iter().filter_map(|at| table.segment_name(*at)));
    names.map(ToString::to_string).collect::<Vec<_>>().into()
}

/// An error with the code of the answer; null without one.
pub(super) fn error(error: Option<&Error>) -> Value {
    error.map_or(
        Value::Null,
        |error| json!({"code": AnswerCode::from(error.code()).number(), "text": error.message()}),
    )
}

/// What a scenario must not ask for, so that it comes to an end.
pub(super) fn too_much(what: impl Display) -> Error {
    Error::new(ErrorCode::ParameterInvalid, what.to_string())
}
