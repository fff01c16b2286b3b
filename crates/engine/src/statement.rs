//! SQL texts that may be planned: one query, within limits, that reads nothing but collections.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use datafusion::{
    common::TableReference,
    sql::{
        parser::{DFParserBuilder, ExplainStatement, Statement as Parsed},
        planner::IdentNormalizer,
        resolve::resolve_table_references,
        sqlparser::{
            ast::{Expr, ObjectName, Query, Select, SetExpr, Statement as Ast, TableFactor, Visit, Visitor},
            dialect::GenericDialect,
        },
    },
};
use pointsman_ids::{Error, ErrorCode, Result};

use crate::limits::{self, Depth, MAX_IN_LIST, MAX_JOINS, MAX_NESTING, MAX_PROJECTIONS, at_most, refuse};

/// Stack of the thread that parses. Committed by the system only as far as it is used.
const PARSER_STACK: usize = 64 << 20;

/// What the parser may recurse per level of nesting (statement, query, expression, prefix).
pub(crate) const RECURSION_PER_LEVEL: usize = 6;

/// Table functions that read nothing.
const TABLE_FUNCTIONS: [&str; 2] = ["generate_series", "range"];

/// A checked statement.
///
/// ```
/// use pointsman_engine::Statement;
///
/// let statement = Statement::check("SELECT count(*) FROM orders JOIN lineitem ON o_orderkey = l_orderkey")?;
/// assert!(statement.collections().iter().eq(["lineitem", "orders"]));
/// assert!(Statement::check("SELECT * FROM '/etc/passwd'").is_err());
/// assert!(Statement::check("COPY orders TO 'somewhere'").is_err());
/// # Ok::<(), pointsman_ids::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Statement {
    /// Shared, because copying it recurses: only threads with room for that may do it.
    pub(crate) query: Arc<Parsed>,
    pub(crate) explain: Explain,
    collections: BTreeSet<String>,
}

/// Whether the plan is asked for, and with figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explain {
    /// The rows are asked for.
    No,
    /// The plan, without running it.
    Plan,
    /// The plan after it ran.
    Analyze,
}

impl Statement {
    /// Parses and checks a text. Knows no catalog: whether collections and columns exist comes out when it is
    /// planned. Never recurses deeper than the limits allow, and on a stack of its own where that is deep.
    ///
    /// # Errors
    /// `sql_invalid` that says what is wrong or not allowed; `service_internal` when the parser panics or has no
    /// thread to run on.
    pub fn check(sql: &str) -> Result<Self> {
        match limits::check_text(sql)? {
            Depth::Shallow => {
                std::panic::catch_unwind(|| Self::parse(sql)).unwrap_or_else(|_| Err(panicked()))
            }
            Depth::Deep => on_large_stack(|| Self::parse(sql)),
        }
    }

    fn parse(sql: &str) -> Result<Self> {
        let invalid = |error: datafusion::error::DataFusionError| refuse(error.strip_backtrace());
        let mut statements = DFParserBuilder::new(sql)
            .with_dialect(&GenericDialect {})
            .with_recursion_limit(MAX_NESTING * RECURSION_PER_LEVEL)
            .build()
            .and_then(|mut parser| parser.parse_statements())
            .map_err(invalid)?;
        let first = statements.pop_front().ok_or_else(|| refuse("the text holds no statement"))?;
        if !statements.is_empty() {
            return Err(refuse("the text holds more than one statement"));
        }
        let (query, explain) = open_explain(first)?;
        let mut inspector = Inspector::default();
        if let ControlFlow::Break(error) = inspector.statement(&query) {
            return Err(error);
        }
        let (tables, _) = resolve_table_references(&query, true).map_err(invalid)?;
        let mut collections = inspector.collections;
        for table in tables.iter().filter(|table| !inspector.functions.contains(table.table())) {
            collections.extend(collection(table)?);
        }
        Ok(Self { query: Arc::new(query), explain, collections })
    }

    /// Names of the collections that the statement reads, as far as the text tells: tables in `FROM` that are neither
    /// common table expressions nor part of `information_schema`.
    pub fn collections(&self) -> &BTreeSet<String> {
        &self.collections
    }

    /// Whether the statement asks for a plan, not for rows.
    pub fn is_explain(&self) -> bool {
        self.explain != Explain::No
    }
}

/// Runs `work` where there is room to recurse.
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let internal = |why: String| Error::new(ErrorCode::ServiceInternal, why);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sql-parser".into()).stack_size(PARSER_STACK);
        let parser = thread
            .spawn_scoped(scope, work)
            .map_err(|error| internal(format!("no thread to parse the statement on: {error}")))?;
        parser.join().unwrap_or_else(|_| Err(panicked()))
    })
}

pub(crate) fn panicked() -> Error {
    Error::new(ErrorCode::ServiceInternal, "the parser panicked")
}

/// Takes `EXPLAIN` off. Everything but queries is refused here.
fn open_explain(statement: Parsed) -> Result<(Parsed, Explain)> {
    match statement {
        Parsed::Explain(explain) => {
            let ExplainStatement { options, statement } = explain;
            let analyze = options.analyze;
            match open_explain(*statement)? {
                (query, Explain::No) if is_query(&query) && analyze => {
                    // The engine explains this one itself, after it ran.
                    let whole = ExplainStatement { options, statement: Box::new(query) };
                    Ok((Parsed::Explain(whole), Explain::Analyze))
                }
                (query, Explain::No) if is_query(&query) => Ok((query, Explain::Plan)),
                _ => Err(refuse("only queries can be explained")),
            }
        }
        Parsed::Statement(ast) => match *ast {
            ast @ (Ast::Query(_) | Ast::ShowTables { .. } | Ast::ShowColumns { .. }) => {
                Ok((Parsed::Statement(Box::new(ast)), Explain::No))
            }
            other => Err(not_allowed(&other.to_string())),
        },
        Parsed::CopyTo(_) => Err(not_allowed("COPY")),
        Parsed::CreateExternalTable(_) => Err(not_allowed("CREATE EXTERNAL TABLE")),
        Parsed::Reset(_) => Err(not_allowed("RESET")),
    }
}

fn is_query(statement: &Parsed) -> bool {
    matches!(statement, Parsed::Statement(ast) if matches!(**ast, Ast::Query(_)))
}

fn not_allowed(statement: &str) -> Error {
    let word = statement.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    refuse(format!(
        "'{word}' is not allowed: statements read collections (SELECT, EXPLAIN, SHOW TABLES, SHOW COLUMNS), nothing else"
    ))
}

/// The collection that a table name stands for; `None` for tables about tables.
fn collection(table: &TableReference) -> Result<Option<String>> {
    match table.schema() {
        Some("information_schema") => Ok(None),
        None | Some("public") => Ok(Some(table.table().to_owned())),
        Some(other) => Err(refuse(format!("there is no schema '{other}'; collections lie in 'public'"))),
    }
}

/// What a walk over the statement finds.
#[derive(Default)]
struct Inspector {
    collections: BTreeSet<String>,
    functions: BTreeSet<String>,
    joins: usize,
}

impl Inspector {
    fn statement(&mut self, statement: &Parsed) -> ControlFlow<Error> {
        let ast = match statement {
            Parsed::Statement(ast) => ast,
            Parsed::Explain(explain) => return self.statement(&explain.statement),
            _ => return ControlFlow::Continue(()),
        };
        if let Ast::ShowColumns { show_options, .. } = &**ast
            && let Some(name) = show_options.show_in.as_ref().and_then(|show_in| show_in.parent_name.as_ref())
            && let Some(last) = name.0.last().and_then(|part| part.as_ident())
        {
            self.collections.insert(IdentNormalizer::new(true).normalize(last.clone()));
        }
        ast.visit(self)
    }
}

/// Ends the walk with the error.
fn stop<T>(result: Result<T>) -> ControlFlow<Error> {
    match result {
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl Visitor for Inspector {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        match &*query.body {
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                ControlFlow::Break(not_allowed(&query.body.to_string()))
            }
            _ if !query.locks.is_empty() => {
                ControlFlow::Break(refuse("FOR UPDATE and FOR SHARE are not allowed"))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        if select.into.is_some() {
            return ControlFlow::Break(not_allowed("SELECT INTO"));
        }
        self.joins += select.from.iter().map(|table| 1 + table.joins.len()).sum::<usize>().saturating_sub(1);
        stop(at_most("joins", self.joins, MAX_JOINS))?;
        stop(at_most("columns in one SELECT", select.projection.len(), MAX_PROJECTIONS))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::InList { list, .. } => stop(at_most("values in one IN list", list.len(), MAX_IN_LIST)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Error> {
        let foreign = relation
            .0
            .iter()
            .filter_map(|part| part.as_ident())
            .find(|ident| ident.quote_style == Some('\'') || ident.value.contains(['/', '\\', ':']));
        match foreign {
            Some(ident) => ControlFlow::Break(refuse(format!(
                "'{}' cannot be read: statements read collections, not files or addresses",
                ident.value
            ))),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        let name = match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => name,
            _ => return ControlFlow::Continue(()),
        };
        let name = name.to_string().to_lowercase();
        if !TABLE_FUNCTIONS.contains(&name.as_str()) {
            return ControlFlow::Break(refuse(format!(
                "table function '{name}' is not allowed; there are {}",
                TABLE_FUNCTIONS.join(" and ")
            )));
        }
        self.functions.insert(name);
        ControlFlow::Continue(())
    }
}
