//! Nodes that are to leave: drains and leases to stop.

use std::time::Duration;

use async_trait::async_trait;
use pointsman_ids::{Epoch, Incarnation, NodeName};
use sqlx::FromRow;

use crate::{
    Drain, LeavingStore, Result, StopLease,
    lease::{milliseconds, now},
    store::Store,
    stored::{Origin, int},
};

#[derive(FromRow)]
struct DrainRow {
    node: String,
    since: i64,
}

impl DrainRow {
    fn drain(&self) -> Result<Drain> {
        let origin = Origin::new("drains", &self.node);
        Ok(Drain {
            node: origin.read("node", NodeName::new(&self.node))?,
            since: origin.number("since", self.since)?,
        })
    }
}

#[derive(FromRow)]
struct StopLeaseRow {
    node: String,
    incarnation: i64,
    expires_at: i64,
}

impl StopLeaseRow {
    fn lease(&self, now: i64) -> Result<StopLease> {
        let origin = Origin::new("stop_leases", &self.node);
        let remaining = u64::try_from(self.expires_at.saturating_sub(now)).unwrap_or_default();
        Ok(StopLease {
            node: origin.read("node", NodeName::new(&self.node))?,
            incarnation: Incarnation(origin.number("incarnation", self.incarnation)?),
            remaining: Duration::from_millis(remaining),
        })
    }
}

#[async_trait]
impl LeavingStore for Store {
    async fn drains(&self) -> Result<Vec<Drain>> {
        let mut session = self.reading().await?;
        let rows: Vec<DrainRow> =
            session.rows("drains", "SELECT node, since FROM drains ORDER BY node", &[]).await?;
        session.finish().await;
        rows.iter().map(DrainRow::drain).collect()
    }

    async fn start_drain(&self, epoch: Epoch, drain: &Drain) -> Result<()> {
        let since = int("the time", drain.since)?;
        let mut session = self.writing(epoch).await?;
        let sql = "INSERT INTO drains (node, since) VALUES ($1, $2) \
                   ON CONFLICT (node) DO UPDATE SET since = excluded.since";
        session.execute(sql, &[drain.node.as_str().into(), since.into()]).await?;
        session.commit().await
    }

    async fn end_drain(&self, epoch: Epoch, node: &NodeName) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        session.execute("DELETE FROM drains WHERE node = $1", &[node.as_str().into()]).await?;
        session.commit().await
    }

    async fn stop_leases(&self) -> Result<Vec<StopLease>> {
        let mut session = self.reading().await?;
        // The clock first: what is left of a lease is rather told too long than too short.
        let now = now(&mut session).await?;
        let sql = "SELECT node, incarnation, expires_at FROM stop_leases ORDER BY node";
        let rows: Vec<StopLeaseRow> = session.rows("stop_leases", sql, &[]).await?;
        session.finish().await;
        rows.iter().filter(|row| row.expires_at > now).map(|row| row.lease(now)).collect()
    }

    async fn grant_stop_lease(&self, epoch: Epoch, lease: &StopLease) -> Result<()> {
        let (ttl, incarnation) =
            (milliseconds(lease.remaining)?, int("the incarnation", lease.incarnation.0)?);
        let mut session = self.writing(epoch).await?;
        let now = now(&mut session).await?;
        // Nobody asks for those any more.
        session.execute("DELETE FROM stop_leases WHERE expires_at <= $1", &[now.into()]).await?;
        let sql = "INSERT INTO stop_leases (node, incarnation, expires_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (node) DO UPDATE \
                   SET incarnation = excluded.incarnation, expires_at = excluded.expires_at";
        let values = [lease.node.as_str().into(), incarnation.into(), now.saturating_add(ttl).into()];
        session.execute(sql, &values).await?;
        session.commit().await
    }

    async fn end_stop_lease(&self, epoch: Epoch, node: &NodeName) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        session.execute("DELETE FROM stop_leases WHERE node = $1", &[node.as_str().into()]).await?;
        session.commit().await
    }
}
