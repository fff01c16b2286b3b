//! The group observer: members that stay away leave, nodes that wait get a group, and groups get what they miss.
//! Level-triggered, as the reconciler is.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, NodeName};
use pointsman_query_coord::{GroupChange, Recovery, incoming, settle_groups};
use pointsman_settings::CoordinatorSettings;
use tokio::time::sleep;

use crate::{backoff::Backoff, state::State, tenure::Tenure};

/// How often it is looked whether somebody's time is over.
const LOOK: Duration = Duration::from_millis(250);

impl Tenure {
    /// Looks whenever something changed, and at every `resource_group_check_interval`, until the tenure ends.
    pub(crate) async fn observe_groups_for_ever(&self, seed: u64) {
        let news = Arc::clone(&self.state().group_news);
        let mut backoff = Backoff::new(seed);
        let mut recovered = self.now();
        let mut told = Vec::new();
        // At first it looks at everything, so that nothing is missed that changed before a crash.
        let mut due = true;
        loop {
            let (now, settings) = (self.now(), self.settings());
            due |= now - recovered >= settings.resource_group_check_interval;
            if self.may_write() && backoff.is_over(now) {
                match self.settle_groups(&settings, due).await {
                    Ok(errors) => {
                        backoff.reset();
                        if let Some(errors) = errors {
                            tell(&mut told, errors);
                            recovered = now;
                            due = false;
                        }
                    }
                    Err(error) => {
                        let pause = backoff.fail(self.now());
                        tracing::warn!(%error, ?pause, "the metastore refused a change of groups; trying again");
                    }
                }
            }
            due |= tokio::select! {
                () = news.notified() => true,
                () = sleep(LOOK.min(settings.resource_group_check_interval)) => false,
            };
        }
    }

    /// Looks once. `Some` is what recovery could not do; `None`: there was no reason to look.
    async fn settle_groups(
        &self,
        settings: &CoordinatorSettings,
        due: bool,
    ) -> Result<Option<Vec<Error>>, Error> {
        let decide = || self.state().settled_groups(settings, self.now(), due);
        let Some(plan) = decide() else { return Ok(None) };
        if plan.moves.is_empty() {
            return Ok(Some(plan.errors));
        }
        let pen = self.begin_write().await?;
        // Decided again: the state may have changed while waiting for the pen.
        let Some(Recovery { moves, errors }) = decide() else { return Ok(None) };
        self.change_groups(&pen, &GroupChange { moves, ..GroupChange::default() }).await?;
        Ok(Some(errors))
    }
}

impl State {
    /// What has to change now; `None` when there is no reason to look.
    fn settled_groups(&self, settings: &CoordinatorSettings, now: MonoTime, due: bool) -> Option<Recovery> {
        let away = self.away(now, settings.node_lease_ttl);
        if !due && away.is_empty() && incoming(&self.stores).is_empty() {
            return None;
        }
        let asked =
            |node: &NodeName| self.sessions.get(node).and_then(|session| session.asked_group.as_ref());
        let recovers = settings.resource_group_auto_recover && !self.guard.is_suspicious();
        Some(settle_groups(&self.stores, &away, asked, recovers))
    }
}

/// Tells what was not told in the look before.
fn tell(told: &mut Vec<Error>, errors: Vec<Error>) {
    let known: BTreeSet<&str> = told.iter().map(Error::message).collect();
    for error in errors.iter().filter(|error| !known.contains(error.message())) {
        tracing::warn!(code = %error.code(), %error, "a resource group is not as it should be");
    }
    *told = errors;
}
