//! Questions to rows, and indexes over vectors.

use pointsman_ids::{
    Error,
    request::{Get, Looked, Metric, Query, Question, Search, Table, VectorIndex},
};

use super::{
    catalog::{column_from_proto, column_to_proto, value_from_proto, value_to_proto},
    invalid,
};
use crate::{common::v1 as pb, node::v1 as node};

impl From<Metric> for pb::Metric {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::L2 => Self::L2,
            Metric::InnerProduct => Self::InnerProduct,
            Metric::Cosine => Self::Cosine,
        }
    }
}

fn metric_from_proto(number: i32) -> Result<Option<Metric>, Error> {
    match pb::Metric::try_from(number) {
        Ok(pb::Metric::Unspecified) => Ok(None),
        Ok(pb::Metric::L2) => Ok(Some(Metric::L2)),
        Ok(pb::Metric::InnerProduct) => Ok(Some(Metric::InnerProduct)),
        Ok(pb::Metric::Cosine) => Ok(Some(Metric::Cosine)),
        Err(_) => Err(invalid(format!("metric {number} is not known here"))),
    }
}

impl From<&VectorIndex> for pb::VectorIndex {
    fn from(index: &VectorIndex) -> Self {
        Self { column: index.column.clone(), metric: pb::Metric::from(index.metric).into() }
    }
}

impl TryFrom<pb::VectorIndex> for VectorIndex {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` without a column, or for a metric that is not known here.
    fn try_from(index: pb::VectorIndex) -> Result<Self, Error> {
        if index.column.is_empty() {
            return Err(invalid("an index over vectors names no column"));
        }
        Ok(Self { metric: metric_from_proto(index.metric)?.unwrap_or_default(), column: index.column })
    }
}

impl From<&Table> for node::Table {
    fn from(table: &Table) -> Self {
        Self {
            collection: table.collection.to_string(),
            columns: table.columns.iter().map(column_to_proto).collect(),
            key: table.key.clone().unwrap_or_default(),
            indexes: table.indexes.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<node::Table> for Table {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` naming what makes no sense. Whether types exist is for the engine to say.
    fn try_from(table: node::Table) -> Result<Self, Error> {
        Ok(Self {
            collection: table.collection.parse()?,
            columns: table.columns.into_iter().map(column_from_proto).collect::<Result<_, _>>()?,
            key: said(table.key),
            indexes: table.indexes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

impl From<Looked> for node::Looked {
    fn from(looked: Looked) -> Self {
        let Looked { segments, indexed_segments, rows } = looked;
        Self { segments, indexed_segments, rows }
    }
}

impl From<node::Looked> for Looked {
    fn from(looked: node::Looked) -> Self {
        let node::Looked { segments, indexed_segments, rows } = looked;
        Self { segments, indexed_segments, rows }
    }
}

impl From<&Question> for pb::Question {
    fn from(question: &Question) -> Self {
        use pb::question::Kind;
        let kind = match question {
            Question::Search(search) => Kind::Search(search.into()),
            Question::Get(get) => Kind::Get(get.into()),
            Question::Query(query) => Kind::Query(query.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<pb::Question> for Question {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` naming what makes no sense. Whether the collection can answer is for the engine to say.
    fn try_from(question: pb::Question) -> Result<Self, Error> {
        use pb::question::Kind;
        match question.kind {
            Some(Kind::Search(search)) => Ok(Self::Search(search.try_into()?)),
            Some(Kind::Get(get)) => Ok(Self::Get(get.try_into()?)),
            Some(Kind::Query(query)) => Ok(Self::Query(query.into())),
            None => Err(invalid("the question is none that is known here")),
        }
    }
}

impl From<&Search> for pb::Search {
    fn from(search: &Search) -> Self {
        Self {
            column: search.column.clone().unwrap_or_default(),
            vectors: search.vectors.iter().map(|values| pb::Vector { values: values.clone() }).collect(),
            k: search.k,
            metric: search.metric.map_or(pb::Metric::Unspecified, Into::into).into(),
            filter: search.filter.clone().unwrap_or_default(),
            columns: search.columns.clone(),
            exact: search.exact,
            candidates: search.candidates.unwrap_or_default(),
        }
    }
}

impl TryFrom<pb::Search> for Search {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` for a metric that is not known here.
    fn try_from(search: pb::Search) -> Result<Self, Error> {
        Ok(Self {
            metric: metric_from_proto(search.metric)?,
            column: said(search.column),
            vectors: search.vectors.into_iter().map(|vector| vector.values).collect(),
            k: search.k,
            filter: said(search.filter),
            columns: search.columns,
            exact: search.exact,
            candidates: Some(search.candidates).filter(|candidates| *candidates > 0),
        })
    }
}

impl From<&Get> for pb::Get {
    fn from(get: &Get) -> Self {
        Self { keys: get.keys.iter().map(value_to_proto).collect(), columns: get.columns.clone() }
    }
}

impl TryFrom<pb::Get> for Get {
    type Error = Error;

    /// # Errors
    /// `parameter_invalid` naming the place of a key that is no value.
    fn try_from(get: pb::Get) -> Result<Self, Error> {
        let key = |(at, key)| value_from_proto(key).ok_or_else(|| invalid(format!("key {at} is no value")));
        let keys = get.keys.into_iter().enumerate().map(key).collect::<Result<_, _>>()?;
        Ok(Self { keys, columns: get.columns })
    }
}

impl From<&Query> for pb::Query {
    fn from(query: &Query) -> Self {
        Self {
            filter: query.filter.clone().unwrap_or_default(),
            columns: query.columns.clone(),
            limit: query.limit,
        }
    }
}

impl From<pb::Query> for Query {
    fn from(query: pb::Query) -> Self {
        Self { filter: said(query.filter), columns: query.columns, limit: query.limit }
    }
}

/// On the wire an empty text says nothing.
fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use pointsman_ids::catalog::{Column, Value};

    use super::*;

    #[test]
    fn questions_come_back() {
        let search = Search {
            column: Some("v".into()),
            vectors: vec![vec![0.5, -1.0], vec![2.0, 3.0]],
            k: 3,
            metric: Some(Metric::Cosine),
            filter: Some("a > 1".into()),
            columns: vec!["a".into()],
            exact: true,
            candidates: Some(64),
        };
        let get = Get { keys: vec![Value::Integer(7), Value::Text("a".into())], columns: vec!["b".into()] };
        let query = Query { filter: None, columns: vec![], limit: 9 };
        for question in [Question::Search(search), Question::Get(get), Question::Query(query)] {
            assert_eq!(Question::try_from(pb::Question::from(&question)), Ok(question));
        }
    }

    #[test]
    fn tables_and_what_was_looked_at_come_back() {
        let table = Table {
            collection: "photos".parse().unwrap(),
            columns: vec![
                Column { name: "id".into(), data_type: "Int64".into(), nullable: false },
                Column { name: "v".into(), data_type: "FixedSizeList(4 x Float32)".into(), nullable: true },
            ],
            key: Some("id".into()),
            indexes: vec![VectorIndex { column: "v".into(), metric: Metric::InnerProduct }],
        };
        let without = Table { key: None, indexes: vec![], ..table.clone() };
        for table in [table, without] {
            assert_eq!(Table::try_from(node::Table::from(&table)), Ok(table));
        }
        assert!(Table::try_from(node::Table::default()).is_err(), "a collection has a name");
        let looked = Looked { segments: 3, indexed_segments: 2, rows: 1 };
        assert_eq!(Looked::from(node::Looked::from(looked)), looked);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Question::try_from(pb::Question::default()).is_err());
        let search = pb::Search { metric: 77, ..Default::default() };
        assert!(Search::try_from(search).unwrap_err().message().contains("metric 77"));
        let get = pb::Get { keys: vec![pb::Value::default()], columns: vec![] };
        assert!(Get::try_from(get).unwrap_err().message().contains("key 0"));
        assert!(VectorIndex::try_from(pb::VectorIndex::default()).is_err());
    }

    #[test]
    fn an_index_without_a_metric_is_by_l2() {
        let index = pb::VectorIndex { column: "v".into(), metric: 0 };
        assert_eq!(VectorIndex::try_from(index).unwrap().metric, Metric::L2);
    }
}
