//! The tables of a schema, found out from the schema itself: it is applied to a database in memory.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

use super::BackupError;
use crate::schema;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    /// Columns that rows are written in the order of.
    pub(super) key: Vec<String>,
    /// Rows that the schema itself puts into it.
    pub(super) seeds: u64,
}

/// All tables, each after those that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) tables: Vec<Table>,
}

impl Shape {
    /// The tables of a schema of these versions. They are the same in both databases.
    pub(super) async fn of(versions: &[i64]) -> Result<Self, BackupError> {
        let mut memory = SqliteConnection::connect("sqlite::memory:").await?;
        let known = schema::only(&schema::SQLITE, Some(versions))?;
        let migrated = known.run_direct(None, &mut memory, false).await;
        migrated.map_err(|why| BackupError::Unknown(format!("this schema ({why})")))?;
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
                   AND name <> '_sqlx_migrations' ORDER BY name";
        let names: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut memory).await?;
        let mut waiting = Vec::new();
        for name in names {
            let refers_to = refers_to(&mut memory, &name).await?;
            waiting.push((table(&mut memory, name).await?, refers_to));
        }
        memory.close().await?;
        Ok(Self { tables: in_order(waiting) })
    }
}

async fn table(memory: &mut SqliteConnection, name: String) -> Result<Table, BackupError> {
    let rows = sqlx::query("SELECT name, pk FROM pragma_table_info($1) ORDER BY cid")
        .bind(&name)
        .fetch_all(&mut *memory)
        .await?;
    let columns: Vec<(String, i64)> =
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, sqlx::Error>>()?;
    let mut key: Vec<(i64, String)> =
        columns.iter().filter(|(_, place)| *place > 0).map(|(name, place)| (*place, name.clone())).collect();
    key.sort();
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {name}"));
    let seeds: i64 = sqlx::query_scalar(sql).fetch_one(memory).await?;
    Ok(Table {
        name,
        columns: columns.into_iter().map(|(name, _)| name).collect(),
        key: key.into_iter().map(|(_, name)| name).collect(),
        seeds: seeds.unsigned_abs(),
    })
}

async fn refers_to(memory: &mut SqliteConnection, name: &str) -> Result<BTreeSet<String>, BackupError> {
    let sql = "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list($1)";
    let names: Vec<String> = sqlx::query_scalar(sql).bind(name).fetch_all(memory).await?;
    Ok(names.into_iter().collect())
}

/// Each table after those that it refers to. Where they refer to each other in a ring, which they do not, as they come.
fn in_order(mut waiting: Vec<(Table, BTreeSet<String>)>) -> Vec<Table> {
    let mut placed: Vec<Table> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_placed = |name: &String| placed.iter().any(|table| table.name == *name);
        let next = waiting.iter().position(|(table, refers_to)| {
            refers_to.iter().all(|name| *name == table.name || is_placed(name))
        });
        placed.push(waiting.remove(next.unwrap_or_default()).0);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tables_come_after_those_that_they_refer_to() {
        let versions: Vec<i64> = schema::SQLITE.iter().map(|known| known.version).collect();
        let names: Vec<String> =
            Shape::of(&versions).await.unwrap().tables.into_iter().map(|table| table.name).collect();
        let place = |name: &str| names.iter().position(|known| known == name).unwrap();
        assert!(place("loads") < place("replicas") && place("loads") < place("targets"), "{names:?}");
        assert!(place("resource_groups") < place("members"), "{names:?}");
    }

    #[tokio::test]
    async fn a_schema_has_the_tables_of_its_versions() {
        let shape = Shape::of(&[1]).await.unwrap();
        assert!(shape.tables.iter().all(|table| table.name != "cluster_config"));
        let lease = shape.tables.iter().find(|table| table.name == "lease").unwrap();
        assert_eq!((lease.key.as_slice(), lease.seeds), (["only_row".to_owned()].as_slice(), 1));
        assert_eq!(lease.columns, ["only_row", "epoch", "holder", "expires_at"]);
        assert!(matches!(Shape::of(&[1, 9000]).await, Err(BackupError::Newer(_))));
    }
}
