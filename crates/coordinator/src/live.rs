//! Settings of the coordinator that can be changed while it runs: what the cluster's configuration says takes the place of
//! what the program's file says.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;
use pointsman_settings::CoordinatorSettings;

use crate::tenure::Tenure;

/// Keys of the cluster's configuration that begin so are the coordinator's.
pub(crate) const SECTION: &str = "coordinator.";

/// The settings as they stand now.
#[derive(Debug)]
pub(crate) struct LiveSettings(RwLock<Arc<CoordinatorSettings>>);

impl LiveSettings {
    /// The program's own.
    pub(crate) fn new(own: &CoordinatorSettings) -> Self {
        Self(RwLock::new(Arc::new(own.clone())))
    }

    /// Takes what the cluster's configuration says now. A value that makes no sense here, since a newer program gave it,
    /// leaves the program's own.
    pub(crate) fn refresh(&self, own: &CoordinatorSettings, config: &BTreeMap<String, String>) {
        let mut settings = own.clone();
        for (key, value) in config.iter().filter(|(key, _)| key.starts_with(SECTION)) {
            match settings.with(key, value) {
                Ok(changed) => settings = changed,
                Err(error) => tracing::warn!(%error, "a setting of the cluster makes no sense here"),
            }
        }
        *self.0.write() = Arc::new(settings);
    }
}

impl Tenure {
    /// The settings as they stand now.
    pub(crate) fn settings(&self) -> Arc<CoordinatorSettings> {
        Arc::clone(&self.live.0.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(own: &CoordinatorSettings, entries: &[(&str, &str)]) -> Arc<CoordinatorSettings> {
        let live = LiveSettings::new(own);
        live.refresh(
            own,
            &entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        );
        Arc::clone(&live.0.read())
    }

    #[test]
    fn the_configuration_of_the_cluster_takes_the_place_of_own_settings() {
        let own = CoordinatorSettings { resource_group_limit: 7, ..CoordinatorSettings::default() };
        assert_eq!(*live(&own, &[("broker.fail_open.enabled", "true")]), own);
        assert_eq!(live(&own, &[("coordinator.resource_group_limit", "9")]).resource_group_limit, 9);
    }

    #[test]
    fn a_value_that_makes_no_sense_leaves_the_others_alone() {
        let own = CoordinatorSettings::default();
        let entries = [
            ("coordinator.from_the_future", "1"),
            ("coordinator.resource_group_auto_recover", "false"),
            ("coordinator.resource_group_limit", "many"),
        ];
        let expected = CoordinatorSettings { resource_group_auto_recover: false, ..own.clone() };
        assert_eq!(*live(&own, &entries), expected);
    }
}
