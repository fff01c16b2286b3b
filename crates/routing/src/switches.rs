//! The switches of fail-open under the cluster's word.

use std::collections::BTreeMap;

use pointsman_instance_selector::FailOpen;

/// Key of the cluster's configuration that overrides the broker's own [`FailOpen::enabled`].
pub const FAIL_OPEN_KEY: &str = "broker.fail_open.enabled";

/// The switches in force: the broker's own, and over the first of them the cluster's word.
pub(crate) fn in_force(own: FailOpen, config: &BTreeMap<String, String>) -> FailOpen {
    let enabled = config.get(FAIL_OPEN_KEY).map_or(own.enabled, |text| is_on(text));
    FailOpen { enabled, ..own }
}

/// Warns when the configuration has come to hold a text that is neither on nor plainly off.
pub(crate) fn warn_of_doubt(before: &BTreeMap<String, String>, config: &BTreeMap<String, String>) {
    if let Some(text) = config.get(FAIL_OPEN_KEY)
        && before.get(FAIL_OPEN_KEY) != Some(text)
        && !is_on(text)
        && !text.eq_ignore_ascii_case("false")
    {
        tracing::warn!(key = FAIL_OPEN_KEY, %text, "is neither 'true' nor 'false': fail-open is off");
    }
}

fn is_on(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(own: bool, text: Option<&str>) -> bool {
        let config = text.map(|text| (FAIL_OPEN_KEY.to_owned(), text.to_owned()));
        in_force(FailOpen { enabled: own, ..FailOpen::default() }, &config.into_iter().collect()).enabled
    }

    #[test]
    fn the_clusters_word_overrides_and_without_it_the_brokers_counts() {
        for own in [false, true] {
            assert_eq!(enabled(own, None), own);
            assert!(["true", "TRUE", "True"].into_iter().all(|text| enabled(own, Some(text))));
            assert!(
                !["false", "FALSE", "yes", "1", "", " true"].into_iter().any(|text| enabled(own, Some(text)))
            );
        }
    }

    #[test]
    fn the_other_switches_are_the_brokers_alone() {
        let own = FailOpen { enabled: false, multi_stage: true, strict: true };
        let config = BTreeMap::from([(FAIL_OPEN_KEY.to_owned(), "true".to_owned())]);
        assert_eq!(in_force(own, &config), FailOpen { enabled: true, ..own });
    }
}
