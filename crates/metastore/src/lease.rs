//! The lease of the active coordinator.

use std::time::Duration;

use async_trait::async_trait;
use pointsman_ids::Epoch;
use sqlx::{AssertSqlSafe, FromRow};

use crate::{
    Error, Lease, LeaseOutcome, LeaseStore, Result,
    schema::COUNTERS_OF_CHANGES,
    server::is_another,
    session::Session,
    store::{Store, no_lease_row},
    stored::{Origin, int, refusal, text},
};

/// More take-overs than can be lost with a server that fails.
const EPOCHS_LOST: i64 = 1 << 10;

/// More numbers of a kind than can be given and lost, as those are that were given after a backup.
const NUMBERS_LOST: i64 = 1 << 32;

/// The same of resource groups: nobody makes so many, and their numbers have 31 bits.
const GROUPS_LOST: i64 = 1 << 16;

#[async_trait]
impl LeaseStore for Store {
    async fn take_lease(&self, holder: &str, ttl: Duration, at_least: Epoch) -> Result<LeaseOutcome> {
        text("the holder", holder)?;
        let (ttl, at_least) = (milliseconds(ttl)?, int("the epoch", at_least.0)?);
        // Those who stand by look often. They take no lock as long as somebody has the lease, and no turn.
        let mut session = self.reading().await?;
        let seen = read(self, &mut session, "").await?;
        session.finish().await;
        if let Some(outcome) = seen.is_held(holder) {
            return Ok(outcome);
        }
        let mut session = self.transaction().await?;
        if let Some(take_turn) = session.dialect().take_turn.filter(|_| seen.is_elsewhere()) {
            session.control(take_turn).await.map_err(Error::of_statement)?;
        }
        let lock = session.dialect().exclusive;
        let held = read(self, &mut session, lock).await?;
        if let Some(outcome) = held.is_held(holder) {
            session.finish_unchanged().await?;
            return Ok(outcome);
        }
        let moved = held.is_elsewhere();
        let step = if moved { EPOCHS_LOST + 1 } else { 1 };
        let Some(epoch) = held.epoch.max(at_least).checked_add(step) else {
            return Err(session.refuse(refusal("there is no higher epoch")).await);
        };
        if moved {
            forget_history(&mut session).await?;
        }
        let sql = "UPDATE lease SET epoch = $1, holder = $2, expires_at = $3, server = $4";
        let until = now(&mut session).await?.saturating_add(ttl);
        let server = held.server.as_str().into();
        session.execute(sql, &[epoch.into(), holder.into(), until.into(), server]).await?;
        session.commit().await?;
        let epoch = origin().number("epoch", epoch).map(Epoch)?;
        let lease = Lease { epoch, holder: holder.to_owned() };
        let Held { before, server, .. } = held;
        Ok(if moved {
            LeaseOutcome::Moved { lease, before, now: server }
        } else {
            LeaseOutcome::Taken(lease)
        })
    }

    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<()> {
        let (ttl, epoch) = (milliseconds(ttl)?, int("the epoch", lease.epoch.0)?);
        let mut session = self.transaction().await?;
        let expires_at = now(&mut session).await?.saturating_add(ttl);
        let sql = format!(
            "UPDATE lease SET expires_at = $1 WHERE epoch = $2 AND holder = $3 RETURNING server, {}",
            self.server.expression
        );
        let values = [expires_at.into(), epoch.into(), lease.holder.as_str().into()];
        let row: Option<(String, String)> = session.row("lease", AssertSqlSafe(sql), &values).await?;
        let Some((before, now)) = row else {
            let newest = read(self, &mut session, "").await?.epoch;
            let newest = origin().number("epoch", newest).map(Epoch)?;
            return Err(session.refuse(Error::Fenced { ours: lease.epoch, newest }).await);
        };
        if is_another(&before, &now) {
            return Err(session.refuse(Error::AnotherServer { before, now }).await);
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

/// The lease's row as a server has it.
#[derive(Debug, FromRow)]
pub(crate) struct Held {
    pub(crate) epoch: i64,
    holder: Option<String>,
    expires_at: i64,
    /// The server that gave the lease.
    before: String,
    /// The one that answers.
    server: String,
    /// Its clock.
    now: i64,
}

impl Held {
    /// Whether somebody else than `taker` has it.
    pub(crate) fn is_held(&self, taker: &str) -> Option<LeaseOutcome> {
        let holder = self.holder.as_ref().filter(|holder| *holder != taker && self.expires_at > self.now)?;
        let remaining = Duration::from_millis(self.expires_at.abs_diff(self.now));
        Some(LeaseOutcome::Held { holder: holder.clone(), remaining })
    }

    fn is_elsewhere(&self) -> bool {
        is_another(&self.before, &self.server)
    }
}

/// Reads the lease with this lock.
pub(crate) async fn read(store: &Store, session: &mut Session, lock: &str) -> Result<Held> {
    let (server, now) = (store.server.expression, session.dialect().now);
    let sql = format!(
        "SELECT epoch, holder, expires_at, server AS before, {server} AS server, ({now}) AS now FROM lease{lock}"
    );
    session.row("lease", AssertSqlSafe(sql), &[]).await?.ok_or_else(no_lease_row)
}

/// Another server may lack the newest changes of the former one. What was numbered there must not be named by the same
/// numbers here, and no copy of that content is a copy of this one.
async fn forget_history(session: &mut Session) -> Result<()> {
    session.execute(AssertSqlSafe(skip_numbers()), &[]).await?;
    session.execute("UPDATE counters SET last = last + 1 WHERE kind = 'history'", &[]).await.map(drop)
}

/// The statement that passes over all numbers that may have been given and are not known here.
pub(crate) fn skip_numbers() -> String {
    format!(
        "UPDATE counters SET last = last + CASE kind WHEN 'resource_group' THEN {GROUPS_LOST} ELSE {NUMBERS_LOST} END \
         WHERE kind NOT IN ({COUNTERS_OF_CHANGES})"
    )
}

/// Now, by the database's clock.
pub(crate) async fn now(session: &mut Session) -> Result<i64> {
    let row: Option<(i64,)> = session.row("lease", session.dialect().now, &[]).await?;
    Ok(row.ok_or(Error::Failed(sqlx::Error::RowNotFound))?.0)
}

pub(crate) fn milliseconds(ttl: Duration) -> Result<i64> {
    i64::try_from(ttl.as_millis()).map_err(|_| refusal(format!("a lease of {ttl:?} is too long")))
}

fn origin() -> Origin {
    Origin::new("lease", "the only one")
}
