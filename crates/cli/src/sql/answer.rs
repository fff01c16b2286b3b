//! The broker's answer.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::output::count;

/// What the command line reads of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Rows; absent when there is no result.
    pub result_table: Option<ResultTable>,
    /// What went wrong; empty when all is well.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
    /// Whether rows may be missing.
    #[serde(default)]
    pub partial_result: bool,
    /// Nodes of the final routing.
    #[serde(default)]
    pub num_servers_queried: u64,
    /// Those of them that answered completely.
    #[serde(default)]
    pub num_servers_responded: u64,
    /// Segments of the final routing.
    #[serde(default)]
    pub num_segments_queried: u64,
    /// Segments that were answered.
    #[serde(default)]
    pub num_segments_processed: u64,
    /// Segments that statistics ruled out.
    #[serde(default)]
    pub num_segments_pruned_by_broker: u64,
    /// Segments that were asked for, those that nobody could serve among them; empty unless asked for.
    #[serde(default)]
    pub coverage: Coverage,
    /// The whole query, in milliseconds.
    #[serde(default)]
    pub time_used_ms: u64,
}

/// What the command line reads of the coverage report.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Coverage {
    /// Segments that were asked for. Absent: the answer carries no report.
    pub segments_asked: Option<u64>,
    /// Those of them that were answered.
    #[serde(default)]
    pub segments_answered: u64,
    /// Those for which an excluded node was asked, since nothing healthy held them.
    #[serde(default)]
    pub segments_fail_open: u64,
    /// The first of those that nobody answered for.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
}

/// A segment that nobody answered for.
#[derive(Clone, Debug, Deserialize)]
pub struct Unavailable {
    /// Its collection.
    pub collection: String,
    /// Its name.
    pub segment: String,
    /// Why, in one word of the API.
    pub cause: String,
    /// The nodes concerned, as `cluster/node`.
    #[serde(default)]
    pub nodes: Vec<String>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is unavailable: {}", self.collection, self.segment, self.cause.replace('_', " "))?;
        match self.nodes.as_slice() {
            [] => Ok(()),
            nodes => write!(f, " ({})", nodes.join(", ")),
        }
    }
}

/// Rows and what they are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultTable {
    /// Names and types of the columns.
    pub data_schema: Schema,
    /// Values, row by row.
    pub rows: Vec<Vec<Value>>,
}

/// Names and types of columns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    /// Names, in order.
    pub column_names: Vec<String>,
    /// Types, in the same order.
    pub column_data_types: Vec<String>,
}

/// Something that went wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exception {
    /// Number of the answer code.
    pub error_code: i32,
    /// For people.
    pub message: String,
}

impl Answer {
    /// Whether every row is there and nothing went wrong.
    pub fn is_complete(&self) -> bool {
        self.exceptions.is_empty() && !self.partial_result
    }

    /// How complete the answer is and how long it took, on one line.
    pub fn coverage(&self) -> String {
        let rows = self.result_table.as_ref().map_or(0, |table| table.rows.len());
        let (asked, answered) = match self.coverage.segments_asked {
            Some(asked) => (asked, self.coverage.segments_answered),
            // Does not count those that nobody could serve.
            None => (self.num_segments_queried, self.num_segments_processed),
        };
        let mut line = format!(
            "{} in {} ms; {answered} of {} answered by {}",
            count(rows as u64, "row"),
            self.time_used_ms,
            count(asked, "segment"),
            count(self.num_servers_responded, "node"),
        );
        if self.num_segments_pruned_by_broker > 0 {
            line += &format!(", {} pruned", self.num_segments_pruned_by_broker);
        }
        if self.coverage.segments_fail_open > 0 {
            line += &format!(", {} asked of excluded nodes", self.coverage.segments_fail_open);
        }
        if self.partial_result {
            line += "; PARTIAL: rows may be missing";
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_as_the_query_surface_writes_it() {
        let text = r#"{"resultTable": {"dataSchema": {"columnNames": ["n"], "columnDataTypes": ["LONG"]},
            "rows": [[1], [2]]}, "exceptions": [], "partialResult": false, "numServersQueried": 4,
            "numServersResponded": 4, "numSegmentsQueried": 24, "numSegmentsProcessed": 24, "timeUsedMs": 34,
            "somethingNew": {}}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert!(answer.is_complete());
        assert_eq!(answer.coverage(), "2 rows in 34 ms; 24 of 24 segments answered by 4 nodes");
    }

    #[test]
    fn segments_that_nobody_could_serve_count_as_asked() {
        let text = r#"{"exceptions": [], "numSegmentsQueried": 2, "numSegmentsProcessed": 2, "numServersResponded": 2,
            "coverage": {"segments_asked": 4, "segments_answered": 2, "nodes_asked": 2}}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert_eq!(answer.coverage(), "0 rows in 0 ms; 2 of 4 segments answered by 2 nodes");
        let text = text.replace(r#""nodes_asked": 2"#, r#""segments_fail_open": 1"#);
        let answer: Answer = serde_json::from_str(&text).unwrap();
        let line = "0 rows in 0 ms; 2 of 4 segments answered by 2 nodes, 1 asked of excluded nodes";
        assert_eq!(answer.coverage(), line);
    }

    #[test]
    fn an_unavailable_segment_is_told_with_its_cause_and_nodes() {
        let text = r#"{"exceptions": [], "coverage": {"segments_asked": 1, "unavailable": [
            {"collection": "t", "segment": "s1", "cause": "retries_used_up", "nodes": ["local/n1", "local/n2"]},
            {"collection": "t", "segment": "s2", "cause": "no_candidate", "nodes": []}]}}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        let told: Vec<String> = answer.coverage.unavailable.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "t: s1 is unavailable: retries used up (local/n1, local/n2)",
                "t: s2 is unavailable: no candidate"
            ]
        );
    }

    #[test]
    fn a_partial_answer_is_never_called_complete() {
        let text = r#"{"exceptions": [], "partialResult": true, "numSegmentsQueried": 1, "numSegmentsPrunedByBroker": 2}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert!(!answer.is_complete());
        let line =
            "0 rows in 0 ms; 0 of 1 segment answered by 0 nodes, 2 pruned; PARTIAL: rows may be missing";
        assert_eq!(answer.coverage(), line);
    }
}
