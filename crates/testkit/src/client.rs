//! A SQL client that sees exactly what the broker answered.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Deadline of queries, and how much longer an answer may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
const SLACK: Duration = Duration::from_secs(15);

/// A client of one broker.
#[derive(Clone, Debug)]
pub struct Sql {
    agent: ureq::Agent,
    url: String,
    deadline: Duration,
}

/// An answer, whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Columns and rows. Absent: there is no result.
    pub result_table: Option<ResultTable>,
    /// What went wrong.
    pub exceptions: Vec<Exception>,
    /// Whether segments are missing from the rows.
    pub partial_result: bool,
    /// Nodes of the final routing.
    pub num_servers_queried: u64,
    /// Those of them that answered completely.
    pub num_servers_responded: u64,
    /// Segments of the final routing.
    pub num_segments_queried: u64,
    /// Time in the broker, milliseconds.
    pub time_used_ms: u64,
    /// The coverage report.
    pub coverage: Value,
    /// Every other field.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Columns and rows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultTable {
    /// Names and types of columns.
    pub data_schema: DataSchema,
    /// Rows.
    pub rows: Vec<Vec<Value>>,
}

/// Names and types of columns, in order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataSchema {
    /// Names.
    pub column_names: Vec<String>,
    /// Types.
    pub column_data_types: Vec<String>,
}

/// One entry of `exceptions`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exception {
    /// The answer's code.
    pub error_code: i64,
    /// Text for people.
    pub message: String,
}

impl Sql {
    /// A client of the broker whose HTTP surface is at `url`. Queries have a deadline of 30 s.
    pub fn new(url: &str) -> Self {
        Self::with_deadline(url, DEADLINE)
    }

    /// The same, with another deadline of queries.
    pub fn with_deadline(url: &str, deadline: Duration) -> Self {
        let config = ureq::Agent::config_builder();
        let config = config.timeout_global(Some(deadline + SLACK)).http_status_as_error(false).build();
        Self { agent: config.into(), url: url.trim_end_matches('/').to_owned(), deadline }
    }

    /// The same with connections of its own, none of which was used before.
    pub fn unpooled(&self) -> Self {
        Self::with_deadline(&self.url, self.deadline)
    }

    /// Asks, and gives the answer as it came, errors and all.
    ///
    /// # Errors
    /// The broker cannot be reached, or its answer is not one.
    pub fn ask(&self, sql: &str) -> anyhow::Result<Answer> {
        let url = format!("{}/query/sql", self.url);
        let options = format!("timeoutMs={}", self.deadline.as_millis());
        let request = json!({ "sql": sql, "queryOptions": options });
        let mut response = self.agent.post(&url).send_json(request).context("no broker answers")?;
        let text = response.body_mut().with_config().limit(1 << 30).read_to_string()?;
        ensure!(response.status() == 200, "HTTP status {}: {text}", response.status());
        serde_json::from_str(&text).with_context(|| format!("not an answer: {text}"))
    }

    /// Asks for a whole answer.
    ///
    /// # Errors
    /// As [`Sql::ask`]; or there are exceptions, or the answer is partial.
    pub fn query(&self, sql: &str) -> anyhow::Result<Answer> {
        let answer = self.ask(sql)?;
        if !answer.exceptions.is_empty() || answer.partial_result {
            bail!("no whole answer: {:?}, coverage {}", answer.exceptions, answer.coverage);
        }
        Ok(answer)
    }

    /// Gets a page of the broker, such as `/health`: its HTTP status and text.
    ///
    /// # Errors
    /// The broker cannot be reached.
    pub fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let mut response = self.agent.get(&format!("{}{path}", self.url)).call()?;
        Ok((response.status().as_u16(), response.body_mut().read_to_string()?))
    }

    /// Posts a JSON text to a path of the broker as it stands: its HTTP status and text.
    ///
    /// # Errors
    /// The broker cannot be reached.
    pub fn post(&self, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let request = self.agent.post(&format!("{}{path}", self.url)).content_type("application/json");
        let mut response = request.send(body)?;
        Ok((response.status().as_u16(), response.body_mut().read_to_string()?))
    }
}

impl Answer {
    /// The rows.
    ///
    /// # Errors
    /// There is no result.
    pub fn rows(&self) -> anyhow::Result<&[Vec<Value>]> {
        let table = self.result_table.as_ref();
        Ok(&table.with_context(|| format!("no result: {:?}", self.exceptions))?.rows)
    }

    /// The rows in a form that can be compared: one text per row, in ascending order, with numbers rounded to nine
    /// digits, since the order in which a sum is taken shows in the last ones.
    ///
    /// # Errors
    /// There is no result.
    pub fn comparable(&self) -> anyhow::Result<Vec<String>> {
        let texts = self.rows()?.iter().map(|row| row.iter().map(text).collect());
        Ok(comparable(texts))
    }

    /// The code of the first exception, if there is one.
    pub fn code(&self) -> Option<i64> {
        self.exceptions.first().map(|exception| exception.error_code)
    }
}

fn text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// What [`Answer::comparable`] makes of its rows, for rows that come from elsewhere. A missing value is an empty text.
pub fn comparable(rows: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    let round = |cell: String| match cell.parse::<f64>() {
        Ok(number) => format!("{number:.8e}"),
        Err(_) => cell,
    };
    let mut rows: Vec<String> =
        rows.into_iter().map(|row| row.into_iter().map(round).collect::<Vec<_>>().join("|")).collect();
    rows.sort();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn order_and_last_digits_do_not_count_but_values_do() {
        let left = comparable([row(&["a", "14.40657264580116"]), row(&["b", "1"])]);
        assert_eq!(left, comparable([row(&["b", "1.0"]), row(&["a", "14.406572645801168"])]));
        assert_ne!(left, comparable([row(&["a", "14.40657264580116"]), row(&["b", "2"])]));
        assert_ne!(left, comparable([row(&["a", "14.4065"]), row(&["b", "1"])]));
    }
}
