//! Taking, renewing and returning the lease of the active coordinator, and what runs while it is held.

use std::{sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Epoch, Error, ErrorCode};
use pointsman_metastore::{Error as StoreError, Lease, LeaseOutcome};
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    RunError,
    backoff::Backoff,
    metrics,
    shared::Shared,
    tenure::{End, Tenure},
};

/// How long returning the lease may take; it ends by itself soon.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// Is active whenever it can be, until told to stop.
///
/// # Errors
/// `OtherActive` and `LeaseLost` when `coordinator.stand_by` is off; `Metastore` when the metastore cannot be used.
pub(crate) async fn be_active(shared: &Arc<Shared>, shutdown: &CancellationToken) -> Result<(), RunError> {
    // Two processes of one name are two holders.
    let seed = shared.clock.wall().0 ^ u64::from(std::process::id());
    let holder = format!("{}/{seed:x}", shared.settings.name);
    let began = shared.clock.mono();
    let mut backoff = Backoff::new(seed);
    loop {
        let asked = shared.clock.mono();
        let pause = tokio::select! {
            taken = take(shared, &holder) => match taken {
                Ok(LeaseOutcome::Taken(lease)) => {
                    backoff.reset();
                    metrics::history_lost(false);
                    if !serve(shared, lease, asked, shutdown, seed).await? {
                        return Ok(());
                    }
                    Duration::ZERO
                }
                Ok(LeaseOutcome::Moved { lease, before, now }) => {
                    backoff.reset();
                    alarm(&lease, &before, &now);
                    if !serve(shared, lease, asked, shutdown, seed).await? {
                        return Ok(());
                    }
                    Duration::ZERO
                }
                Ok(LeaseOutcome::Held { holder, remaining }) => stand_by(shared, &holder, remaining, began)?,
                Err(error @ (StoreError::Open { .. } | StoreError::Schema(_) | StoreError::Corrupt { .. } | StoreError::Url(_))) => {
                    return Err(error.into());
                }
                Err(error) => {
                    let pause = backoff.fail(shared.clock.mono());
                    metrics::metastore_failed(&error);
                    tracing::warn!(error = pointsman_telemetry::chain(&error), ?pause, "the lease cannot be taken");
                    pause
                }
            },
            () = shutdown.cancelled() => return Ok(()),
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// The metastore is another server now. What the former one had and this one lacks is in nobody's copy any more: numbers,
/// versions and epochs go on far above, and nodes and brokers are compared with what is there.
fn alarm(lease: &Lease, before: &str, now: &str) {
    metrics::history_lost(true);
    tracing::error!(
        before,
        now,
        epoch = %lease.epoch,
        "the metastore failed over: changes that were acknowledged last may be lost; compare the catalog with what was \
         pushed, and push again what is missing"
    );
}

async fn take(shared: &Shared, holder: &str) -> pointsman_metastore::Result<LeaseOutcome> {
    let at_least = Epoch(shared.epoch_seen());
    shared.metastore.take_lease(holder, shared.settings.active_lease_ttl, at_least).await
}

/// Somebody else is active: how long to wait. A lease that its holder does not renew is waited for in any case, since
/// that is what a crash leaves behind.
fn stand_by(
    shared: &Shared,
    holder: &str,
    remaining: Duration,
    began: MonoTime,
) -> Result<Duration, RunError> {
    let settings = &shared.settings;
    let patience = settings.active_lease_ttl + settings.active_lease_renew;
    if !settings.stand_by && shared.clock.mono() - began > patience {
        return Err(RunError::OtherActive { holder: holder.to_owned() });
    }
    tracing::debug!(holder, ?remaining, "another coordinator is active; standing by");
    shared.warm.follow(&shared.metastore);
    Ok(remaining.clamp(Duration::from_millis(50), settings.active_lease_renew))
}

/// Serves until the tenure ends. Whether to try for the lease again.
async fn serve(
    shared: &Arc<Shared>,
    lease: Lease,
    asked: MonoTime,
    shutdown: &CancellationToken,
    seed: u64,
) -> Result<bool, RunError> {
    // Should the database ever forget it, the next one is above it all the same.
    shared.raise_epoch(lease.epoch.0);
    let until = asked + shared.settings.active_lease_ttl;
    let tenure = Arc::new(Tenure::new(Arc::clone(shared), lease, until));
    tracing::info!(epoch = %tenure.epoch(), "this coordinator is active");
    metrics::active(Some(tenure.epoch()));
    // A task of its own: the one that works may look at millions of segments without a pause. It goes with this one.
    let renewed = Arc::clone(&tenure);
    let renewal = pointsman_telemetry::spawn("lease", async move { renew(&renewed).await });
    let renewal = AbortOnDropHandle::new(renewal);
    let ended = tokio::select! {
        ended = work(&tenure, seed) => ended,
        _ = renewal => Ok(()),
        () = tenure.over.cancelled() => Ok(()),
        () = shutdown.cancelled() => {
            tenure.end(End::Stopped);
            Ok(())
        }
    };
    shared.set_tenure(None);
    tenure.end(End::Stopped);
    metrics::active(None);
    ended?;
    match tenure.why_ended() {
        End::Lost(why) if shared.settings.stand_by => {
            tracing::warn!(why, "the lease was lost; standing by");
            Ok(true)
        }
        End::Lost(why) => Err(RunError::LeaseLost { why }),
        End::NewerEpoch => {
            give_back(&tenure).await;
            Ok(true)
        }
        End::AnotherServer(why) => {
            tracing::warn!(why, "taking the lease anew");
            give_back(&tenure).await;
            Ok(true)
        }
        End::Stopped => {
            give_back(&tenure).await;
            Ok(!shutdown.is_cancelled())
        }
    }
}

async fn give_back(tenure: &Tenure) {
    match timeout(GIVE_BACK, tenure.metastore().give_back_lease(tenure.lease())).await {
        Ok(Ok(())) => tracing::info!("the lease was given back"),
        Ok(Err(error)) => {
            tracing::info!(error = pointsman_telemetry::chain(&error), "the lease ends by itself")
        }
        Err(_) => tracing::info!("the lease ends by itself"),
    }
}

/// Reads everything, opens the services, and reconciles for as long as the tenure lasts.
async fn work(tenure: &Arc<Tenure>, seed: u64) -> Result<(), RunError> {
    let mut backoff = Backoff::new(seed);
    tenure.begin_with(tenure.shared.warm.take().await).await;
    // The first pen reads everything into memory.
    while let Err(error) = tenure.create_configured_groups().await {
        if error.code() == ErrorCode::ServiceInternal {
            return Err(unusable(error));
        }
        let pause = backoff.fail(tenure.now());
        tracing::warn!(%error, ?pause, "the metastore cannot be read yet");
        sleep(pause).await;
    }
    tenure.shared.set_tenure(Some(Arc::clone(tenure)));
    tokio::join!(
        tenure.reconcile_for_ever(seed),
        tenure.observe_groups_for_ever(seed),
        tenure.follow_brokers()
    );
    Ok(())
}

fn unusable(error: Error) -> RunError {
    RunError::Settings(error.context("reading the metastore"))
}

/// Renews the lease until somebody else has it. While the metastore is away it goes on trying: the lease may still be
/// ours afterwards, and until then nothing is written.
async fn renew(tenure: &Tenure) {
    let mut away = false;
    loop {
        let settings = tenure.settings();
        sleep(settings.active_lease_renew).await;
        let asked = tenure.now();
        match tenure.metastore().renew_lease(tenure.lease(), settings.active_lease_ttl).await {
            Ok(()) => {
                let late = tenure.now() - tenure.lease_until();
                if !late.is_zero() && !away {
                    tracing::warn!(
                        ?late,
                        "the lease was renewed too late: this process or its metastore stood still; changes were refused"
                    );
                }
                tenure.extend_lease(asked + settings.active_lease_ttl);
                if std::mem::take(&mut away) {
                    tracing::info!("the metastore is back");
                    tenure.wake();
                }
            }
            Err(error) => {
                let shown = pointsman_telemetry::chain(&error);
                let over = matches!(error, StoreError::Fenced { .. } | StoreError::AnotherServer { .. });
                // A renewal whose outcome is unknown left nothing behind that memory could have missed.
                if over {
                    tenure.failed(error);
                    return;
                }
                metrics::metastore_failed(&error);
                if !std::mem::replace(&mut away, true) {
                    tracing::warn!(error = shown, "the lease cannot be renewed; serving from memory");
                }
            }
        }
    }
}
