//! `GET /debug/route`: how a statement, or a request for segments of a collection, would be routed, and why.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use pointsman_ids::{
    AnswerCode, CollectionName, Error, ErrorCode, Result, SegmentName, feed::CollectionEntry,
};
use pointsman_routing::{RoutingView, Wanted};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::debug::error_body;
use crate::{
    broker::Broker,
    request::{QueryBody, QueryOptions},
    route::{SegmentReason, reasons},
};

/// Routing tables with reasons, for `sql` or for a `collection` with `segment` any number of times; `queryOptions` and
/// `request_id` besides.
pub(super) async fn route(State(broker): State<Arc<Broker>>, RawQuery(query): RawQuery) -> Response {
    let explained = async {
        let asked = Asked::read(query.as_deref().unwrap_or_default())?;
        match &asked.what {
            What::Sql(body) => sql(&broker, &asked, body).await,
            What::Collection { name, segments } => collection(&broker, &asked, name, segments),
        }
    };
    match explained.await {
        Ok(page) => Json(page).into_response(),
        Err(error) => refuse(&broker, &error),
    }
}

/// What the address asks for.
struct Asked {
    what: What,
    options: QueryOptions,
    /// `None`: the next of the collection's own counter.
    request_id: Option<u64>,
}

enum What {
    Sql(QueryBody),
    Collection { name: String, segments: Vec<SegmentName> },
}

impl Asked {
    fn read(query: &str) -> Result<Self> {
        let (mut body, mut collection, mut segments, mut request_id) =
            (QueryBody::default(), None, vec![], None);
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "sql" => body.sql = Some(value.into_owned()),
                "queryOptions" => body.query_options = Some(value.into_owned()),
                "collection" => collection = Some(value.into_owned()),
                "segment" => segments.push(SegmentName::new(&value)?),
                "request_id" => request_id = Some(number(&value)?),
                _ => {}
            }
        }
        let options = QueryOptions::read(body.query_options.as_deref().unwrap_or_default())?;
        let what = match (collection, &body.sql) {
            (Some(name), None) => What::Collection { name, segments },
            (None, Some(_)) => What::Sql(body.checked()?),
            (Some(_), Some(_)) => {
                let text = "`sql` and `collection` stand both; name one of them";
                return Err(Error::new(ErrorCode::ParameterInvalid, text));
            }
            (None, None) => {
                let text =
                    "name either `sql=SELECT ...` or `collection=NAME`, with `segment=NAME` for some of it";
                return Err(Error::new(ErrorCode::ParameterMissing, text));
            }
        };
        Ok(Self { what, options, request_id })
    }
}

fn number(value: &str) -> Result<u64> {
    value.parse().map_err(|_| {
        let text = format!("`request_id` = '{}' is not a number of at least 0", value.escape_debug());
        Error::new(ErrorCode::ParameterInvalid, text)
    })
}

async fn sql(broker: &Broker, asked: &Asked, body: &QueryBody) -> Result<Value> {
    let scans = broker.queries.asked(body).await?;
    let view = &scans.view;
    let table = |(name, positions): (&CollectionName, &Vec<u32>)| {
        scan(broker, view, &scans.options, name.as_str(), Wanted::Positions(positions), asked.request_id)
    };
    let tables = scans.positions.iter().map(table).collect::<Result<Vec<_>>>()?;
    Ok(page(view, tables))
}

fn collection(broker: &Broker, asked: &Asked, name: &str, segments: &[SegmentName]) -> Result<Value> {
    let view = broker.routing.view();
    if view.collection(name).is_none() {
        let text = format!("there is no collection '{}'", name.escape_debug());
        return Err(Error::new(ErrorCode::CollectionNotFound, text));
    }
    let wanted = if segments.is_empty() { Wanted::All } else { Wanted::Names(segments) };
    let table = scan(broker, &view, &asked.options, name, wanted, asked.request_id)?;
    Ok(page(&view, vec![table]))
}

fn scan(
    broker: &Broker,
    view: &RoutingView,
    options: &QueryOptions,
    name: &str,
    wanted: Wanted<'_>,
    request_id: Option<u64>,
) -> Result<Value> {
    let entry = view.collection(name);
    let next = || entry.map(|entry| view.next_request_id(entry));
    let request_id = request_id.or_else(next).unwrap_or_default();
    let segments = reasons(view, &options.route(name, wanted, request_id), broker.now())?;
    let known = entry.map_or(0, |entry| entry.segments.len());
    let pruned = match wanted {
        Wanted::Positions(positions) => known.saturating_sub(positions.len()),
        _ => 0,
    };
    let clusters: BTreeMap<_, _> =
        view.clusters().map(|(cluster, snapshot)| (cluster, snapshot.is_some())).collect();
    let spanned = entry.iter().flat_map(|entry| &entry.clusters);
    let not_connected = spanned.filter(|cluster| clusters.get(cluster) != Some(&true));
    Ok(json!({
        "collection": name,
        "selector": entry.map(|entry| entry.routing.selector.as_str()),
        "request_id": request_id,
        "pruned": pruned,
        "unknown": unknown(entry.map(AsRef::as_ref), wanted),
        "not_connected": not_connected.map(|cluster| cluster.as_str()).collect::<Vec<_>>(),
        "parts": parts(&segments),
        "segments": segments,
    }))
}

/// Segments that are asked for by name and that the collection does not have.
fn unknown<'a>(entry: Option<&CollectionEntry>, wanted: Wanted<'a>) -> Vec<&'a str> {
    let Wanted::Names(names) = wanted else { return vec![] };
    let has = |name: &&str| {
        entry.is_some_and(|entry| entry.segments.iter().any(|segment| segment.name.as_str() == *name))
    };
    names.iter().map(SegmentName::as_str).filter(|name| !has(name)).collect()
}

/// What each node is asked for, by cluster and name.
fn parts(segments: &[SegmentReason]) -> Vec<Value> {
    let mut parts: BTreeMap<(&str, &str), BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for reason in segments {
        if let Some(node) = &reason.node {
            let part = parts.entry((&reason.cluster, node)).or_default();
            part.entry(reason.outcome).or_default().push(&reason.segment);
        }
    }
    let part = |((cluster, node), segments): ((&str, &str), BTreeMap<&str, Vec<&str>>)| {
        let of = |outcome: &str| segments.get(outcome).cloned().unwrap_or_default();
        json!({
            "node": format!("{cluster}/{node}"),
            "segments": of("served"),
            "fail_open": of("fail_open"),
            "optional": of("optional"),
        })
    };
    parts.into_iter().map(part).collect()
}

fn page(view: &RoutingView, scans: Vec<Value>) -> Value {
    let fail_open = view.fail_open();
    json!({
        "cluster": view.cluster().as_str(),
        "feed_version": view.snapshot().version.0,
        "fail_open": {
            "enabled": fail_open.enabled, "multi_stage": fail_open.multi_stage, "strict": fail_open.strict,
        },
        "scans": scans,
    })
}

/// The error, and the collections that there are when one is not.
fn refuse(broker: &Broker, error: &Error) -> Response {
    let status = AnswerCode::from(error.code()).http_status();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let view = broker.routing.view();
    let known: Vec<_> = match error.code() {
        ErrorCode::CollectionNotFound => view.collections().map(|entry| entry.name.to_string()).collect(),
        _ => vec![],
    };
    (status, Json(json!({"error": error_body(error), "known": known}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_statement_or_a_collection() {
        let asked =
            Asked::read("collection=t&segment=a&segment=b&queryOptions=sampler%3Dfew&request_id=7").unwrap();
        let What::Collection { name, segments } = asked.what else { panic!("a collection") };
        assert_eq!((name.as_str(), segments.len(), asked.request_id), ("t", 2, Some(7)));
        assert_eq!(asked.options.sampler.as_deref(), Some("few"));
        assert!(matches!(Asked::read("sql=SELECT+1").unwrap().what, What::Sql(_)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let code = |query| Asked::read(query).err().map(|error| error.code());
        for query in ["", "sql=&x=1"] {
            assert_eq!(code(query), Some(ErrorCode::ParameterMissing), "{query}");
        }
        for query in [
            "sql=SELECT+1&collection=t",
            "collection=t&request_id=-1",
            "collection=t&queryOptions=useFixedReplica%3D7",
        ] {
            assert_eq!(code(query), Some(ErrorCode::ParameterInvalid), "{query}");
        }
    }
}
