//! The HTTP answer: fields, types, codes and the text of exceptions.

mod cells;
mod coverage;
mod exceptions;
mod table;
mod types;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub(crate) use cells::{Cell, Column as CellColumn};
pub(crate) use coverage::CoverageBody;
pub(crate) use exceptions::{Exception, Exceptions, http_status};
pub(crate) use table::ResultTable;

/// One answer, as clients read it. Fields keep the names that clients of the query surface know.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// Columns and rows. Absent, not null, when there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result_table: Option<ResultTable>,
    /// What went wrong; empty when all is well.
    pub(crate) exceptions: Vec<Exception>,
    /// Whether a segment that was asked for is not in the rows, or a limit cut them.
    pub(crate) partial_result: bool,
    /// Distinct nodes of the final routing.
    pub(crate) num_servers_queried: u64,
    /// Those of them that answered completely.
    pub(crate) num_servers_responded: u64,
    /// Segments of the final routing.
    pub(crate) num_segments_queried: u64,
    /// Those of them that were answered.
    pub(crate) num_segments_processed: u64,
    /// Those of them with at least one matching row.
    pub(crate) num_segments_matched: u64,
    /// Segments that statistics ruled out.
    pub(crate) num_segments_pruned_by_broker: u64,
    /// Rows that the scans gave out.
    pub(crate) num_docs_scanned: u64,
    /// Rows of the segments that were queried.
    pub(crate) total_docs: u64,
    /// Always 0: the engine does not count by entry.
    pub(crate) num_entries_scanned_in_filter: u64,
    /// Always 0: the engine does not count by entry.
    pub(crate) num_entries_scanned_post_filter: u64,
    /// Always false: the engine has no limit on groups that it would cut a result at. Clients take its absence for
    /// doubt.
    pub(crate) num_groups_limit_reached: bool,
    /// Milliseconds from the request's arrival to the answer.
    pub(crate) time_used_ms: u64,
    /// Milliseconds from the first rows to the last.
    pub(crate) broker_reduce_time_ms: u64,
    /// Rows in the table.
    pub(crate) num_rows_result_set: u64,
    /// The broker's name of the query.
    pub(crate) request_id: String,
    /// The client's name of the query.
    pub(crate) client_request_id: Option<String>,
    /// The broker's name.
    pub(crate) broker_id: String,
    /// Collections that the query reads, ascending.
    pub(crate) tables_queried: Vec<String>,
    /// Pools of the nodes queried, ascending.
    pub(crate) pools: Vec<i32>,
    /// How the query was run; empty unless asked for.
    pub(crate) trace_info: BTreeMap<&'static str, Value>,
    /// Which segments the rows stand for.
    pub(crate) coverage: CoverageBody,
}

impl Answer {
    /// An answer that is nothing but these exceptions.
    pub(crate) fn failed(exceptions: Exceptions) -> Self {
        Self { exceptions: exceptions.into_list(), ..Self::default() }
    }

    /// Value of the header `X-Pointsman-Error-Code`: the first exception's code, -1 without one.
    pub(crate) fn error_code(&self) -> i32 {
        self.exceptions.first().map_or(-1, |first| first.error_code)
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{Error, ErrorCode};
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_there_but_the_table() {
        let mut exceptions = Exceptions::default();
        exceptions.push(&Error::new(ErrorCode::CollectionNotFound, "no collection 'x'"));
        let answer = Answer { request_id: "7".into(), broker_id: "b".into(), ..Answer::failed(exceptions) };
        let expected = json!({
            "exceptions": [{"errorCode": 190, "message": "no collection 'x'"}],
            "partialResult": false,
            "numServersQueried": 0, "numServersResponded": 0,
            "numSegmentsQueried": 0, "numSegmentsProcessed": 0, "numSegmentsMatched": 0,
            "numSegmentsPrunedByBroker": 0,
            "numDocsScanned": 0, "totalDocs": 0,
            "numEntriesScannedInFilter": 0, "numEntriesScannedPostFilter": 0,
            "numGroupsLimitReached": false,
            "timeUsedMs": 0, "brokerReduceTimeMs": 0, "numRowsResultSet": 0,
            "requestId": "7", "clientRequestId": null, "brokerId": "b",
            "tablesQueried": [], "pools": [], "traceInfo": {},
            "coverage": {
                "segments_asked": 0, "segments_answered": 0, "segments_unavailable": 0, "segments_fail_open": 0,
                "left_out": {"pruned": 0, "unknown": 0, "new": 0, "optional_skipped": 0},
                "nodes_asked": 0, "nodes_answered": 0, "nodes_failed": 0,
                "routing_age": {}, "unavailable": [], "fail_open": [],
            },
        });
        assert_eq!(serde_json::to_value(&answer).unwrap(), expected);
        assert_eq!(answer.error_code(), 190);
        assert_eq!(Answer::default().error_code(), -1);
    }
}
