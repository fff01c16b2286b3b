//! `POST /v1/search`, `/v1/get` and `/v1/query`: requests by shard.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{State, rejection::BytesRejection},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use pointsman_ids::{Error, ErrorCode, Result};
use pointsman_shard_client::ShardError;

use crate::{
    broker::Broker,
    rows::{ErrorBody, Kind, RowsAnswer, RowsBody, from_json},
};

/// Largest body. 1,024 vectors of 1,536 numbers with 12 digits each take less.
pub(super) const MAX_BODY: usize = 32 << 20;

/// Bodies of this many bytes or more, and answers of this many rows, are read and written beside the threads that serve.
const LONG_BODY: usize = 64 << 10;
const MANY_ROWS: usize = 500;

/// When somebody whose request may succeed later should try again, in seconds, if the error does not say it.
const RETRY_AFTER: u64 = 1;

pub(super) async fn search(
    broker: State<Arc<Broker>>,
    body: std::result::Result<Bytes, BytesRejection>,
) -> Response {
    answer(&broker, Kind::Search, body).await
}

pub(super) async fn get(
    broker: State<Arc<Broker>>,
    body: std::result::Result<Bytes, BytesRejection>,
) -> Response {
    answer(&broker, Kind::Get, body).await
}

pub(super) async fn query(
    broker: State<Arc<Broker>>,
    body: std::result::Result<Bytes, BytesRejection>,
) -> Response {
    answer(&broker, Kind::Query, body).await
}

async fn answer(broker: &Broker, kind: Kind, body: std::result::Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejected) => {
            let text = format!("the body was not taken, it may have {} MiB: {rejected}", MAX_BODY >> 20);
            let error = ShardError::new(ErrorCode::ParameterTooLarge, text);
            return refuse(&error, rejected.status());
        }
    };
    let is_long = body.len() >= LONG_BODY;
    let request = match aside(is_long, move || from_json(kind, &body)).await {
        Ok(request) => request,
        Err(error) => return refuse(&error.into(), StatusCode::BAD_REQUEST),
    };
    let (collection, options) = (request.collection.clone(), request.options.clone());
    let answered = broker.rows.answer(kind, &collection, &options, |entry| request.question(entry)).await;
    match answered {
        Ok(answer) => write(answer).await,
        Err(error) => refuse(&error, status(&error)),
    }
}

async fn write(answer: RowsAnswer) -> Response {
    let is_long = answer.rows.batch().num_rows() >= MANY_ROWS;
    let written = aside(is_long, move || {
        serde_json::to_vec(&RowsBody(&answer)).map_err(|error| {
            let text = format!("a value of the answer cannot be written: {error}");
            Error::new(ErrorCode::ServiceInternal, text)
        })
    });
    match written.await {
        Ok(text) => respond(StatusCode::OK, text),
        Err(error) => refuse(&error.into(), StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn refuse(error: &ShardError, status: StatusCode) -> Response {
    let text = serde_json::to_vec(&ErrorBody::from(error)).unwrap_or_default();
    let mut response = respond(status, text);
    if error.is_retriable() {
        let seconds = error.retry_after().map_or(RETRY_AFTER, |after| crate::millis(after).div_ceil(1000));
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn respond(status: StatusCode, text: Vec<u8>) -> Response {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, json, Body::from(text)).into_response()
}

/// The status of an error.
fn status(error: &ShardError) -> StatusCode {
    match error.code() {
        ErrorCode::CollectionNotFound => StatusCode::NOT_FOUND,
        ErrorCode::ServiceTooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ if error.is_input() => StatusCode::BAD_REQUEST,
        // Nothing is broken: it has to be loaded first.
        ErrorCode::CollectionNotLoaded => StatusCode::SERVICE_UNAVAILABLE,
        _ if error.is_retriable() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Does what may take long beside the threads that serve.
async fn aside<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if !is_long {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panicked| {
        Err(Error::new(ErrorCode::ServiceInternal, format!("the request broke off: {panicked}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_who_has_to_act() {
        for (code, expected) in [
            (ErrorCode::CollectionNotFound, 404),
            (ErrorCode::ParameterInvalid, 400),
            (ErrorCode::ResourceGroupNotFound, 400),
            (ErrorCode::ColumnNotFound, 400),
            (ErrorCode::CollectionNotLoaded, 503),
            (ErrorCode::CollectionNotFullyLoaded, 503),
            (ErrorCode::ServiceUnavailable, 503),
            (ErrorCode::ServiceTooManyRequests, 429),
            (ErrorCode::DeadlineExceeded, 504),
            (ErrorCode::ChannelNotAvailable, 500),
            (ErrorCode::NodeNotAvailable, 500),
            (ErrorCode::Unknown, 500),
        ] {
            assert_eq!(status(&ShardError::new(code, "")).as_u16(), expected, "{code}");
        }
    }
}
