//! The Python client `pinotdb`: what it checks, and, where it is installed, itself.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, anyhow, bail, ensure};
use pointsman_testkit::{Cluster, Sql, eventually};
use serde_json::{Value, json};

use super::LIMIT;

/// Queries whose answers are exact, with numbers, text and instants.
const QUERIES: [&str; 3] = [
    "SELECT l_returnflag, count(*), min(l_shipdate) FROM lineitem GROUP BY l_returnflag ORDER BY l_returnflag",
    "SELECT count(*) FROM orders WHERE o_totalprice > 100000",
    "SELECT n_name, count(*) FROM orders JOIN customer ON o_custkey = c_custkey \
     JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name ORDER BY n_name",
];

/// Asks, in both ways that the client has, until its standard input ends, each query once at least, and prints how often, what was raised, and which answers differed.
const SCRIPT: &str = r#"
import json, sys, threading
import pinotdb
port, queries = int(sys.argv[1]), sys.argv[2:]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
cursor = pinotdb.connect(host="127.0.0.1", port=port, timeout=60).cursor()
asked, raised, differed, first = 0, [], [], {}
while not ended.is_set() or asked < len(queries):
    query = queries[asked % len(queries)]
    asked += 1
    try:
        cursor.execute_native(query, query_options="timeoutMs=30000")
        rows = [list(map(str, row)) for row in cursor.execute(query, queryOptions="timeoutMs=30000").fetchall()]
        if first.setdefault(query, rows) != rows:
            differed.append(rows)
    except pinotdb.exceptions.DatabaseError as error:
        raised.append(str(error))
print(json.dumps({"asked": asked, "raised": raised, "differed": differed}))
"#;

/// BR-11: clients that check every answer as pinotdb does read whole and equal answers while nodes die one by one, and
/// raise their error when an answer is partial, and only then.
#[test]
fn pinotdb_reads_whole_answers_while_nodes_die() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    let real = is_installed();
    println!(
        "pinotdb: {}",
        if real { "its contract and the client itself" } else { "its contract; python3 has no pinotdb" }
    );
    let contract = Contract::start(cluster.sql())?;
    let mut client = real.then(|| Client::start(&cluster)).transpose()?;
    for name in cluster.node_names() {
        cluster.kill_node(&name)?;
        contract.wait_for_more(QUERIES.len())?;
        cluster.restart_node(&name)?;
        super::wait_whole(&cluster)?;
    }
    contract.finish()?;
    if let Some(client) = client.take() {
        let told = client.finish()?;
        println!("pinotdb asked {} queries", told["asked"]);
        ensure!(told["raised"] == json!([]) && told["differed"] == json!([]), "{told}");
    }

    for name in cluster.node_names() {
        cluster.kill_node(&name)?;
    }
    for query in QUERIES {
        let (status, text) = ask(&cluster.sql(), query)?;
        let answer: Value = serde_json::from_str(&text)?;
        ensure!(read(status, &text).is_err(), "the client would read {text}");
        ensure!(answer["partialResult"] == true || answer.get("resultTable").is_none(), "{text}");
    }
    if real {
        let told = Client::start(&cluster)?.finish()?;
        let raised = told["raised"].as_array().map_or(0, Vec::len);
        ensure!(raised > 0 && told["asked"] == raised, "not an error for every answer: {told}");
    }
    Ok(())
}

/// Whether Python has the client.
fn is_installed() -> bool {
    let python = Command::new("python3").args(["-c", "import pinotdb"]).stderr(Stdio::null()).status();
    python.is_ok_and(|status| status.success())
}

/// The real client in a process of its own.
struct Client(Child);

impl Client {
    fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let port = cluster.ready().broker.http.rsplit(':').next().context("a port")?.trim_end_matches('/');
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, port]).args(QUERIES);
        Ok(Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?))
    }

    /// Lets it end, and gives what it printed.
    fn finish(mut self) -> anyhow::Result<Value> {
        if let Some(mut input) = self.0.stdin.take() {
            input.flush()?;
        }
        let output = self.0.wait_with_output()?;
        ensure!(output.status.success(), "python3 ended with {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// A client that does nothing but what pinotdb does with an answer, over and over.
struct Contract {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: thread::JoinHandle<anyhow::Result<()>>,
}

impl Contract {
    fn start(sql: Sql) -> anyhow::Result<Self> {
        let learned = QUERIES.map(|query| ask(&sql, query).and_then(|(status, text)| read(status, &text)));
        let learned: Vec<Value> = learned.into_iter().collect::<anyhow::Result<_>>()?;
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, counted) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread = thread::spawn(move || {
            for (query, right) in QUERIES.iter().zip(&learned).cycle() {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                let (status, text) = ask(&sql, query)?;
                let rows = read(status, &text).with_context(|| format!("{query}: {text}"))?;
                ensure!(rows == *right, "{query}: {rows} instead of {right}");
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Ok(Self { stop, asked, thread })
    }

    fn wait_for_more(&self, more: usize) -> anyhow::Result<()> {
        let goal = self.asked.load(Ordering::Relaxed) + more;
        eventually(&format!("{more} more answers"), LIMIT, || {
            ensure!(!self.thread.is_finished(), "the client has raised an error");
            ensure!(self.asked.load(Ordering::Relaxed) >= goal, "not yet");
            Ok(())
        })
        .or_else(|error| if self.thread.is_finished() { Ok(()) } else { Err(error) })
    }

    /// Ends it.
    ///
    /// # Errors
    /// The error that the client would have raised.
    fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the client panicked"))?
    }
}

/// Sends what pinotdb sends.
fn ask(sql: &Sql, query: &str) -> anyhow::Result<(u16, String)> {
    sql.post("/query/sql", &json!({"sql": query, "queryOptions": "timeoutMs=30000"}).to_string())
}

/// Reads an answer with the checks of pinotdb's cursor, in its order, and gives the rows.
///
/// # Errors
/// Where the cursor raises one.
fn read(status: u16, text: &str) -> anyhow::Result<Value> {
    let answer: Value = serde_json::from_str(text).context("the answer is not JSON")?;
    let count = |field: &str| answer[field].as_i64().unwrap_or(-1);
    let (queried, responded) = (count("numServersQueried"), count("numServersResponded"));
    ensure!(queried >= 0 && responded >= 0, "a count of nodes is missing");
    ensure!(responded >= queried, "out of {queried} nodes, only {responded} responded");
    ensure!(status == 200, "HTTP status {status}");
    let exceptions = answer["exceptions"].as_array().context("exceptions are no list")?;
    ensure!(exceptions.is_empty(), "exceptions: {exceptions:?}");
    ensure!(answer["timeUsedMs"].is_u64(), "no time");
    let Some(table) = answer.get("resultTable") else { return Ok(json!([])) };
    let names = table["dataSchema"]["columnNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let types = table["dataSchema"]["columnDataTypes"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(!names.is_empty() && names.len() == types.len(), "no columns");
    for row in table["rows"].as_array().context("rows are no list")? {
        let cells = row.as_array().context("a row is no list")?;
        ensure!(cells.len() == types.len(), "a row of {} cells", cells.len());
        cells.iter().zip(types).try_for_each(|(cell, data_type)| convert(cell, data_type))?;
    }
    Ok(table["rows"].clone())
}

/// The conversions that the cursor makes: instants and JSON come as text.
fn convert(cell: &Value, data_type: &Value) -> anyhow::Result<()> {
    match (cell, data_type.as_str().context("a type is no text")?) {
        (Value::Null, _) => Ok(()),
        (Value::String(text), "TIMESTAMP") => {
            let digits = |at: std::ops::Range<usize>| {
                text.get(at).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
            };
            ensure!(digits(0..4) && digits(5..7) && digits(8..10), "not an instant: {text}");
            Ok(())
        }
        (Value::String(text), "JSON") => serde_json::from_str::<Value>(text).map(drop).context("not JSON"),
        (other, "TIMESTAMP" | "JSON") => bail!("not text: {other}"),
        _ => Ok(()),
    }
}

/// The checks can fail, each for itself.
#[test]
fn the_contract_refuses_what_pinotdb_refuses() {
    let sound = json!({
        "numServersQueried": 1, "numServersResponded": 1, "exceptions": [], "timeUsedMs": 1,
        "resultTable": {
            "dataSchema": {"columnNames": ["a"], "columnDataTypes": ["TIMESTAMP"]},
            "rows": [["2026-01-02T03:04:05Z"], [null]],
        },
    });
    assert!(read(200, &sound.to_string()).is_ok());
    assert!(read(500, &sound.to_string()).is_err());
    for (pointer, wrong) in [
        ("/numServersResponded", json!(0)),
        ("/numServersQueried", json!(-1)),
        ("/numServersQueried", Value::Null),
        ("/exceptions", json!([{"errorCode": 305, "message": ""}])),
        ("/resultTable", Value::Null),
        ("/resultTable/dataSchema/columnNames", json!([])),
        ("/resultTable/rows/0/0", json!("yesterday")),
        ("/resultTable/rows/0/0", json!(5)),
    ] {
        let mut answer = sound.clone();
        *answer.pointer_mut(pointer).unwrap() = wrong;
        assert!(read(200, &answer.to_string()).is_err(), "{answer}");
    }
}
