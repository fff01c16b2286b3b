//! Nodes by name.

use async_trait::async_trait;
use pointsman_ids::{Epoch, Error as Refusal, ErrorCode, Incarnation, NodeId, NodeName};
use pointsman_query_coord::NodeRecord;
use sqlx::FromRow;

use crate::{
    NodeStore, Result,
    store::Store,
    stored::{Origin, int, refusal},
};

const TABLE: &str = "nodes";

#[derive(FromRow)]
struct NodeRow {
    name: String,
    incarnation: i64,
    id: i64,
    switched_on: bool,
    labels: String,
}

impl NodeRow {
    fn record(&self) -> Result<NodeRecord> {
        let origin = Origin::new(TABLE, &self.name);
        Ok(NodeRecord {
            name: origin.read("name", NodeName::new(&self.name))?,
            incarnation: Incarnation(origin.number("incarnation", self.incarnation)?),
            id: NodeId(origin.number("id", self.id)?),
            switched_on: self.switched_on,
            labels: origin.json("labels", &self.labels)?,
        })
    }
}

#[async_trait]
impl NodeStore for Store {
    async fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let mut session = self.reading().await?;
        let sql = "SELECT name, incarnation, id, switched_on, labels FROM nodes ORDER BY name";
        let rows: Vec<NodeRow> = session.rows(TABLE, sql, &[]).await?;
        session.finish().await;
        rows.iter().map(NodeRow::record).collect()
    }

    async fn register_node(
        &self,
        epoch: Epoch,
        name: &NodeName,
        incarnation: Incarnation,
    ) -> Result<NodeRecord> {
        let started = int("the incarnation", incarnation.0)?;
        let mut session = self.writing(epoch).await?;
        let sql = "SELECT name, incarnation, id, switched_on, labels FROM nodes WHERE name = $1";
        let known: Option<NodeRow> = session.row(TABLE, sql, &[name.as_str().into()]).await?;
        let known = known.as_ref().map(NodeRow::record).transpose()?;
        if let Some(known) = known.as_ref().filter(|known| known.incarnation > incarnation) {
            let text = format!(
                "node '{name}' comes with incarnation {incarnation}, but started with the newer {} already: \
                 two processes have this name, or the node lost its data folder",
                known.incarnation
            );
            return Err(session.refuse(refusal(text)).await);
        }
        if let Some(known) = known.as_ref().filter(|known| known.incarnation == incarnation) {
            session.finish_unchanged().await?;
            return Ok(known.clone());
        }
        let id = session.new_numbers("node", 1).await?;
        // A restart does not turn the operator's switch.
        let sql = "INSERT INTO nodes (name, incarnation, id, switched_on) VALUES ($1, $2, $3, TRUE) \
                   ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, id = excluded.id";
        session.execute(sql, &[name.as_str().into(), started.into(), id.into()]).await?;
        // It has returned.
        session.execute("DELETE FROM drains WHERE node = $1", &[name.as_str().into()]).await?;
        let id = NodeId(Origin::new("counters", "node").number("last", id)?);
        session.commit().await?;
        let switched_on = known.as_ref().is_none_or(|known| known.switched_on);
        let labels = known.map(|known| known.labels).unwrap_or_default();
        Ok(NodeRecord { name: name.clone(), incarnation, id, switched_on, labels })
    }

    async fn set_switch(&self, epoch: Epoch, nodes: &[NodeName], on: bool) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        for node in nodes {
            let sql = "UPDATE nodes SET switched_on = $2 WHERE name = $1";
            if session.execute(sql, &[node.as_str().into(), on.into()]).await? == 0 {
                let text = format!("there is no node '{node}'");
                return Err(session.refuse(Refusal::new(ErrorCode::NodeNotFound, text)).await);
            }
        }
        session.commit().await
    }

    async fn remove_node(&self, epoch: Epoch, node: &NodeName) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        for sql in [
            "DELETE FROM members WHERE node = $1",
            "DELETE FROM drains WHERE node = $1",
            "DELETE FROM stop_leases WHERE node = $1",
            "DELETE FROM nodes WHERE name = $1",
        ] {
            session.execute(sql, &[node.as_str().into()]).await?;
        }
        session.commit().await
    }
}
