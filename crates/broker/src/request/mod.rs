//! What a client asks: the body of `POST /query/sql` or the parameters of `GET /query/sql`, read in two steps.
//!
//! A body that is no JSON or has no `sql` is refused by HTTP ([`QueryBody::from_json`]); everything after that,
//! options included ([`QueryRequest::parse`]), is answered as a query is.

mod lexer;
mod options;
mod statement;

use pointsman_ids::{Error, ErrorCode, Result};
use serde::Deserialize;

pub(crate) use options::QueryOptions;

/// The request as it came over HTTP. Fields that clients of other systems send besides are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryBody {
    /// The statement, `SET` prefixes and a trailing `OPTION(...)` included. Absent or blank: refused.
    pub(crate) sql: Option<String>,
    /// Options as `k=v;k2=v2`. Absent: none.
    pub(crate) query_options: Option<String>,
    /// Whether the answer should carry `traceInfo`. Absent: no.
    pub(crate) trace: Option<bool>,
}

impl QueryBody {
    /// Reads the body of a POST.
    ///
    /// # Errors
    /// `parameter_invalid` when it is not a JSON object of this form, `parameter_missing` when it has no `sql`.
    pub(crate) fn from_json(body: &[u8]) -> Result<Self> {
        let body: Self = serde_json::from_slice(body).map_err(|error| {
            let text =
                format!("the body is not a JSON object with `sql`, `queryOptions` and `trace`: {error}");
            Error::new(ErrorCode::ParameterInvalid, text)
        })?;
        body.checked()
    }

    /// Refuses a request without a statement.
    ///
    /// # Errors
    /// `parameter_missing`.
    pub(crate) fn checked(self) -> Result<Self> {
        if self.sql.as_deref().is_none_or(|sql| sql.trim().is_empty()) {
            return Err(Error::new(
                ErrorCode::ParameterMissing,
                "`sql` is missing: send {\"sql\": \"SELECT ...\"}",
            ));
        }
        Ok(self)
    }
}

/// One statement with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryRequest {
    /// The statement alone.
    pub(crate) sql: String,
    /// What the client wants besides.
    pub(crate) options: QueryOptions,
    /// Whether the answer should carry `traceInfo`.
    pub(crate) trace: bool,
}

impl QueryRequest {
    /// Takes the options out of their three places. Where one is given more than once, `SET` wins over `OPTION(...)`,
    /// that wins over `queryOptions`, and in one place the last wins.
    ///
    /// # Errors
    /// `sql_invalid` for a `SET` that is none, `parameter_invalid` for a bad value of a known option.
    pub(crate) fn parse(body: &QueryBody) -> Result<Self> {
        let parts = statement::split(body.sql.as_deref().unwrap_or_default())?;
        let mut options = QueryOptions::default();
        if let Some(text) = &body.query_options {
            options.apply_all(&statement::option_list(text, ';')?)?;
        }
        options.apply_all(&parts.trailing)?;
        options.apply_all(&parts.leading)?;
        Ok(Self { sql: parts.sql.to_owned(), options, trace: body.trace.unwrap_or(false) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(sql: &str, options: &str) -> Result<QueryRequest> {
        QueryRequest::parse(&QueryBody {
            sql: Some(sql.into()),
            query_options: Some(options.into()),
            trace: None,
        })
    }

    #[test]
    fn a_body_without_a_statement_is_refused() {
        for (body, code) in [
            ("", ErrorCode::ParameterInvalid),
            ("SELECT 1", ErrorCode::ParameterInvalid),
            ("[1]", ErrorCode::ParameterInvalid),
            (r#"{"sql": 1}"#, ErrorCode::ParameterInvalid),
            ("{}", ErrorCode::ParameterMissing),
            (r#"{"sql": null}"#, ErrorCode::ParameterMissing),
            (r#"{"sql": " "}"#, ErrorCode::ParameterMissing),
        ] {
            assert_eq!(QueryBody::from_json(body.as_bytes()).unwrap_err().code(), code, "{body}");
        }
    }

    #[test]
    fn only_the_statement_is_required_and_other_fields_are_ignored() {
        let body =
            QueryBody::from_json(br#"{"sql": "SELECT 1", "startTime": 5, "queryOptions": null}"#).unwrap();
        let request = QueryRequest::parse(&body).unwrap();
        assert_eq!((request.sql.as_str(), request.trace), ("SELECT 1", false));
        assert_eq!(request.options, QueryOptions::default());
    }

    #[test]
    fn set_wins_over_option_and_that_over_query_options() {
        let timeout = |sql: &str, options: &str| request(sql, options).unwrap().options.timeout.unwrap();
        let ms = Duration::from_millis;
        assert_eq!(timeout("SELECT 1", "timeoutMs=1;timeoutMs=2"), ms(2));
        assert_eq!(timeout("SELECT 1 OPTION(timeoutMs='3')", "timeoutMs=1"), ms(3));
        assert_eq!(timeout("SET timeoutMs = 4; SELECT 1 OPTION(timeoutMs=3)", "timeoutMs=1"), ms(4));
    }

    #[test]
    fn a_bad_value_of_a_known_option_is_refused_wherever_it_stands() {
        for (sql, options) in [
            ("SELECT 1", "timeoutMs=soon"),
            ("SET timeoutMs = 'soon'; SELECT 1", ""),
            ("SELECT 1 option(timeoutMs=soon)", ""),
        ] {
            let error = request(sql, options).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ParameterInvalid);
            assert!(error.message().contains("timeoutMs") && error.message().contains("soon"), "{error}");
        }
    }
}
