//! What an answer has to be, computed in the plainest way.

use pointsman_ids::{
    catalog::Value,
    request::{Get, Metric, Query, Search},
};

use crate::world::Row;

/// A row of an answer: place of the vector, bits of the distance, number of the row.
pub(crate) type Line = (u32, u32, u32);

/// A condition in SQL and in Rust.
pub(crate) type Condition = (&'static str, fn(&Row) -> bool);

/// Conditions with all that SQL does with nothing.
pub(crate) const CONDITIONS: &[Condition] = &[
    ("true", |_| true),
    ("n > 3 AND false", |_| false),
    ("n > 3", |row| row.n > 3),
    ("name = 'b'", |row| row.name == Some("b")),
    ("name <> 'b'", |row| row.name.is_some_and(|name| name != "b")),
    ("name IS NULL OR n % 2 = 0", |row| row.name.is_none() || row.n % 2 == 0),
    ("id BETWEEN 1 AND 2", |row| row.id.is_some_and(|id| (1..=2).contains(&id))),
    ("id IN (0, 3) AND upper(name) = 'A'", |row| {
        row.id.is_some_and(|id| id == 0 || id == 3) && row.name == Some("a")
    }),
    ("v IS NULL", |row| row.v.is_none()),
    ("cast(n AS double) / 2 >= 1.5", |row| row.n >= 3),
];

/// Which column is the key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Key {
    None,
    Id,
    Name,
}

impl Key {
    pub(crate) fn column(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Id => Some("id"),
            Self::Name => Some("name"),
        }
    }

    /// Sorts as keys do: rows without one last.
    fn of(self, row: &Row) -> (bool, i64, &'static str) {
        match self {
            Self::None => (false, 0, ""),
            Self::Id => (row.id.is_none(), row.id.unwrap_or_default(), ""),
            Self::Name => (row.name.is_none(), 0, row.name.unwrap_or_default()),
        }
    }
}

/// All rows, in the order of segments and of rows in them.
pub(crate) struct Model {
    pub(crate) rows: Vec<Row>,
    pub(crate) key: Key,
}

impl Model {
    fn meeting(&self, condition: Option<Condition>) -> impl Iterator<Item = (u32, &Row)> {
        (0..).zip(&self.rows).filter(move |(_, row)| condition.is_none_or(|(_, meets)| meets(row)))
    }

    pub(crate) fn search(&self, search: &Search, condition: Option<Condition>) -> Vec<Line> {
        let mut lines = vec![];
        for (at, query) in (0..).zip(&search.vectors) {
            let metric = search.metric.unwrap_or_default();
            let mut near: Vec<_> = (self.meeting(condition))
                .filter_map(|(tag, row)| {
                    Some((distance(metric, query, row.v.as_ref()?), self.key.of(row), tag))
                })
                .collect();
            near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
            near.truncate(search.k as usize);
            lines.extend(near.into_iter().map(|(distance, _, tag)| (at, distance.to_bits(), tag)));
        }
        lines
    }

    pub(crate) fn get(&self, get: &Get) -> Vec<u32> {
        let holds = |row: &Row, key: &Value| match (self.key, key) {
            (Key::Id, Value::Integer(key)) => row.id.map(i128::from) == Some(*key),
            (Key::Name, Value::Text(key)) => row.name == Some(key),
            _ => false,
        };
        let of = |key| self.meeting(None).filter(move |(_, row)| holds(row, key)).map(|(tag, _)| tag);
        get.keys.iter().flat_map(of).collect()
    }

    pub(crate) fn query(&self, query: &Query, condition: Option<Condition>) -> Vec<u32> {
        let mut rows: Vec<_> = self.meeting(condition).collect();
        rows.sort_by_key(|(tag, row)| (self.key.of(row), *tag));
        rows.into_iter().take(query.limit as usize).map(|(tag, _)| tag).collect()
    }
}

/// Exact for vectors of few small whole numbers.
fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f32 {
    let sum = |of: fn(f32, f32) -> f32, a: &[f32], b: &[f32]| -> f32 {
        a.iter().zip(b).map(|(a, b)| of(*a, *b)).sum()
    };
    let product = |a, b| sum(|a, b| a * b, a, b);
    match metric {
        Metric::L2 => sum(|a, b| (a - b) * (a - b), a, b),
        Metric::InnerProduct => 0.0 - product(a, b),
        Metric::Cosine => {
            let lengths = product(a, a).sqrt() * product(b, b).sqrt();
            if lengths == 0.0 { 1.0 } else { (1.0 - product(a, b) / lengths).clamp(0.0, 2.0) + 0.0 }
        }
    }
}
