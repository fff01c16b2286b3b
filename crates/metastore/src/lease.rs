//! The lease of the active coordinator.

use std::time::Duration;

use async_trait::async_trait;
use pointsman_ids::Epoch;

use crate::{
    Error, Lease, LeaseOutcome, LeaseStore, Result,
    session::Session,
    store::{Store, no_lease_row},
    stored::{Origin, int, refusal, text},
};

#[async_trait]
impl LeaseStore for Store {
    async fn take_lease(&self, holder: &str, ttl: Duration, at_least: Epoch) -> Result<LeaseOutcome> {
        text("the holder", holder)?;
        let (ttl, at_least) = (milliseconds(ttl)?, int("the epoch", at_least.0)?);
        let mut session = self.transaction().await?;
        let (epoch, current, expires_at) = held(&mut session).await?;
        let now = now(&mut session).await?;
        if let Some(current) = current.filter(|current| current != holder && expires_at > now) {
            session.finish_unchanged().await?;
            let remaining = Duration::from_millis(expires_at.abs_diff(now));
            return Ok(LeaseOutcome::Held { holder: current, remaining });
        }
        let Some(epoch) = epoch.max(at_least).checked_add(1) else {
            return Err(session.refuse(refusal("there is no higher epoch")).await);
        };
        let sql = "UPDATE lease SET epoch = $1, holder = $2, expires_at = $3";
        session.execute(sql, &[epoch.into(), holder.into(), now.saturating_add(ttl).into()]).await?;
        session.commit().await?;
        Ok(LeaseOutcome::Taken(Lease {
            epoch: origin().number("epoch", epoch).map(Epoch)?,
            holder: holder.to_owned(),
        }))
    }

    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<()> {
        let (ttl, epoch) = (milliseconds(ttl)?, int("the epoch", lease.epoch.0)?);
        let mut session = self.transaction().await?;
        let expires_at = now(&mut session).await?.saturating_add(ttl);
        let sql = "UPDATE lease SET expires_at = $1 WHERE epoch = $2 AND holder = $3";
        if session.execute(sql, &[expires_at.into(), epoch.into(), lease.holder.as_str().into()]).await? == 0
        {
            let (newest, ..) = held(&mut session).await?;
            let newest = origin().number("epoch", newest).map(Epoch)?;
            return Err(session.refuse(Error::Fenced { ours: lease.epoch, newest }).await);
        }
        session.commit().await
    }

    async fn give_back_lease(&self, lease: &Lease) -> Result<()> {
        let epoch = int("the epoch", lease.epoch.0)?;
        let mut session = self.transaction().await?;
        let sql = "UPDATE lease SET holder = NULL WHERE epoch = $1 AND holder = $2";
        session.execute(sql, &[epoch.into(), lease.holder.as_str().into()]).await?;
        session.commit().await
    }
}

/// Epoch, holder and end of the lease, which nobody else can touch until the session ends.
async fn held(session: &mut Session) -> Result<(i64, Option<String>, i64)> {
    session.row("lease", session.dialect().hold_lease, &[]).await?.ok_or_else(no_lease_row)
}

/// Now, by the database's clock.
async fn now(session: &mut Session) -> Result<i64> {
    let row: Option<(i64,)> = session.row("lease", session.dialect().now, &[]).await?;
    Ok(row.ok_or(Error::Failed(sqlx::Error::RowNotFound))?.0)
}

fn milliseconds(ttl: Duration) -> Result<i64> {
    i64::try_from(ttl.as_millis()).map_err(|_| refusal(format!("a lease of {ttl:?} is too long")))
}

fn origin() -> Origin {
    Origin::new("lease", "the only one")
}
