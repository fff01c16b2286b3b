//! The cluster's configuration.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pointsman_ids::Epoch;
use sqlx::FromRow;

use crate::{ConfigStore, Result, store::Store, stored::text};

const TABLE: &str = "cluster_config";

#[derive(FromRow)]
struct ConfigRow {
    name: String,
    value: String,
}

#[async_trait]
impl ConfigStore for Store {
    async fn config(&self) -> Result<BTreeMap<String, String>> {
        let mut session = self.reading().await?;
        let rows: Vec<ConfigRow> = session.rows(TABLE, "SELECT name, value FROM cluster_config", &[]).await?;
        session.finish().await;
        Ok(rows.into_iter().map(|row| (row.name, row.value)).collect())
    }

    async fn set_config(&self, epoch: Epoch, key: &str, value: &str) -> Result<()> {
        let (name, value) = (text("the key", key)?, text("the value", value)?);
        let mut session = self.writing(epoch).await?;
        let sql = "INSERT INTO cluster_config (name, value) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        session.execute(sql, &[name.into(), value.into()]).await?;
        session.commit().await
    }

    async fn unset_config(&self, epoch: Epoch, key: &str) -> Result<()> {
        let name = text("the key", key)?;
        let mut session = self.writing(epoch).await?;
        session.execute("DELETE FROM cluster_config WHERE name = $1", &[name.into()]).await?;
        session.commit().await
    }
}
