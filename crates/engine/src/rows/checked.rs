//! A question that makes sense.

use std::{collections::HashSet, sync::Arc};

use arrow::datatypes::{Field, SchemaRef};
use pointsman_ids::{
    Error, ErrorCode, Result,
    request::{self, Metric, Question, Table},
};

use super::{
    filter::Filter,
    get::Get,
    key::KeyColumn,
    layout::{Asking, Layout},
    limits::{DEFAULT_CANDIDATES, MAX_CANDIDATES, MAX_K, MAX_KEYS, MAX_ROWS, MAX_VECTORS, at_most},
    query::Query,
    search::Search,
    table::{Columns, dimensions, is_vectors},
};

/// A question with all that can be known to be wrong with it found to be right: whoever has one can answer it, and merge
/// answers. Cheap to clone.
///
/// ```
/// use pointsman_engine::rows::Checked;
/// use pointsman_ids::{
///     catalog::Column,
///     request::{Query, Question, Table},
/// };
///
/// let table = Table {
///     collection: "photos".parse()?,
///     columns: vec![Column { name: "id".into(), data_type: "Int64".into(), nullable: false }],
///     key: Some("id".into()),
///     indexes: vec![],
/// };
/// let query = |filter: &str| Question::Query(Query { filter: Some(filter.into()), columns: vec![], limit: 10 });
/// assert!(Checked::new(query("id > 7"), &table).is_ok());
/// let error = Checked::new(query("ids > 7"), &table).unwrap_err();
/// assert!(error.message().contains("did you mean id?"), "{error}");
/// # Ok::<(), pointsman_ids::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checked(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    question: Question,
    collection: String,
    key: Option<KeyColumn>,
    layout: Layout,
    kind: Kind,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Search(Arc<Search>),
    Get(Arc<Get>),
    Query(Arc<Query>),
}

impl Checked {
    /// Checks a question to a collection.
    ///
    /// # Errors
    /// Input errors that name the thing and the remedy: `column_not_found`, `parameter_invalid`, `parameter_missing`,
    /// `parameter_too_large`, `sql_invalid`. `service_internal` for a collection with types that this version does not
    /// know.
    pub fn new(question: Question, table: &Table) -> Result<Self> {
        let columns = Columns::of(table)?;
        let key = table.key.as_ref().map(|key| KeyColumn::new(&columns, columns.place(key)?)).transpose()?;
        let named = match &question {
            Question::Search(search) => &search.columns,
            Question::Get(get) => &get.columns,
            Question::Query(query) => &query.columns,
        };
        let (asking, kind) = match &question {
            Question::Search(search) => {
                (Asking::Search, Kind::Search(Arc::new(check_search(search, table, &columns)?)))
            }
            Question::Get(get) => (Asking::Get, Kind::Get(Arc::new(check_get(get, &columns, key.as_ref())?))),
            Question::Query(query) => {
                (Asking::Query, Kind::Query(Arc::new(check_query(query, &columns, key.clone())?)))
            }
        };
        let fields = answered(named, asking, &columns, key.as_ref())?;
        let layout = Layout::new(asking, key.as_ref(), fields)?;
        Ok(Self(Arc::new(Inner { question, collection: columns.collection, key, layout, kind })))
    }

    /// The question, as it was asked.
    pub fn question(&self) -> &Question {
        &self.0.question
    }

    /// Columns of the finished answer.
    pub fn schema(&self) -> &SchemaRef {
        &self.0.layout.finished
    }

    pub(super) fn collection(&self) -> &str {
        &self.0.collection
    }

    pub(super) fn key(&self) -> Option<&KeyColumn> {
        self.0.key.as_ref()
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.0.kind
    }
}

fn invalid(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::ParameterInvalid, why)
}

fn missing(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::ParameterMissing, why)
}

/// Columns of the answer.
fn answered(
    named: &[String],
    asking: Asking,
    columns: &Columns,
    key: Option<&KeyColumn>,
) -> Result<Vec<Field>> {
    if named.is_empty() {
        return Ok(match asking {
            Asking::Search => key.iter().map(|key| key.field.clone()).collect(),
            Asking::Get | Asking::Query => {
                (0..columns.schema.fields().len()).map(|at| columns.answered(at)).collect()
            }
        });
    }
    let mut seen = HashSet::new();
    let mut fields = vec![];
    for name in named {
        fields.push(columns.answered(columns.place(name)?));
        if !seen.insert(name) {
            return Err(invalid(format!("column '{name}' is asked for twice")));
        }
    }
    Ok(fields)
}

fn check_search(search: &request::Search, table: &Table, columns: &Columns) -> Result<Search> {
    let column = search_column(search, columns)?;
    let dims = dimensions(&column)?;
    if search.vectors.is_empty() {
        return Err(missing("a search needs at least one vector"));
    }
    at_most("vectors", search.vectors.len(), MAX_VECTORS)?;
    if search.k == 0 {
        return Err(invalid("k is 0; a search is for at least one row per vector"));
    }
    at_most("rows per vector (k)", search.k as usize, MAX_K as usize)?;
    at_most("rows for all vectors together", search.k as usize * search.vectors.len(), MAX_ROWS)?;
    for (at, vector) in search.vectors.iter().enumerate() {
        if vector.len() != dims {
            let (have, name) = (vector.len(), column.name());
            return Err(invalid(format!(
                "vector {at} has {have} dimensions, those of column '{name}' have {dims}"
            )));
        }
        if let Some(place) = vector.iter().position(|number| !number.is_finite()) {
            let number = vector[place];
            return Err(invalid(format!("vector {at} has {number} at place {place}; give finite numbers")));
        }
    }
    let candidates = search.candidates.unwrap_or(DEFAULT_CANDIDATES);
    at_most("candidates", candidates as usize, MAX_CANDIDATES as usize)?;
    let own = table.indexes.iter().find(|index| index.column == *column.name());
    let metric = search.metric.or(own.map(|index| index.metric)).unwrap_or(Metric::L2);
    let index = table
        .indexes
        .iter()
        .find(|index| !search.exact && index.column == *column.name() && index.metric == metric)
        .map(|index| (index.clone(), candidates.max(search.k) as usize));
    Ok(Search {
        dims,
        queries: search.vectors.concat().into(),
        metric,
        k: search.k as usize,
        filter: filter(search.filter.as_deref(), columns)?,
        index,
        column,
    })
}

fn search_column(search: &request::Search, columns: &Columns) -> Result<Field> {
    if let Some(name) = &search.column {
        return Ok(columns.field(columns.place(name)?).clone());
    }
    let fields = columns.schema.fields();
    let holding: Vec<_> = fields.iter().filter(|field| is_vectors(field)).collect();
    match holding[..] {
        [only] => Ok(Field::clone(only)),
        [] => Err(invalid(format!(
            "collection '{}' has no column of vectors, such as FixedSizeList(128 x Float32)",
            columns.collection
        ))),
        _ => {
            let names: Vec<&str> = holding.iter().map(|field| field.name().as_str()).collect();
            Err(missing(format!(
                "collection '{}' has several columns of vectors; name the one to search: {}",
                columns.collection,
                names.join(", ")
            )))
        }
    }
}

fn check_get(get: &request::Get, columns: &Columns, key: Option<&KeyColumn>) -> Result<Get> {
    let key = key.ok_or_else(|| {
        invalid(format!(
            "collection '{}' has no key, so that rows cannot be asked for by key; ask by condition",
            columns.collection
        ))
    })?;
    if get.keys.is_empty() {
        return Err(missing("at least one key is needed"));
    }
    at_most("keys", get.keys.len(), MAX_KEYS)?;
    Ok(Get { key: key.clone(), asked: key.asked(&get.keys)? })
}

fn check_query(query: &request::Query, columns: &Columns, key: Option<KeyColumn>) -> Result<Query> {
    if query.limit == 0 {
        return Err(invalid("the limit is 0; ask for at least one row"));
    }
    at_most("rows (limit)", query.limit as usize, MAX_ROWS)?;
    Ok(Query::new(filter(query.filter.as_deref(), columns)?, key, query.limit as usize))
}

/// An empty condition is none.
fn filter(sql: Option<&str>, columns: &Columns) -> Result<Option<Filter>> {
    sql.filter(|sql| !sql.trim().is_empty()).map(|sql| Filter::parse(sql, columns)).transpose()
}
