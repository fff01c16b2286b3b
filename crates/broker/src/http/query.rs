//! `POST /query/sql` and `GET /query/sql`.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{
        Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use pointsman_ids::{Error, ErrorCode};

use crate::{
    answer::{Answer, http_status},
    broker::Broker,
    request::QueryBody,
};

/// Request header: `true` asks for the HTTP status of the first exception instead of 200.
const USE_STATUS: &str = "Pointsman-Use-Http-Status-For-Errors";
/// Response header: the first exception's code, -1 without one.
const ERROR_CODE: &str = "X-Pointsman-Error-Code";

/// Answers with this many rows or more are written beside the threads that serve.
const MANY_ROWS: u64 = 1000;

/// A query in a JSON body.
pub(super) async fn post(
    State(broker): State<Arc<Broker>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    match body {
        Ok(body) => answer(&broker, &headers, QueryBody::from_json(&body)).await,
        Err(rejected) => {
            let error =
                Error::new(ErrorCode::ParameterTooLarge, format!("the body was not taken: {rejected}"));
            write(broker.queries.refuse(&error), rejected.status()).await
        }
    }
}

/// A query in the parameters `sql`, `queryOptions` and `trace`.
pub(super) async fn get(
    State(broker): State<Arc<Broker>>,
    headers: HeaderMap,
    parameters: Result<Query<QueryBody>, QueryRejection>,
) -> Response {
    let body = match parameters {
        Ok(Query(body)) => body.checked(),
        Err(rejected) => Err(Error::new(ErrorCode::ParameterInvalid, rejected.to_string())),
    };
    answer(&broker, &headers, body).await
}

async fn answer(broker: &Broker, headers: &HeaderMap, body: pointsman_ids::Result<QueryBody>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return write(broker.queries.refuse(&error), StatusCode::BAD_REQUEST).await,
    };
    match broker.queries.answer(&body).await {
        Ok(answer) => {
            let status = if wants_status(headers) { http_status(answer.error_code()) } else { 200 };
            write(answer, StatusCode::from_u16(status).unwrap_or(StatusCode::OK)).await
        }
        Err(uncaught) => write(*uncaught.0, StatusCode::INTERNAL_SERVER_ERROR).await,
    }
}

fn wants_status(headers: &HeaderMap) -> bool {
    let value = headers.get(USE_STATUS).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

async fn write(answer: Answer, status: StatusCode) -> Response {
    let code = answer.error_code();
    let (request_id, client_request_id) = (answer.request_id.clone(), answer.client_request_id.clone());
    let broker_id = answer.broker_id.clone();
    match json(answer).await {
        Ok(text) => respond(status, code, text),
        Err(error) => {
            tracing::info!(query = request_id, "an answer holds a value that has no text");
            let failed =
                Answer { request_id, client_request_id, broker_id, ..Answer::failed((&error).into()) };
            let text = serde_json::to_vec(&failed).unwrap_or_default();
            respond(status, failed.error_code(), text)
        }
    }
}

fn respond(status: StatusCode, code: i32, text: Vec<u8>) -> Response {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, json, [(ERROR_CODE, HeaderValue::from(code))], Body::from(text)).into_response()
}

/// Writes an answer as JSON, a long one beside the threads that serve.
///
/// # Errors
/// `service_internal` when a value has no text.
async fn json(answer: Answer) -> pointsman_ids::Result<Vec<u8>> {
    let internal = |why: String| {
        Error::new(ErrorCode::ServiceInternal, format!("a value of the answer cannot be written: {why}"))
    };
    let is_long = answer.num_rows_result_set >= MANY_ROWS;
    let write = move || serde_json::to_vec(&answer).map_err(|error| internal(error.to_string()));
    if is_long {
        tokio::task::spawn_blocking(write)
            .await
            .unwrap_or_else(|panicked| Err(internal(panicked.to_string())))
    } else {
        write()
    }
}
