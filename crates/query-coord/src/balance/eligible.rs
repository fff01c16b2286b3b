//! Which collections are balanced.

use super::BalanceSettings;

/// What balance asks of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionState {
    /// Whether it has a target, current or next.
    pub has_target: bool,
    /// Whether its load has finished.
    pub loaded: bool,
    /// Whether every replica has every segment of the current target.
    pub complete: bool,
    /// Whether each of its shards has a leader in every replica, and all of them are serviceable.
    pub leaders_serviceable: bool,
}

/// What may be moved of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Eligible {
    /// Nothing.
    No,
    /// Only what is on read-only nodes.
    Drain,
    /// Also what evens out load.
    Balance,
}

/// What may be moved of a collection.
pub fn eligible(settings: &BalanceSettings, collection: CollectionState) -> Eligible {
    let CollectionState { has_target, loaded, complete, leaders_serviceable } = collection;
    match has_target {
        false => Eligible::No,
        true if settings.auto && loaded && complete && leaders_serviceable => Eligible::Balance,
        true => Eligible::Drain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_is_evened_out_and_whatever_has_a_target_is_drained() {
        let settings = BalanceSettings::default();
        let all =
            CollectionState { has_target: true, loaded: true, complete: true, leaders_serviceable: true };
        assert_eq!(eligible(&settings, all), Eligible::Balance);
        for lacking in [
            CollectionState { loaded: false, ..all },
            CollectionState { complete: false, ..all },
            CollectionState { leaders_serviceable: false, ..all },
        ] {
            assert_eq!(eligible(&settings, lacking), Eligible::Drain, "{lacking:?}");
        }
        assert_eq!(eligible(&BalanceSettings { auto: false, ..settings.clone() }, all), Eligible::Drain);
        assert_eq!(eligible(&settings, CollectionState { has_target: false, ..all }), Eligible::No);
    }
}
